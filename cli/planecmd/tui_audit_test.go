package planecmd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/tui"
)

// An audit file is followed from its last lines, through a rotation, and from
// a saved position; only requests become traces.
func TestTUIFollowsAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var cfg audit.Config
	cfg.SetDefaults()
	cfg.Path, cfg.MaxSizeMB, cfg.MaxBackups = path, 1, 9
	log, err := audit.Open(cfg, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(id int, tool, method string) {
		t.Helper()
		if err := log.Write(t.Context(), &audit.Record{Time: time.Now(), RequestID: fmt.Sprintf("req-%d", id), RPC: audit.RPCRequest, Method: method, Tool: tool,
			Principal: "ci", Action: "deny", RuleID: "no-deletes", Status: 403, Upstream: "tools", Duration: 5 * time.Millisecond,
			Spans: []audit.Span{{Stage: "policy_eval", Duration: time.Millisecond}}}); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "delete_customer", "tools/call")
	write(2, "", "ping")
	write(3, "", "tools/list")
	source := auditSource{path: path, poll: time.Millisecond}
	stream, err := source.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	next := func(s tui.Stream, want string) tui.Event {
		t.Helper()
		ev, err := s.Next()
		if err != nil || ev.Trace.ID != want {
			t.Fatalf("got %s %v, want %s", ev.Trace.ID, err, want)
		}
		return ev
	}
	ev := next(stream, "req-1")
	if tr := ev.Trace; tr.ToolName != "delete_customer" || !tr.Blocked || tr.Status != "error" || tr.AgentName != "ci" || len(tr.Spans) != 1 || tr.DurationMs != 5 {
		t.Errorf("%+v", tr)
	}
	if notes := fmt.Sprint(ev.Notes); !strings.Contains(notes, "{Rule no-deletes}") || !strings.Contains(notes, "{HTTP status 403}") || !strings.Contains(notes, "{Upstream tools}") {
		t.Errorf("notes %s", notes)
	}
	if ev := next(stream, "req-3"); ev.Trace.ToolName != "tools/list" {
		t.Errorf("%+v", ev.Trace)
	}
	place := stream.Cursor()
	for i := 4; i < 6000; i++ { // more than the megabyte after which it rotates
		write(i, "search", "tools/call")
	}
	if rotated, err := audit.ListRotated(path); err != nil || len(rotated) == 0 {
		t.Fatalf("not rotated: %v %v", rotated, err)
	}
	for i := 4; i < 6000; i++ {
		next(stream, fmt.Sprintf("req-%d", i))
	}
	stream.Close()
	again, err := source.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	next(again, "req-4")
}
