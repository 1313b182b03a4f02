package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/redis/redistest"
)

// onlyOne starts a gateway in front of one scripted upstream and opens a session.
func onlyOne(t *testing.T) (up *scripted, r *rig, sid string) {
	t.Helper()
	up = newScripted(t)
	r = newRig(t, rules(basic(up.URL), "    - {id: rest, action: allow, when: {}}\n"))
	return up, r, r.begin()
}

// A client keeps its session when its only upstream, or the default one, restarts: the upstream
// session is opened again, once for all concurrent requests that find it lost, with the client's
// initialize parameters and log level.
func TestALostSessionAtTheDefaultUpstreamIsReopened(t *testing.T) {
	for _, several := range []bool{false, true} {
		name := "the only upstream"
		if several {
			name = "the default one of two"
		}
		t.Run(name, func(t *testing.T) {
			up, r, sid := onlyOne(t)
			if several {
				up, _, r, sid = two(t)
			}
			r.post(`{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"debug"}}`, "Mcp-Session-Id", sid)
			up.forget()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if got := r.post(call("1", "safe"), "Mcp-Session-Id", sid); got.status != 200 {
						t.Errorf("after the restart: %d %s", got.status, got.body)
					}
				})
			}
			wg.Wait()
			if n := up.total(); n != 2 {
				t.Errorf("%d sessions were opened, want the client's and one more", n)
			}
			if sent := up.sent(`"initialize"`); !strings.Contains(sent[1].body, `"elicitation":{}`) || !strings.Contains(sent[1].body, `"name":"t"`) {
				t.Errorf("the session was opened with %s", sent[1].body)
			}
			if sent := up.sent("logging/setLevel"); len(sent) != 2 || sent[1].header.Get("Mcp-Session-Id") != "s2" {
				t.Errorf("levels: %v", sent)
			}
			before := len(up.seen())
			if got := r.post(call("2", "safe"), "Mcp-Session-Id", sid); got.status != 200 || len(up.seen()) != before+1 {
				t.Errorf("the next call: %d, with %d requests", got.status, len(up.seen())-before)
			}
			up.forget()
			if got := r.post(call("3", "safe"), "Mcp-Session-Id", sid); got.status != 200 || up.total() != 3 {
				t.Errorf("after a second restart: %d %s", got.status, got.body)
			}
			if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 || up.open() != 0 {
				t.Errorf("DELETE: %d, %d sessions are left", got.status, up.open())
			}
		})
	}
}

// forgetful are the answers of servers that reject a session that they have forgotten with 400.
var forgetful = map[string]func(http.ResponseWriter){
	"JSON": func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: this session is not valid"}}`)
	},
	"plain text": func(w http.ResponseWriter) { http.Error(w, "Server not initialized", http.StatusBadRequest) },
}

// A tool server that answers 400, not 404, for a session that it has forgotten in a restart: the
// session is opened again once, and the call is sent again, with one upstream, several and
// federation.
func TestASessionThatTheUpstreamForgotWith400IsReopened(t *testing.T) {
	for form, unknown := range forgetful {
		for _, kind := range []string{"the only upstream", "the default one of two", "the other of two", "federation"} {
			t.Run(kind+", "+form, func(t *testing.T) {
				up, r, sid := (*scripted)(nil), (*rig)(nil), ""
				tool := "safe"
				switch kind {
				case "the only upstream":
					up, r, sid = onlyOne(t)
				case "the default one of two":
					up, _, r, sid = two(t)
				case "the other of two":
					_, up, r, sid = two(t)
					tool = "slow"
				default:
					up = newScripted(t)
					r = newRig(t, rules(basic(up.URL), "    - {id: rest, action: allow, when: {}}\n")+"federation: {enabled: true}\n")
					sid = r.begin()
				}
				up.unknown = unknown
				if got := r.post(call("1", tool), "Mcp-Session-Id", sid); got.status != 200 {
					t.Fatalf("before the restart: %d %s", got.status, got.body)
				}
				up.forget()
				opened, ran := up.total(), len(up.sent("tools/call"))
				for i := range 2 {
					if got := r.post(call("2", tool), "Mcp-Session-Id", sid); got.status != 200 {
						t.Errorf("call %d after the restart: %d %s", i, got.status, got.body)
					}
				}
				if n := up.total() - opened; n != 1 {
					t.Errorf("%d sessions were opened after the restart, want 1", n)
				}
				if n := len(up.sent("tools/call")) - ran; n != 3 {
					t.Errorf("calls were sent %d times, want the rejected one and two", n)
				}
			})
		}
	}
}

// A 400 for another reason reaches the client as it is and is sent once, also when its text
// names a session: the upstream still knows the session.
func TestA400InALivingSessionReachesTheClient(t *testing.T) {
	for _, text := range []string{"the session of the database has ended", "no such argument"} {
		up, r, sid := onlyOne(t)
		up.call = func(w http.ResponseWriter, _ string, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":%q}}`, text)
		}
		got := r.post(call("1", "safe"), "Mcp-Session-Id", sid)
		if got.status != 400 || !strings.Contains(got.body, text) {
			t.Errorf("%s: %d %s", text, got.status, got.body)
		}
		if n := len(up.sent("tools/call")); n != 1 || up.total() != 1 {
			t.Errorf("%s: the call was sent %d times, in %d sessions", text, n, up.total())
		}
	}
}

// A session that was forgotten with 400 and cannot be opened again is 404 for the client, which
// then begins a new one.
func TestASessionForgottenWith400ThatCannotBeReopenedIs404(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		up, r, sid := onlyOne(t)
		answer := up.Config.Handler
		up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			if refuses && strings.Contains(string(body), `"initialize"`) {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			req.Body = io.NopCloser(strings.NewReader(string(body)))
			answer.ServeHTTP(w, req)
			up.forget() // at once, so that the new session is not known either
		})
		up.unknown = forgetful["JSON"]
		up.forget()
		got := r.post(call("1", "safe"), "Mcp-Session-Id", sid)
		if e := got.rpc(t); got.status != 404 || e.Error.Message != "session_not_found" {
			t.Errorf("refuses %v: %d %s", refuses, got.status, got.body)
		}
	}
}

// Only a valid handle opens a session again: not the handle of an ended session, nor another
// caller's.
func TestALostSessionIsNotReopenedForAnInvalidHandle(t *testing.T) {
	up, r, sid := onlyOne(t)
	if got := r.post(call("1", "safe"), "Mcp-Session-Id", sid, "Authorization", "Bearer "+r.other); got.status != 404 {
		t.Errorf("another caller: %d", got.status)
	}
	if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d %s", got.status, got.body)
	}
	ended := func(when string) {
		t.Helper()
		got := r.post(call("1", "safe"), "Mcp-Session-Id", sid)
		if e := got.rpc(t); got.status != 404 || e.Error.Message != "session_not_found" {
			t.Errorf("%s: %d %s", when, got.status, got.body)
		}
		if up.total() != 1 {
			t.Errorf("%s: an ended session was opened again", when)
		}
	}
	ended("after DELETE")
	r.stop()
	r.start()
	ended("after a restart of the gateway")
}

// A lost session is opened again after a restart of the gateway too.
func TestALostSessionIsReopenedAfterARestartOfTheGateway(t *testing.T) {
	up, r, sid := onlyOne(t)
	r.stop()
	up.forget()
	r.start()
	if got := r.post(call("1", "safe"), "Mcp-Session-Id", sid); got.status != 200 || up.total() != 2 {
		t.Errorf("got %d %s, %d sessions", got.status, got.body, up.total())
	}
}

// A request to an upstream that keeps responding 404 is sent twice and no more. After an upstream
// that does not open the session again, the client has to begin a new one.
func TestALostSessionIsReopenedOnce(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		var started atomic.Bool
		up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
			switch {
			case strings.Contains(body, `"initialize"`) && (!started.Swap(true) || !refuses):
				w.Header().Set("Mcp-Session-Id", "s")
				w.Header().Set("Content-Type", "application/json")
				var m struct{ ID json.RawMessage }
				_ = json.Unmarshal([]byte(body), &m)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, m.ID)
			case strings.Contains(body, `"initialize"`):
				http.Error(w, "no", http.StatusForbidden)
			default:
				http.Error(w, "session not found", http.StatusNotFound)
			}
		})
		r := newRig(t, basic(up.URL))
		sid := r.begin()
		before := len(up.seen())
		got := r.post(call("1", "safe"), "Mcp-Session-Id", sid)
		if e := got.rpc(t); got.status != 404 || e.Error.Message != "session_not_found" {
			t.Errorf("refuses %v: %d %s", refuses, got.status, got.body)
		}
		want := 4 // the call, initialize, initialized, the call
		if refuses {
			want = 2
		}
		if n := len(up.seen()) - before; n != want {
			t.Errorf("refuses %v: %d requests, want %d", refuses, n, want)
		}
	}
}

// A client that opens its stream after a restart of the upstream gets a stream, without the
// position of the lost session.
func TestAStreamOfALostSessionIsReopened(t *testing.T) {
	up, r, sid := onlyOne(t)
	up.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Header.Get("Last-Event-ID") == "" {
			io.WriteString(w, "data: "+progress+"\n\n")
		}
	}
	up.forget()
	resp := r.open(http.MethodGet, "", "Mcp-Session-Id", sid, "Last-Event-ID", "9")
	line, _ := bufio.NewReader(resp.Body).ReadString('\n')
	if resp.StatusCode != 200 || !strings.Contains(line, progress) || up.total() != 2 {
		t.Errorf("got %d %q", resp.StatusCode, line)
	}
}

// The official Go client does not notice that its only upstream restarts.
func TestGoSDKOverARestartOfTheUpstream(t *testing.T) {
	var upstream atomic.Pointer[httptest.Server]
	upstream.Store(newSDKServer(t, "before", &sdk.StreamableHTTPOptions{}))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upstream.Load().Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	r := newRig(t, basic(front.URL))
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, &sdk.ClientSessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"before", "after"} {
		if name == "after" {
			upstream.Store(newSDKServer(t, "after", &sdk.StreamableHTTPOptions{}))
		}
		for range 2 {
			got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": "x"}})
			if err != nil {
				t.Fatal(err)
			}
			if s := got.Content[0].(*sdk.TextContent).Text; s != name+": x" {
				t.Errorf("got %q", s)
			}
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// A session that one replica opened again at the default upstream is used by the others.
func TestReplicasShareAReopenedSession(t *testing.T) {
	t.Parallel()
	first, _, one, other, sid := twoReplicas(t, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
	first.forget()
	for i, r := range []*rig{one, other, one, other} {
		if got := r.post(call("1", "safe"), "Mcp-Session-Id", sid); got.status != 200 {
			t.Errorf("call %d: %d %s", i, got.status, got.body)
		}
	}
	if n := first.total(); n != 2 {
		t.Errorf("%d sessions were opened, want 2", n)
	}
}

// A response with the id of another request opens no session.
func TestAForeignAnswerToInitializeIsInvalid(t *testing.T) {
	first := newScripted(t)
	second := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":"somebody-elses","result":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	})
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: rest, action: allow, when: {}}\n")
	got := r.post(call("1", "slow"), "Mcp-Session-Id", r.begin())
	if e := got.rpc(t); got.status != 502 || e.Error.Message != "upstream_invalid" || string(e.ID) != "1" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if n := len(second.seen()); n != 1 {
		t.Errorf("%d requests, want the initialize alone", n)
	}
	r.stop()
	if lines := failureLines(r.logs.String()); len(lines) != 1 || !strings.Contains(lines[0], "it has the id of another request") {
		t.Errorf("logged %q", lines)
	}
}
