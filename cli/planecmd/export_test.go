package planecmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store/api"
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

// 'traces list --all' reads the export: one request of the tenant's rate limit, however many traces
// there are. It waits for Retry-After before the list begins, and an export that is cut off is an
// error after a complete document.
func TestTracesListAllUsesTheExport(t *testing.T) {
	var asked []string
	limited, cut := 1, false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if limited > 0 {
			limited--
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		for i := range 1200 {
			_, _ = fmt.Fprintf(w, "{\"id\":\"t%d\",\"status\":\"error\"}\n", i)
		}
		if cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	list := func(args ...string) (api.Page[api.TraceItem], string, error) {
		asked = nil
		var out, note bytes.Buffer
		cmd := NewTracesCmd(process.Env{Stdout: &out, Stderr: &note, Now: time.Now, Stdin: strings.NewReader(""), LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"SVC_URL": srv.URL, "SVC_API_KEY": "svc_api_0123456789012345678901234567890123456789012"}[name]
			return v, ok
		}})
		cmd.SetArgs(append([]string{"list", "--all", "-o", "json", "--status", "error"}, args...))
		err := cmd.ExecuteContext(t.Context())
		var page api.Page[api.TraceItem]
		if e := json.Unmarshal(out.Bytes(), &page); e != nil {
			t.Fatalf("%v: %.200s", e, &out)
		}
		return page, note.String(), err
	}
	export := "/api/traces/export?format=ndjson&status=error"
	page, note, err := list()
	if err != nil || len(page.Data) != 1200 || page.Total != 1200 || page.Data[1199].ID != "t1199" || !slices.Equal(asked, []string{export, export}) ||
		!strings.Contains(note, "rate limit reached after 0; continuing in 1s") {
		t.Errorf("%d of %d traces, asked %q, %v\n%s", len(page.Data), page.Total, asked, err, note)
	}
	if page, _, err := list("--offset", "700"); err != nil || len(page.Data) != 500 || page.Total != 1200 || page.Offset != 700 || page.Data[0].ID != "t700" || len(asked) != 1 {
		t.Errorf("from 700 on: %d of %d traces, asked %q, %v", len(page.Data), page.Total, asked, err)
	}
	cut = true
	if page, note, err := list(); err == nil || len(page.Data) != 1200 || !strings.Contains(note, "1200 were read before the error") {
		t.Errorf("an export that was cut off: %d traces, %v\n%s", len(page.Data), err, note)
	}
}

// The list of traces fits a terminal of 80 cells, with times and ids that can be used; in a wide
// terminal and in a pipe it is whole.
func TestTracesListFitsTheTerminal(t *testing.T) {
	item := api.TraceItem{ID: "019a2065-b030-7d70-9a97-e1418e3e5563", AgentName: "invoice-reconciliation", ToolName: "ledger_post_entry",
		Status: "error", Blocked: true, RuleID: "no-posting-after-close", DurationMs: 1234.5, CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	list := func(tty bool, width int) string {
		var out bytes.Buffer
		env := process.Env{Stdout: &out, StdoutTTY: tty, Width: width, LookupEnv: func(name string) (string, bool) { return "1", name == "NO_COLOR" }}
		if err := command.ShowTable(env, slices.Clone(traceColumns.Header), [][]string{traceColumns.Row(item)}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := "CREATED               ID                                    STATUS   AGENT     …\n" +
		"2026-03-04T05:06:07Z  019a2065-b030-7d70-9a97-e1418e3e5563  blocked  invoice…\n"
	if got := list(true, 80); got != want {
		t.Errorf("on 80 cells:\n%swant\n%s", got, want)
	}
	if whole := list(false, 0); whole != list(true, 300) || !strings.Contains(whole, "no-posting-after-close") || strings.Contains(whole, "…") {
		t.Errorf("in a pipe:\n%sin a wide terminal:\n%s", whole, list(true, 300))
	}
}
