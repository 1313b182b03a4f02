package guardrail

import (
	"io"
	"sync"
)

// revocableReader is a request body that can be revoked. The transport may still read the
// body after the call has ended, when the caller reuses its memory; a revoked reader
// returns an error instead.
type revocableReader struct {
	mu      sync.Mutex
	rest    []byte
	revoked bool
}

func (l *revocableReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.revoked:
		return 0, io.ErrClosedPipe
	case len(l.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close revokes the reader: later reads fail.
func (l *revocableReader) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.revoked = nil, true
	return nil
}
