package audit

import (
	"os"
	"testing"
)

// For any content of the state file, reading it terminates, and an accepted
// state can be saved and read again.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"path":"audit.jsonl","position":{"file":1,"offset":512,"seq":3}}`))
	f.Add([]byte(`{"version":1,"path":"a","position":{"file":1,"offset":5,"seq":3},"open":[{"id":"x","agentName":"a","status":"error","durationMs":0}]}`))
	f.Add([]byte(`{"version":1,"position":{"offset":-1}}`))
	f.Add([]byte("null"))
	f.Add([]byte{0})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseState(b)
		if err != nil {
			return
		}
		if s.Position.Offset < 0 {
			t.Fatalf("accepted %+v", s.Position)
		}
		if err := saveState(dir+"/state.json", s, (*os.File).Sync); err != nil {
			t.Fatal(err)
		}
		again, err := loadState(dir + "/state.json")
		if err != nil || again.Position != s.Position || len(again.Open) != len(s.Open) {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}
