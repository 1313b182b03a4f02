package guardrail

import (
	"io"
	"sync"
)

// loan is a request body that can be called back: the transport may go on
// reading one after the call has ended, and by then the memory is the caller's
// again.
type loan struct {
	mu   sync.Mutex
	rest []byte
	over bool
}

func (l *loan) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return 0, io.ErrClosedPipe
	case len(l.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close ends the loan: nothing is read from then on.
func (l *loan) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.over = nil, true
	return nil
}
