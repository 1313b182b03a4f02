package stdio

import (
	"context"
	"io"
	"sync"
)

// Limits of the messages that wait for a client that does not read the stream of its
// session.
const (
	maxSessionQueue      = 256
	maxSessionQueueBytes = 1 << 20
)

// sessionStream is the stream of messages to a session outside of its responses.
type sessionStream struct {
	mu       sync.Mutex
	queued   [][]byte
	bytes    int
	listener *sessionListener // nil while the client does not listen
	ended    bool
	room     *room
}

// push adds a message. It returns false when the limit is exceeded.
func (s *sessionStream) push(body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.queued) >= maxSessionQueue || s.bytes+len(body) > maxSessionQueueBytes && len(s.queued) > 0 || !s.room.take(len(body)) {
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
// that was replaced.
func (s *sessionStream) take(l *sessionListener) (body []byte, over bool) {
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

// listened reports whether the client has opened the stream.
func (s *sessionStream) listened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil
}

// listen returns the stream, replacing the previous listener.
func (s *sessionStream) listen(ctx context.Context, t *Transport) *sessionListener {
	l := &sessionListener{of: s, t: t, ctx: ctx, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.notify() // the previous listener ends
	}
	s.listener = l
	return l
}

// end ends the stream; streams that are opened later end at once.
func (s *sessionStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.room.give(s.bytes)
	s.queued, s.bytes = nil, 0
	if s.listener != nil {
		s.listener.notify()
	}
}

// sessionListener is the messages of the response that the client reads. It is a [upstream.Source].
type sessionListener struct {
	of     *sessionStream
	t      *Transport
	ctx    context.Context
	wake   chan struct{}
	closed chan struct{}
}

func (l *sessionListener) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Next implements [upstream.Source].
func (l *sessionListener) Next(before func()) ([]byte, error) {
	for {
		body, over := l.of.take(l)
		switch {
		case over:
			return nil, io.EOF
		case body != nil:
			return body, nil
		}
		before()
		select {
		case <-l.wake:
		case <-l.closed:
			return nil, errBodyClosed
		case <-l.ctx.Done():
			return nil, l.t.failContext(l.ctx, opRead, true)
		}
	}
}

// Close implements [upstream.Source].
func (l *sessionListener) Close() error {
	close(l.closed)
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.listener == l {
		l.of.listener = nil
	}
	return nil
}
