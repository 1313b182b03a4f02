package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// scripted is a stateful upstream of the legacy dialect, with one tool. It issues the session ids
// s1, s2, …, accepts only these, and records the requests it receives.
type scripted struct {
	*upstreamServer
	mu    sync.Mutex
	made  int
	alive map[string]bool
	// unknown answers a request in a session that does not exist, in place of 404.
	unknown func(w http.ResponseWriter)
	// noise is sent before the response to initialize, on an event stream.
	noise bool
	// opening delays the response to initialize until it is closed.
	opening chan struct{}
	// call answers tools/call.
	call func(w http.ResponseWriter, body string, r *http.Request)
	// get serves the standalone stream.
	get func(w http.ResponseWriter, r *http.Request)
}

func newScripted(t testing.TB) *scripted {
	s := &scripted{alive: map[string]bool{}}
	s.upstreamServer = newUpstream(t, s.serve)
	return s
}

func (s *scripted) serve(w http.ResponseWriter, body string, r *http.Request) {
	sid := r.Header.Get("Mcp-Session-Id")
	if strings.Contains(body, `"initialize"`) {
		if s.opening != nil {
			<-s.opening
		}
		s.mu.Lock()
		s.made++
		sid = fmt.Sprintf("s%d", s.made)
		s.alive[sid] = true
		s.mu.Unlock()
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(body), &m)
		w.Header().Set("Mcp-Session-Id", sid)
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		if s.noise {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 0\ndata: \n\ndata: %s\n\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
		return
	}
	s.mu.Lock()
	known := s.alive[sid]
	if r.Method == http.MethodDelete {
		delete(s.alive, sid)
	}
	s.mu.Unlock()
	switch {
	case !known && s.unknown != nil:
		s.unknown(w)
	case !known:
		http.Error(w, "session not found", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		if s.get == nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.get(w, r)
	case strings.Contains(body, `"tools/call"`) && s.call != nil:
		s.call(w, body, r)
	default:
		echo(w, body, r)
	}
}

// forget drops all sessions, as a restart of the upstream does.
func (s *scripted) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.alive)
}

func (s *scripted) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive)
}

// total is how many sessions were ever opened.
func (s *scripted) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// sent returns the requests whose body contains text.
func (s *scripted) sent(text string) (out []seen) {
	for _, req := range s.seen() {
		if strings.Contains(req.body, text) {
			out = append(out, req)
		}
	}
	return out
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`

// two starts a gateway in front of two scripted upstreams and opens a session. The tool "safe" is
// at the first, "slow" at the second.
func two(t *testing.T) (first, second *scripted, r *rig, sid string) {
	t.Helper()
	first, second = newScripted(t), newScripted(t)
	r = newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: rest, action: allow, when: {}}\n")
	return first, second, r, r.begin()
}

// begin opens a session and returns its handle.
func (r *rig) begin() string {
	r.t.Helper()
	opened := r.post(initialize)
	sid := opened.header.Get("Mcp-Session-Id")
	if opened.status != 200 || sid == "" {
		r.t.Fatalf("initialize: %d %s", opened.status, opened.body)
	}
	return sid
}

// A session that the client ended with DELETE is unknown everywhere: no other upstream opens a
// new one for it.
func TestEndedSessionIsUnknownAtEveryUpstream(t *testing.T) {
	first, second, r, sid := two(t)
	if got := r.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d %s", got.status, got.body)
	}
	eventually(t, "DELETE left a session open", func() bool { return first.open() == 0 && second.open() == 0 })
	for _, tool := range []string{"safe", "slow"} {
		got := r.post(call("1", tool), "Mcp-Session-Id", sid)
		if e := got.rpc(t); got.status != 404 || string(e.ID) != "1" || e.Error.Message != "session_not_found" {
			t.Errorf("%s after DELETE: %d %s", tool, got.status, got.body)
		}
	}
	if second.open() != 0 {
		t.Error("an ended session was opened again")
	}
}

// A session without a session at the default upstream is ended at the upstreams that have one.
func TestDeleteWhereTheDefaultUpstreamHasNoSession(t *testing.T) {
	first := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if r.Method == http.MethodDelete {
			t.Error("the stateless upstream received a DELETE")
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	})
	second := newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL))
	sid := r.begin()
	if got := r.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	eventually(t, "the second session is open", func() bool { return second.open() == 0 })
}

// When a client disconnects while an upstream session is being opened for it, the session is
// completed and used later. When it ends its session meanwhile, no upstream session is left.
func TestClientThatLeavesWhileAPairIsOpened(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("and ends its session: %v", ends), func(t *testing.T) {
			_, second, r, sid := two(t)
			second.opening = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(call("1", "slow")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Mcp-Session-Id", sid)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}()
			eventually(t, "no session is being opened", func() bool { return len(second.sent("initialize")) == 1 })
			cancel()
			<-done
			if ends {
				if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 {
					t.Fatalf("DELETE: %d %s", got.status, got.body)
				}
			}
			close(second.opening)
			if ends {
				eventually(t, "nothing was opened", func() bool { return second.total() == 1 })
				eventually(t, "the session stays open", func() bool { return second.open() == 0 })
				return
			}
			if got := r.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
				t.Errorf("the next call: %d %s", got.status, got.body)
			}
			if n := second.total(); n != 1 {
				t.Errorf("%d sessions were opened, want the one", n)
			}
		})
	}
}

// The response to the gateway's own initialize may follow other messages, on an event stream. The
// client's parameters are sent, after a restart of the gateway too: the session's handle has them.
func TestPairIsOpenedWithTheClientsParameters(t *testing.T) {
	_, second, r, sid := two(t)
	second.noise = true
	if got := r.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if sent := second.sent(`"initialize"`); len(sent) != 1 || !strings.Contains(sent[0].body, `"elicitation":{}`) {
		t.Errorf("the second upstream was sent %v", sent)
	}
	if sent := second.sent("notifications/initialized"); len(sent) != 1 || sent[0].header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("the second upstream was sent %v", sent)
	}
	restarted := restart(t, r)
	got := restarted.post(call("2", "slow"), "Mcp-Session-Id", sid, "MCP-Protocol-Version", "2025-06-18")
	if got.status != 200 {
		t.Fatalf("after a restart of the gateway: %d %s", got.status, got.body)
	}
	sent := second.sent(`"initialize"`)
	if len(sent) != 2 || !strings.Contains(sent[1].body, `"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}}`) {
		t.Errorf("after a restart the second upstream was sent %v", sent)
	}
}

// restart closes the gateway of a rig and starts another with the same files.
func restart(t *testing.T, r *rig) *rig {
	t.Helper()
	r.stop()
	again := &rig{t: t, dir: r.dir, key: r.key, other: r.other, yaml: r.yaml, logs: &syncBuffer{}}
	again.start()
	return again
}

// Messages for all upstreams of a session reach all of them: the log level, a changed list of
// roots.
func TestFanOutToEveryUpstreamOfTheSession(t *testing.T) {
	first, second, r, sid := two(t)
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	r.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`, "Mcp-Session-Id", sid)
	r.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "Mcp-Session-Id", sid)
	for _, text := range []string{"logging/setLevel", "roots/list_changed"} {
		eventually(t, text+" did not reach both", func() bool { return len(first.sent(text)) == 1 && len(second.sent(text)) == 1 })
		if sid := second.sent(text)[0].header.Get("Mcp-Session-Id"); sid != "s1" {
			t.Errorf("%s reached session %q", text, sid)
		}
	}
}

// A cancellation is routed to the upstream of its request, or to the default upstream when the
// request is not in flight. The cancellation of another principal is refused.
func TestCancellationFollowsItsRequest(t *testing.T) {
	first, second, r, sid := two(t)
	running, release := make(chan struct{}), make(chan struct{})
	second.call = func(w http.ResponseWriter, body string, req *http.Request) {
		close(running)
		<-release
		echo(w, body, req)
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.post(call("7", "slow"), "Mcp-Session-Id", sid) })
	<-running
	cancelled := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	}
	if got := r.post(cancelled("7"), "Mcp-Session-Id", sid, "Authorization", "Bearer "+r.other); got.status != 404 {
		t.Errorf("another principal's cancellation: %d", got.status)
	}
	r.post(cancelled("8"), "Mcp-Session-Id", sid)
	r.post(cancelled("7"), "Mcp-Session-Id", sid)
	close(release)
	wg.Wait()
	if n := len(second.sent("notifications/cancelled")); n != 1 || len(first.sent(`"requestId":8`)) != 1 {
		t.Errorf("the second upstream got %d cancellations, the first %v", n, first.sent("cancelled"))
	}
	r.post(cancelled("7"), "Mcp-Session-Id", sid)
	if len(first.sent(`"requestId":7`)) != 1 {
		t.Error("a cancellation that comes too late did not go to the default upstream")
	}
}

// Ids and progress tokens of a server's requests are tagged with their upstream on the way to the
// client, and are routed back by the tag.
func TestServerRequestsAcrossUpstreams(t *testing.T) {
	first, second, r, sid := two(t)
	answered := make(chan struct{})
	second.call = func(w http.ResponseWriter, body string, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{\"_meta\":{\"progressToken\":\"tok\"}}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-answered
		fmt.Fprintf(w, "data: %s\n\n", result)
	}
	resp := r.open(http.MethodPost, call("1", "slow"), "Mcp-Session-Id", sid)
	read := bufio.NewReader(resp.Body)
	id, _ := read.ReadString('\n')
	data, err := read.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if id != "id: p~second~e1\n" {
		t.Errorf("event id %q", id)
	}
	var ask struct {
		ID     json.RawMessage
		Params struct {
			Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &ask); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(ask.Params.Meta.ProgressToken) + `,"progress":1}}`,
		`{"jsonrpc":"2.0","id":` + string(ask.ID) + `,"result":{}}`,
	} {
		if got := r.post(body, "Mcp-Session-Id", sid); got.status != 202 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if len(second.sent(`"progressToken":"tok","progress":1`)) != 1 || len(second.sent(`"id":1,"result":{}`)) != 1 {
		t.Errorf("the second upstream got %v", second.seen())
	}
	if n := len(first.seen()); n != 1 {
		t.Errorf("the first upstream got %d requests, want its initialize alone", n)
	}
	close(answered)
	io.Copy(io.Discard, read)
}

// The stateless dialect has no sessions: an inbound id is ignored, none is issued, none is
// forwarded, and GET and DELETE are 405.
func TestStatelessDialectIgnoresSessionIDs(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "made")
		echo(w, body, r)
	})
	r := newRig(t, basic(up.URL))
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "safe", "Mcp-Session-Id", "made-up")
	got := r.post(modern("1", "tools/call", `"name":"safe"`), headers...)
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	if sid := up.seen()[0].header.Get("Mcp-Session-Id"); sid != "" {
		t.Errorf("the upstream got session %q", sid)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if got := r.do(method, r.url, "", "MCP-Protocol-Version", "2026-07-28"); got.status != 405 || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %v", method, got.status, got.header)
		}
	}
}

// A client of 2025-11-25 keeps what it can do when the gateway restarts: a server of either
// generation still asks it, with federation and at a routed upstream without.
func TestWhatAClientCanDoOutlivesARestart(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{true, false} {
		for how, text := range map[string]string{
			"federation": "federation: {enabled: true}\nupstreams:\n  - {name: up, url: %[1]s, protocol: %[3]s}\npolicy: {default_action: allow}\n",
			"routes":     "default_upstream: main\nupstreams:\n  - {name: main, url: %[2]s}\n  - {name: up, url: %[1]s, protocol: %[3]s}\nroutes:\n  - {match: {tool_prefix: up_}, upstream: up}\npolicy: {default_action: allow}\n",
		} {
			t.Run(fmt.Sprintf("%s, stateless server %v", how, stateless), func(t *testing.T) {
				up, main := newGeneration(t, "up", stateless), newGeneration(t, "main", false)
				protocol := map[bool]string{true: "2026-07-28", false: "2025-11-25"}[stateless]
				r := newRig(t, fmt.Sprintf(text, up.URL, main.URL, protocol))
				opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
				r = restart(t, r)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(call("7", "up_ask")))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + r.key,
					"Mcp-Session-Id": opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version": "2025-11-25",
				} {
					req.Header.Set(name, value)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var seen strings.Builder
				for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
					seen.WriteString(lines.Text())
					var question struct {
						ID     json.RawMessage
						Method string
					}
					if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data:")), &question) == nil && question.Method == "elicitation/create" {
						r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, question.ID), "Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25")
					}
				}
				if !strings.Contains(seen.String(), `"text":"cancel"`) {
					t.Errorf("the client was not asked, or its answer did not arrive: %d %s", resp.StatusCode, seen.String())
				}
			})
		}
	}
}
