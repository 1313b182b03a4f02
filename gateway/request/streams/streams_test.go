package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// writer is a client's connection.
type writer struct {
	mu      sync.Mutex
	header  http.Header
	text    strings.Builder
	flushed int // in bytes
	err     error
}

func (w *writer) Header() http.Header { return w.header }
func (w *writer) WriteHeader(int)     {}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	return w.text.Write(p)
}

func (w *writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = w.text.Len()
}

// got returns the data that the client received: written and flushed.
func (w *writer) got() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()[:w.flushed]
}

func (w *writer) written() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// host is a request whose answers tests can change.
type host struct {
	mu        sync.Mutex
	valid     error
	keepalive time.Duration
	panics    []string
}

func (h *host) Now() time.Time { return time.Now() }

func (h *host) CredentialsValid() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.valid
}

func (h *host) Keepalive() time.Duration { return h.keepalive }

func (h *host) Panicked(where string, value any, _ []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.panics = append(h.panics, fmt.Sprint(where, ": ", value))
}

func (h *host) revoke(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.valid = err
}

// handler withholds frames that contain "secret"; the response with id 1 is final.
type handler struct {
	seen     []string
	answered []Counts
	failed   error // error of Judge
	unsaved  error // error of Answer
}

func (h *handler) Judge(m *mcp.Message, _ string, _ int) (body []byte, final bool, err error) {
	text := string(m.Body)
	h.seen = append(h.seen, text)
	if strings.Contains(text, "panic") {
		panic("in a handler")
	}
	final = m.Kind == mcp.Response && string(m.ID) == "1"
	if strings.Contains(text, "secret") {
		return nil, final, h.failed
	}
	return m.Body, final, h.failed
}

func (h *handler) Withhold(m *mcp.Message) []byte {
	if m.Kind == mcp.Response {
		return []byte(`{"instead":true}`)
	}
	return nil
}

func (h *handler) Answer(c Counts) error {
	h.answered = append(h.answered, c)
	return h.unsaved
}

func newOptions(ctx context.Context, h *host) (context.Context, *writer, Options) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &writer{header: http.Header{}}
	all := bodies.New()
	all.SetLimit(64 << 20)
	return ctx, w, Options{
		Host: h, Writer: w, Cancel: cancel, Limit: 10, WriteTimeout: time.Minute, Bodies: all,
		Caller: bodies.Caller{Who: &auth.Principal{Kind: auth.KindKey, Value: "alice"}, Known: true},
	}
}

func response(body io.ReadCloser) *upstream.Response {
	return upstream.Stream(body)
}

func text(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

const (
	notice = `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	secret = `{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"secret"}}`
	ask    = `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"x":"secret"}}`
	reply  = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// Frames of an upstream reach the client evaluated and with their ids tagged; for a
// withheld frame its event id, or a replacement, is sent.
func TestFramesPass(t *testing.T) {
	for _, tt := range []struct {
		name, sent, want string
		err              error
		handler          handler
	}{
		{"frames and the answer", ": hello\n\nid: 5\ndata: " + notice + "\n\ndata: " + reply + "\n\n",
			"id: p~up~5\ndata: " + notice + "\n\ndata: " + reply + "\n\n", io.EOF, handler{}},
		{"an id alone", "id: 5\ndata: \n\n", "id: p~up~5\ndata: \n\n", io.EOF, handler{}},
		{"the id of a request", `data: {"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n\n", `data: {"jsonrpc":"2.0","id":"svc~up~7","method":"ping"}` + "\n\n", io.EOF, handler{}},
		{"a frame that is withheld", "data: " + secret + "\n\ndata: " + notice + "\n\n", "data: " + notice + "\n\n", io.EOF, handler{}},
		{"a request with an event id that is withheld", "id: 5\ndata: " + ask + "\n\n", "id: p~up~5\ndata: \n\n", io.EOF, handler{}},
		{"another answer that is withheld", `data: {"jsonrpc":"2.0","id":2,"result":"secret"}` + "\n\n", "data: {\"instead\":true}\n\n", io.EOF, handler{}},
		{"the answer is withheld", `data: {"jsonrpc":"2.0","id":1,"result":"secret"}` + "\n\n: the rest\n\n", "", ErrDenied, handler{}},
		{"the answer cannot be recorded", "data: " + reply + "\n\n", "", ErrAudit, handler{unsaved: errors.New("disk")}},
		{"a frame cannot be recorded", "data: " + notice + "\n\n", "", ErrAudit, handler{failed: ErrAudit}},
		{"no message", "data: " + notice + "\n\ndata: {\n\n", "data: " + notice + "\n\n", ErrInvalidFrame, handler{}},
		{"too many frames", strings.Repeat("data: "+notice+"\n\n", 11), strings.Repeat("data: "+notice+"\n\n", 10), ErrTruncated, handler{}},
		{"events that are no messages do not count as frames", strings.Repeat("event: ping\ndata: {}\n\n", 200) + "data: " + reply + "\n\n", "data: " + reply + "\n\n", io.EOF, handler{}},
		{"too many events that are no messages", strings.Repeat("data: {}\n\n", MaxDropped+1), "", ErrTruncated, handler{}},
		{"an empty batch and a result of nobody", "data: []\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n\ndata: " + reply + "\n\n", "data: " + reply + "\n\n", io.EOF, handler{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, w, opts := newOptions(t.Context(), new(host))
			var c Client
			var u Upstream
			c.Init(opts)
			u.Init(&c, &tt.handler, session.Stream{Kind: session.Post, Upstream: "up"}, nil)
			c.Start()
			err := u.Copy(ctx, response(text(tt.sent)))
			c.Stop()
			if !errors.Is(err, tt.err) {
				t.Errorf("ended with %v, want %v", err, tt.err)
			}
			if got := w.written(); got != tt.want {
				t.Errorf("the client got\n%s\nwant\n%s", got, tt.want)
			}
			counts := c.Counts()
			if counts.Sent != len(tt.want) || counts.Frames != strings.Count(tt.sent, "data: {")+strings.Count(tt.sent, "data: [") {
				t.Errorf("counted %+v", counts)
			}
			if a := tt.handler.answered; len(a) == 1 && tt.err == io.EOF && a[0].Sent != len(tt.want) {
				t.Errorf("the answer was recorded with %+v", a[0])
			}
			if u.Resumable() != strings.Contains(tt.sent, "id: 5") {
				t.Errorf("resumable: %v", u.Resumable())
			}
			if n := opts.Bodies.Held(); n != 0 {
				t.Errorf("%d bytes are still counted", n)
			}
		})
	}
}

// waiting is a body that calls a function before it waits, like those of upstreams.
type waiting struct {
	io.ReadCloser
	before func()
}

func (b *waiting) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before()
	}
	return b.ReadCloser.Read(p)
}

func (b *waiting) BeforeWait(f func()) { b.before = f }

// No written data stays in a buffer while the stream waits for the upstream.
func TestWhatWasWrittenIsFlushedBeforeTheUpstreamIsWaitedFor(t *testing.T) {
	ctx, w, opts := newOptions(t.Context(), new(host))
	var c Client
	var u Upstream
	c.Init(opts)
	u.Init(&c, new(handler), session.Stream{}, nil)
	c.Start()
	defer c.Stop()
	event := "data: " + notice + "\n\n"
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- u.Copy(ctx, response(&waiting{ReadCloser: in})) }()
	var want string
	for range 3 {
		io.WriteString(out, event)
		want += event
		// The pipe accepts the next part when the upstream is read again.
		io.WriteString(out, ": ")
		if got := w.got(); got != want {
			t.Errorf("the client has %q, want %q", got, want)
		}
		io.WriteString(out, "\n\n")
	}
	out.Close()
	if err := <-done; err != io.EOF {
		t.Error(err)
	}
}

// An idle stream ends at once when a change of the configuration removed the key of its caller, and
// not at the next keepalive; a stream that begins after the change, too. One that has stopped is no
// longer looked at.
func TestARemovedKeyEndsAnIdleStreamAtOnce(t *testing.T) {
	var open Open
	start := func(h *host) (context.Context, *Client) {
		ctx, _, opts := newOptions(t.Context(), h)
		opts.Open = &open
		c := new(Client)
		c.Init(opts)
		c.Start()
		t.Cleanup(c.Stop)
		return ctx, c
	}
	removed, kept, late := new(host), new(host), new(host)
	ended, _ := start(removed)
	other, _ := start(kept)
	gone, c := start(new(host))
	c.opts.Host.(*host).revoke(auth.ErrRevoked)
	c.Stop()
	removed.revoke(auth.ErrRevoked)
	late.revoke(auth.ErrRevoked)
	open.EndInvalid()
	begun, _ := start(late)
	for name, ctx := range map[string]context.Context{"idle": ended, "begun after the change": begun} {
		if !errors.Is(context.Cause(ctx), auth.ErrRevoked) {
			t.Errorf("the stream (%s) goes on: %v", name, context.Cause(ctx))
		}
	}
	for name, ctx := range map[string]context.Context{"with a valid key": other, "stopped": gone} {
		if ctx.Err() != nil {
			t.Errorf("the stream (%s) was ended: %v", name, context.Cause(ctx))
		}
	}
	if len(open.streams) != 3 {
		t.Errorf("%d streams are open", len(open.streams))
	}
}

// A caller whose credentials became invalid gets no further frame.
func TestNoFrameForACallerWhoIsNoLongerAccepted(t *testing.T) {
	h := new(host)
	h.revoke(auth.ErrTokenRevoked)
	ctx, w, opts := newOptions(t.Context(), h)
	var c Client
	var u Upstream
	c.Init(opts)
	u.Init(&c, new(handler), session.Stream{}, nil)
	c.Start()
	defer c.Stop()
	if err := u.Copy(ctx, response(text("data: "+notice+"\n\n"))); !errors.Is(err, auth.ErrRevoked) || w.written() != "" {
		t.Errorf("ended with %v after %q", err, w.written())
	}
}

// The watchdog sends keepalive comments on an idle stream, and ends a stream that is
// idle for too long, whose caller's credentials are invalid, or whose client does not
// read.
func TestWatchdog(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, tt := range []struct {
		name            string
		idle, keepalive time.Duration
		revoke          error
		broken          error
		after           time.Duration
		want            error
		alive           int
	}{
		{"alive", 0, 10 * time.Second, nil, nil, 35 * time.Second, nil, 3},
		{"without comments", 0, 0, nil, nil, time.Hour, nil, 0},
		{"idle", time.Minute, 25 * time.Second, nil, nil, time.Minute, ErrIdle, 2},
		{"revoked", 0, 0, auth.ErrRevoked, nil, checkInterval, auth.ErrRevoked, 0},
		{"broken", 0, 10 * time.Second, nil, broken, 10 * time.Second, broken, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{keepalive: tt.keepalive}
				ctx, w, opts := newOptions(t.Context(), h)
				opts.Idle = tt.idle
				var c Client
				c.Init(opts)
				c.Start()
				w.mu.Lock()
				w.err = tt.broken
				w.mu.Unlock()
				h.revoke(tt.revoke)
				limit, cancel := context.WithTimeout(ctx, tt.after+time.Second)
				defer cancel()
				began := time.Now()
				<-limit.Done()
				if got := context.Cause(ctx); !errors.Is(got, tt.want) {
					t.Errorf("ended with %v, want %v", got, tt.want)
				}
				if d := time.Since(began); tt.want != nil && d != tt.after {
					t.Errorf("ended after %v, want %v", d, tt.after)
				}
				if n := strings.Count(w.got(), ": keepalive\n\n"); n != tt.alive {
					t.Errorf("%d comments, want %d", n, tt.alive)
				}
				c.Stop()
				before := len(w.written())
				after := time.NewTimer(time.Hour)
				<-after.C
				if len(w.written()) != before {
					t.Error("the watchdog wrote after the stream was stopped")
				}
			})
		})
	}
}

// Each way in which a stream can end before its request has a response has its refusal,
// and failures of the upstream are reported.
func TestEnding(t *testing.T) {
	down := &upstream.Error{Upstream: "up", Kind: upstream.ErrUnreachable}
	for _, tt := range []struct {
		name   string
		ending Ending
		want   refusal.Refusal
		cause  string
	}{
		{"stopping", Ending{Stopping: true, Err: down, Left: true}, refusal.Shutdown, ""},
		{"idle", Ending{Cause: ErrIdle, Err: down}, refusal.Truncated, ""},
		{"revoked", Ending{Cause: auth.ErrRevoked, Err: down}, refusal.Revoked, ""},
		{"revoked token, at a frame", Ending{Err: auth.ErrTokenRevoked}, refusal.TokenRevoked, ""},
		{"replaced", Ending{Cause: ErrReplaced}, refusal.Replaced, ""},
		{"ended", Ending{Cause: ErrEnded}, refusal.SessionEnd, ""},
		{"panic", Ending{Cause: ErrPanic}, refusal.Panic, ""},
		{"left", Ending{Left: true, Err: down}, refusal.ClientClosed, ""},
		{"overloaded", Ending{Err: bodies.ErrOverloaded}, refusal.Overloaded, ""},
		{"denied", Ending{Err: ErrDenied}, refusal.Answer, ""},
		{"too many frames", Ending{Cause: ErrTruncated}, refusal.Truncated, ""},
		{"invalid", Ending{Err: ErrInvalidFrame, Awaited: true}, refusal.UpstreamInvalid, "invalid_frame"},
		{"too large", Ending{Err: mcp.ErrEventTooLarge, Awaited: true}, refusal.UpstreamInvalid, "invalid_frame"},
		{"audit", Ending{Err: ErrAudit}, refusal.Audit, ""},
		{"no answer", Ending{Err: io.EOF, Awaited: true}, refusal.Ended, "stream_ended"},
		{"no answer is awaited", Ending{Err: io.EOF}, refusal.Refusal{}, ""},
		{"it can be resumed", Ending{Err: io.EOF, Awaited: true, Resumable: true}, refusal.Refusal{}, ""},
		{"time-out", Ending{Err: upstream.ErrTimeout}, refusal.Timeout, "timeout"},
		{"broken, and it can be resumed", Ending{Err: down, Resumable: true}, refusal.EndedResumable, "stream_ended"},
		{"broken", Ending{Err: down}, refusal.Unreachable, upstream.CauseOf(down).Code},
	} {
		got := tt.ending.Refusal()
		cause, failed := tt.ending.Failure(&got)
		if got.Kind != tt.want.Kind || got.Code != tt.want.Code {
			t.Errorf("%s: %s (%d), want %s (%d)", tt.name, got.Kind, got.Code, tt.want.Kind, tt.want.Code)
		}
		if failed != (tt.cause != "") || failed && cause.Code != tt.cause {
			t.Errorf("%s: cause %+v, want %q", tt.name, cause, tt.cause)
		}
	}
}

// A client that resumes, or that has disconnected, gets no last event; a listening
// client gets its result when the gateway stops.
func TestWhatIsToldInThePlaceOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		e       Ending
		refused refusal.Refusal
		want    Last
	}{
		{"a call that broke off", Ending{Awaited: true}, refusal.Ended, LastError},
		{"a call that can be resumed", Ending{Awaited: true, Resumable: true}, refusal.EndedResumable, LastNothing},
		{"a call at a stop", Ending{Awaited: true, Stopping: true, Left: true}, refusal.Shutdown, LastError},
		{"a call whose client left", Ending{Awaited: true, Left: true}, refusal.ClientClosed, LastNothing},
		{"a call whose client left, for another reason", Ending{Awaited: true, Left: true}, refusal.Truncated, LastNothing},
		{"a listening request at a stop", Ending{Listens: true, Stopping: true, Left: true}, refusal.Shutdown, LastComplete},
		{"a listening request that is idle", Ending{Listens: true}, refusal.Truncated, LastError},
		{"a stream of its own", Ending{}, refusal.Revoked, LastNothing},
	} {
		if got := tt.e.Last(&tt.refused); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
