package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc/gateway"
	"svc/gateway/http1"
	"svc/gateway/request"
)

// fronted serves the gateway of a rig with gateway/http1, as in production, and returns its base
// URL.
func (r *rig) fronted() string {
	r.t.Helper()
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	server := http1.NewServer(http1.Options{Paths: []string{gateway.Path}, Handler: r.gateway, Fallback: &http.Server{Handler: r.gateway}, BodyRate: 1})
	served := make(chan error, 1)
	go func() { served <- server.Serve(near) }()
	r.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			r.t.Error(err)
		}
		<-served
	})
	return "http://" + near.Addr().String()
}

const page = "https://app.example"

// crossOrigin is the CORS part of a response.
func crossOrigin(h http.Header) map[string]string {
	got := map[string]string{}
	for name, values := range h {
		if name == "Vary" || strings.HasPrefix(name, "Access-Control-") {
			got[strings.TrimPrefix(name, "Access-Control-")] = strings.Join(values, "|")
		}
	}
	return got
}

func same(got, want map[string]string) bool {
	if len(got) != len(want) {
		return false
	}
	for k, v := range want {
		if got[k] != v {
			return false
		}
	}
	return true
}

var readable = map[string]string{"Allow-Origin": page, "Vary": "Origin", "Expose-Headers": "Mcp-Session-Id, WWW-Authenticate, Retry-After"}

// A page of a listed origin gets its preflights answered and can read all responses, refusals
// included. A page of any other origin cannot, also when its origin is permitted by default.
func TestCORS(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"allowed_origins: [\""+page+"\"]\nforward_headers: [Access-Control-Allow-Origin, Access-Control-Allow-Credentials, Vary]\n")
	base := r.fronted()
	asks := func(headers string) []string {
		return []string{"Origin", page, "Authorization", "", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers}
	}
	preflight := func(allowed string) map[string]string {
		want := map[string]string{"Allow-Methods": "POST, GET, DELETE", "Max-Age": "600"}
		for k, v := range readable {
			want[k] = v
		}
		if allowed != "" {
			want["Allow-Headers"] = allowed
		}
		return want
	}
	none := map[string]string{}
	for _, tt := range []struct {
		name, method, path string
		headers            []string
		status             int
		want               map[string]string
	}{
		{"a preflight", "OPTIONS", "/mcp", asks("content-type,authorization,mcp-session-id"), 204, preflight("content-type, authorization, mcp-session-id")},
		{"a preflight at the path with a slash", "OPTIONS", "/mcp/", asks("content-type"), 204, preflight("content-type")},
		{"every header that a page may set", "OPTIONS", "/mcp", asks("Accept, Last-Event-ID,mcp-protocol-version,mcp-method,mcp-name,mcp-param-a,traceparent,tracestate,baggage"), 204,
			preflight("accept, last-event-id, mcp-protocol-version, mcp-method, mcp-name, mcp-param-a, traceparent, tracestate, baggage")},
		{"headers that a page may not set", "OPTIONS", "/mcp", asks("cookie,x-other,mcp-param-,mcp-param-ü,,content-type"), 204, preflight("content-type")},
		{"a preflight without headers", "OPTIONS", "/mcp", asks(""), 204, preflight("")},
		{"too many headers", "OPTIONS", "/mcp", asks(strings.Repeat("x,", request.MaxCORSHeaders) + "accept"), 204, preflight("")},
		{"a preflight of another page", "OPTIONS", "/mcp", append(asks("content-type"), "Origin", "https://evil.example"), 403, none},
		{"the same host at another port", "OPTIONS", "/mcp", append(asks("content-type"), "Origin", page+":8443"), 403, none},
		{"the same host without TLS", "OPTIONS", "/mcp", append(asks("content-type"), "Origin", "http://app.example"), 403, none},
		{"a preflight for a foreign Host", "OPTIONS", "/mcp", append(asks("content-type"), "Host", "evil.example"), 403, readable},
		{"OPTIONS that is no preflight", "OPTIONS", "/mcp", []string{"Origin", page}, 405, readable},
		{"OPTIONS without an origin", "OPTIONS", "/mcp", nil, 405, none},
		{"a call", "POST", "/mcp", []string{"Origin", page}, 200, readable},
		{"a call of no page", "POST", "/mcp", nil, 200, none},
		{"a call of another page", "POST", "/mcp", []string{"Origin", "https://evil.example"}, 403, none},
		{"a call without a key", "POST", "/mcp", []string{"Origin", page, "Authorization", ""}, 401, readable},
		{"another method", "PUT", "/mcp", []string{"Origin", page}, 405, readable},
		{"the probe", "GET", "/healthz", []string{"Origin", page}, 200, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := ""
			if tt.method == "POST" {
				body = call("1", "safe")
			}
			before := len(r.all())
			got := r.do(tt.method, base+tt.path, body, tt.headers...)
			if got.status != tt.status {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			if h := crossOrigin(got.header); !same(h, tt.want) {
				t.Errorf("got %v, want %v", h, tt.want)
			}
			if tt.path != "/healthz" {
				r.lines(before + 1)
			}
			if got.status == 204 && got.body != "" {
				t.Errorf("a body: %q", got.body)
			}
		})
	}
}

// CORS headers of an upstream are not forwarded.
func TestUpstreamCORSIsNotForwarded(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Vary", "Accept")
		echo(w, body, r)
	})
	r := newRig(t, basic(up.URL)+"allowed_origins: [\""+page+"\"]\nforward_headers: [Access-Control-Allow-Origin, Access-Control-Allow-Credentials, Vary]\n")
	got := crossOrigin(r.post(call("1", "safe"), "Origin", page).header)
	want := map[string]string{"Allow-Origin": page, "Vary": "Origin|Accept", "Expose-Headers": readable["Expose-Headers"]}
	if !same(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := crossOrigin(r.post(call("1", "safe")).header); !same(got, map[string]string{"Vary": "Accept"}) {
		t.Errorf("without an origin: %v", got)
	}
}

// A page can read event streams too.
func TestCORSOfAStream(t *testing.T) {
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) { io.WriteString(w, "data: "+result+"\n\n") }))
	r := newRig(t, basic(up.URL)+"allowed_origins: [\""+page+"\"]\n")
	if got := r.post(call("1", "slow"), "Origin", page); got.status != 200 || !same(crossOrigin(got.header), readable) {
		t.Errorf("got %d %v", got.status, got.header)
	}
}

// Loopback origins are permitted by default, but pages of these origins cannot read responses.
func TestCORSNeedsAListedOrigin(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	local := []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST"}
	if got := r.do(http.MethodOptions, r.url, "", local...); got.status != 405 || len(crossOrigin(got.header)) != 0 {
		t.Errorf("preflight: %d %v", got.status, got.header)
	}
	if got := r.post(call("1", "safe"), local...); got.status != 200 || len(crossOrigin(got.header)) != 0 {
		t.Errorf("call: %d %v", got.status, got.header)
	}
}

// A preflight takes a token of the input rate limit, and a page can read the refusal of a
// preflight over the limit.
func TestPreflightsAreLimited(t *testing.T) {
	r := newRig(t, basic(newUpstream(t, echo).URL)+"allowed_origins: [\""+page+"\"]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n")
	var status []int
	var last answer
	for range 2 {
		last = r.do(http.MethodOptions, r.url, "", "Origin", page, "Access-Control-Request-Method", "POST")
		status = append(status, last.status)
	}
	if !slices.Equal(status, []int{204, 429}) || last.header.Get("Retry-After") == "" || !same(crossOrigin(last.header), readable) {
		t.Errorf("got %d, %v", status, last.header)
	}
}

// A path with a trailing slash is treated like the path without it, for all methods, by both
// servers.
func TestPathWithASlash(t *testing.T) {
	up, r, sid := onlyOne(t)
	for _, base := range []string{strings.TrimSuffix(r.url, gateway.Path), r.fronted()} {
		if got := r.do(http.MethodPost, base+"/mcp/", call("1", "safe"), "Mcp-Session-Id", sid); got.status != 200 {
			t.Errorf("POST: %d %s", got.status, got.body)
		}
		if got := r.do(http.MethodGet, base+"/mcp/", "", "Mcp-Session-Id", sid); got.status != 405 || !strings.Contains(got.body, "request_id") {
			t.Errorf("GET: %d %s", got.status, got.body)
		}
		for _, path := range []string{"/mcp//", "/mcp/x", "/MCP/", "//mcp/"} {
			if got := r.do(http.MethodPost, base+path, call("1", "safe")); got.status != 404 {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	}
	if got := r.do(http.MethodDelete, r.url+"/", "", "Mcp-Session-Id", sid); got.status != 204 || up.open() != 0 {
		t.Errorf("DELETE: %d", got.status)
	}
}

// A page finds the authorization server through the metadata document, which it requests with a
// header that needs a preflight.
func TestCORSOfTheMetadataDocument(t *testing.T) {
	o := newOAuthRig(t, newUpstream(t, echo).URL, "", "allowed_origins: [\""+page+"\"]\n", allowAll, nil)
	document := o.base + "/.well-known/oauth-protected-resource"
	for _, path := range []string{document, document + "/mcp", document + "/mcp/"} {
		got := o.do(http.MethodOptions, path, "", "Origin", page, "Authorization", "", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "mcp-protocol-version")
		if h := crossOrigin(got.header); got.status != 204 || h["Allow-Origin"] != page || h["Allow-Headers"] != "mcp-protocol-version" || !strings.Contains(h["Allow-Methods"], "GET") {
			t.Errorf("%s: preflight: %d %v", path, got.status, h)
		}
		if got := o.do(http.MethodGet, path, "", "Origin", page, "Authorization", ""); got.status != 200 || !same(crossOrigin(got.header), readable) {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		for _, origin := range []string{"https://evil.example", "http://localhost"} {
			if got := o.do(http.MethodGet, path, "", "Origin", origin, "Authorization", ""); got.status != 200 || len(crossOrigin(got.header)) != 0 {
				t.Errorf("%s from %s: %d %v", path, origin, got.status, got.header)
			}
			if got := o.do(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "GET"); got.status != 405 || len(crossOrigin(got.header)) != 0 {
				t.Errorf("%s: preflight from %s: %d %v", path, origin, got.status, got.header)
			}
		}
	}
	if got := o.do(http.MethodOptions, document, "", "Origin", page, "Host", "evil.example", "Access-Control-Request-Method", "GET"); got.status != 405 {
		t.Errorf("preflight for a foreign Host: %d", got.status)
	}
	if got := o.do(http.MethodGet, document+"/x", "", "Origin", page); got.status != 404 {
		t.Errorf("a path below: %d", got.status)
	}
}
