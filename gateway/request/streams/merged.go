package streams

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// replicaPollInterval is the interval at which a merged stream checks for changes by
// other replicas.
const replicaPollInterval = 5 * time.Second

// Reopening is the backoff for reopening an upstream's stream.
var Reopening = retry.Pauses{Min: time.Second, Max: 30 * time.Second}

// Sources opens and handles the streams of the upstreams of a merged stream.
type Sources interface {
	// Listen opens the standalone stream of an upstream.
	Listen(ctx context.Context, up *upstream.Upstream, s mcp.Session, lastEventID string) (*upstream.Response, error)
	// Handler returns the handler of the frames of an upstream, which are written to
	// c.
	Handler(c *Client, up *upstream.Upstream, s mcp.Session) Handler
	// Failed is called with the reason why the stream of an upstream broke.
	Failed(up *upstream.Upstream, cause upstream.Cause)
	// Sessions returns the upstream sessions of the client by the names of their
	// upstreams.
	Sessions(ctx context.Context) map[string]mcp.Session
	// Ended reports whether the client's session has ended.
	Ended(ctx context.Context) bool
}

// MergedOptions are the settings of a merged stream.
type MergedOptions struct {
	Options
	// Session is the client's session.
	Session   session.ID
	Sources   Sources
	Upstreams map[string]*upstream.Upstream
	// Positions are the positions from which the client resumes.
	Positions *session.Positions
	// Replicated is set if other replicas open and end sessions too.
	Replicated bool
}

// Merged is the merged standalone stream of one session. It has an upstream's side for
// each upstream at which the client has a session, including sessions that are opened
// later.
type Merged struct {
	Client
	opts  MergedOptions
	set   *MergedSet
	ctx   context.Context
	leave func()
	wg    sync.WaitGroup

	attaching sync.Mutex // guards the fields below
	// members are the upstreams whose stream is part of this one.
	members map[string]*member
	closed  bool
}

// member is one upstream's part of a merged stream.
type member struct {
	session mcp.Session
	leave   context.CancelFunc
	opened  chan struct{} // closed when the upstream has answered the first attempt to open its stream
}

// Run serves the stream until its context ends. It begins with a session at an
// upstream, and attaches those that are open at others.
func (m *Merged) Run(up *upstream.Upstream, opened mcp.Session) {
	m.Start()
	m.FlushPending()
	m.attach(up, opened)
	for name, opened := range m.opts.Sources.Sessions(m.ctx) {
		m.attach(m.opts.Upstreams[name], opened)
	}
	m.wait()
	m.close()
	m.wg.Wait()
}

// Close ends the stream and waits for all goroutines that use its host. It must be
// called once, also after a panic.
func (m *Merged) Close() {
	m.Stop()
	m.opts.Cancel(nil)
	m.leave()
	m.close()
	m.wg.Wait()
}

// wait waits for the end of the stream. If replicas share the session, it attaches
// sessions that another replica opened, and ends the stream when another replica ended
// the session.
func (m *Merged) wait() {
	if !m.opts.Replicated {
		<-m.ctx.Done()
		return
	}
	poll := time.NewTicker(replicaPollInterval)
	defer poll.Stop()
	known := make(map[string]mcp.Session)
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-poll.C:
		}
		if m.opts.Sources.Ended(m.ctx) {
			m.opts.Cancel(ErrEnded)
			continue
		}
		for name, opened := range m.opts.Sources.Sessions(m.ctx) {
			if known[name] != opened {
				known[name] = opened
				m.attach(m.opts.Upstreams[name], opened)
			}
		}
	}
}

// attach adds an upstream's stream to this one, replacing the stream of an earlier
// session at that upstream. The channel is closed when the upstream has answered the
// first attempt to open its stream, or could not be reached; it is nil if the merged
// stream has ended.
func (m *Merged) attach(up *upstream.Upstream, opened mcp.Session) <-chan struct{} {
	m.attaching.Lock()
	defer m.attaching.Unlock()
	if up == nil || m.closed {
		return nil
	}
	u := new(Upstream)
	if before := m.members[up.Name]; before == nil {
		u.lastID = []byte(m.opts.Positions.Of(up.Name))
	} else if before.session == opened {
		return before.opened
	} else {
		before.leave()
	}
	u.Init(&m.Client, m.opts.Sources.Handler(&m.Client, up, opened), session.Stream{Kind: session.Standing, Upstream: up.Name, At: m.opts.Positions}, nil)
	ctx, leave := context.WithCancel(m.ctx)
	mem := &member{opened, leave, make(chan struct{})}
	m.members[up.Name] = mem
	answered := sync.OnceFunc(func() { close(mem.opened) })
	m.wg.Go(func() {
		defer m.detach(up.Name, mem)
		defer answered()
		defer func() {
			if p := recover(); p != nil {
				m.panicked("standalone stream", p)
			}
		}()
		m.copyWithRetry(ctx, up, opened, u, answered)
	})
	return mem.opened
}

// detach removes a member that has ended.
func (m *Merged) detach(name string, mem *member) {
	m.attaching.Lock()
	defer m.attaching.Unlock()
	mem.leave()
	if m.members[name] == mem {
		delete(m.members, name)
	}
}

func (m *Merged) close() {
	m.attaching.Lock()
	defer m.attaching.Unlock()
	m.closed = true
}

// copyWithRetry copies the stream of one upstream until the client disconnects. A
// stream that breaks is opened again at its last position, because the client's own
// stream is not interrupted and the client cannot do it. An upstream without such a
// stream is not retried. answered is called after each attempt to open the stream.
func (m *Merged) copyWithRetry(ctx context.Context, up *upstream.Upstream, s mcp.Session, u *Upstream, answered func()) {
	pauses := m.set.Pauses
	for ctx.Err() == nil {
		began := m.opts.Host.Now()
		err := m.openAndCopy(ctx, up, s, u, answered)
		switch {
		case errors.Is(err, errNoStream) && len(u.lastID) == 0:
			return
		case errors.Is(err, errNoStream), errors.Is(err, upstream.ErrInvalidRequest):
			u.lastID = nil // the upstream may not know the position
		case errors.Is(err, auth.ErrRevoked), errors.Is(err, ErrTruncated), errors.Is(err, ErrAudit), errors.Is(err, bodies.ErrOverloaded):
			m.opts.Cancel(err)
			return
		default:
			m.reportFailure(ctx, up, err)
		}
		retry.Wait(ctx, pauses.Next(m.opts.Host.Now().Sub(began)))
	}
}

// reportFailure reports why the stream of one upstream broke, unless the upstream
// ended it normally.
func (m *Merged) reportFailure(ctx context.Context, up *upstream.Upstream, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrInvalidFrame), errors.Is(err, mcp.ErrEventTooLarge):
		m.opts.Sources.Failed(up, invalidFrame(err))
	case errors.As(err, new(*upstream.Error)):
		m.opts.Sources.Failed(up, upstream.CauseOf(err))
	}
}

// errNoStream: the upstream offers no standalone stream, or no longer knows the
// session or the position.
var errNoStream = errors.New("upstream has no such stream")

// openAndCopy opens an upstream's stream and copies it to its end.
func (m *Merged) openAndCopy(ctx context.Context, up *upstream.Upstream, s mcp.Session, u *Upstream, answered func()) error {
	resp, err := m.opts.Sources.Listen(ctx, up, s, string(u.lastID))
	answered()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.Status == http.StatusOK && resp.MediaType() == "text/event-stream":
	case resp.Status == http.StatusConflict, resp.Status == http.StatusTooManyRequests, resp.Status == http.StatusRequestTimeout:
		return io.ErrUnexpectedEOF // the previous stream has not ended at the upstream, or it is busy
	case resp.Status >= 400 && resp.Status < 500:
		return errNoStream
	default:
		return io.ErrUnexpectedEOF
	}
	// The end of an upstream's stream may arrive with its last frames while the
	// client's stream continues: flush now, not with the next frame of another
	// upstream.
	defer m.FlushPending()
	return u.Copy(ctx, resp)
}

// MergedSet is the set of open merged streams, so that a session that is opened at
// another upstream is attached to the stream of its client.
type MergedSet struct {
	// Pauses is the backoff for reopening an upstream's stream.
	Pauses retry.Pauses

	mu   sync.Mutex
	open map[session.ID]*Merged
}

// Open returns the merged stream of a session, and ends the previous one, whose
// connection most likely broke unnoticed. ctx is the stream's context, which
// Options.Cancel ends.
func (s *MergedSet) Open(ctx context.Context, opts MergedOptions) *Merged {
	m := &Merged{opts: opts, set: s, ctx: ctx, members: make(map[string]*member)}
	m.Init(opts.Options)
	id := opts.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[session.ID]*Merged)
	}
	if before := s.open[id]; before != nil {
		before.opts.Cancel(ErrReplaced)
	}
	s.open[id] = m
	m.leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[id] == m {
			delete(s.open, id)
		}
	}
	return m
}

// get returns the open stream of a session, nil when there is none.
func (s *MergedSet) get(id session.ID) *Merged {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// Attach adds an upstream to the open stream of a session, if there is one. The channel is
// closed when the upstream has answered the request for its stream, or could not be reached;
// it is nil if no stream is open.
func (s *MergedSet) Attach(id session.ID, up *upstream.Upstream, opened mcp.Session) <-chan struct{} {
	if m := s.get(id); m != nil {
		return m.attach(up, opened)
	}
	return nil
}

// End ends the stream of a session, if there is one.
func (s *MergedSet) End(id session.ID) {
	if m := s.get(id); m != nil {
		m.opts.Cancel(ErrEnded)
	}
}

// Len returns the number of open streams.
func (s *MergedSet) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
