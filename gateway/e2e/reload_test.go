package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestReload(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if got := r.post(call("1", "danger")); got.status != 403 {
		t.Fatalf("got %d", got.status)
	}
	r.edit("when: {tool_name: danger}", "when: {tool_name: other}")
	r.edit("[safe, slow]", "[safe, slow, danger]")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(call("1", "danger")); got.status != 200 {
		t.Errorf("after the reload: %d %s", got.status, got.body)
	}
	if !strings.Contains(r.logs.String(), "order=\"[no-danger tools notes]\"") {
		t.Errorf("the loaded rule order is not in the log:\n%s", r.logs)
	}
	r.edit("action: deny\n      when", "action: dney\n      when")
	if err := r.gateway.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "dney") {
		t.Errorf("an invalid file: %v", err)
	}
	if got := r.post(call("1", "danger")); got.status != 200 {
		t.Errorf("an invalid file changed the running rules: %d", got.status)
	}
}

func TestRestartPending(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	base := strings.TrimSuffix(r.url, "/mcp")
	r.edit("default_upstream: main", `default_upstream: ""`)
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.do(http.MethodGet, base+"/readyz", ""); got.body != `{"status":"ok","restart_pending":["default_upstream"]}` {
		t.Errorf("readyz: %s", got.body)
	}
	r.edit(`default_upstream: ""`, "default_upstream: main")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.do(http.MethodGet, base+"/readyz", ""); got.body != `{"status":"ok"}` {
		t.Errorf("readyz after the fields agree again: %s", got.body)
	}
}

// An audit file that cannot be opened keeps no rule of the same file out.
func TestReloadWithAnAuditPathThatCannotBeOpened(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	r.edit("path: "+r.auditPath(), "path: "+r.dir+"/absent/audit.jsonl\n  on_write_error: count")
	r.edit("when: {tool_name: danger}", "when: {tool_name: safe}")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(call("1", "safe")); got.status != 403 {
		t.Errorf("a new deny rule: %d %s", got.status, got.body)
	}
	if recs := r.records(); len(recs) != 1 {
		t.Errorf("%d lines in the audit file of before", len(recs))
	}
	want := `{"status":"ok","restart_pending":["state_dir","audit"]}`
	if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/readyz", ""); got.body != want {
		t.Errorf("readyz: %s", got.body)
	}
	if !strings.Contains(r.logs.String(), "audit.path") || !strings.Contains(r.logs.String(), "/absent") {
		t.Errorf("the log does not say why: %s", r.logs)
	}
	if c := r.services().Live.Load().Config.Audit; c.Path != r.auditPath() || c.OnWriteError != "count" {
		t.Errorf("the audit section in use: %+v", c)
	}
}

// After a reload of audit.path the programs of upstreams that run already are replaced, because the rules
// of their start do not hide the files of the new path; another reload replaces none.
func TestReloadOfAuditPathReplacesPrograms(t *testing.T) {
	r := newRig(t, "\nroutes: [{match: {tool_name: pid}, upstream: files}]\n"+allowEverything+"\nupstreams:\n"+stdioUpstream("files", ", sharing: all"))
	pid := func() string {
		got := r.post(call("1", "pid"))
		if got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return got.body
	}
	reload := func() {
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := pid()
	reload()
	if again := pid(); again != first {
		t.Errorf("a reload without a change replaces the program: %s, %s", first, again)
	}
	r.edit("path: "+r.auditPath(), "path: "+filepath.Join(t.TempDir(), "audit.jsonl"))
	reload()
	if after := pid(); after == first || !strings.Contains(r.logs.String(), "processes of an upstream end after their calls") {
		t.Errorf("%s, then %s: %s", first, after, r.logs)
	}
}

func TestKeyRemovedByReloadIsRefused(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if got := r.post(call("1", "safe"), "Authorization", "Bearer "+r.other); got.status != 200 {
		t.Fatalf("got %d", got.status)
	}
	at := strings.Index(r.yaml, "    - id: bob")
	lines := strings.SplitAfter(r.yaml[at:], "\n")
	r.edit(lines[0]+lines[1], "")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(call("1", "safe"), "Authorization", "Bearer "+r.other); got.status != 401 {
		t.Errorf("a removed key: %d", got.status)
	}
	if got := r.post(call("1", "safe")); got.status != 200 {
		t.Errorf("the key that stayed: %d", got.status)
	}
}

// Reloads under load fail no request, and leak no goroutine or file.
func TestReloadsUnderLoadFailNoRequest(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	r.post(call("1", "safe"))
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	var served, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				req, err := http.NewRequest(http.MethodPost, r.url, bytes.NewReader([]byte(call("1", "safe"))))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+r.key)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					failed.Add(1)
					continue
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					failed.Add(1)
				}
				resp.Body.Close()
				served.Add(1)
			}
		})
	}
	for i := range 300 {
		if err := r.gateway.Reload(context.Background()); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
	if failed.Load() != 0 || served.Load() == 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), served.Load())
	}
	for i := 0; runtime.NumGoroutine() > before+8; i++ {
		if i == 100 {
			t.Fatalf("%d goroutines, were %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// SIGHUP ends an external log rotation: the audit file is opened again, even with a configuration
// that cannot be read.
func TestReloadOpensAnAuditFileThatWasMovedAgain(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if a := r.post(call("1", "safe")); a.status != http.StatusOK {
		t.Fatal(a.status)
	}
	moved := r.auditPath() + ".1"
	if err := os.Rename(r.auditPath(), moved); err != nil {
		t.Fatal(err)
	}
	r.edit("default_action: deny", "default_action: dny")
	if err := r.gateway.Reload(context.Background()); err == nil {
		t.Error("a wrong configuration was accepted")
	}
	if a := r.post(call("2", "safe")); a.status != http.StatusOK {
		t.Errorf("after the reload: %d %s", a.status, a.body)
	}
	old, err := os.ReadFile(moved)
	if err != nil || bytes.Count(old, []byte(`"tool":"safe"`)) != 1 {
		t.Errorf("the file that was moved: %v %s", err, old)
	}
	fresh, err := os.ReadFile(r.auditPath())
	if err != nil || bytes.Count(fresh, []byte(`"tool":"safe"`)) != 1 || !bytes.Contains(fresh, []byte(`"event":"continue"`)) {
		t.Errorf("the new file: %v %s", err, fresh)
	}
}
