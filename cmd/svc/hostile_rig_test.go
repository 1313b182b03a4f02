package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// besieged is a gateway process, without authentication, in front of one
// upstream.
type besieged struct {
	*process
	dir string
}

// besiege starts a gateway with additional sections in its configuration;
// launch is put before the command line.
func besiege(t *testing.T, upstream, more string, launch ...string) *besieged {
	t.Helper()
	dir := t.TempDir()
	bin, addr := program(t), freeAddr(t)
	writeLicense(t, dir)
	config := fmt.Sprintf(`listen: %s
license: {path: %s/license.jwt, public_key_file: %[2]s/license.pub}
upstreams: [{name: u, url: "%s"}]
default_upstream: u
routes: [{match: {tool_name: "*"}, upstream: u}]
policy: {default_action: allow}
`, addr, dir, upstream)
	if !strings.Contains(more, "audit:") {
		more += fmt.Sprintf("audit: {path: %s/audit.jsonl}\n", dir)
	}
	config += strings.ReplaceAll(more, "DIR", dir)
	file := filepath.Join(dir, "svc.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &besieged{process: &process{t: t, bin: bin, addr: addr, ready: "/healthz"}, dir: dir}
	b.args = []string{"gateway", "--config", file}
	if len(launch) > 0 {
		b.args = append(append(launch[1:], bin), b.args...)
		b.bin = launch[0]
	}
	if strings.Contains(more, "tls:") {
		b.ready = ""
	}
	b.start()
	t.Cleanup(func() {
		b.kill()
		if t.Failed() {
			t.Logf("gateway:\n%s", tail(&b.out))
		}
	})
	return b
}

// healthy requests /healthz on a new connection.
func (b *besieged) healthy(client *http.Client, scheme string) {
	b.t.Helper()
	var err error
	alive := func() bool {
		var resp *http.Response
		if resp, err = client.Get(scheme + "://" + b.addr + "/healthz"); err != nil {
			return false
		}
		resp.Body.Close()
		err = errors.New(resp.Status)
		return resp.StatusCode == http.StatusOK
	}
	if !holdsWithin(10*time.Second, alive) {
		b.t.Errorf("not alive: %v", err)
	}
}

func freshClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// post sends a tool call and returns the status and the body.
func (b *besieged) post(id int) (int, string) {
	status, body, err := b.process.post(freshClient(), call(id))
	if err != nil {
		return status, err.Error()
	}
	return status, body
}

func call(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t%d","arguments":{}}}`, id, id)
}

// lines returns the audit lines of a kind.
func (b *besieged) lines(kind string) []map[string]any {
	b.t.Helper()
	return auditLines(b.t, filepath.Join(b.dir, "audit.jsonl"), kind)
}

// wholeLines returns the complete request lines of a file whose last line may
// be incomplete.
func (b *besieged) wholeLines() (found []string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "audit.jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "}\n") && strings.Contains(line, `"kind":"request"`) {
			found = append(found, line)
		}
	}
	return found
}
