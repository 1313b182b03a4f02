//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/gateway/redis/redistest"
)

// Two gateways share labels in Redis: 'svc labels' shows those that the other one has set, and clears them at both,
// one alone or all.
func TestLabelsOfTwoGateways(t *testing.T) {
	dir, store := t.TempDir(), redistest.Start(t)
	writeLicense(t, dir)
	key, hash := newKey(t, "bot")
	if err := os.WriteFile(filepath.Join(dir, "session.key"), []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="), 0o600); err != nil {
		t.Fatal(err)
	}
	tools := httptest.NewServer(http.HandlerFunc(new(governedStack).serveTool))
	defer tools.Close()
	files, gateways := map[string]string{}, map[string]*process{}
	for _, name := range []string{"a", "b"} {
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz"}
		files[name], gateways[name] = filepath.Join(dir, name+".yaml"), p
		text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
auth: {enabled: true, keys: [{id: bot, hash: %[3]q}]}
sessions: {key_file: %[2]s/session.key}
rate_limit_store: {type: redis, url: %[4]q, operation_timeout: 5s}
default_upstream: up
upstreams: [{name: up, url: %[5]q}]
routes: [{match: {tool_name: "*"}, upstream: up}]
state_dir: %[2]s/%[6]s
audit: {path: %[2]s/%[6]s.jsonl}
data_flow: {labels: [{name: untrusted, tool_prefix: web_}, {name: private, tool_prefix: files_}]}
policy:
  default_action: allow
  rules: [{id: no-sending, action: deny, when: {tool_name: send, labels_all: [untrusted, private]}}]
`, p.addr, dir, hash, store.URL(), tools.URL, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.args = []string{"gateway", "--config", files[name]}
		p.start()
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("gateway %s:\n%s", name, tail(&p.out))
			}
		})
	}
	call := func(gateway, tool string, want int) {
		t.Helper()
		req, _ := http.NewRequest(http.MethodPost, "http://"+gateways[gateway].addr+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
		for name, value := range map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if said, _ := io.ReadAll(resp.Body); resp.StatusCode != want {
			t.Errorf("%s at %s: %d %s, want %d", tool, gateway, resp.StatusCode, said, want)
		}
	}
	labels := func(gateway, command, where string, args ...string) string {
		t.Helper()
		var said []string
		for line := range strings.Lines(string(run(t, append([]string{"labels", command, "bot", "--config", files[gateway]}, args...)...))) {
			if f := strings.Fields(line); strings.Contains(line, where) && len(f) > 1 {
				said = append(said, f[1])
			}
		}
		return strings.Join(said, " ")
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}

	call("a", "web_get", 200)
	call("a", "files_read", 200)
	call("b", "send", 403)
	expect("in the file of the gateway that set them", labels("a", "show", "state_dir"), "private untrusted")
	expect("in the file of the other one", labels("b", "show", "state_dir"), "")
	expect("shared", labels("b", "show", "redis"), "private untrusted")

	if out := string(run(t, "labels", "clear", "bot", "--config", files["b"], "--label", "untrusted")); out != "key:bot: cleared untrusted\n" {
		t.Errorf("one cleared: %q", out)
	}
	expect("after one was cleared", labels("a", "show", "redis"), "private")
	call("a", "send", 200)
	call("b", "send", 200)
	call("b", "web_get", 200)
	call("a", "send", 403)

	if out := string(run(t, "labels", "clear", "bot", "--config", files["b"])); out != "key:bot: cleared private, untrusted\n" {
		t.Errorf("all cleared: %q", out)
	}
	expect("after all were cleared", labels("a", "show", "redis"), "")
	call("a", "send", 200)
	lines := auditLines(t, filepath.Join(dir, "b.jsonl"), "event")
	var cleared []string
	for _, line := range lines {
		if line["error_kind"] == "labels_cleared" {
			cleared = append(cleared, fmt.Sprint(line["labels"]))
		}
	}
	expect("audit lines", strings.Join(cleared, " "), "[untrusted] [private untrusted]")
}
