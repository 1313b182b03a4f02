package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/bodies"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// standing is the merged standalone stream of one session: a source for each
// upstream at which the client has a session, also for those that come later.
//
// Its sources share the exchange. They read of it what was settled before they
// began, and change only what the lock of the stream guards.
type standing struct {
	*stream
	ctx context.Context
	wg  sync.WaitGroup
	at  *tag.Positions

	join sync.Mutex // guards what follows
	// members are the upstreams whose stream is part of this one.
	members map[string]*member
	closed  bool
}

// member is one upstream's part of a merged stream.
type member struct {
	session session.UpstreamSession
	leave   context.CancelFunc
}

// mergeStreams answers GET with one stream for all upstreams of the session,
// each going on where the client left it. A client that opens its stream again
// gets the one before ended: most likely that one broke and nobody has noticed.
func (ex *exchange) mergeStreams(at *tag.Positions) *refusal.Refusal {
	if refused := ex.accountOpening(); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancelCause(ex.ctx)
	m := &standing{stream: ex.newStream(cancel), ctx: ctx, at: at, members: make(map[string]*member)}
	leave := ex.g.standings.enter(ex.handle.ID, m)
	defer func() { // also when something panics: the sources use the exchange
		cancel(nil)
		leave()
		m.close()
		m.wg.Wait()
	}()
	m.start()
	m.settle()
	defer m.stop()
	m.add(ex.up, ex.upSession)
	for name, opened := range ex.g.sessions.State.Upstream.All(ctx, ex.handle.ID) {
		m.add(ex.g.targets[name], opened)
	}
	m.watch()
	m.close()
	m.wg.Wait()
	m.finish(ctx, context.Cause(ctx), true)
	return nil
}

// lookEvery is how often a merged stream looks for what other replicas did.
const lookEvery = 5 * time.Second

// watch waits for the end of the stream. Where replicas share the session,
// sessions that another one opened join, and an end that another one was told of
// is the end here.
func (m *standing) watch() {
	if !m.ex.g.sessions.Replicated {
		<-m.ctx.Done()
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	id, known := m.ex.handle.ID, make(map[string]session.UpstreamSession)
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-look.C:
		}
		if m.ex.g.sessions.State.Upstream.Ended(m.ctx, id) {
			m.cancel(errEnded)
			continue
		}
		for name, opened := range m.ex.g.sessions.State.Upstream.All(m.ctx, id) {
			if known[name] != opened {
				known[name] = opened
				m.add(m.ex.g.targets[name], opened)
			}
		}
	}
}

// add makes an upstream's stream part of this one, in the place of that of an
// earlier session there.
func (m *standing) add(t *transport.Upstream, opened session.UpstreamSession) {
	m.join.Lock()
	defer m.join.Unlock()
	if t == nil || m.closed {
		return
	}
	src := &source{stream: m.stream, up: t, session: opened, tags: tag.Stream{Kind: tag.Standing, Upstream: t.Name, At: m.at}}
	if before := m.members[t.Name]; before == nil {
		src.lastID = []byte(m.at.Of(t.Name))
	} else if before.session == opened {
		return
	} else {
		before.leave()
	}
	ctx, leave := context.WithCancel(m.ctx)
	mem := &member{opened, leave}
	m.members[t.Name] = mem
	m.wg.Go(func() {
		defer m.drop(t.Name, mem)
		defer m.ex.g.contain("standalone stream", func() { m.cancel(errPanic) })
		m.follow(ctx, src)
	})
}

// drop takes a member out that has ended.
func (m *standing) drop(name string, mem *member) {
	m.join.Lock()
	defer m.join.Unlock()
	mem.leave()
	if m.members[name] == mem {
		delete(m.members, name)
	}
}

func (m *standing) close() {
	m.join.Lock()
	defer m.join.Unlock()
	m.closed = true
}

// reopening are the pauses between attempts to open an upstream's stream again.
var reopening = backoff.Pauses{Min: time.Second, Max: 30 * time.Second}

// follow copies the stream of one upstream until the client leaves. A stream
// that breaks is opened again where it broke: the client, whose own stream is
// whole, would never know. An upstream that has no such stream is left alone.
func (m *standing) follow(ctx context.Context, src *source) {
	pauses := m.ex.g.standings.pauses
	for ctx.Err() == nil {
		began := m.ex.g.now()
		err := m.once(ctx, src)
		switch {
		case errors.Is(err, errNoStream) && len(src.lastID) == 0:
			return
		case errors.Is(err, errNoStream), errors.Is(err, upstream.ErrInvalidRequest):
			src.lastID = nil // it may be the position that it does not know
		case errors.Is(err, errRevoked), errors.Is(err, errTruncated), errors.Is(err, errAudit), errors.Is(err, bodies.ErrOverloaded):
			m.cancel(err)
			return
		default:
			m.reportFailure(ctx, src.up, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauses.Next(m.ex.g.now().Sub(began))):
		}
	}
}

// reportFailure logs why the stream of one upstream broke, unless the upstream
// ended it in order.
func (m *standing) reportFailure(ctx context.Context, t *transport.Upstream, err error) {
	switch {
	case ctx.Err() != nil, !errors.As(err, new(*upstream.Error)) && !errors.Is(err, errInvalidFrame):
	case errors.Is(err, errInvalidFrame):
		m.ex.g.failures.Report(m.ex.failureOf(t, invalidFrame(err)))
	default:
		m.ex.g.failures.Report(m.ex.failureOf(t, upstream.CauseOf(err)))
	}
}

// errNoStream: the upstream offers no standalone stream, or no longer knows the
// session or the position.
var errNoStream = errors.New("upstream has no such stream")

// once opens an upstream's stream and copies it to its end.
func (m *standing) once(ctx context.Context, src *source) error {
	resp, err := m.ex.get(ctx, src.up, src.session, string(src.lastID))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.Status == http.StatusOK && mediaType(resp.Header.Get("Content-Type")) == "text/event-stream":
	case resp.Status == http.StatusConflict, resp.Status == http.StatusTooManyRequests, resp.Status == http.StatusRequestTimeout:
		return io.ErrUnexpectedEOF // the one before has not ended there, or it is busy
	case resp.Status >= 400 && resp.Status < 500:
		return errNoStream
	default:
		return io.ErrUnexpectedEOF
	}
	src.take(resp)
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer stop()
	// The end of a source may come with its last frames, and the client's stream goes
	// on: what was written is sent now, not with the next frame of another source.
	defer src.settle()
	return src.copy()
}

// standings are the merged streams that are open, so that a session that is
// opened at a further upstream joins the one of its client.
type standings struct {
	// pauses are those between attempts to open an upstream's stream again.
	pauses backoff.Pauses

	mu   sync.Mutex
	open map[session.ID]*standing
}

// enter makes m the stream of a session, and ends the one before.
func (s *standings) enter(id session.ID, m *standing) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[session.ID]*standing)
	}
	if before := s.open[id]; before != nil {
		before.cancel(errReplaced)
	}
	s.open[id] = m
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[id] == m {
			delete(s.open, id)
		}
	}
}

// get returns the open stream of a session, nil when there is none.
func (s *standings) get(id session.ID) *standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// join adds an upstream to the open stream of a session, if there is one.
func (s *standings) join(id session.ID, t *transport.Upstream, opened session.UpstreamSession) {
	if m := s.get(id); m != nil {
		m.add(t, opened)
	}
}

// end ends the stream of a session.
func (s *standings) end(id session.ID) {
	if m := s.get(id); m != nil {
		m.cancel(errEnded)
	}
}
