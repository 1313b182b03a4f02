package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
)

// tail is a client of the stream that reads raw blocks.
type tail struct {
	t     testing.TB
	resp  *http.Response
	lines *bufio.Reader
	last  string // Last-Event-ID as the SSE standard keeps it
}

// live serves the rig's control plane over HTTP.
func (r *rig) live() *httptest.Server {
	srv := httptest.NewServer(r.srv)
	r.t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

// open opens the stream and reads the blocks before the first event.
func open(t testing.TB, srv *httptest.Server, key, query, lastEventID string) *tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/traces/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	checkAnswer(t, "GET", "/api/traces/stream", resp.StatusCode, resp.Header, nil)
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("stream: %d %s", resp.StatusCode, b)
	}
	s := &tail{t: t, resp: resp, lines: bufio.NewReader(resp.Body)}
	if data, err := s.block(); err != nil || data != "" || s.last == "" {
		t.Fatalf("the first block has data %q, id %q: %v", data, s.last, err)
	}
	return s
}

// block reads one block and returns its data.
func (s *tail) block() (data string, err error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return data, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			s.last = value
		case "data":
			data = value
		}
	}
}

// next waits for the next trace.
func (s *tail) next() object {
	s.t.Helper()
	for {
		data, err := s.block()
		if err != nil {
			s.t.Fatalf("stream after %q: %v", s.last, err)
		}
		if data == "" {
			continue
		}
		var o object
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			s.t.Fatalf("data is not a trace: %v: %s", err, data)
		}
		if err := theContract(s.t).validate("/components/schemas/TraceItem", []byte(data)); err != nil {
			s.t.Errorf("event is not a TraceItem: %v", err)
		}
		return o
	}
}

// ended waits until the server has closed the stream.
func (s *tail) ended() {
	s.t.Helper()
	for {
		if _, err := s.block(); err != nil {
			if err != io.EOF {
				s.t.Errorf("stream ended with %v", err)
			}
			return
		}
	}
}

func (r *rig) post1(id, agent, status string) {
	r.t.Helper()
	r.ask(r.admin, "POST", "/api/traces", traceAt(id, agent, status, r.clock.Now())).want(201)
}

// GET /api/traces/stream: each event has id: and a Trace as data:.
func TestStreamSendsCommittedTraces(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	r.post1("before", "a", "success")
	s := open(t, srv, r.admin, "", "")
	if got := s.resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	start := s.last
	r.post1("one", "a", "success")
	r.ask(r.admin, "POST", "/api/traces", batch(traceAt("two", "b", "error", r.clock.Now()), traceAt("three", "b", "success", r.clock.Now()))).want(201)
	for _, want := range []string{"one", "two", "three"} {
		before := s.last
		if got := s.next().id(t); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if s.last == before {
			t.Errorf("event %s has no id of its own", want)
		}
	}
	if start == s.last {
		t.Error("the cursor did not move")
	}
}

// The stream takes the same filters as the list.
func TestStreamFilters(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	id := r.agent(r.admin, "a")
	s := open(t, srv, r.admin, "?status=error&agentId="+id, "")
	r.post1("1", "a", "success")
	r.post1("2", "b", "error")
	r.post1("3", "a", "error")
	if got := s.next().id(t); got != "3" {
		t.Errorf("got %s", got)
	}
}

// A stream is resumable with Last-Event-ID, without gaps and repetitions, also
// for a client that saw no trace before it was disconnected.
func TestStreamResumes(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	s := open(t, srv, r.admin, "", "")
	quiet := s.last
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("r-%02d", i))
	}
	go func() {
		for _, id := range want {
			r.post1(id, "a", "success")
		}
	}()
	var got []string
	for len(got) < len(want) {
		got = append(got, s.next().id(t))
		if len(got)%7 == 0 { // disconnect and resume in the middle
			s.resp.Body.Close()
			s = open(t, srv, r.admin, "", s.last)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	s = open(t, srv, r.admin, "", quiet)
	for _, id := range want {
		if got := s.next().id(t); got != id {
			t.Fatalf("after the first cursor: got %s, want %s", got, id)
		}
	}
	r.ask(r.admin, "GET", "/api/traces/stream", "", "Last-Event-ID", "nonsense").wantDetail("Last-Event-ID")
}

// A stream has only the traces of its tenant.
func TestStreamOfTwoTenants(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	s := open(t, srv, r.other, "", "")
	r.post1("mine", "a", "success")
	r.ask(r.other, "POST", "/api/traces", traceAt("theirs", "a", "success", r.clock.Now())).want(201)
	if got := s.next().id(t); got != "theirs" {
		t.Errorf("got %s of another tenant", got)
	}
}

// A stream ends when its key is no longer valid: deleted, its user deactivated,
// or its team without the scope.
func TestStreamEndsWithItsKey(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		r := newRig(t)
		srv := r.live()
		key, id := r.key(r.admin, "agent")
		s := open(t, srv, key, "", "")
		r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(200)
		r.post1("secret", "a", "success")
		if data, err := s.block(); err == nil {
			t.Errorf("a deleted key was sent %q", data)
		}
	})
	t.Run("user deactivated", func(t *testing.T) {
		r := newRig(t)
		srv := r.live()
		r.webhook("user.created", r.clock.Now(), "u1", "u1@example.com", "org_one").want(200)
		key, _ := r.key(r.admin, "api", "userId", "u1")
		s := open(t, srv, key, "", "")
		r.webhook("user.deactivated", r.clock.Now().Add(time.Second), "u1", "u1@example.com", "org_one").want(200)
		s.ended()
	})
	t.Run("scope withdrawn", func(t *testing.T) {
		r := newRig(t)
		srv := r.live()
		key, team := r.teamKey("readers", "traces:read")
		s := open(t, srv, key, "", "")
		r.scopes(r.admin, team, "agents:read").want(200)
		s.ended()
	})
}

// Opening a stream counts as one request of the window, however long the stream
// lasts.
func TestStreamIsOneRequest(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 10 })
	srv := r.live()
	s := open(t, srv, r.admin, "", "")
	if got := s.resp.Header.Get("X-RateLimit-Remaining"); got != "9" {
		t.Errorf("%s remain", got)
	}
	for i := range 5 {
		r.post1(fmt.Sprint(i), "a", "success")
		s.next()
	}
	if got := r.ask(r.admin, "GET", "/api/traces", "").want(200).header.Get("X-RateLimit-Remaining"); got != "8" {
		t.Errorf("%s remain after five events", got)
	}
}

// Draining ends open streams and later ones.
func TestStreamDrains(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	s := open(t, srv, r.admin, "", "")
	r.srv.Drain()
	r.srv.Drain()
	s.ended()
	open(t, srv, r.admin, "", s.last).ended()
}

// The number of open streams of a tenant is bounded; a closed stream is no
// longer counted.
func TestStreamsAreBounded(t *testing.T) {
	st := newStreams()
	for range maxStreams {
		if !st.enter("one", maxStreams) {
			t.Fatal("refused below the bound")
		}
	}
	if st.enter("one", maxStreams) || !st.enter("two", maxStreams) {
		t.Error("the bound is not a tenant's own")
	}
	st.leave("one")
	st.leave("two")
	if !st.enter("one", maxStreams) || len(st.open) != 1 {
		t.Errorf("a closed stream is still counted: %v", st.open)
	}
}

// A slow reader is disconnected and never blocks ingest.
func TestStreamSlowReaderNeverBlocksIngest(t *testing.T) {
	r := newRig(t)
	r.srv.streams.pace.writeTimeout = 500 * time.Millisecond
	srv := r.live()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /api/traces/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", r.admin)
	if _, err := bufio.NewReader(io.LimitReader(conn, 15)).ReadString('K'); err != nil {
		t.Fatal(err)
	}
	// From here on the client reads nothing.
	now := r.clock.Now()
	began := time.Now()
	for i := range 25 { // 25,000 traces of 1 KiB: more than any socket buffer, and more than the permitted lag
		many := make([]store.Trace, 1000)
		for j := range many {
			many[j] = store.Trace{ID: fmt.Sprintf("slow-%d-%d", i, j), AgentName: "a", Status: store.TraceSuccess,
				SessionID: strings.Repeat("s", 900), CreatedAt: now}
		}
		r.traces(many...)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("ingest took %v beside a reader that does not read", took)
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		r.srv.streams.mu.Lock()
		n := len(r.srv.streams.open)
		r.srv.streams.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the reader was not cut off")
}

// An idle stream is kept alive with comments that carry the cursor, which has
// moved past the traces that the filter excludes.
func TestStreamKeepsAlive(t *testing.T) {
	r := newRig(t)
	r.srv.streams.pace.tick, r.srv.streams.pace.keepAlive = 20*time.Millisecond, 50*time.Millisecond
	srv := r.live()
	s := open(t, srv, r.admin, "?status=error", "")
	start := s.last
	r.post1("left-out", "a", "success")
	for range 3 {
		line, err := s.lines.ReadString('\n')
		if err != nil || line != ": keep-alive\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		if data, err := s.block(); err != nil || data != "" {
			t.Fatalf("keep-alive with data %q: %v", data, err)
		}
	}
	if s.last == start {
		t.Error("the cursor did not move past what the filter left out")
	}
}

// The read and write timeouts of a server do not end a stream.
func TestStreamOutlivesServerTimeouts(t *testing.T) {
	r := newRig(t)
	r.srv.streams.pace.tick, r.srv.streams.pace.keepAlive = 20*time.Millisecond, 150*time.Millisecond
	srv := httptest.NewUnstartedServer(r.srv)
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	s := open(t, srv, r.admin, "", "")
	for began := time.Now(); time.Since(began) < 400*time.Millisecond; {
		if data, err := s.block(); err != nil || data != "" { // a keep-alive
			t.Fatalf("data %q, %v after %v", data, err, time.Since(began))
		}
	}
	r.post1("later", "a", "success")
	if got := s.next().id(t); got != "later" {
		t.Errorf("got %s", got)
	}
}

// Many concurrent readers get every trace in the same order.
func TestStreamManyReaders(t *testing.T) {
	r := newRig(t)
	srv := r.live()
	const readers, traces = 20, 50
	var work sync.WaitGroup
	var tails []*tail
	for range readers {
		tails = append(tails, open(t, srv, r.admin, "", ""))
	}
	for i := range traces {
		r.post1(fmt.Sprintf("m-%02d", i), "a", "success")
	}
	for _, s := range tails {
		work.Go(func() {
			for i := range traces {
				data := ""
				for data == "" {
					var err error
					if data, err = s.block(); err != nil {
						t.Errorf("reader: %v", err)
						return
					}
				}
				if !strings.Contains(data, fmt.Sprintf(`"m-%02d"`, i)) {
					t.Errorf("event %d is %s", i, data)
					return
				}
			}
		})
	}
	work.Wait()
}
