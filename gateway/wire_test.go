package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/policy"
)

// A denied answer of the client is refused with an empty id, which keeps every SDK's session
// open, and never reaches the upstream, which gets an error.
func TestDeniedClientAnswer(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, rules(basic(up.URL), "    - {id: nothing, action: deny, when: {}}\n"))
	got := r.post(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	if e := got.rpc(t); got.status != 403 || string(e.ID) != `""` || e.Error.Code != -32001 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	eventually(t, "the upstream got nothing", func() bool { return len(up.seen()) == 1 })
	if s := up.seen()[0].body; !strings.HasPrefix(s, `{"jsonrpc":"2.0","id":5,"error":{"code":-32001,`) {
		t.Errorf("the upstream got %s", s)
	}
	if line := r.lines(1)[0]; line["rpc"] != "response" || line["rule_id"] != "nothing" {
		t.Errorf("audit line %v", line)
	}
}

// The default action does not apply to a client's answers: they pass for the owner of the
// session.
func TestClientAnswerPassesUnderDefaultDeny(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if got := r.post(`{"jsonrpc":"2.0","id":5,"result":{}}`); got.status != 202 || len(up.seen()) != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// HTTP/2 clients are served in the same way: calls, streams, refusals.
func TestHTTP2Clients(t *testing.T) {
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		fmt.Fprintf(w, "data: %s\n\n", progress)
		flush()
		fmt.Fprintf(w, "data: %s\n\n", result)
	}))
	r := newRig(t, basic(up.URL))
	server := httptest.NewUnstartedServer(r.gateway)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	do := func(body, tool string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, server.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.ProtoMajor != 2 {
			t.Errorf("%s: HTTP/%d, %v", tool, resp.ProtoMajor, err)
		}
		return resp.StatusCode, string(got)
	}
	if status, body := do(call("1", "slow"), "a stream"); status != 200 || body != "data: "+progress+"\n\ndata: "+result+"\n\n" {
		t.Errorf("a stream: %d %q", status, body)
	}
	if status, body := do(call("1", "danger"), "a denied call"); status != 403 || !strings.Contains(body, `"id":1`) {
		t.Errorf("a denied call: %d %s", status, body)
	}
	if status, body := do(sized(16<<20+1), "a large body"); status != 413 || !strings.Contains(body, `"id":"big"`) {
		t.Errorf("a large body: %d %s", status, body)
	}
	if status, _ := do(call("1", "slow"), "after a large body"); status != 200 {
		t.Errorf("after a large body: %d", status)
	}
}

// A panic while a stream runs cuts the stream and writes its audit line, and the process
// continues.
func TestPanicDuringAStreamIsRecorded(t *testing.T) {
	var r *rig
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		broken := *r.gateway.services.Live.Load()
		broken.Rules, broken.Verdict.Rules = nil, policy.NewMemory(nil) // judging a frame panics with a nil dereference
		r.gateway.services.Live.Store(&broken)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", progress)
	})
	r = newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended in order")
	}
	lines := r.lines(2)
	if lines[1]["error_kind"] != "panic" {
		t.Errorf("request line %v", lines[1])
	}
	if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/healthz", ""); got.status != 200 {
		t.Error("the process does not go on")
	}
}
