package gateway

import (
	"io"
	"net/http"
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
	r.gateway.services.Bodies.SetLimit(100 << 10)
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
		eventually(t, "bytes are left", func() bool { return r.gateway.services.Bodies.Held() == 0 })
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
