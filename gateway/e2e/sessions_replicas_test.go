//go:build unix

package e2e

//lint:file-ignore SA1019 sampling is deprecated since 2026-07-28, and passes as long as clients have it

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/redis/redistest"
)

// sharedKey writes a session key for several replicas.
func sharedKey(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "session.key")
	if err := os.WriteFile(key, []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key
}

// replicas starts two gateways with one configuration, one session key, one store and the same
// keys of clients.
func replicas(t *testing.T, text, store string) (one, other *rig) {
	t.Helper()
	one = newRig(t, text+store+"sessions: {key_file: "+sharedKey(t)+"}\n")
	other = &rig{t: t, dir: t.TempDir(), key: one.key, other: one.other, logs: &syncBuffer{}}
	other.yaml = strings.ReplaceAll(one.yaml, one.auditPath(), other.auditPath())
	other.start()
	return one, other
}

// twoReplicas starts two gateways in front of two scripted upstreams, and opens a session at the
// first gateway.
func twoReplicas(t *testing.T, store string) (first, second *scripted, one, other *rig, sid string) {
	t.Helper()
	first, second = newScripted(t), newScripted(t)
	one, other = replicas(t, twoUpstreams(first.URL, second.URL)+"    - {id: rest, action: allow, when: {}}\n", store)
	return first, second, one, other, one.begin()
}

// balancer sends each request to the replica that pick chooses, with a key.
type balancer struct {
	key  string
	urls []string
	pick func(method, body string) int
	used []atomic.Int32
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	i := b.pick(r.Method, body)
	u, err := url.Parse(b.urls[i])
	if err != nil {
		return nil, err
	}
	b.used[i].Add(1)
	r.URL, r.Host = u, u.Host
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

// Clients of either generation whose requests alternate between two replicas get the responses to
// calls with server requests, also when the answer arrives at another replica than the one with
// the call, and when the upstream is of the other generation.
func TestAnswersReachTheReplicaThatAsked(t *testing.T) {
	t.Parallel()
	for name, legacyClient := range map[string]bool{"legacy client": true, "client of 2026-07-28": false} {
		t.Run(name, func(t *testing.T) {
			modern, legacy := newGeneration(t, "modern", true), newGeneration(t, "legacy", false)
			config := fmt.Sprintf(`
default_upstream: legacy
upstreams:
  - {name: modern, url: %s, protocol: 2026-07-28}
  - {name: legacy, url: %s}
routes:
  - {match: {tool_prefix: modern_}, upstream: modern}
  - {match: {tool_prefix: legacy_}, upstream: legacy}
policy: {default_action: allow}
`, modern.URL, legacy.URL)
			if legacyClient {
				config += legacyClients
			}
			one, other := replicas(t, config, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
			var turn atomic.Int32
			b := &balancer{key: one.key, urls: []string{one.url, other.url}, used: make([]atomic.Int32, 2), pick: func(string, string) int { return int(turn.Add(1) % 2) }}
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
				},
				CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
					return &sdk.CreateMessageResult{Role: "assistant", Model: "none", Content: &sdk.TextContent{Text: "word"}}, nil
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: one.url, HTTPClient: &http.Client{Transport: b}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for i := range 6 {
				for tool, want := range map[string]string{"modern_ask": "accept", "legacy_ask": "accept", "modern_sample": "word", "legacy_sample": "word"} {
					if i%2 == 0 {
						turn.Add(1) // the parity of the first request changes
					}
					got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool})
					if err != nil {
						t.Fatalf("%s: %v", tool, err)
					}
					if s := got.Content[0].(*sdk.TextContent).Text; s != want {
						t.Errorf("%s answered %q, want %q", tool, s, want)
					}
				}
			}
		})
	}
}

// The cancellation of a legacy client's call ends it at a server of 2026-07-28, also when it
// arrives at another replica than the one that runs the call.
func TestACancellationReachesTheReplicaThatRunsTheCall(t *testing.T) {
	t.Parallel()
	modern := newGeneration(t, "modern", true)
	store := redistest.Start(t)
	one, other := replicas(t, fmt.Sprintf(`
default_upstream: modern
upstreams:
  - {name: modern, url: %s, protocol: 2026-07-28}
routes:
  - {match: {tool_prefix: modern_}, upstream: modern}
policy: {default_action: allow}
%s`, modern.URL, legacyClients), inRedis(store.URL(), "operation_timeout: 5s"))
	eventually(t, "both replicas are known to each other", func() bool {
		n, err := store.Do("EVAL", "local k = redis.call('KEYS', '*{mail:replicas}') return k[1] and redis.call('ZCARD', k[1]) or 0", 0)
		return err == nil && n == int64(2)
	})
	sid := one.begin()
	ended := make(chan answer, 1)
	go func() { ended <- one.post(call("7", "modern_wait"), "Mcp-Session-Id", sid) }()
	eventually(t, "the server has the call", func() bool { return modern.waiting.Load() == 1 })
	if got := other.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", sid); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := <-ended; !strings.Contains(got.body, "the client has cancelled it") {
		t.Errorf("the call was answered with %d %s", got.status, got.body)
	}
	eventually(t, "the server receives the cancellation", func() bool { return modern.cancelled.Load() > 0 })
}

// A real client whose requests alternate between two replicas has one session at both stateful
// upstreams: it uses tools of both, answers server requests at the other replica, and ends the
// session everywhere. This holds with one Redis and with a cluster.
func TestClientOfTwoReplicasHasOneSession(t *testing.T) {
	t.Parallel()
	var turn atomic.Int32
	for name, pick := range map[string]func(method, body string) int{
		"in turn": func(string, string) int { return int(turn.Add(1) % 2) },
		"answers to the other replica": func(method, body string) int {
			if method == http.MethodDelete || method == http.MethodPost && !strings.Contains(body, `"method"`) {
				return 1
			}
			return 0
		},
	} {
		for store, text := range map[string]string{
			"one server": inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"),
			"cluster":    inRedis(redistest.StartCluster(t, 3, false).URL(), "operation_timeout: 5s, cluster: true"),
		} {
			t.Run(name+"/"+store, func(t *testing.T) {
				firstServer, first := elicitor(t, "safe")
				secondServer, second := elicitor(t, "slow")
				one, other := replicas(t, twoUpstreams(first.URL, second.URL)+"    - {id: answers, action: allow, when: {}}\n"+legacyClients, text)
				b := &balancer{key: one.key, urls: []string{one.url, other.url}, pick: pick, used: make([]atomic.Int32, 2)}
				var asked atomic.Int32
				client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
					ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						asked.Add(1)
						return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
					},
				})
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				defer cancel()
				session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: one.url, HTTPClient: &http.Client{Transport: b}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				tools := []string{"slow", "safe", "slow", "slow", "safe", "safe", "slow"}
				for _, tool := range tools {
					got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{}})
					if err != nil {
						t.Fatal(err)
					}
					if s := got.Content[0].(*sdk.TextContent).Text; s != tool+" accept" {
						t.Errorf("%s answered %q", tool, s)
					}
				}
				if int(asked.Load()) != len(tools) {
					t.Errorf("the client was asked %d times, want %d", asked.Load(), len(tools))
				}
				count := func(s *sdk.Server) (n int) {
					for range s.Sessions() {
						n++
					}
					return n
				}
				if a, b := count(firstServer), count(secondServer); a != 1 || b != 1 {
					t.Errorf("%d and %d sessions are open at the upstreams, want one each", a, b)
				}
				for i := range b.used {
					if b.used[i].Load() < 3 {
						t.Errorf("replica %d received %d requests", i, b.used[i].Load())
					}
				}
				if err := session.Close(); err != nil {
					t.Error(err)
				}
				eventually(t, "DELETE left a session open", func() bool { return count(firstServer) == 0 && count(secondServer) == 0 })
			})
		}
	}
}

// A session that was ended at one replica is unknown at the other, and open at no upstream.
func TestSessionEndedAtOneReplicaIsUnknownAtTheOther(t *testing.T) {
	t.Parallel()
	first, second, one, other, sid := twoReplicas(t, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
	for _, tool := range []string{"safe", "slow"} {
		if got := one.post(call("1", tool), "Mcp-Session-Id", sid); got.status != 200 {
			t.Fatalf("%s: %d %s", tool, got.status, got.body)
		}
	}
	if got := other.do(http.MethodDelete, other.url, "", "Mcp-Session-Id", sid, "Authorization", "Bearer "+other.other); got.status != 404 {
		t.Errorf("another principal's DELETE: %d %s", got.status, got.body)
	}
	if got := other.do(http.MethodDelete, other.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d %s", got.status, got.body)
	}
	eventually(t, "DELETE left a session open", func() bool { return first.open() == 0 && second.open() == 0 })
	for name, r := range map[string]*rig{"the one": one, "the other": other} {
		for _, tool := range []string{"safe", "slow"} {
			got := r.post(call("1", tool), "Mcp-Session-Id", sid)
			if e := got.rpc(t); got.status != 404 || string(e.ID) != "1" || e.Error.Message != "session_not_found" {
				t.Errorf("%s at %s after DELETE: %d %s", tool, name, got.status, got.body)
			}
		}
	}
	if first.total() != 1 || second.total() != 1 {
		t.Errorf("%d and %d sessions were opened", first.total(), second.total())
	}
}

// The second replica opens a session with the client's initialize parameters and log level from
// the first replica, resumes a stream that broke at the first, and forwards cancellations.
func TestOtherReplicaContinuesASession(t *testing.T) {
	t.Parallel()
	first, second, one, other, sid := twoReplicas(t, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
	one.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, "Mcp-Session-Id", sid)
	if got := other.post(call("1", "slow"), "Mcp-Session-Id", sid, "MCP-Protocol-Version", "2025-06-18"); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if sent := second.sent(`"initialize"`); len(sent) != 1 || !strings.Contains(sent[0].body, `"elicitation":{}`) {
		t.Errorf("the second upstream was sent %v", sent)
	}
	if sent := second.sent("logging/setLevel"); len(sent) != 1 || !strings.Contains(sent[0].body, "debug") {
		t.Errorf("the second upstream received %v", sent)
	}
	second.get = func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"after\":%q}}\n\n", req.Header.Get("Last-Event-ID")+req.Header.Get("Mcp-Session-Id"))
	}
	got := one.do(http.MethodGet, one.url, "", "Mcp-Session-Id", sid, "Last-Event-ID", "p~second~e1")
	if !strings.Contains(got.body, `"after":"e1s1"`) {
		t.Errorf("resumed: %d %q", got.status, got.body)
	}
	running, release := make(chan struct{}), make(chan struct{})
	second.call = func(w http.ResponseWriter, body string, req *http.Request) {
		close(running)
		<-release
		echo(w, body, req)
	}
	var wg sync.WaitGroup
	wg.Go(func() { one.post(call("7", "slow"), "Mcp-Session-Id", sid) })
	<-running
	other.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", sid)
	eventually(t, "the cancellation did not reach the call", func() bool { return len(second.sent(`"requestId":7`)) == 1 })
	close(release)
	wg.Wait()
	if first.total() != 1 || second.total() != 1 {
		t.Errorf("%d and %d sessions were opened, want one each", first.total(), second.total())
	}
	// The upstream loses its session: one replica opens it again, and the other uses the new one.
	second.call = nil
	second.forget()
	for i, r := range []*rig{one, other, one} {
		if got := r.post(call("8", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
			t.Errorf("call %d after the upstream lost its session: %d %s", i, got.status, got.body)
		}
	}
	if second.total() != 2 || second.open() != 1 {
		t.Errorf("%d sessions were opened at the second upstream, %d are open", second.total(), second.open())
	}
}

// The merged stream at one replica includes a session that the other opened, and ends when the
// client ends its session there.
func TestMergedStreamFollowsTheOtherReplica(t *testing.T) {
	t.Parallel()
	_, second, one, other, sid := twoReplicas(t, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
	second.get = func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"joined\"}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}
	stream := bufio.NewReader(one.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body)
	if got := other.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	line, err := stream.ReadString('\n')
	if err != nil || !strings.Contains(line, "joined") {
		t.Fatalf("%q, %v", line, err)
	}
	if got := other.do(http.MethodDelete, other.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d", got.status)
	}
	if _, err := io.ReadAll(stream); err != nil {
		t.Errorf("the stream of an ended session: %v", err)
	}
}
