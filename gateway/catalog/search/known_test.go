package search

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A definition that changes while the gateway is stopped is reported after the
// start.
func TestChangesAreNoticedAcrossRestarts(t *testing.T) {
	state := filepath.Join(t.TempDir(), "known.json")
	life := func(tools string) (told []string) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			f := &fake{tools: tools}
			r := open([]source{{"u", f}, {"v", &fake{tools: `{"name":"x"}`}}}, Options{Route: everywhere("u"), Interval: time.Minute, State: state, Changed: func(upstream, tool string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, upstream+"/"+tool)
			}})
			stop := running(r)
			r.present(t.Context())
			synctest.Wait()
			stop()
		})
		return told
	}
	for i, step := range []struct{ tools, want string }{
		{`{"name":"a","description":"1"},{"name":"b"}`, "[]"},
		{`{"name":"a","description":"1"}`, "[]"},
		{`{"name":"a","description":"2"},{"name":"b","description":"new"},{"name":"c"}`, "[u/a u/b]"},
		{`{"name":"a","description":"2"}`, "[]"},
	} {
		if got := fmt.Sprint(life(step.tools)); got != step.want {
			t.Errorf("life %d: told %s, want %s", i, got, step.want)
		}
	}
	info, err := os.Stat(state)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if all, err := os.ReadDir(filepath.Dir(state)); err != nil || len(all) != 1 {
		t.Errorf("beside the file: %v, %v", all, err)
	}
}

// A damaged file is refused with a reason, and replaced.
func TestDamagedHashes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known.json")
	for text, want := range map[string]string{
		``:              `unexpected end`,
		`{"version":2}`: `version 2`,
		`{"version":1,"upstreams":{"u":{"a":"00"}}}`:                               `no hash of a definition`,
		`{"version":1,"upstreams":{"u":{"a":"` + strings.Repeat("zz", 32) + `"}}}`: `no hash of a definition`,
		`{"version":1,"upstreams":7}`:                                              `cannot unmarshal`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKnown(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
		var log bytes.Buffer
		s := open([]source{{"u", &fake{}}}, Options{State: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if s.compare("u", []*Tool{{Name: "a"}}) != 0 || !strings.Contains(log.String(), "are unknown") {
			t.Errorf("%.40s: not begun anew: %s", text, &log)
		}
		if all, err := readKnown(path); err != nil || len(all["u"]) != 1 {
			t.Errorf("%.40s: not replaced: %v, %v", text, all, err)
		}
	}
	if err := writeKnown(filepath.Join(path, "no", "such"), nil); err == nil {
		t.Error("a file that cannot be written was written")
	}
}
