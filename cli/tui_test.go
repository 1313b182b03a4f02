package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/tui"
)

// tuiEnv is an environment with a terminal at both ends.
func tuiEnv(t *testing.T, vars map[string]string) (Env, *strings.Builder) {
	env, _, errs := testEnv(t)
	env.StdinTTY, env.StdoutTTY = true, true
	env.LookupEnv = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	return env, errs
}

// What is wrong from the start is told before the screen is taken over.
func TestTUIErrors(t *testing.T) {
	answer := func(status int, body string) string {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(ts.Close)
		return ts.URL
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + ln.Addr().String()
	ln.Close()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("not a trail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		vars map[string]string
		args []string
		code int
		want []string
	}{
		{"no key", nil, nil, exitUsage, []string{"no API key", "set SVC_API_KEY"}},
		{"no URL", map[string]string{"SVC_API_KEY": "k"}, []string{"--url", "plane"}, exitUsage, []string{`"plane" is not the URL of a control plane`}},
		{"nobody answers", map[string]string{"SVC_API_KEY": "k", "SVC_URL": nobody}, nil, exitFailed, []string{"nothing answers at " + nobody, "start 'svc serve'"}},
		{"the key is not accepted", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(401, `{"error":"invalid API key"}`)}, nil, exitFailed, []string{"invalid API key", "check the API key"}},
		{"the key may not read traces", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(403, `{"error":"insufficient permission"}`)}, nil, exitFailed, []string{"insufficient permission", "use a key that may"}},
		{"something else answers", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(200, `<html>`)}, nil, exitFailed, []string{"is not what this API gives"}},
		{"no such file", nil, []string{"--audit", filepath.Join(dir, "none.jsonl")}, exitUsage, []string{"none.jsonl", "audit.path"}},
		{"not an audit file", nil, []string{"--audit", text}, exitUsage, []string{"notes.txt"}},
		{"wrong filter", nil, []string{"--filter", "agnt:x"}, exitUsage, []string{`no field "agnt"`}},
		{"dumb terminal", map[string]string{"TERM": "dumb"}, nil, exitUsage, []string{"needs a terminal"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			env, errs := tuiEnv(t, row.vars)
			if code := Main(env, append([]string{"tui"}, row.args...)); code != row.code {
				t.Errorf("exit code %d, want %d", code, row.code)
			}
			for _, want := range row.want {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%q does not say %q", errs, want)
				}
			}
		})
	}
}

// An audit file is followed from its last lines, through a rotation, and from
// a place that was reached before; only requests make traces.
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
