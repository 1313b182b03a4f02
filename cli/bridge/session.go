package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

// session is the client's session at the endpoint, in the legacy revisions.
type session struct {
	reopening sync.Mutex

	mu        sync.Mutex
	now       mcp.Session
	listening bool
	// The state that a new session is given when it replaces a lost one.
	opening []byte            // the client's initialize
	level   []byte            // its last logging/setLevel
	watched map[string][]byte // its resources/subscribe, by uri
}

// maxWatched bounds the subscriptions that a new session is given.
const maxWatched = 1000

// current returns the session; empty before initialize.
func (s *session) current() mcp.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// initialize opens the session. It processes the response before the client gets it,
// because the client's next message uses the session.
func (b *bridge) initialize(ctx context.Context, c *call, wrote func()) error {
	resp, err := b.exchange(ctx, c.m, wrote)
	if err != nil {
		return err
	}
	c.opened = resp.Header.Get(mcp.HeaderSession)
	return b.deliver(ctx, c, resp)
}

// observe stores the parts of a response that later requests depend on.
func (b *bridge) observe(c *call, body []byte) {
	m := new(mcp.Message)
	if mcp.Scan(body, m) != nil || m.Kind != mcp.Response || m.IsError {
		return
	}
	s := &b.session
	switch c.m.Method {
	case mcp.MethodInitialize:
		s.mu.Lock()
		s.now = mcp.Session{ID: c.opened, Version: string(bytes.Clone([]byte(m.InitializeVersion)))}
		s.opening, s.level, s.watched = c.m.Body, nil, map[string][]byte{}
		s.mu.Unlock()
	case mcp.MethodToolsList:
		b.learnFrom(m)
	case mcp.MethodSetLevel:
		s.mu.Lock()
		s.level = c.m.Body
		s.mu.Unlock()
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		s.mu.Lock()
		delete(s.watched, c.m.URI)
		if c.m.Method == mcp.MethodResourcesSubscribe && len(s.watched) < maxWatched {
			s.watched[c.m.URI] = c.m.Body
		}
		s.mu.Unlock()
	}
}

// reopen opens a new session when the endpoint has lost the old one, and restores its
// known state.
func (b *bridge) reopen(ctx context.Context, lost mcp.Session) error {
	s := &b.session
	s.reopening.Lock()
	defer s.reopening.Unlock()
	if s.current() != lost {
		return nil // another request has reopened it
	}
	s.mu.Lock()
	opening := s.opening
	replay := [][]byte{}
	if s.level != nil {
		replay = append(replay, s.level)
	}
	for _, body := range s.watched {
		replay = append(replay, body)
	}
	s.mu.Unlock()
	m, header, err := b.ask(ctx, opening, mcp.Session{})
	if err != nil {
		return fmt.Errorf("the session ended, and no other could be opened: %w", err)
	}
	next := mcp.Session{ID: header.Get(mcp.HeaderSession), Version: m.InitializeVersion}
	if next.Version != lost.Version {
		return fmt.Errorf("the session ended, and the next one has protocol revision %q in place of %q: start the client again", next.Version, lost.Version)
	}
	resp, err := b.do(ctx, &outgoing{method: http.MethodPost, session: next, body: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)})
	if err != nil {
		return err
	}
	discard(resp)
	for _, body := range replay {
		if _, _, err := b.ask(ctx, body, next); err != nil && ctx.Err() == nil {
			b.logf("the state of the lost session could not be restored completely: %v", err)
		}
	}
	s.mu.Lock()
	s.now = next
	s.mu.Unlock()
	b.logf("the session at the gateway was lost; another one was opened")
	return nil
}

// ask sends one of the client's requests again on behalf of the bridge, and returns its
// result.
func (b *bridge) ask(ctx context.Context, body []byte, s mcp.Session) (*mcp.Message, http.Header, error) {
	m := new(mcp.Message)
	if err := mcp.Scan(body, m); err != nil {
		return nil, nil, err
	}
	o := b.post(m, s, nil)
	resp, err := b.do(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if r := refusalOf(resp); r != nil {
		return nil, nil, errors.New(r.text())
	}
	answer, err := b.answerIn(resp, m.ID)
	if err == nil && answer.IsError {
		err = fmt.Errorf("%s was refused with code %d", m.Method, answer.ErrorCode)
	}
	return answer, resp.Header, err
}

// answerIn finds the response with an id in a JSON or event stream body.
func (b *bridge) answerIn(resp *http.Response, id []byte) (*mcp.Message, error) {
	m := new(mcp.Message)
	if !isMedia(resp, mediaEvents) {
		body, err := readBounded(resp.Body, b.o.MaxLine)
		if err == nil {
			err = mcp.Scan(body, m)
		}
		return m, err
	}
	events := mcp.NewEventReader(resp.Body, b.o.MaxLine)
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if e.IsMessage() && mcp.Scan(slices.Clone(e.Data), m) == nil && m.Kind == mcp.Response && mcp.SameID(m.ID, id) {
			return m, nil
		}
	}
}

// listen starts to follow the standalone stream of the session, on which the server
// sends messages that belong to no request.
func (b *bridge) listen() {
	s := &b.session
	s.mu.Lock()
	begin := !s.listening && s.now.Version != ""
	s.listening = s.listening || begin
	s.mu.Unlock()
	if begin {
		b.wg.Go(b.followSession)
	}
}

// followSession opens the stream again whenever it ends, until the server does not
// support it.
func (b *bridge) followSession() {
	var p position
	for failures := 0; b.ctx.Err() == nil; {
		s := b.session.current()
		o := &outgoing{method: http.MethodGet, session: s, header: http.Header{}}
		if p.id != "" {
			o.header[mcp.HeaderLastEventID] = []string{p.id}
		}
		resp, err := b.do(b.ctx, o)
		switch {
		case err != nil:
		case resp.StatusCode == http.StatusMethodNotAllowed:
			discard(resp)
			return
		case resp.StatusCode == http.StatusOK && isMedia(resp, mediaEvents):
			began := time.Now()
			_, _ = b.copyEvents(resp.Body, &p, nil)
			resp.Body.Close()
			if p.moved || time.Since(began) > maxPause {
				failures = 0
			}
		default:
			r := refusalOf(resp)
			p.id = "" // the server may refuse this position
			if r != nil && r.lostSession(s) {
				if err := b.reopen(b.ctx, s); err != nil && b.ctx.Err() == nil {
					b.logf("%v", err)
				}
			}
		}
		failures++
		if !retry.Wait(b.ctx, p.wait(failures)) {
			return
		}
	}
}

// subscribe keeps the stream of a subscription open: when it ends without a response, as
// after a restart of the gateway, the request is sent again.
func (b *bridge) subscribe(ctx context.Context, c *call, wrote func()) error {
	for failures := 1; ; failures++ {
		resp, err := b.exchange(ctx, c.m, wrote)
		if err != nil {
			return err
		}
		if resp.StatusCode/100 != 2 || !isMedia(resp, mediaEvents) {
			return b.deliver(ctx, c, resp)
		}
		var p position
		began := time.Now()
		answered, err := b.copyEvents(resp.Body, &p, c)
		resp.Body.Close()
		switch {
		case answered:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, mcp.ErrEventTooLarge):
			return fmt.Errorf("a message of the stream has more than %d bytes", b.o.MaxLine)
		case time.Since(began) > maxPause:
			failures = 1
		}
		if !retry.Wait(ctx, p.wait(failures)) {
			return context.Cause(ctx)
		}
	}
}

// endSession ends the session at the endpoint.
func (b *bridge) endSession() {
	s := b.session.current()
	if s.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	resp, err := b.attempt(ctx, &outgoing{method: http.MethodDelete, session: s}, b.currentKey())
	if err == nil {
		discard(resp)
	}
}
