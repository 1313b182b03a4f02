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

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/process/processtest"
)

// tuiEnv is an environment in which standard input and output are terminals.
func tuiEnv(t *testing.T, vars map[string]string) (process.Env, *strings.Builder) {
	env, _, errs := processtest.New(t)
	env.StdinTTY, env.StdoutTTY = true, true
	env.LookupEnv = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	return env, errs
}

// Errors that are known at the start are printed before the screen is
// switched.
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
		{"no key", nil, nil, command.ExitUsage, []string{"no API key", "set SVC_API_KEY"}},
		{"no URL", map[string]string{"SVC_API_KEY": "k"}, []string{"--url", "plane"}, command.ExitUsage, []string{`"plane" is not the URL of a control plane`}},
		{"nobody answers", map[string]string{"SVC_API_KEY": "k", "SVC_URL": nobody}, nil, command.ExitFailed, []string{"nothing answers at " + nobody, "start 'svc serve'"}},
		{"the key is not accepted", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(401, `{"error":"invalid API key"}`)}, nil, command.ExitFailed, []string{"invalid API key", "check the API key"}},
		{"the key may not read traces", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(403, `{"error":"insufficient permission"}`)}, nil, command.ExitFailed, []string{"insufficient permission", "use a key that may"}},
		{"something else answers", map[string]string{"SVC_API_KEY": "k", "SVC_URL": answer(200, `<html>`)}, nil, command.ExitFailed, []string{"is not one of this API"}},
		{"no such file", nil, []string{"--audit", filepath.Join(dir, "none.jsonl")}, command.ExitUsage, []string{"none.jsonl", "audit.path"}},
		{"not an audit file", nil, []string{"--audit", text}, command.ExitUsage, []string{"notes.txt"}},
		{"wrong filter", nil, []string{"--filter", "agnt:x"}, command.ExitUsage, []string{`no field "agnt"`}},
		{"dumb terminal", map[string]string{"TERM": "dumb"}, nil, command.ExitUsage, []string{"needs a terminal"}},
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
