package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// The forwarded hop count is one more than the received one, and a request over the limit is not
// forwarded.
func TestHopsAreCounted(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	for _, tt := range []struct {
		in   []string
		out  string
		want int
	}{
		{nil, "1", 200},
		{[]string{"0"}, "1", 200},
		{[]string{"1"}, "2", 200},
		{[]string{"4"}, "5", 200},
		{[]string{"04"}, "5", 200},
		{[]string{"5"}, "", 508},
		{[]string{"99"}, "", 508},
		{[]string{"100"}, "5", 200},
		{[]string{"-1"}, "5", 200},
		{[]string{"x"}, "5", 200},
		{[]string{" "}, "5", 200},
		{[]string{"1", "1"}, "5", 200},
	} {
		t.Run(strings.Join(tt.in, ","), func(t *testing.T) {
			before := len(up.seen())
			var headers []string
			for _, v := range tt.in {
				headers = append(headers, "+"+mcp.HeaderHops, v)
			}
			got := r.post(call("1", "safe"), headers...)
			if got.status != tt.want {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			sent := up.seen()[before:]
			if tt.want != 200 {
				e := got.rpc(t)
				if len(sent) != 0 || e.Error.Code != -32603 || e.Error.Message != "loop_detected" || string(e.ID) != "1" {
					t.Errorf("%d requests went on; answer %s", len(sent), got.body)
				}
				lines := r.all()
				if kind := lines[len(lines)-1]["error_kind"]; kind != "loop_detected" {
					t.Errorf("error_kind %v", kind)
				}
				return
			}
			if v := sent[0].header.Values(mcp.HeaderHops); len(v) != 1 || v[0] != tt.out {
				t.Errorf("the upstream was sent %q, want %q", v, tt.out)
			}
		})
	}
}

// GET, DELETE and the gateway's own requests at further upstreams have a hop count too.
func TestHopsOfOtherRequests(t *testing.T) {
	first, second, r, sid := two(t)
	before := len(first.seen())
	session := []string{"Mcp-Session-Id", sid, mcp.HeaderHops, "2"}
	r.post(call("1", "slow"), session...)
	r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", sid, mcp.HeaderHops, "5")
	r.do(http.MethodDelete, r.url, "", session...)
	eventually(t, "the second session is not ended", func() bool { return second.open() == 0 })
	n := 0
	for _, s := range append(second.seen(), first.seen()[before:]...) {
		n++
		// A DELETE that the gateway sends by itself starts with the first hop.
		got := s.header.Get(mcp.HeaderHops)
		if own := s.method == http.MethodDelete && got == mcp.FirstHop; got != "3" && !own {
			t.Errorf("%s %.80s was sent %q", s.method, s.body, got)
		}
	}
	if n != 5 { // initialize, initialized, the call and DELETE at the second; DELETE at the first
		t.Errorf("%d requests were seen", n)
	}
}

// A gateway that is its own upstream answers after five requests, with the id of each.
func TestAGatewayThatIsItsOwnUpstream(t *testing.T) {
	var r *rig
	up := newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
		own := req.Clone(req.Context())
		own.Body = io.NopCloser(strings.NewReader(body))
		own.Header.Set("Authorization", "Bearer "+r.key)
		r.gateway.ServeHTTP(w, own)
	})
	r = newRig(t, basic(up.URL+"/mcp"))
	got := r.post(call(`"mine"`, "safe"))
	if e := got.rpc(t); got.status != 508 || string(e.ID) != `"mine"` || e.Error.Message != "loop_detected" || e.Error.Code != -32603 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if n := len(up.seen()); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
	r.lines(6)
}
