package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc/gateway/session"
)

// A session that is opened at a further upstream after the client set its log level receives that
// level before the first call, also after the upstream lost its session.
func TestLogLevelReachesSessionsOpenedLater(t *testing.T) {
	first, second, r, sid := two(t)
	level := func(id, level string) {
		t.Helper()
		if got := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"logging/setLevel","params":{"level":%q}}`, id, level), "Mcp-Session-Id", sid); got.status != 200 {
			t.Fatalf("setLevel: %d %s", got.status, got.body)
		}
	}
	level("1", "info")
	level("2", "debug")
	r.post(call("3", "slow"), "Mcp-Session-Id", sid)
	told := func() (out []string) {
		for _, req := range second.seen() {
			for _, name := range []string{"initialize", "notifications/initialized", "logging/setLevel", "tools/call"} {
				if strings.Contains(req.body, fmt.Sprintf("%q", name)) {
					out = append(out, name+" "+req.header.Get("Mcp-Session-Id"))
				}
			}
		}
		return out
	}
	want := []string{"initialize ", "notifications/initialized s1", "logging/setLevel s1", "tools/call s1"}
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("the second upstream was sent %q, want %q", got, want)
	}
	if sent := second.sent("logging/setLevel"); len(sent) != 1 || !strings.Contains(sent[0].body, `"params":{"level":"debug"}`) {
		t.Errorf("the second upstream got the levels %v", sent)
	}
	if n := len(first.sent("logging/setLevel")); n != 2 {
		t.Errorf("the first upstream got %d levels, want the client's two", n)
	}
	second.forget()
	r.post(call("4", "slow"), "Mcp-Session-Id", sid)
	if sent := second.sent("logging/setLevel"); len(sent) != 2 || sent[1].header.Get("Mcp-Session-Id") != "s2" {
		t.Errorf("after the upstream lost its session it got the levels %v", sent)
	}
}

// A level that policy does not let pass to the upstreams is not replayed either.
func TestDeniedLogLevelIsNotRepeated(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL))
	sid := r.begin()
	if got := r.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, "Mcp-Session-Id", sid); got.status != 403 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	r.post(call("2", "slow"), "Mcp-Session-Id", sid)
	if sent := second.sent("logging/setLevel"); len(sent) != 0 {
		t.Errorf("the second upstream got the levels %v", sent)
	}
}

// A call whose stream broke before its answer can still be cancelled at its upstream: after the
// upstream ended a resumable stream, and after the client disconnected.
func TestCancellationOfACallWhoseStreamBroke(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave bool
	}{{"a stream that can be resumed", false}, {"a client that left", true}} {
		t.Run(tt.name, func(t *testing.T) {
			first, second, r, sid := two(t)
			gone := make(chan struct{})
			second.call = func(w http.ResponseWriter, _ string, req *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "id: e1\ndata: \n\n")
				_ = http.NewResponseController(w).Flush()
				if tt.leave {
					<-req.Context().Done()
					close(gone)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(call("7", "slow")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Mcp-Session-Id", sid)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if tt.leave {
				cancel()
				<-gone
			} else {
				finish(t, resp)
			}
			eventually(t, "the call has not ended", func() bool { return len(r.kinds("request")) == 2 })
			r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", sid)
			if len(second.sent("notifications/cancelled")) != 1 || len(first.sent("notifications/cancelled")) != 0 {
				t.Errorf("the second upstream got %v, the first %v", second.sent("cancelled"), first.sent("cancelled"))
			}
		})
	}
}

// The upstream sessions of an evicted client session are ended at their upstreams.
func TestEvictedSessionsAreEndedAtTheirUpstreams(t *testing.T) {
	_, second, r, sid := two(t)
	memory := session.NewMemory(1, r.services().Sessions.Discard)
	r.services().Sessions.State = session.State{Upstream: memory, Settings: memory}
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	if second.open() != 1 {
		t.Fatalf("%d sessions are open at the second upstream", second.open())
	}
	r.begin()
	eventually(t, "the session of the evicted one is still open", func() bool { return second.open() == 0 })
	// The evicted session is opened again when its client comes back.
	if got := r.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// A request that fails after its session was opened again is recorded as a failure of the
// upstream, like any other.
func TestARequestFailsAfterItsSessionWasReopened(t *testing.T) {
	_, second, r, sid := two(t)
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	second.forget()
	second.call = func(w http.ResponseWriter, _ string, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}
	got := r.post(call("2", "slow"), "Mcp-Session-Id", sid)
	if e := got.rpc(t); got.status != 502 || e.Error.Message != "upstream_unreachable" || string(e.ID) != "2" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if n := second.total(); n != 2 {
		t.Errorf("%d sessions were opened, want two", n)
	}
}
