package planecmd

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
)

// An export is written as it arrives, with the filters of the list; an export that
// the server aborts is an error.
func TestTracesExport(t *testing.T) {
	var asked string
	cut, errTTY, outTTY := false, false, false
	var note bytes.Buffer
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		_, _ = w.Write([]byte("{\"id\":\"1\"}\n"))
		if cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		note.Reset()
		env := process.Env{Stdout: &out, Stderr: &note, StderrTTY: errTTY, StdoutTTY: outTTY, Now: time.Now, Stdin: strings.NewReader(""), LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"SVC_URL": srv.URL, "SVC_API_KEY": "svc_api_0123456789012345678901234567890123456789012"}[name]
			return v, ok
		}}
		cmd := NewTracesCmd(env)
		cmd.SetArgs(append([]string{"export"}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if _, err := run("--status", "error", "--format", "csv"); err != nil || asked != "/api/traces/export?format=csv&status=error" {
		t.Errorf("%v; asked %s", err, asked)
	}
	for _, tty := range [][2]bool{{false, false}, {true, false}, {true, true}} {
		errTTY, outTTY = tty[0], tty[1]
		out, err := run()
		if shown := strings.HasSuffix(note.String(), "\r\x1b[K"); err != nil || shown != (errTTY && !outTTY) || out != "{\"id\":\"1\"}\n" {
			t.Errorf("%v: progress %q beside %q, %v", tty, &note, out, err)
		}
	}
	cut = true
	if _, err := run(); err == nil {
		t.Error("an export that was cut off is a success")
	}
}
