package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/request"
	"svc/gateway/session/bodies"
)

// Which headers of a request reach the upstream, and which never do.
func TestRequestHeadersThatPass(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers []string
		want    map[string]string // at the upstream; empty means absent
	}{
		{"content, trace and parameter headers", []string{"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tracestate", "a=b", "Baggage", "c=d", "Mcp-Param-City", "Oslo"},
			map[string]string{"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tracestate": "a=b", "Baggage": "c=d", "Mcp-Param-City": "Oslo", "Content-Type": "application/json"}},
		{"forward_headers", []string{"X-Tenant", "t1", "X-Other", "no"}, map[string]string{"X-Tenant": "t1", "X-Other": ""}},
		{"a header that Connection lists", []string{"Connection", "X-Tenant, Traceparent", "X-Tenant", "t1", "Traceparent", "x"}, map[string]string{"X-Tenant": "", "Traceparent": ""}},
		{"a header with an underscore", []string{"Mcp_Session_Id", "x", "Mcp_Method", "tools/list", "X_Tenant", "t2"}, map[string]string{"Mcp_Session_Id": "", "Mcp_Method": "", "X_Tenant": ""}},
		{"a method header that disagrees", []string{"Mcp-Method", "tools/list", "Mcp-Name", "danger"}, map[string]string{"Mcp-Method": "", "Mcp-Name": ""}},
		{"a method header twice", []string{"Mcp-Method", "tools/call", "+Mcp-Method", "tools/list"}, map[string]string{"Mcp-Method": ""}},
		{"headers that agree", []string{"Mcp-Method", "tools/call", "Mcp-Name", "=?base64?c2FmZQ==?="}, map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?c2FmZQ==?="}},
		{"Last-Event-ID on a POST", []string{"Last-Event-ID", "7"}, map[string]string{"Last-Event-Id": ""}},
		{"Accept-Encoding", []string{"Accept-Encoding", "gzip"}, map[string]string{"Accept-Encoding": "identity"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, echo)
			r := newRig(t, basic(up.URL)+"forward_headers: [X-Tenant]\n")
			if got := r.post(call("1", "safe"), tt.headers...); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			got := up.seen()[0].header
			for name, want := range tt.want {
				if v := strings.Join(got[name], ","); v != want && !(name == "Accept-Encoding" && v == "") {
					t.Errorf("the upstream got %s: %q, want %q", name, v, want)
				}
			}
		})
	}
}

func TestResponseHeadersThatPass(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		h := w.Header()
		h.Set("X-Tenant", "t1")
		h.Set("X-Trick", "t2")
		h.Set("X-Other", "no")
		h.Set("Server", "leaky")
		h.Set("Connection", "X-Trick")
		echo(w, body, r)
	})
	r := newRig(t, basic(up.URL)+"forward_headers: [X-Tenant, X-Trick]\n")
	got := r.post(call("1", "safe"))
	for name, want := range map[string]string{"X-Tenant": "t1", "X-Trick": "", "X-Other": "", "Server": ""} {
		if v := got.header.Get(name); v != want {
			t.Errorf("the client got %s: %q, want %q", name, v, want)
		}
	}
}

// Headers that occur twice where one is allowed are refused, with the request's id each time: the
// refusal of one request does not affect the next.
func TestHeadersThatStandTwice(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	for _, name := range []string{"Mcp-Session-Id", "MCP-Protocol-Version"} {
		if got := r.do(http.MethodGet, r.url, "", name, "2025-06-18", "+"+name, "2025-06-18"); got.status != 400 || !strings.Contains(got.body, `"id":null`) {
			t.Errorf("GET with two %s: %d %s", name, got.status, got.body)
		}
		got := r.post(call("1", "safe"), name, "2025-06-18", "+"+name, "2025-06-18")
		if e := got.rpc(t); got.status != 400 || string(e.ID) != "1" {
			t.Errorf("two %s: %d %s", name, got.status, got.body)
		}
	}
	if got := r.post(call("1", "safe"), "+Content-Type", "text/plain"); got.status != 415 {
		t.Errorf("two Content-Type: %d", got.status)
	}
	if got := r.post(call("1", "safe"), "+Authorization", "Bearer x"); got.status != 401 {
		t.Errorf("two Authorization: %d", got.status)
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream was contacted")
	}
}

// Only the exact path is /mcp.
func TestPaths(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	base := strings.TrimSuffix(r.url, "/mcp")
	for path, want := range map[string]int{
		"/mcp": 200, "/mcp/": 200, "/mcp?x=1": 200, "/%6dcp": 200,
		"/": 404, "//mcp": 404, "/MCP": 404, "/mcp/x": 404, "/mcp/../healthz": 404, "/%2e%2e/mcp": 404, "/mcp%00": 404,
	} {
		req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(call("1", "safe")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// Methods other than POST, GET, DELETE: 405 with Allow.
func TestOtherMethodsAre405(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	methods := []string{"HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "BREW"}
	for _, method := range methods {
		got := r.do(method, r.url, "")
		if got.status != 405 || got.header.Get("Allow") != "GET, POST, DELETE" {
			t.Errorf("%s: %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream was contacted")
	}
	r.lines(len(methods))
}

// dial sends raw bytes to the gateway and returns the connection.
func (r *rig) dial(raw string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(c, raw); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) head(method, more string) string {
	return fmt.Sprintf("%s /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n", method, r.key, more)
}

// Ambiguous framing (request smuggling) never reaches the upstream.
func TestAmbiguousFramingIsRefused(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	body := call("1", "safe")
	for name, raw := range map[string]string{
		"two Content-Length":      r.head("POST", "Content-Length: 5\r\nContent-Length: 6\r\n") + body,
		"a signed Content-Length": r.head("POST", "Content-Length: +5\r\n") + body,
		"two Host":                r.head("POST", "Host: evil.example\r\nContent-Length: 5\r\n") + body,
		"bare LF in a chunk":      r.head("POST", "Transfer-Encoding: chunked\r\n") + "5;\nhello\r\n0\r\n\r\n",
		"a coding behind chunked": r.head("POST", "Transfer-Encoding: chunked, identity\r\nContent-Length: 5\r\n") + body,
	} {
		c := r.dial(raw)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if resp.StatusCode < 400 {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
		c.Close()
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream was contacted")
	}
}

// A body that is shorter than its Content-Length is refused, not forwarded.
func TestLyingContentLength(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	body := call("1", "safe")
	c := r.dial(r.head("POST", fmt.Sprintf("Content-Length: %d\r\n", len(body)+10)) + body)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 400 {
		t.Errorf("got %v, %v", resp, err)
	}
	if line := r.lines(1)[0]; line["error_kind"] != "body_unreadable" {
		t.Errorf("audit line %v", line)
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream was contacted")
	}
}

// A client that sends Expect: 100-continue is refused without its body, and the gateway does not
// wait for the body.
func TestExpectContinueIsDeniedBeforeTheBody(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n")
	r.post(call("1", "safe"))
	c := r.dial(r.head("POST", "Expect: 100-continue\r\nContent-Length: 1000000\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 429 {
		t.Errorf("got %v, %v, want 429 and no 100", resp, err)
	}
}

// The server does not wait for the rest of a body whose request was refused.
func TestSlowBodyOfARefusedRequestIsNotWaitedFor(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	c := r.dial(r.head("PUT", "Content-Length: 100000\r\n") + "x")
	read := bufio.NewReader(c)
	resp, err := http.ReadResponse(read, nil)
	if err != nil || resp.StatusCode != 405 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := read.ReadByte(); err == nil { // the connection is closed
		t.Error("more bytes came")
	}
	if took := time.Since(began); took > 3*request.DrainTimeout {
		t.Errorf("the connection was held for %s", took)
	}
}

// A body on GET or DELETE is read and discarded; a large one is refused.
func TestBodiesOnGetAndDelete(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) })
	r := newRig(t, basic(up.URL))
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if got := r.do(method, r.url, `{"a":1}`); got.status != 405 {
			t.Errorf("%s with a body: %d %s", method, got.status, got.body)
		}
		if got := r.do(method, r.url, strings.Repeat("x", bodies.MaxPrefix+1)); got.status != 413 {
			t.Errorf("%s with a large body: %d", method, got.status)
		}
	}
	for _, req := range up.seen() {
		if req.body != "" {
			t.Errorf("%s reached the upstream with the body %q", req.method, req.body)
		}
	}
}

// A GET whose response is not an event stream is refused.
func TestGetAnsweredWithAPage(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>")
	})
	r := newRig(t, basic(up.URL))
	if got := r.do(http.MethodGet, r.url, ""); got.status != 502 || strings.Contains(got.body, "html") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// At most 64 Mcp-Param headers go to the upstream.
func TestParameterHeadersAreBounded(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	for _, n := range []int{64, 65} {
		var headers []string
		for i := range n {
			headers = append(headers, fmt.Sprintf("Mcp-Param-P%d", i), "x")
		}
		if got := r.post(call("1", "safe"), headers...); got.status != 200 {
			t.Fatalf("%d: got %d %s", n, got.status, got.body)
		}
		passed, all := 0, up.seen()
		for name := range all[len(all)-1].header {
			if strings.HasPrefix(name, "Mcp-Param-") {
				passed++
			}
		}
		if passed != 64 {
			t.Errorf("of %d headers %d reached the upstream, want 64", n, passed)
		}
	}
}

// A Retry-After of a day is forwarded, a longer one is not: the client gets the shortest.
func TestRetryAfterOfAnUpstreamIsBounded(t *testing.T) {
	retryAfter := ""
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	r := newRig(t, basic(up.URL))
	for _, c := range []struct{ sent, want string }{{"86400", "86400"}, {"86401", "1"}, {"0", "1"}, {"-5", "1"}, {"soon", "1"}} {
		retryAfter = c.sent
		if got := r.post(call("1", "safe")); got.status != 429 || got.header.Get("Retry-After") != c.want {
			t.Errorf("Retry-After %q became %q with status %d", c.sent, got.header.Get("Retry-After"), got.status)
		}
	}
}

// A plain-text error keeps its status and its Retry-After.
func TestUpstreamRefusalInPlainText(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	r := newRig(t, basic(up.URL))
	got := r.post(call("1", "safe"))
	if e := got.rpc(t); got.status != 429 || got.header.Get("Retry-After") != "7" || string(e.ID) != "1" || e.Error.Message != "upstream_refused" {
		t.Errorf("got %d %v %s", got.status, got.header, got.body)
	}
}

// Where rules matched the arguments of the body, a parameter header with another value does not
// reach the upstream, which might use the header.
func TestParameterHeadersOfJudgedArguments(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "  rules:\n", "  rules:\n    - {id: data, action: allow, when: {tool_name: safe, arguments: {/path: {path_within: /srv/data}}}}\n", 1))
	if got := r.post(callWith(`{"path":"/srv/data/x","n":5}`), "Mcp-Param-Path", "/srv/data/x", "Mcp-Param-N", "5", "Mcp-Param-Other", "/etc/passwd"); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if l := r.lines(1)[0]; l["rule_id"] != "data" {
		t.Fatalf("line %v", l)
	}
	if h := up.seen()[0].header; h.Get("Mcp-Param-Path") != "/srv/data/x" || h.Get("Mcp-Param-N") != "5" || h.Get("Mcp-Param-Other") != "" {
		t.Errorf("the upstream got %v", h)
	}
}

// Query parameters of the MCP endpoint are ignored: the response is the same as without them, for
// every method, and none is forwarded.
func TestUnknownParametersOfMCPAreIgnored(t *testing.T) {
	var mu sync.Mutex
	var queries []string
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		queries = append(queries, r.RequestURI)
		mu.Unlock()
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
			return
		}
		body, _ := io.ReadAll(r.Body)
		echo(w, string(body), r)
	}))
	defer u.Close()
	r := newRig(t, "upstreams: [{name: u, url: "+u.URL+", protocol: 2025-06-18}]\ndefault_upstream: u\nroutes: [{match: {tool_name: t}, upstream: u}]\npolicy: {default_action: allow}\n")
	ids := regexp.MustCompile(`"request_id":"[^"]*"`)
	for _, request := range []struct{ method, body string }{
		{http.MethodPost, call("1", "t")},
		{http.MethodPost, "not JSON"},
		{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{http.MethodGet, ""},
		{http.MethodDelete, ""},
		{http.MethodPut, ""},
	} {
		plain := r.do(request.method, r.url, request.body)
		if request.body != "not JSON" && request.method != http.MethodPut && plain.status >= 300 {
			t.Errorf("%s %q: %d %s", request.method, request.body, plain.status, plain.body)
		}
		for _, parameters := range []string{"?later=1", "?", "?a;b=%zz&=", "?verbose&path=/mcp/v/x", "/?later=1"} {
			got := r.do(request.method, r.url+parameters, request.body)
			if got.status != plain.status || ids.ReplaceAllString(got.body, "") != ids.ReplaceAllString(plain.body, "") {
				t.Errorf("%s %s %q: %d %s, without parameters %d %s", request.method, parameters, request.body, got.status, got.body, plain.status, plain.body)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(queries) != 4*6 { // all but the bodies that are not JSON and the method that is not allowed
		t.Errorf("the upstream got %d requests: %q", len(queries), queries)
	}
	if slices.ContainsFunc(queries, func(uri string) bool { return uri != "/" }) {
		t.Errorf("the upstream got %q", queries)
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
