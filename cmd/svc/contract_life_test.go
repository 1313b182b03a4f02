package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Authentication, the supported revisions, and the table of errors (gateway
// specification, Authentication, Errors, Limits, Versioning).
func TestContractAccess(t *testing.T) {
	u := newTools(t)
	key, hash := newKey(t, "a")
	old, oldHash := newKey(t, "b")
	g := newGate(t, fmt.Sprintf(`
upstreams: [{name: u, url: %q}, {name: gone, url: "http://127.0.0.1:9/"}]
routes: [{match: {tool_name_in: [ok, ui]}, upstream: u}, {match: {tool_name: gone}, upstream: gone}]
allowed_protocol_versions: ["2025-06-18"]
auth:
  enabled: true
  header: X-Key
  scheme: ""
  keys:
    - {id: a, hash: %q, scopes: [nothing]}
    - {id: b, hash: %q, expires_at: 2020-01-01T00:00:00Z}
policy: {default_action: allow}
`, u.URL, hash, oldHash))
	good := []string{"X-Key", key}
	refused := func(name, body string, status, code int, message string, header ...string) expect {
		return expect{name: name, body: body, header: header, status: status, code: code, message: message, reaches: "-",
			line: map[string]any{"status": status}}
	}
	allowed := map[string]any{"action": "allow", "principal": "a", "principal_kind": "key", "key_id": "a"}
	meta := func(version string) string {
		return rpc("tools/call", fmt.Sprintf(`{"name":"ok","_meta":{"io.modelcontextprotocol/protocolVersion":%q}}`, version))
	}
	g.hold(t, u, []expect{
		{name: "a key in its header, without a scheme; its scopes mean nothing", body: toolCall("ok"), header: good, status: 200, reaches: "q-1", line: allowed},
		refused("no key", toolCall("ok"), 401, -32005, "unauthorized"),
		refused("another key", toolCall("ok"), 401, -32005, "unauthorized", "X-Key", key[:len(key)-4]+"AAAA"),
		refused("the key in another header", toolCall("ok"), 401, -32005, "unauthorized", "Authorization", "Bearer "+key),
		refused("a key that has expired", toolCall("ok"), 401, -32005, "unauthorized", "X-Key", old),
		refused("no route for a tool", toolCall("other"), 404, -32601, "no_route", good...),
		refused("no route for a method without default_upstream", rpc("tools/list", "{}"), 404, -32601, "no_route", good...),
		{name: "no upstream", body: toolCall("gone"), header: good, status: 502, code: -32603, message: "upstream_unreachable",
			line: map[string]any{"error_kind": "upstream_unreachable", "status": 502}},
		{name: "no version is the legacy dialect", body: toolCall("ok"), header: good, status: 200, reaches: "q-1"},
		{name: "an allowed version", body: meta("2025-06-18"), header: good, status: 200, reaches: "q-1"},
		refused("a version that is not allowed", toolCall("ok"), 400, -32022, "unsupported_protocol_version", append(good, "MCP-Protocol-Version", "2026-07-28")...),
		refused("that in _meta wins over the header", meta("2026-07-28"), 400, -32022, "unsupported_protocol_version", append(good, "MCP-Protocol-Version", "2025-06-18")...),
		{name: "and wins over a header that is not allowed", body: meta("2025-06-18"), header: append(good, "MCP-Protocol-Version", "2024-11-05"), status: 200},
		refused("the version comes before the route", strings.Replace(meta("2026-07-28"), `"ok"`, `"none"`, 1), 400, -32022, "unsupported_protocol_version", good...),
		{name: "16 MiB", body: toolCall("ui") + strings.Repeat(" ", 16<<20-len(toolCall("ui"))), header: good, status: 200},
		refused("16 MiB and a byte", toolCall("ok")+strings.Repeat(" ", 16<<20-len(toolCall("ok"))+1), 413, -32600, "request_too_large", good...),
		refused("a batch", "["+toolCall("ok")+"]", 400, 0, "invalid_request", good...),
		refused("a member twice", strings.Replace(toolCall("ok"), `{"name"`, `{"name":"x","name"`, 1), 400, -32600, "invalid_request", good...),
		refused("a case variant of a member", strings.Replace(toolCall("ok"), `{"name"`, `{"Name":"x","name"`, 1), 400, -32600, "invalid_request", good...),
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := g.get(path); status != 200 || body != map[string]string{"/healthz": "ok", "/readyz": `{"status":"ok"}`}[path] {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

// The input rate limit applies before everything else, counts by the client address
// that trusted proxies forward, and exempts the probes (gateway specification,
// input_rate_limit and trusted_proxies).
func TestContractInputRateLimit(t *testing.T) {
	u := newTools(t)
	const text = `
upstreams: [{name: u, url: "UP"}]
default_upstream: u
trusted_proxies: [127.0.0.0/8]
input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}
auth: {enabled: true, keys: [{id: a, hash: "HASH"}]}
policy: {default_action: deny}
`
	_, hash := newKey(t, "a")
	file := strings.NewReplacer("UP", u.URL, "HASH", hash).Replace(text)
	g := newGate(t, file)
	limited := func(name string, status int, header ...string) expect {
		e := expect{name: name, body: rpc("ping", "{}"), header: header, status: status, reaches: "-"}
		if status == 429 {
			e.answer, e.line = `"id":null.*"code":-32003,"message":"rate_limited"|"code":-32003,"message":"rate_limited".*"id":null`, map[string]any{"error_kind": "input_rate_limited"}
		}
		return e
	}
	g.hold(t, u, []expect{
		limited("the first is let in, to be refused for its key", 401, "X-Forwarded-For", "192.0.2.1"),
		limited("the second is not", 429, "X-Forwarded-For", "192.0.2.1"),
		limited("nor behind what the client itself states", 429, "X-Forwarded-For", "203.0.113.9, 192.0.2.1"),
		limited("nor behind a trusted proxy more", 429, "X-Forwarded-For", "192.0.2.1, 127.0.0.7"),
		limited("another client", 401, "X-Forwarded-For", "192.0.2.2"),
		limited("Forwarded is preferred", 429, "Forwarded", "for=192.0.2.1", "X-Forwarded-For", "192.0.2.3"),
		limited("an invalid header is the peer", 401, "X-Forwarded-For", "not an address"),
		limited("and so is an absent one", 429),
	})
	for range 5 {
		if status, _ := g.get("/healthz"); status != 200 {
			t.Errorf("/healthz: %d", status)
		}
	}
	// Hot reload: the buckets are kept, the limit is the new one.
	g.reload(strings.Replace(file, "0.001", "1000", 1), `{"status":"ok"}`)
	g.hold(t, u, []expect{limited("after a reload the new rate holds", 401, "X-Forwarded-For", "192.0.2.1")})
	g.reload(strings.Replace(file, "127.0.0.0/8", "10.0.0.0/8", 1), `{"status":"ok","restart_pending":["trusted_proxies"]}`)
}

// Settings that a reload changes at once, settings that need a restart, and a file
// with an error, which changes nothing (gateway specification, column Hot-reload).
func TestContractReload(t *testing.T) {
	u := newTools(t)
	base := fmt.Sprintf(`
upstreams: [{name: u, url: %q}]
default_upstream: u
routes: [{match: {tool_glob: "*"}, upstream: u}]
policy: {default_action: deny, rules: [{id: r, action: allow, when: {tool_name: ok}}]}
`, u.URL)
	g := newGate(t, base)
	pass, deny := expect{name: "old rules", body: toolCall("ok"), status: 200}, expect{name: "new rules", body: toolCall("ok"), status: 403}
	g.hold(t, u, []expect{pass})
	const ready = `{"status":"ok"}`
	changed := strings.Replace(base, "tool_name: ok", "tool_name: other", 1)

	// A file with an error: the old rules stay. Reading the next file shows that this
	// one was read.
	g.write(strings.Replace(changed, "default_action: deny", "default_action: dny", 1))
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !holdsWithin(10*time.Second, func() bool { return strings.Contains(g.said(), "reload refused") }) || !strings.Contains(g.said(), "dny") {
		t.Errorf("the log does not report the invalid file: %s", g.said())
	}
	g.hold(t, u, []expect{pass})

	// Both in one file, because a reload is applied as a whole: the rules at once, the
	// other settings after a restart, named in the order of the specification.
	all := strings.NewReplacer(
		`default_upstream: u`, `default_upstream: v`,
		`upstreams: [`, `upstreams: [{name: v, url: "http://127.0.0.1:9/"}, `,
		`tool_glob: "*"`, `tool_glob: "x*"`,
	).Replace(changed) + `
trusted_proxies: [10.0.0.0/8]
tool_search: {enabled: true}
rate_limit_store: {operation_timeout: 60ms}
allowed_protocol_versions: ["2025-06-18"]
task_affinity: {max_entries: 5}
subscriptions: {max_frames: 5}
shutdown: {grace: 3s}
input_rate_limit: {enabled: true, requests_per_second: 1000, burst: 1000}
identity: {principal_claim: email}
guardrails: [{name: g, url: "https://127.0.0.1:9/"}]
`
	g.reload(all, `{"status":"ok","restart_pending":["trusted_proxies","default_upstream","upstreams","routes","tool_search","rate_limit_store","allowed_protocol_versions","task_affinity","subscriptions"]}`)
	g.hold(t, u, []expect{deny, {name: "the running routes", body: rpc("ping", "{}"), status: 200, reaches: "ping"}})
	g.reload(base, ready)
	g.hold(t, u, []expect{pass})
	for _, tt := range [][2]string{
		{"auth: {header: X-Key}", `["auth.header"]`}, {"auth: {scheme: Key}", `["auth.scheme"]`},
		{"telemetry: {customer: {enabled: true, endpoint: \"http://127.0.0.1:9\"}}", `["telemetry.customer.enabled","telemetry.customer.endpoint"]`},
	} {
		g.reload(base+tt[0], `{"status":"ok","restart_pending":`+tt[1]+`}`)
	}
	// Keys, and whether they are required, are hot-reloaded.
	_, hash := newKey(t, "a")
	g.reload(base+fmt.Sprintf("auth: {enabled: true, keys: [{id: a, hash: %q}]}", hash), ready)
	g.hold(t, u, []expect{{name: "auth is on", body: toolCall("ok"), status: 401}})
	// The order of the rules is logged.
	if !strings.Contains(g.said(), "rules") {
		t.Error("the log does not have the order of the rules")
	}
	// The address too needs a restart; the old one is used until then.
	before := g.addr
	g.addr = freeAddr(t)
	g.write(base)
	g.addr = before
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	var got string
	if !holdsWithin(10*time.Second, func() bool { _, got = g.get("/readyz"); return got == `{"status":"ok","restart_pending":["listen"]}` }) {
		t.Errorf("another address: %s", got)
	}
}

// SIGTERM: /readyz is 503 with an empty body at once, calls are accepted during the
// window, calls in flight are finished, and the program exits with 0 (gateway
// specification, States and transitions).
func TestContractDrain(t *testing.T) {
	u := newTools(t)
	g := newGate(t, fmt.Sprintf(`
upstreams: [{name: u, url: %q}]
routes: [{match: {tool_glob: "*"}, upstream: u}]
policy: {default_action: allow}
shutdown: {drain_signal_window: 700ms, grace: 10s}
`, u.URL))
	slow := make(chan string, 1)
	go func() {
		status, body := g.ask(toolCall("slow"))
		slow <- fmt.Sprint(status, body)
	}()
	if !holdsWithin(10*time.Second, func() bool { return len(u.reached()) > 0 }) {
		t.Fatal("the slow call does not arrive")
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	status, body := 200, ""
	for end := time.Now().Add(500 * time.Millisecond); status == 200 && time.Now().Before(end); {
		status, body = g.get("/readyz")
	}
	if status != 503 || body != "" {
		t.Errorf("/readyz while draining: %d %q", status, body)
	}
	if status, _ := g.get("/healthz"); status != 200 {
		t.Errorf("/healthz while draining: %d", status)
	}
	if status, body := g.ask(toolCall("ok")); status != 200 {
		t.Errorf("a call in the window: %d %s", status, body)
	}
	if got := <-slow; !strings.HasPrefix(got, `200{"jsonrpc":"2.0","id":"q-1","result"`) {
		t.Errorf("the call in flight: %s", got)
	}
	err := g.cmd.Wait()
	g.cmd = nil
	if err != nil {
		t.Errorf("exit: %v", err)
	}
	if _, err := net.Dial("tcp", g.addr); err == nil {
		t.Error("the address still answers")
	}
}

// A response that lasts as long as its client does not delay a stop. A call that does
// not end is cut off at the end of the grace period and gets a response (gateway
// specification, States and transitions).
func TestContractStop(t *testing.T) {
	reached := make(chan struct{}, 1)
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "server/discover" { // the gateway probes the server's protocol revision
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		io.Copy(io.Discard, r.Body) // until then no client notices the shutdown
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			w.(http.Flusher).Flush()
		}
		reached <- struct{}{}
		<-r.Context().Done()
	}))
	defer u.Close()
	stop := func(g *gate, limit time.Duration) {
		t.Helper()
		began := time.Now()
		if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := g.cmd.Wait()
		g.cmd = nil
		if took := time.Since(began); err != nil || took > limit {
			t.Errorf("it took %v to stop: %v", took, err)
		}
	}
	config := fmt.Sprintf("upstreams: [{name: u, url: %q}]\ndefault_upstream: u\nroutes: [{match: {tool_name: '*'}, upstream: u}]\npolicy: {default_action: allow}\n", u.URL)

	g := newGate(t, config+"shutdown: {grace: 60s}\n")
	resp, err := http.Get("http://" + g.addr + "/mcp")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	<-reached
	stop(g, 30*time.Second)

	g = newGate(t, config+"shutdown: {grace: 100ms}\n")
	answer := make(chan string, 1)
	go func() {
		status, body := g.ask(toolCall("endless"))
		answer <- fmt.Sprint(status, body)
	}()
	<-reached
	stop(g, 30*time.Second)
	if got := <-answer; !strings.HasPrefix(got, `503{"jsonrpc":"2.0","id":"q-1","error":{"code":-32603,"message":"shutting_down"`) {
		t.Errorf("a call that does not end: %s", got)
	}
}

// One address can have at most limits.connections_per_address connections. Loopback
// addresses are not limited, so the test needs another address of this machine.
func TestContractConnectionLimit(t *testing.T) {
	host := ownAddress(t)
	if host == "" {
		t.Log("this machine has only loopback addresses: nothing was tested")
		return
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	u := newTools(t)
	g := newGateAt(t, addr, fmt.Sprintf("upstreams: [{name: u, url: %q}]\npolicy: {default_action: allow}\nlimits: {connections_per_address: 3}\n", u.URL))
	open := 0
	for range 5 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if n, _ := c.Read(make([]byte, 1)); n == 1 {
			open++
		}
	}
	if open < 1 || open > 3 || !strings.Contains(g.said(), "connections were closed") { // the rig may hold some connections
		t.Errorf("%d of 5 connections were served", open)
	}
}

// ownAddress returns an IPv4 address of this machine that is not a loopback address;
// empty when there is none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// A license that has expired beyond its grace period, or that is replaced, and /mcp
// meanwhile (gateway specification, States and transitions).
func TestContractLicense(t *testing.T) {
	u := newTools(t)
	base := fmt.Sprintf(`
upstreams: [{name: u, url: %q}]
routes: [{match: {tool_glob: "*"}, upstream: u}]
policy: {default_action: allow}
`, u.URL)
	g := newGate(t, base)
	path := filepath.Join(g.dir, "license.jwt")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ready := func(want int) {
		t.Helper()
		if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		status, body := 0, ""
		holdsWithin(10*time.Second, func() bool { status, body = g.get("/readyz"); return status == want })
		if status != want || want == http.StatusServiceUnavailable && body != "" {
			t.Errorf("/readyz: %d %q, want %d", status, body, want)
		}
		if status, body := g.ask(toolCall("ok")); status != 200 {
			t.Errorf("/mcp: %d %s", status, body)
		}
		if status, _ := g.get("/healthz"); status != 200 {
			t.Errorf("/healthz: %d", status)
		}
	}
	parts := strings.Split(string(good), ".")
	if err := os.WriteFile(path, []byte(parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(strings.TrimSpace(parts[2])))), 0o600); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusServiceUnavailable)
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusServiceUnavailable)

	// At the start: the file must exist with mode 0600.
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604} {
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		second := filepath.Join(g.dir, "second.yaml")
		text, err := os.ReadFile(g.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(second, []byte(strings.NewReplacer("audit.jsonl", "second.jsonl", g.addr, "127.0.0.1:0").Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(program(t), "gateway", "--config", second).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "license") {
			t.Errorf("mode %o: %v %s", mode, err, out)
		}
	}
}
