package stdio

import (
	"context"
	"io"
	"sync"
)

// Bounds on the messages that wait for a client that does not read the stream of its
// session.
const (
	maxStanding      = 256
	maxStandingBytes = 1 << 20
)

// standing is the stream of what a session is sent beside its responses.
type standing struct {
	mu       sync.Mutex
	queued   [][]byte
	bytes    int
	listener *standingStream // nil while the client does not listen
	ended    bool
	room     *room
}

// push adds a message. It returns false when there is no room.
func (s *standing) push(body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.queued) >= maxStanding || s.bytes+len(body) > maxStandingBytes && len(s.queued) > 0 || !s.room.take(len(body)) {
		return false
	}
	s.queued = append(s.queued, body)
	s.bytes += len(body)
	if s.listener != nil {
		s.listener.notify()
	}
	return true
}

// take returns the next message; nil when there is none. over is set for a listener
// that is not the one of the session any more.
func (s *standing) take(l *standingStream) (body []byte, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != l {
		return nil, true
	}
	if len(s.queued) == 0 {
		return nil, s.ended
	}
	body, s.queued = s.queued[0], s.queued[1:]
	s.bytes -= len(body)
	s.room.give(len(body))
	return body, false
}

// listened reports whether the client listens.
func (s *standing) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil
}

// listen returns the stream, in the place of the one before.
func (s *standing) listen(ctx context.Context, t *Transport) *standingStream {
	l := &standingStream{of: s, t: t, ctx: ctx, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.notify() // it ends
	}
	s.listener = l
	return l
}

// end ends the stream, and any that is opened later.
func (s *standing) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.room.give(s.bytes)
	s.queued, s.bytes = nil, 0
	if s.listener != nil {
		s.listener.notify()
	}
}

// standingStream is the body of the response that a client listens to.
type standingStream struct {
	of     *standing
	t      *Transport
	ctx    context.Context
	wake   chan struct{}
	closed chan struct{}
	before func() // see upstream.Response.BeforeWait
	out    []byte
	close  sync.Once
}

func (l *standingStream) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// BeforeWait is [upstream.Response.BeforeWait].
func (l *standingStream) BeforeWait(before func()) { l.before = before }

// Read implements io.Reader.
func (l *standingStream) Read(b []byte) (int, error) {
	for len(l.out) == 0 {
		body, over := l.of.take(l)
		switch {
		case over:
			return 0, io.EOF
		case body != nil:
			l.out = event(l.out[:0], body)
			continue
		}
		if l.before != nil {
			l.before()
		}
		select {
		case <-l.wake:
		case <-l.closed:
			return 0, errBodyClosed
		case <-l.ctx.Done():
			return 0, l.t.failContext(l.ctx, opRead, true)
		}
	}
	n := copy(b, l.out)
	l.out = l.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *standingStream) Close() error {
	l.close.Do(func() {
		close(l.closed)
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		if l.of.listener == l {
			l.of.listener = nil
		}
	})
	return nil
}
