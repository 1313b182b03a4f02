package upstream

import (
	"sync"

	"svc/gateway/mcp"
)

// Source produces the messages of an event stream. Next is called by one goroutine at a time;
// Close may be called by another, and ends a blocked Next.
type Source interface {
	// Next returns the next message, io.EOF at the end of the stream. It calls before
	// whenever it is about to block.
	Next(before func()) ([]byte, error)
	// Close is called once.
	Close() error
}

// Events returns a response that is an event stream of the messages of source.
func Events(source Source) *Response {
	s := &events{source: source}
	s.wait = func() { // one for all events: each would be an allocation
		if s.before != nil {
			s.before()
		}
	}
	return Stream(s)
}

// events is the body of an event stream.
type events struct {
	source Source
	before func()
	wait   func() // calls before
	left   []byte // the rest of the event that is being read
	err    error
	closed sync.Once
}

var messageType = []byte("message")

// Read implements io.Reader.
func (s *events) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var message []byte
		if message, s.err = s.source.Next(s.wait); s.err == nil {
			s.left = mcp.AppendEvent(nil, mcp.Event{Type: messageType, Data: message, HasData: true})
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// BeforeWait is [HTTPResponse.BeforeWait].
func (s *events) BeforeWait(f func()) { s.before = f }

// OnRefused is [Response.OnRefused], if the source has one.
func (s *events) OnRefused(f func(*Refused)) {
	if source, ok := s.source.(interface{ OnRefused(func(*Refused)) }); ok {
		source.OnRefused(f)
	}
}

// Close implements io.Closer.
func (s *events) Close() (err error) {
	s.closed.Do(func() { err = s.source.Close() })
	return err
}
