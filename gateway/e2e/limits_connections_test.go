package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Over the bound requests are refused with 503 overloaded, whether their own body exceeds it, the
// response of their upstream, or an event of it.
func TestBodiesBeyondTheBoundAreOverloaded(t *testing.T) {
	large := strings.Repeat("a", 200<<10)
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		switch {
		case strings.Contains(body, "as-json"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.Replace(result, `[]`, `["`+large+`"]`, 1))
		case strings.Contains(body, "as-event"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+progress+"\n\ndata: "+strings.Replace(result, `[]`, `["`+large+`"]`, 1)+"\n\n")
		default:
			echo(w, body, r)
		}
	})
	r := newRig(t, basic(up.URL))
	r.services().Bodies.SetLimit(100 << 10)
	argument := func(text string) string { return strings.Replace(call("1", "safe"), "{}", `{"x":"`+text+`"}`, 1) }
	for name, tt := range map[string]struct {
		body   string
		status int
	}{"request": {argument(large), 503}, "answer": {argument("as-json"), 503}, "event": {argument("as-event"), 200}} {
		got := r.post(tt.body)
		want := `"id":1,"error":{"code":-32603,"message":"overloaded"`
		if got.status != tt.status || !strings.Contains(got.body, want) || tt.status == 503 && got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
		}
		lines := r.all()
		if line := lines[len(lines)-1]; line["error_kind"] != "overloaded" {
			t.Errorf("%s: line %v", name, line)
		}
		eventually(t, "bytes are left", func() bool { return r.services().Bodies.Held() == 0 })
		if got := r.post(argument("small")); got.status != 200 {
			t.Errorf("behind %s: %d %s", name, got.status, got.body)
		}
	}
	// A reload applies limits.body_bytes.
	r.edit("\ndefault_upstream", "\nlimits: {body_bytes: 67108864}\ndefault_upstream")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(argument(large)); got.status != 200 {
		t.Errorf("behind a reload: %d %s", got.status, got.body)
	}
}

// Loopback and trusted proxies have no limit, because they carry many clients.
func TestConnectionLimit(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, "trusted_proxies: [10.1.0.0/16]\nlimits: {connections_per_address: 7}"+basic(up.URL))
	for addr, want := range map[string]int{"127.0.0.1": 0, "::1": 0, "10.1.2.3": 0, "10.2.0.1": 7, "2001:db8::1": 7} {
		if got := r.gateway.ConnectionLimit(mustAddr(addr)); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}
}

// identifiedWriter is the writer of a connection that has few streams of HTTP/2 until one of its
// requests was identified.
type identifiedWriter struct {
	*httptest.ResponseRecorder
	identified int
}

func (w *identifiedWriter) Identified() { w.identified++ }

// A connection gets more streams of HTTP/2 by a request with a valid key, not by probes, refused
// keys and other paths; with authentication off, by any request within the input limit.
func TestAConnectionIsIdentifiedByItsRequests(t *testing.T) {
	up := newScripted(t)
	for _, open := range []bool{false, true} {
		text, tune := basic(up.URL), "auth: {enabled: false}\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n"
		if open {
			text += tune
		}
		r := newRig(t, text)
		for _, tt := range []struct {
			method, path, key string
			want              int
		}{
			{http.MethodGet, "/healthz", "", 0},
			{http.MethodGet, "/readyz", r.key, 0},
			{http.MethodGet, "/other", r.key, 0},
			{http.MethodPost, "/mcp", r.key + "x", 0},
			{http.MethodPost, "/mcp", "", 0},
			{http.MethodPost, "/mcp", r.key, 1},
		} {
			want := tt.want
			if open && tt.path == "/mcp" {
				want = 0
				if tt.key == r.key+"x" { // the first one: the others exceed the limit
					want = 1
				}
			}
			req := httptest.NewRequest(tt.method, tt.path, strings.NewReader(call("1", "safe")))
			req.Host = "localhost"
			req.Header.Set("Content-Type", "application/json")
			if tt.key != "" && !open {
				req.Header.Set("Authorization", "Bearer "+tt.key)
			}
			w := &identifiedWriter{ResponseRecorder: httptest.NewRecorder()}
			r.gateway.ServeHTTP(w, req)
			if w.identified != want {
				t.Errorf("open %v, %s %s with key %q: identified %d times, want %d (%d %s)", open, tt.method, tt.path, tt.key, w.identified, want, w.Code, w.Body)
			}
		}
	}
}
