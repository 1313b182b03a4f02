package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// serveStream answers GET /mcp: the standalone event stream on which a server
// reaches a legacy client between requests, and on which a client resumes a
// stream that broke. It carries no method, so no rule decides on the request
// itself; its frames are judged like all others.
func (ex *exchange) serveStream() *refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	if ex.tagFor(tagStanding) == tagNone {
		return ex.passStream(ex.r.Header.Get(mcp.HeaderLastEventID))
	}
	last := ex.r.Header.Get(mcp.HeaderLastEventID)
	name, id, ok := untagPost(last)
	if !ok {
		return ex.mergeStreams(untagStanding(last))
	}
	// The answer to a POST broke off: the one upstream that gave it goes on.
	if ex.up, ok = ex.g.targets[name]; !ok {
		return &refuseNoRoute
	}
	if refused := ex.upstreamSession(); refused != nil {
		return refused
	}
	return ex.passStream(id)
}

// passStream opens the stream of one upstream and passes it on.
func (ex *exchange) passStream(lastID string) *refusal {
	ex.sentUp = ex.g.now()
	resp, err := ex.get(ex.ctx, ex.up, ex.upSession, lastID)
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if resp.Status == http.StatusMethodNotAllowed {
		return &refuseNoStream
	}
	return ex.relay(resp)
}

// get asks an upstream for its standalone stream.
func (ex *exchange) get(ctx context.Context, t *target, s session.Opened, lastID string) (*upstream.Response, error) {
	header := ex.upstreamHeader(s)
	header.Del(mcp.HeaderLastEventID)
	if lastID != "" {
		header.Add(mcp.HeaderLastEventID, lastID)
	}
	return t.client.Do(ctx, &upstream.Request{
		Method: http.MethodGet,
		Header: header,
		// Silent by nature: only the first byte has a time limit.
		Timeouts: &upstream.Timeouts{FirstByte: t.timeout},
	})
}

// standing is the merged standalone stream of one session: a source for each
// upstream at which the client has a session, also for those that come later.
type standing struct {
	*stream
	ctx context.Context
	wg  sync.WaitGroup
	at  *positions

	join sync.Mutex // guards joined
	// joined are the upstreams whose stream is part of this one.
	joined map[string]bool
	closed bool
}

// mergeStreams answers GET with one stream for all upstreams of the session,
// each going on where the client left it.
func (ex *exchange) mergeStreams(at *positions) *refusal {
	ex.rec.Kind = audit.KindOpen
	ex.rec.Status = http.StatusOK
	ex.describe()
	if err := ex.write(); err != nil {
		return &refuseAudit
	}
	ex.rec.Kind = audit.KindRequest

	ctx, cancel := context.WithCancelCause(ex.ctx)
	defer cancel(nil)
	m := &standing{stream: ex.newStream(cancel), ctx: ctx, at: at, joined: make(map[string]bool)}
	m.start()
	defer m.stop()
	leave := ex.g.standings.enter(ex.handle.ID, m)
	sessions := ex.g.pairs.All(ex.handle.ID)
	if sessions == nil {
		sessions = make(map[string]session.Opened, 1)
	}
	sessions[ex.g.defaultUpstream] = ex.upSession
	for name, opened := range sessions {
		m.add(ex.g.targets[name], opened)
	}
	<-ctx.Done()
	leave()
	m.close()
	m.wg.Wait() // the sources use the exchange
	m.finish(ctx, context.Cause(ctx), true)
	return nil
}

// add makes an upstream's stream part of this one.
func (m *standing) add(t *target, opened session.Opened) {
	m.join.Lock()
	defer m.join.Unlock()
	if t == nil || m.closed || m.joined[t.name] {
		return
	}
	m.joined[t.name] = true
	src := &source{stream: m.stream, up: t, session: opened, tag: tagStanding, at: m.at, lastID: []byte(m.at.of(t.name))}
	m.wg.Go(func() { m.follow(src) })
}

func (m *standing) close() {
	m.join.Lock()
	defer m.join.Unlock()
	m.closed = true
}

// The pauses between attempts to open an upstream's stream again.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// follow copies the stream of one upstream until the client leaves. A stream
// that breaks is opened again where it broke: the client, whose own stream is
// whole, would never know. An upstream that has no such stream is left alone.
func (m *standing) follow(src *source) {
	pause := firstPause
	for m.ctx.Err() == nil {
		resp, err := m.ex.get(m.ctx, src.up, src.session, string(src.lastID))
		if err == nil && (resp.Status != http.StatusOK || mediaType(resp.Header.Get("Content-Type")) != "text/event-stream") {
			resp.Body.Close()
			if resp.Status >= 400 && resp.Status < 500 {
				return
			}
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			src.body = resp.Body
			stop := context.AfterFunc(m.ctx, func() { resp.Body.Close() })
			err = src.copy()
			stop()
			resp.Body.Close()
			pause = firstPause
		}
		if errors.Is(err, errRevoked) || errors.Is(err, errTruncated) {
			m.cancel(err)
			return
		}
		select {
		case <-m.ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		}
	}
}

// standings are the merged streams that are open, so that a session that is
// opened at a further upstream joins the one of its client.
type standings struct {
	mu   sync.Mutex
	open map[session.ID]*standing
}

func (s *standings) enter(id session.ID, m *standing) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[session.ID]*standing)
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

// join adds an upstream to the open stream of a session, if there is one.
func (s *standings) join(id session.ID, t *target, opened session.Opened) {
	s.mu.Lock()
	m := s.open[id]
	s.mu.Unlock()
	if m != nil {
		m.add(t, opened)
	}
}

// serveEnd answers DELETE /mcp: the client ends its session, everywhere the
// gateway opened one for it.
func (ex *exchange) serveEnd() *refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	ex.sentUp = ex.g.now()
	resp, err := ex.up.client.Do(ex.ctx, &upstream.Request{Method: http.MethodDelete, Header: ex.upstreamHeader(ex.upSession)})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if ex.hasHandle && resp.Status < 300 {
		ex.endPairs()
	}
	if resp.Status == http.StatusMethodNotAllowed {
		refused := refuseNoStream
		refused.allow = "GET, POST"
		return &refused
	}
	return ex.relay(resp)
}

// openControl takes a request without a body as far as its upstream: the
// caller, the session, the default upstream.
func (ex *exchange) openControl() *refusal {
	if refused := ex.authenticate(); refused != nil {
		return refused
	}
	if refused := ex.resolveDialect(); refused != nil {
		refused.nullID = true
		return refused
	}
	if ex.dialect.Modern {
		// The stateless revision knows neither sessions nor standalone streams.
		return &refuseNoStream
	}
	if refused := ex.openSession(); refused != nil {
		return refused
	}
	up, ok := ex.g.targets[ex.g.defaultUpstream]
	if !ok {
		return &refuseNoRoute
	}
	ex.up = up
	ex.rec.Action = actionAllow
	return ex.upstreamSession()
}

// endPairs ends the sessions that the gateway opened for the client at other
// upstreams.
func (ex *exchange) endPairs() {
	for name, opened := range ex.g.pairs.End(ex.handle.ID) {
		t, ok := ex.g.targets[name]
		if !ok || opened.ID == "" {
			continue
		}
		header := sessionHeader(opened)
		ex.g.errands.run(func(ctx context.Context) {
			resp, err := t.client.Do(ctx, &upstream.Request{Method: http.MethodDelete, Header: header})
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// rejectRequest answers a request of the server that policy keeps from the
// client: the call that it belongs to would wait for it for ever.
func (src *source) rejectRequest(m *mcp.Message) {
	id := src.ex.rec.RequestID
	body := mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, "policy_denied", id)
	header := postHeader(src.session)
	client, log := src.up.client, src.ex.g.log
	ran := src.ex.g.errands.run(func(ctx context.Context) {
		resp, err := client.Do(ctx, &upstream.Request{Method: http.MethodPost, Header: header, Body: body})
		if err != nil {
			log.Warn("upstream was not told that its request was denied", "request_id", id, "error", err)
			return
		}
		resp.Body.Close()
	})
	if !ran {
		log.Warn("upstream was not told that its request was denied: too many errands", "request_id", id)
	}
}
