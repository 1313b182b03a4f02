package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnreachable: no connection, or it broke before the answer was complete
	// (gateway specification, Errors: upstream_unreachable).
	ErrUnreachable = errors.New("upstream unreachable")
	// ErrTimeout: the upstream took longer than its time-out (Limits: upstream
	// client time-out), or no connection became free in that time.
	ErrTimeout = errors.New("upstream timed out")
	// ErrInvalidResponse: what came back is not an answer that HTTP/1.1 allows,
	// or one that this client refuses to guess about.
	ErrInvalidResponse = errors.New("upstream answered invalid HTTP")
	// ErrTooLarge: the body exceeds max_response_bytes. It is an
	// ErrInvalidResponse too.
	ErrTooLarge = fmt.Errorf("%w: body is larger than max_response_bytes", ErrInvalidResponse)
	// ErrInvalidRequest: the request cannot be sent as it stands; nothing was.
	ErrInvalidRequest = errors.New("request cannot be sent")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("upstream client is closed")
)

// Error is every error of [Client.Do] and of a response body. It never holds a
// header value, a body or a query string.
type Error struct {
	// Upstream is the logical name.
	Upstream string
	// Op says what was being done: connect, write, read, …
	Op string
	// Kind is one of the Err values of this package, or context.Canceled when the
	// caller gave up. A deadline of the caller is an ErrTimeout and a
	// context.DeadlineExceeded.
	Kind error
	// Sent reports whether the upstream may have received the request. When it
	// is false the request certainly had no effect.
	Sent bool
	// Err is the cause; may be nil.
	Err error
}

// Error names the upstream, the step and the cause.
func (e *Error) Error() string {
	s := fmt.Sprintf("upstream %q: %s: %s", e.Upstream, e.Op, e.Kind)
	if e.Err != nil && e.Err != e.Kind {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns kind and cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// kindOf is the kind that an error belongs to. connecting says that there was no
// connection yet: what takes too long then is unreachable, unless it used up the
// whole time-out of the request.
func kindOf(err error, connecting bool) error {
	for _, kind := range [...]error{ErrClosed, ErrInvalidRequest, ErrInvalidResponse, ErrTimeout, context.Canceled} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || !connecting && errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrTimeout
	}
	return ErrUnreachable
}

// isReset reports whether the peer ended the connection without a word.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
