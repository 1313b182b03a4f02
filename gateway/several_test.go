package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/backoff"
)

// scripted is a stateful upstream of the legacy dialect, with one tool. It issues the session ids
// s1, s2, …, accepts only these, and records the requests it receives.
type scripted struct {
	*upstreamServer
	mu    sync.Mutex
	made  int
	alive map[string]bool
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
	for deadline := time.Now().Add(8 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
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
// client's parameters are sent, or the gateway's own when it does not have the client's.
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
	if len(sent) != 2 || !strings.Contains(sent[1].body, `"protocolVersion":"2025-06-18","capabilities":{}`) {
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

// The response to a POST that was interrupted is resumed at the upstream that sent it.
func TestResumeOfAPostStreamGoesToItsUpstream(t *testing.T) {
	_, second, r, sid := two(t)
	second.get = func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"after\":%q}}\n\n", req.Header.Get("Last-Event-ID"))
	}
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	got := r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", sid, "Last-Event-ID", "p~second~e1")
	if got.body != "id: p~second~e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"after\":\"e1\"}}\n\n" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if got := r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", sid, "Last-Event-ID", "p~third~e1"); got.status != 404 {
		t.Errorf("an unknown upstream: %d", got.status)
	}
}

// The merged stream follows an upstream's session that was opened again, and moves to the newest
// GET of the client.
func TestMergedStream(t *testing.T) {
	_, second, r, sid := two(t)
	notify := make(chan string)
	var began, running atomic.Int32
	second.get = func(w http.ResponseWriter, req *http.Request) {
		began.Add(1)
		running.Add(1)
		defer running.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-notify:
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n\n", text+" "+req.Header.Get("Mcp-Session-Id"))
				_ = http.NewResponseController(w).Flush()
			case <-req.Context().Done():
				return
			}
		}
	}
	// The text must go to the newest stream, not to one that is about to end.
	tell := func(text string, streams int32) {
		t.Helper()
		eventually(t, "the second upstream's stream is not the one it should be", func() bool { return began.Load() == streams && running.Load() == 1 })
		select {
		case notify <- text:
		case <-time.After(5 * time.Second):
			t.Fatal("the second upstream has no stream")
		}
	}
	next := func(read *bufio.Reader) string {
		t.Helper()
		line, err := read.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, _ = read.ReadString('\n')
		return line
	}
	one := bufio.NewReader(r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body)
	r.post(call("1", "slow"), "Mcp-Session-Id", sid) // opens the upstream session, which joins the stream
	tell("a", 1)
	if got := next(one); !strings.Contains(got, "a s1") {
		t.Errorf("got %q", got)
	}
	second.forget()
	if got := r.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("after the upstream lost its session: %d %s", got.status, got.body)
	}
	tell("b", 2)
	if got := next(one); !strings.Contains(got, "b s2") {
		t.Errorf("after the session was opened again: %q", got)
	}
	other := bufio.NewReader(r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body)
	if _, err := io.ReadAll(one); err != nil {
		t.Errorf("the stream before: %v", err)
	}
	tell("c", 3)
	if got := next(other); !strings.Contains(got, "c s2") {
		t.Errorf("on the newer stream: %q", got)
	}
	eventually(t, "no line says that the stream was taken over", func() bool {
		for _, line := range r.kinds("request") {
			if line["error_kind"] == "stream_replaced" {
				return true
			}
		}
		return false
	})
	r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid)
	if _, err := io.ReadAll(other); err != nil {
		t.Errorf("the stream of an ended session: %v", err)
	}
}

// An upstream that restarted may refuse the position at which its stream is opened again. It is
// opened once more without a position, and the client, whose own stream is not interrupted, gets
// the next frames.
func TestMergedStreamWhosePositionIsRefused(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			first, _, r, sid := two(t)
			r.gateway.services.Merged.Pauses = backoff.Pauses{Min: time.Millisecond, Max: time.Millisecond}
			positions := make(chan string, 100)
			var restarted atomic.Bool
			first.get = func(w http.ResponseWriter, req *http.Request) {
				at := req.Header.Get("Last-Event-ID")
				select {
				case positions <- at:
				default: // enough of them
				}
				switch {
				case at != "":
					w.WriteHeader(status)
				case restarted.Swap(true):
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"after\"}}\n\n")
					_ = http.NewResponseController(w).Flush()
					<-req.Context().Done()
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"before\"}}\n\n")
				}
			}
			resp := r.open(http.MethodGet, "", "Mcp-Session-Id", sid)
			defer time.AfterFunc(20*time.Second, func() { resp.Body.Close() }).Stop()
			read := bufio.NewReader(resp.Body)
			for _, want := range []string{"before", "after"} {
				line, err := "", error(nil)
				for err == nil && !strings.HasPrefix(line, "data: ") {
					line, err = read.ReadString('\n')
				}
				if err != nil || !strings.Contains(line, want) {
					t.Fatalf("got %q, %v, want the frame %q", line, err, want)
				}
			}
			for i, want := range []string{"", "e1", ""} {
				if got := <-positions; got != want {
					t.Errorf("request %d asks for the position %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// A stream that keeps breaking is opened again after growing pauses (backoff).
func TestMergedStreamPausesBetweenAttempts(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	now := time.Now()
	r := newRigWith(t, twoUpstreams(first.URL, second.URL), func(o *Options) {
		o.Now = func() time.Time { return now } // no attempt lasts
	})
	if got, want := r.gateway.services.Merged.Pauses, (backoff.Pauses{Min: time.Second, Max: 30 * time.Second}); got != want {
		t.Errorf("the pauses are %+v, want %+v", got, want)
	}
	const ms = time.Millisecond
	r.gateway.services.Merged.Pauses = backoff.Pauses{Min: 20 * ms, Max: 70 * ms}
	type attempt struct{ began, ended time.Time }
	attempts := make(chan attempt, 100)
	first.get = func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		w.Header().Set("Content-Type", "text/event-stream")
		attempts <- attempt{began, time.Now()}
	}
	r.open(http.MethodGet, "", "Mcp-Session-Id", r.begin())
	before := <-attempts
	for i, want := range []time.Duration{20 * ms, 40 * ms, 70 * ms, 70 * ms} {
		next := <-attempts
		if got := next.began.Sub(before.ended); got < want {
			t.Errorf("pause %d was %v, want at least %v", i+1, got, want)
		}
		before = next
	}
}

// After a stream that lasted, the backoff starts again at its minimum.
func TestMergedStreamThatLastedIsOpenedAgainAfterTheFirstPause(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	begin := time.Now()
	var ahead atomic.Int64 // of the gateway's clock
	r := newRigWith(t, twoUpstreams(first.URL, second.URL), func(o *Options) {
		o.Now = func() time.Time { return begin.Add(time.Duration(ahead.Load())) }
	})
	r.gateway.services.Merged.Pauses = backoff.Pauses{Min: time.Millisecond, Max: time.Hour, Due: time.Hour}
	attempts := make(chan bool, 100)
	first.get = func(w http.ResponseWriter, _ *http.Request) {
		ahead.Add(int64(time.Hour))
		w.Header().Set("Content-Type", "text/event-stream")
		select {
		case attempts <- true:
		default: // enough of them
		}
	}
	r.open(http.MethodGet, "", "Mcp-Session-Id", r.begin())
	for i := range 3 {
		select {
		case <-attempts:
		case <-time.After(20 * time.Second):
			t.Fatalf("attempt %d was not made after the first pause", i+1)
		}
	}
}

// The last frames of an upstream's stream reach the client at once, although the client's stream
// continues and no further frame is sent.
func TestTheLastFrameOfASourceIsNotHeldBack(t *testing.T) {
	_, second, r, sid := two(t)
	r.gateway.services.Merged.Pauses = backoff.Pauses{Min: time.Hour, Max: time.Hour}
	var served atomic.Int32
	second.get = func(w http.ResponseWriter, req *http.Request) {
		if served.Add(1) == 1 {
			// The frame and the end of the body in one packet.
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			frame := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"last words\"}}\n\n"
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(frame), frame)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}
	r.post(call("1", "slow"), "Mcp-Session-Id", sid) // opens the session at the second upstream
	body := r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(body).ReadString('\n')
		line <- text
	}()
	select {
	case got := <-line:
		if !strings.Contains(got, "last words") {
			t.Errorf("got %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the last frame of an upstream's stream is held back")
	}
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
