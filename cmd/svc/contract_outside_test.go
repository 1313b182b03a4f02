package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/test/certtest"
)

// The table of outcomes of the guardrail action (gateway specification, Action:
// guardrail).
func TestContractGuardrails(t *testing.T) {
	u := newTools(t)
	var asked atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodPost || r.Header.Get("X-Static") != "expanded":
			w.WriteHeader(500)
		case strings.Contains(string(body), `"mask`):
			fmt.Fprintf(w, `{"action":"mask","body":%s}`, strings.ReplaceAll(string(body), "AKIA1234", "masked"))
		case strings.Contains(string(body), `"reject`):
			io.WriteString(w, `{"action":"reject","reason":"operators only"}`)
		case strings.Contains(string(body), `"strange`):
			io.WriteString(w, `{"action":"maybe"}`)
		case strings.Contains(string(body), `"slow`):
			time.Sleep(600 * time.Millisecond)
			io.WriteString(w, `{"action":"pass"}`)
		default:
			io.WriteString(w, `{"action":"pass"}`)
		}
	}))
	t.Cleanup(hook.Close)
	t.Setenv("GUARD_VALUE", "expanded")
	g := newGate(t, strings.NewReplacer("UP", u.URL, "HOOK", hook.URL).Replace(`
upstreams: [{name: u, url: "UP"}]
routes: [{match: {tool_glob: "*"}, upstream: u}]
guardrails:
  - {name: closed, url: "HOOK", timeout: 300ms, max_body_bytes: 4096, headers: {X-Static: "${GUARD_VALUE}"}, breaker: {failure_threshold: 0}}
  - {name: open, url: "HOOK", timeout: 300ms, fail_open: true, headers: {X-Static: "${GUARD_VALUE}"}, breaker: {failure_threshold: 0}}
  - {name: breaks, url: "HOOK", headers: {X-Static: "${GUARD_VALUE}"}, breaker: {failure_threshold: 2, open_duration: 5m}}
policy:
  default_action: deny
  rules:
    - {id: closed, action: guardrail, when: {tool_glob: "*-closed"}, guardrail: closed}
    - {id: open, action: guardrail, when: {tool_glob: "*-open"}, guardrail: open}
    - {id: breaks, action: guardrail, when: {tool_glob: "*-breaks"}, guardrail: breaks}
`))
	line := func(action, verdict, name string) map[string]any {
		return map[string]any{"action": action, "guardrail_name": name, "guardrail_verdict": verdict}
	}
	failed := line("deny", "error_failclosed", "closed")
	failed["error_kind"] = "guardrail_unreachable"
	large := line("deny", "error_failclosed", "closed")
	large["error_kind"] = "guardrail_body_too_large"
	deny := func(name, body string, line map[string]any) expect {
		return expect{name: name, body: body, status: 403, code: deniedCode, message: denied, reaches: "-", line: line}
	}
	g.hold(t, u, []expect{
		{name: "pass", body: toolCall("pass-closed"), status: 200, reaches: "AKIA1234", line: line("allow", "pass", "closed")},
		{name: "mask", body: toolCall("mask-closed"), status: 200, reaches: "masked", line: line("redact", "mask", "closed")},
		deny("reject", toolCall("reject-closed"), line("deny", "reject", "closed")),
		deny("unknown action", toolCall("strange-closed"), failed),
		deny("time-out", toolCall("slow-closed"), failed),
		deny("oversize", rpc("tools/call", `{"name":"pass-closed","arguments":{"a":"`+strings.Repeat("x", 5000)+`"}}`), large),
		{name: "fail open", body: toolCall("strange-open"), status: 200, reaches: "q-1", line: line("allow", "error_failopen", "open")},
		{name: "fail open after a time-out", body: toolCall("slow-open"), status: 200, reaches: "q-1", line: line("allow", "error_failopen", "open")},
		deny("first failure", toolCall("strange-breaks"), nil),
		deny("second failure", toolCall("strange-breaks"), nil),
	})
	before := asked.Load()
	g.hold(t, u, []expect{deny("the breaker is open", toolCall("pass-breaks"), nil)})
	if asked.Load() != before {
		t.Error("an open breaker let a callout through")
	}
	if trail, err := os.ReadFile(filepath.Join(g.dir, "audit.jsonl")); err != nil || strings.Contains(string(trail)+g.said(), "operators only") {
		t.Errorf("the reason of a reject was recorded (%v)", err)
	}
	// After a reload every breaker is closed.
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	holdsWithin(10*time.Second, func() bool { g.ask(toolCall("pass-breaks")); return asked.Load() > before })
	g.hold(t, u, []expect{{name: "closed again", body: toolCall("pass-breaks"), status: 200, reaches: "q-1"}})
}

// Listen streams end by their own limits, with a terminal event (gateway
// specification, subscriptions).
func TestContractListen(t *testing.T) {
	u := newTools(t)
	const text = `
upstreams: [{name: u, url: "UP"}]
default_upstream: u
policy: {default_action: deny, rules: [{id: listen, action: allow, when: {method: subscriptions/listen}}]}
subscriptions: {LIMIT}
`
	listen := `{"jsonrpc":"2.0","id":"q-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, limit := range []string{"max_frames: 2", "idle_timeout: 1s"} {
		g := newGate(t, strings.NewReplacer("UP", u.URL, "LIMIT", limit).Replace(text))
		g.hold(t, u, []expect{{name: limit, body: listen, status: 200,
			header: []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"},
			answer: `list_changed(?s:.*)"id":"q-1","error":.*sse_truncated`, line: map[string]any{"error_kind": "sse_truncated"}}})
	}
}

// Mutual TLS with HTTP/1.1 and HTTP/2, and certificates that are reloaded
// (gateway specification, tls).
func TestContractTLS(t *testing.T) {
	u := newTools(t)
	ours, others := certtest.New(t, t.TempDir(), "ca"), certtest.New(t, t.TempDir(), "ca")
	issue := func(subject string) certtest.Pair {
		return ours.Issue("server", func(c *x509.Certificate) { c.Subject.CommonName = subject })
	}
	cert := issue("one")
	good, bad := ours.Issue("client").Certificate, others.Issue("client").Certificate

	b := besiege(t, u.URL, fmt.Sprintf("tls: {cert_file: %s, key_file: %s, client_ca: %s}\n", cert.CertFile, cert.KeyFile, ours.CertFile))
	ask := func(h2 bool, certs ...tls.Certificate) (name, proto string, err error) {
		conf := &tls.Config{RootCAs: ours.Pool(), Certificates: certs}
		tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: h2}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Post("https://"+b.addr+"/mcp", "application/json", strings.NewReader(call(1)))
		if err != nil {
			return "", "", err
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("%d %s %v", resp.StatusCode, body, err)
		}
		return resp.TLS.PeerCertificates[0].Subject.CommonName, resp.Proto, nil
	}
	expectName := func(want string) {
		t.Helper()
		for _, h2 := range []bool{false, true} {
			proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
			var name, got string
			var err error
			holdsWithin(10*time.Second, func() bool { name, got, err = ask(h2, good); return name == want })
			if err != nil || name != want || got != proto {
				t.Errorf("%s: certificate %q over %s, %v; want %q", proto, name, got, err, want)
			}
		}
	}
	expectName("one")
	if _, _, err := ask(false); err == nil {
		t.Error("accepted without a certificate")
	}
	if _, _, err := ask(true, bad); err == nil {
		t.Error("accepted with a certificate of another authority")
	}
	hup := func() {
		t.Helper()
		if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	issue("two")
	hup()
	expectName("two")
	if err := os.WriteFile(cert.KeyFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	hup()
	if !holdsWithin(10*time.Second, func() bool { return strings.Contains(b.out.String(), "certificate was not replaced") }) {
		t.Error("the log does not report the broken key")
	}
	expectName("two")

	// A kept-alive connection ends when the authority of its certificate is
	// removed.
	kept := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{good}}}
	defer kept.CloseIdleConnections()
	over := func() error {
		resp, err := (&http.Client{Transport: kept, Timeout: 10 * time.Second}).Post("https://"+b.addr+"/mcp", "application/json", strings.NewReader(call(1)))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return err
	}
	if err := over(); err != nil {
		t.Fatal(err)
	}
	issue("three")
	authority, err := os.ReadFile(others.CertFile)
	if err == nil {
		err = os.WriteFile(ours.CertFile, authority, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	hup()
	if !holdsWithin(10*time.Second, func() bool { return over() != nil }) {
		t.Error("a connection stays open after the authority of its certificate was removed")
	}
}
