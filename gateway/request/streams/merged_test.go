package streams

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// merging is the source of a merged stream in tests.
type merging struct {
	mu       sync.Mutex
	open     map[string]mcp.Session
	ended    bool
	asked    []string // upstream, session and position of each stream that was opened
	failures []string
	// answer returns the response to the n-th request for the stream of an upstream.
	answer func(ctx context.Context, name string, n int) (*upstream.Response, error)
	times  map[string]int
}

func (m *merging) Listen(ctx context.Context, up *upstream.Upstream, s mcp.Session, lastID string) (*upstream.Response, error) {
	m.mu.Lock()
	m.times[up.Name]++
	n := m.times[up.Name]
	m.asked = append(m.asked, strings.TrimSpace(up.Name+" "+s.ID+" "+lastID))
	m.mu.Unlock()
	return m.answer(ctx, up.Name, n)
}

func (m *merging) Handler(*Client, *upstream.Upstream, mcp.Session) Handler { return new(handler) }

func (m *merging) Failed(up *upstream.Upstream, cause upstream.Cause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures = append(m.failures, up.Name+" "+cause.Code)
}

func (m *merging) Sessions(context.Context) map[string]mcp.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]mcp.Session)
	for name, s := range m.open {
		all[name] = s
	}
	return all
}

func (m *merging) Ended(context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

func (m *merging) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *merging) log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.asked, ", ")
}

// silent streams text and then nothing until the stream is closed.
func silent(ctx context.Context, s string) (*upstream.Response, error) {
	in, out := io.Pipe()
	go func() {
		io.WriteString(out, s)
		<-ctx.Done()
		out.CloseWithError(ctx.Err())
	}()
	return response(&waiting{ReadCloser: in}), nil
}

func status(n int) (*upstream.Response, error) {
	resp := response(text(""))
	resp.Status = n
	return resp, nil
}

func frame(id, data string) string {
	return "id: " + id + "\ndata: " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + data + `"}}` + "\n\n"
}

var ups = map[string]*upstream.Upstream{"a": {Name: "a"}, "b": {Name: "b"}, "c": {Name: "c"}}

// running is a running merged stream.
type running struct {
	*Merged
	*writer
	*host
	done chan struct{}
}

func at(id string) mcp.Session { return mcp.Session{ID: id} }

// run opens a merged stream of a session and runs it, beginning with upstream a.
func run(t *testing.T, set *MergedSet, id session.ID, m *merging, lastID string, replicated bool) *running {
	h := new(host)
	if m.times == nil {
		m.times = make(map[string]int)
	}
	ctx, w, opts := newOptions(t.Context(), h)
	r := &running{writer: w, host: h, done: make(chan struct{})}
	r.Merged = set.Open(ctx, MergedOptions{Options: opts, Session: id, Sources: m, Upstreams: ups, Positions: session.UntagStanding(lastID), Replicated: replicated})
	go func() {
		defer close(r.done)
		defer r.Close()
		r.Run(ups["a"], at("a1"))
	}()
	return r
}

// cause waits for the end of the stream and returns its cause.
func (r *running) cause() error {
	<-r.done
	return context.Cause(r.ctx)
}

func newSet() *MergedSet {
	return &MergedSet{Pauses: retry.Pauses{Min: time.Second, Max: 4 * time.Second}}
}

// The streams of all upstreams are merged, each resumed where the client left it; the
// client's position includes the positions at all upstreams, and an upstream without a
// stream is not retried.
func TestUpstreamsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &merging{open: map[string]mcp.Session{"b": at("b1"), "c": at("c1"), "gone": at("x")}}
		m.answer = func(ctx context.Context, name string, _ int) (*upstream.Response, error) {
			if name == "c" {
				return status(405)
			}
			return silent(ctx, frame("2", name))
		}
		set := newSet()
		r := run(t, set, session.NewID(), m, "g~a=1", false)
		synctest.Wait()
		if got := m.log(); !strings.Contains(got, "a a1 1") || !strings.Contains(got, "b b1") || strings.Count(got, ",") != 2 {
			t.Errorf("asked %s", got)
		}
		got := r.got()
		if !strings.Contains(got, `"data":"a"`) || !strings.Contains(got, `"data":"b"`) || !strings.Contains(got, "id: g~a=2&b=2\n") {
			t.Errorf("the client has %s", got)
		}
		if set.Len() != 1 {
			t.Errorf("%d streams are open", set.Len())
		}
		set.End(r.opts.Session)
		if err := r.cause(); err != ErrEnded || set.Len() != 0 || len(m.failures) != 0 {
			t.Errorf("%v, %d open, failures %q", err, set.Len(), m.failures)
		}
	})
}

// A stream that breaks is opened again at its last position, with growing backoff; a
// position that the upstream does not know is discarded.
func TestBrokenStreamsAreOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(merging)
		var at []time.Duration
		began := time.Now()
		m.answer = func(ctx context.Context, _ string, n int) (*upstream.Response, error) {
			m.change(func() { at = append(at, time.Since(began)) })
			switch n {
			case 1:
				return response(text(frame("7", "x"))), nil
			case 2:
				return nil, &upstream.Error{Upstream: "a", Kind: upstream.ErrUnreachable}
			case 3:
				return status(409)
			case 4:
				return status(404)
			case 5:
				return response(text("data: {\n\n")), nil
			case 6:
				return response(text(strings.Repeat(": k\n\n", mcp.MaxEvent/4))), nil
			}
			return silent(ctx, "")
		}
		r := run(t, newSet(), session.NewID(), m, "", false)
		pause := time.NewTimer(time.Minute)
		<-pause.C
		synctest.Wait()
		if got := fmt.Sprint(at); got != "[0s 1s 3s 7s 11s 15s 19s]" {
			t.Errorf("opened at %s", got)
		}
		if got := m.log(); got != "a a1, a a1 7, a a1 7, a a1 7, a a1, a a1, a a1" {
			t.Errorf("asked %s", got)
		}
		if got := fmt.Sprint(m.failures); got != "[a other a invalid_frame a invalid_frame]" {
			t.Errorf("failures %s", got)
		}
		r.opts.Cancel(context.Canceled)
		r.cause()
	})
}

// An upstream session that is opened later is attached, and replaces an earlier one at
// the same upstream; nothing is attached to a stream that has ended.
func TestUpstreamsAreAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &merging{answer: func(ctx context.Context, name string, n int) (*upstream.Response, error) {
			return silent(ctx, frame("1", fmt.Sprint(name, n)))
		}}
		set, id := newSet(), session.NewID()
		r := run(t, set, id, m, "", false)
		synctest.Wait()
		for _, s := range []string{"b1", "b1", "b2"} {
			set.Attach(id, ups["b"], at(s))
			synctest.Wait()
		}
		set.Attach(session.NewID(), ups["c"], at("c1"))
		set.Attach(id, nil, at("x"))
		synctest.Wait()
		if got := m.log(); got != "a a1, b b1, b b2" {
			t.Errorf("asked %s", got)
		}
		if got := r.got(); strings.Count(got, "data: ") != 3 || len(r.members) != 2 {
			t.Errorf("the client has %s from %d upstreams", got, len(r.members))
		}
		set.End(id)
		r.cause()
		r.attach(ups["c"], at("c1"))
		synctest.Wait()
		if got := m.log(); strings.Contains(got, "c") {
			t.Errorf("asked %s after the end", got)
		}
	})
}

// When a client opens its stream again, the previous stream is ended.
func TestAStreamIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &merging{answer: func(ctx context.Context, _ string, _ int) (*upstream.Response, error) { return silent(ctx, "") }}
		set, id := newSet(), session.NewID()
		first := run(t, set, id, m, "", false)
		synctest.Wait()
		second := run(t, set, id, m, "", false)
		if err := first.cause(); err != ErrReplaced {
			t.Errorf("the first ended with %v", err)
		}
		synctest.Wait()
		if set.get(id) != second.Merged {
			t.Error("the second is not the stream of the session")
		}
		set.End(id)
		second.cause()
	})
}

// Sessions that other replicas open are attached, and an end by another replica ends
// the stream, within one poll interval.
func TestReplicasArePolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &merging{answer: func(ctx context.Context, _ string, _ int) (*upstream.Response, error) { return silent(ctx, "") }}
		r := run(t, newSet(), session.NewID(), m, "", true)
		synctest.Wait()
		m.change(func() { m.open = map[string]mcp.Session{"b": at("b1")} })
		poll := time.NewTimer(3 * replicaPollInterval)
		<-poll.C
		synctest.Wait()
		if got := m.log(); got != "a a1, b b1" {
			t.Errorf("asked %s", got)
		}
		began := time.Now()
		m.change(func() { m.ended = true })
		if err := r.cause(); err != ErrEnded || time.Since(began) > replicaPollInterval {
			t.Errorf("ended with %v after %v", err, time.Since(began))
		}
	})
}

// Some failures of one upstream end the whole stream: a panic, a caller whose
// credentials are invalid, too many frames.
func TestOneUpstreamEndsTheMergedStream(t *testing.T) {
	for _, tt := range []struct {
		name, sent string
		revoke     error
		want       error
	}{
		{"panic", frame("1", "panic"), nil, ErrPanic},
		{"revoked", frame("1", "x"), auth.ErrTokenRevoked, auth.ErrTokenRevoked},
		{"too many frames", strings.Repeat(frame("1", "x"), 11), nil, ErrTruncated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &merging{open: map[string]mcp.Session{"b": at("b1")}}
				var r *running
				send := make(chan struct{})
				m.answer = func(ctx context.Context, name string, _ int) (*upstream.Response, error) {
					if name == "b" {
						<-send
						return silent(ctx, tt.sent)
					}
					return silent(ctx, frame("1", "a"))
				}
				set := newSet()
				r = run(t, set, session.NewID(), m, "", false)
				synctest.Wait()
				r.revoke(tt.revoke)
				close(send)
				if err := r.cause(); err != tt.want || set.Len() != 0 {
					t.Errorf("ended with %v, want %v; %d streams are open", err, tt.want, set.Len())
				}
				if (len(r.panics) > 0) != (tt.want == ErrPanic) {
					t.Errorf("panics %q", r.panics)
				}
			})
		})
	}
}
