//go:build !race

package arguments

import (
	"encoding/json"
	"testing"

	"svc/gateway/mcp"
)

// TestReadingDoesNotAllocate is not run with the race detector, under which a sync.Pool drops a
// part of its values, so that allocations cannot be counted.
func TestReadingDoesNotAllocate(t *testing.T) {
	var p Plan
	c, err := p.Add(Config{
		"/path":    {Test: Test{Prefix: new("/srv/")}},
		"/file":    {Test: Test{PathWithin: new("/srv")}, Not: &Test{PathWithin: new("/srv/keys")}},
		"/rows":    {Test: Test{Max: json.RawMessage("100")}},
		"/to/*/id": {Test: Test{OneOf: []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"b"`)}}},
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	var m mcp.Message
	if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"path":"/srv/x","file":"/srv/data/x","rows":5,"to":[{"id":"a"},{"id":"b"}]}}}`), &m); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(200, func() {
		v := p.Read(m.Body, m.Spans.Arguments)
		if c.Decide(v) != Holds {
			t.Error("the condition does not hold")
		}
		v.Release()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
