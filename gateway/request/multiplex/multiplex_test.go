package multiplex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// peer is an upstream in memory. It issues the sessions name-1, name-2, …, and
// records the messages that it receives.
type peer struct {
	upstream.Transport
	name    string
	opening func()                    // called while a session is opened; may be nil
	reject  bool                      // respond to initialize with an error
	pong    func() *upstream.Response // response to a ping; may be nil
	down    bool

	mu   sync.Mutex
	made int
	sent []string // session and text of each message; END for the end of a session
}

func (p *peer) record(r *upstream.Request, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, strings.TrimSpace(r.Session.ID+" "+text))
}

// seen returns the received messages, except those that open sessions.
func (p *peer) seen() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sent {
		if !strings.Contains(s, "initialize") {
			out = append(out, s)
		}
	}
	return out
}

func (p *peer) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if p.down {
		return nil, &upstream.Error{Upstream: p.name, Kind: upstream.ErrUnreachable}
	}
	text := string(r.Body)
	p.record(r, text)
	resp := upstream.Empty(202)
	if p.pong != nil && strings.Contains(text, `"ping"`) {
		return p.pong(), nil
	}
	if !strings.Contains(text, `"initialize"`) {
		return resp, nil
	}
	if p.opening != nil {
		p.opening()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	answer := `"result":{"protocolVersion":"2025-06-18"}`
	if p.reject {
		answer = `"error":{"code":-32602,"message":"no"}`
	}
	resp.Status = 200
	resp.Header = mcp.Header{{Name: "Content-Type", Value: "application/json"}, {Name: mcp.HeaderSession, Value: fmt.Sprintf("%s-%d", p.name, p.made)}}
	resp.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":"svc-initialize",` + answer + `}`))
	return resp, nil
}

func (p *peer) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	p.record(r, "END")
	return upstream.Empty(204), nil
}

// set is the sessions of clients at three upstreams; "main" is the default upstream.
type set struct {
	*Sessions
	main, b, c *peer
	background *background.Calls
	joined     []string
	stream     chan struct{} // of the client; nil for none
}

func newSet(t *testing.T) *set {
	s := &set{main: &peer{name: "main"}, b: &peer{name: "b"}, c: &peer{name: "c"}, background: background.New(slog.New(slog.DiscardHandler))}
	ups := make(map[string]*upstream.Upstream)
	for _, p := range []*peer{s.main, s.b, s.c} {
		ups[p.name] = &upstream.Upstream{Name: p.name, Transport: p}
	}
	sealer, err := session.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	s.Sessions = New(Options{
		Upstreams: ups, Default: "main", Background: s.background, Version: "9", Logger: slog.New(slog.DiscardHandler), Sealer: sealer,
		Joined: func(_ session.ID, up *upstream.Upstream, opened mcp.Session) <-chan struct{} {
			s.joined = append(s.joined, up.Name+" "+opened.ID)
			return s.stream
		},
	})
	memory := session.NewMemory(10, s.Discard)
	s.State = session.State{Upstream: memory, Settings: memory}
	s.inFlight, s.questions, s.tasks = NewInFlight(time.Now), NewInFlight(time.Now), &session.Tasks{Map: session.NewTaskMemory(10, time.Hour, time.Now)}
	s.pending.now, s.pending.began = time.Now, time.Now()
	t.Cleanup(s.background.Stop)
	return s
}

func (s *set) up(name string) *upstream.Upstream { return s.opts.Upstreams[name] }

// settled waits for background calls.
func (s *set) settled(t *testing.T, p *peer, want ...string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !slices.Equal(p.seen(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("%s was sent %q, want %q", p.name, p.seen(), want)
		}
		done := make(chan struct{})
		s.background.Run(func(context.Context) { close(done) })
		<-done
	}
}

func newClient() Client {
	return Client{Handle: session.Handle{ID: session.NewID(), Upstream: "own"}, Version: mcp.Revision20250618, Hops: "2"}
}

func find(t *testing.T, s *set, c Client, up string) string {
	t.Helper()
	got, err := s.Find(t.Context(), c, s.up(up))
	if err != nil {
		t.Fatal(err)
	}
	return got.ID
}

// At the default upstream the session is the one in the handle until it is lost; at
// other upstreams a session is opened once, on first use, and opened again after it was
// lost.
func TestSessionsAreFoundOpenedAndReopened(t *testing.T) {
	s, c := newSet(t), newClient()
	for _, step := range []struct{ up, want string }{{"main", "own"}, {"b", "b-1"}, {"b", "b-1"}, {"c", "c-1"}} {
		if got := find(t, s, c, step.up); got != step.want {
			t.Errorf("at %s: %s, want %s", step.up, got, step.want)
		}
	}
	for _, step := range []struct{ up, lost, want string }{{"b", "b-1", "b-2"}, {"b", "b-1", "b-2"}, {"main", "own", "main-1"}} {
		lost := mcp.Session{ID: step.lost, Version: mcp.Revision20250618}
		if !s.WorthReopening(t.Context(), c.Handle.ID, lost) {
			t.Fatalf("%s is not worth reopening", step.lost)
		}
		got, err := s.Reopen(t.Context(), c, s.up(step.up), lost)
		if err != nil || got.ID != step.want || find(t, s, c, step.up) != step.want {
			t.Errorf("after %s was lost: %v %v, want %s", step.lost, got, err, step.want)
		}
	}
	if want := []string{"b b-1", "c c-1", "b b-2", "main main-1"}; !slices.Equal(slices.Compact(s.joined), want) {
		t.Errorf("joined %q, want %q", s.joined, want)
	}
	if s.WorthReopening(t.Context(), c.Handle.ID, mcp.Session{}) {
		t.Error("an upstream without sessions cannot lose one")
	}
	if got := find(t, s, newClient(), "main"); got != "own" {
		t.Errorf("another client's session is %s", got)
	}
}

// A session is opened with the client's own parameters, or with minimal ones when these
// are unknown, and receives the log level that the client has set, including a level
// that is set during the opening.
func TestSessionsAreOpenedAsTheClientAsked(t *testing.T) {
	s, c := newSet(t), newClient()
	find(t, s, c, "c")
	if got := s.c.sent[0]; !strings.Contains(got, `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"svc","version":"9"}`) {
		t.Errorf("sent %s", got)
	}
	restarted := newClient() // after a restart the parameters are in the handle alone
	restarted.Handle.Params = `{"carried":1}`
	find(t, s, restarted, "c")
	if !slices.ContainsFunc(s.c.sent, func(sent string) bool { return strings.Contains(sent, `"params":{"carried":1}`) }) {
		t.Errorf("after a restart, sent %q", s.c.sent)
	}
	s.State.Settings.SetParams(t.Context(), c.Handle.ID, []byte(`{"mine":1}`))
	s.State.Settings.SetLevel(t.Context(), c.Handle.ID, []byte(`{"level":"info"}`))
	find(t, s, c, "b")
	if got := s.b.sent[0]; !strings.Contains(got, `"params":{"mine":1}`) {
		t.Errorf("sent %s", got)
	}
	level := func(name string) string {
		return `{"jsonrpc":"2.0","id":"svc-level","method":"logging/setLevel","params":{"level":"` + name + `"}}`
	}
	s.settled(t, s.b, "b-1 "+level("info"))
	s.joined = nil
	s.opts.Joined = func(id session.ID, _ *upstream.Upstream, _ mcp.Session) <-chan struct{} {
		s.State.Settings.SetLevel(t.Context(), id, []byte(`{"level":"debug"}`))
		return nil
	}
	if _, err := s.Reopen(t.Context(), c, s.up("b"), mcp.Session{ID: "b-1", Version: mcp.Revision20250618}); err != nil {
		t.Fatal(err)
	}
	s.settled(t, s.b, "b-1 "+level("info"), "b-2 "+level("info"), "b-2 "+level("debug"))
}

// The first call of a session that was just opened waits until the upstream has answered the
// request for the standalone stream, on which the call may ask its first question: at most
// streamWait, once, and not for a client without such a stream.
func TestAFirstCallWaitsForTheStandaloneStream(t *testing.T) {
	for _, tt := range []struct {
		name     string
		stream   bool
		answered time.Duration // 0 for never
		want     time.Duration
	}{
		{"a stream that opens", true, 300 * time.Millisecond, 300 * time.Millisecond},
		{"a stream that never opens", true, 0, streamWait},
		{"no stream", false, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newSet(t), newClient()
			if tt.stream {
				s.stream = make(chan struct{})
			}
			if tt.answered > 0 {
				time.AfterFunc(tt.answered, func() { close(s.stream) })
			}
			began := time.Now()
			for range 2 { // the second call does not wait
				find(t, s, c, "b")
				if took := time.Since(began); took != tt.want {
					t.Errorf("%s: the call was sent after %s, want %s", tt.name, took, tt.want)
				}
			}
			s.background.Stop()
		})
	}
}

// The opening of a session at a program may take start_timeout in addition.
func TestASlowProgramHasItsStartTimeout(t *testing.T) {
	for _, tt := range []struct {
		start time.Duration
		fails bool
	}{{2 * time.Minute, false}, {0, true}} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newSet(t), newClient()
			s.up("b").StartTimeout = tt.start
			s.b.opening = func() { <-time.After(100 * time.Second) }
			if _, err := s.Find(t.Context(), c, s.up("b")); (err != nil) != tt.fails {
				t.Errorf("start_timeout %s: %v", tt.start, err)
			}
			s.background.Stop()
		})
	}
}

// A failure to open a session is the upstream's error; except that a client must begin
// a new session when the default upstream refuses to open its first session again.
func TestSessionsThatCannotBeOpened(t *testing.T) {
	s, c := newSet(t), newClient()
	s.b.down, s.c.reject, s.main.reject = true, true, true
	for name, want := range map[string]error{"b": upstream.ErrUnreachable, "c": nil, "main": session.ErrUnknown} {
		_, err := s.open(t.Context(), c, s.up(name))
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && errors.Is(err, session.ErrUnknown) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	s.main.reject, s.main.down = false, true
	if _, err := s.open(t.Context(), c, s.up("main")); !errors.Is(err, upstream.ErrUnreachable) {
		t.Errorf("the default upstream is down: %v", err)
	}
}

// The end of a session ends the sessions at all upstreams except the one that the
// client's request has ended, including sessions that are being opened at the time.
func TestEndOfASession(t *testing.T) {
	s, c := newSet(t), newClient()
	find(t, s, c, "b")
	s.c.opening = func() { s.End(context.Background(), c.Handle.ID, s.up("main")) }
	if _, err := s.Find(t.Context(), c, s.up("c")); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	s.settled(t, s.b, "b-1 END")
	s.settled(t, s.c, "c-1 END")
	if !s.Ended(t.Context(), c.Handle) || s.WorthReopening(t.Context(), c.Handle.ID, mcp.Session{ID: "own"}) {
		t.Error("the session has not ended")
	}
}

// A message for all upstreams of a session is sent to those with an open session; other
// messages, and other sessions, are not affected.
func TestFanOut(t *testing.T) {
	const (
		roots  = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
		level  = `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`
		cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
		call   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`
	)
	for _, tt := range []struct {
		body, up   string
		replicated bool
		b, c       bool // receive the message
	}{
		{roots, "main", false, true, true},
		{level, "main", false, true, true},
		{call, "main", true, false, false},
		{cancel, "main", false, false, false},
		{cancel, "main", true, true, true},
		{cancel, "b", true, false, false},
		{roots, "b", false, false, true},
	} {
		s, c := newSet(t), newClient()
		s.Replicated = tt.replicated
		find(t, s, c, "b")
		find(t, s, c, "c")
		find(t, s, newClient(), "b")
		var m mcp.Message
		if err := mcp.Scan([]byte(tt.body), &m); err != nil {
			t.Fatal(err)
		}
		s.FanOut(t.Context(), c, &m, s.up(tt.up))
		s.background.Stop()
		for _, p := range []struct {
			*peer
			reached bool
		}{{s.b, tt.b}, {s.c, tt.c}} {
			var want []string
			if p.reached {
				want = []string{p.name + "-1 " + tt.body}
			}
			if got := p.seen(); !slices.Equal(got, want) {
				t.Errorf("%s at %s: %s was sent %q, want %q", tt.body, tt.up, p.name, got, want)
			}
		}
		if got := s.State.Settings.Level(t.Context(), c.Handle.ID); (got != nil) != (tt.body == level) {
			t.Errorf("%s: the level is %s", tt.body, got)
		}
	}
}

// A rejection is sent in the session in which the upstream sent the request, and no
// session is opened for it.
func TestRejectionOfAServerRequest(t *testing.T) {
	s, c := newSet(t), newClient()
	find(t, s, c, "b")
	for _, name := range []string{"main", "b", "c"} {
		s.Reject(s.up(name), Rejection{Body: []byte("no"), Session: s.Existing(c, s.up(name))})
	}
	s.settled(t, s.main, "own no")
	s.settled(t, s.b, "b-1 no")
	s.background.Stop()
	if n := len(s.c.sent); n != 0 {
		t.Errorf("an upstream without a session was sent %q", s.c.sent)
	}
}

// Responses and progress are routed back by their tags; a tag that was never issued has
// no effect.
func TestUntag(t *testing.T) {
	s := newSet(t)
	for _, tt := range []struct{ body, up, want string }{
		{`{"jsonrpc":"2.0","id":"svc~b~7","result":{}}`, "b", `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"svc~c~\"t\""}}`, "c", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}`},
		{`{"jsonrpc":"2.0","id":"svc~nobody~7","result":{}}`, "unknown", ""},
		{`{"jsonrpc":"2.0","id":"svc~b~nope","result":{}}`, "unknown", ""},
		{`{"jsonrpc":"2.0","id":7,"result":{}}`, "", ""},
		{`{"jsonrpc":"2.0","id":"svc~b~7","method":"tools/call","params":{"name":"x"}}`, "", ""},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(tt.body), &m); err != nil {
			t.Fatal(tt.body, err)
		}
		up, unknown, err := s.Untag(&m, nil)
		got := ""
		if up != nil {
			got = up.Name
		} else if unknown != nil {
			got = "unknown"
		}
		if want := tt.want; err != nil || got != tt.up || want != "" && string(m.Body) != want {
			t.Errorf("%s: %s %v, %s", tt.body, got, err, m.Body)
		}
	}
}

// A request in flight is found by its session and id until it is removed.
func TestInFlight(t *testing.T) {
	f := NewInFlight(time.Now)
	one, other := session.NewID(), session.NewID()
	for i := range 100 {
		f.Add(t.Context(), one, call(fmt.Append(nil, i)), session.Origin{Upstream: fmt.Sprint("up", i)})
	}
	for i := range 100 {
		id := call(fmt.Append(nil, i))
		if o := f.Origin(t.Context(), one, id); o.Upstream != fmt.Sprint("up", i) {
			t.Fatalf("%s: %+v", id.value, o)
		}
		for _, of := range []reference{{"question", "", id.value}, {"call", "up", id.value}} {
			if o := f.Origin(t.Context(), one, of); o != (session.Origin{}) {
				t.Fatalf("%+v was found for %+v", o, of)
			}
		}
		if f.Origin(t.Context(), other, id) != (session.Origin{}) {
			t.Fatalf("%s was found in another session", id.value)
		}
		f.Remove(t.Context(), one, id)
		if f.Origin(t.Context(), one, id) != (session.Origin{}) {
			t.Fatalf("%s was not removed", id.value)
		}
	}
	if f.Origin(t.Context(), one, call(nil)) != (session.Origin{}) {
		t.Error("a message without an id was found")
	}
}
