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
	// ErrUnreachable: no connection, or it broke before the response was complete
	// (gateway specification, Errors: upstream_unreachable).
	ErrUnreachable = errors.New("upstream unreachable")
	// ErrTimeout: the upstream exceeded its timeout (Limits: upstream client time-out),
	// or no connection became free in that time.
	ErrTimeout = errors.New("upstream timed out")
	// ErrInvalidResponse: the response violates HTTP/1.1, or is ambiguous.
	ErrInvalidResponse = errors.New("upstream sent an invalid HTTP response")
	// ErrTooLarge: the body exceeds max_response_bytes. It is an
	// ErrInvalidResponse too.
	ErrTooLarge = fmt.Errorf("%w: body is larger than max_response_bytes", ErrInvalidResponse)
	// ErrInvalidRequest: the request is not valid; nothing was sent.
	ErrInvalidRequest = errors.New("request cannot be sent")
	// ErrBusy: max_in_flight requests are in flight at the upstream, or all its processes
	// are in use; nothing was sent.
	ErrBusy = errors.New("upstream is busy")
	// ErrExited: the process of a program upstream has ended, or is not restarted yet.
	ErrExited = errors.New("upstream process exited")
	// ErrCredentials: the gateway could not get its token for the upstream; nothing was
	// sent.
	ErrCredentials = errors.New("no credentials for the upstream")
	// ErrNoSubject: the upstream needs a token that is exchanged for the caller's, and the
	// caller has none. It is an ErrCredentials too.
	ErrNoSubject = fmt.Errorf("%w: the caller has no token that could be exchanged", ErrCredentials)
	// ErrSubjectAudience: the upstream needs the ID token of the caller, and the caller's token
	// is for another audience. It is an ErrNoSubject too.
	ErrSubjectAudience = fmt.Errorf("%w: its token is not an ID token for id_jag.idp.client_id (aud)", ErrNoSubject)
	// ErrLoginRequired: no operator is logged in at the authorization server of the
	// upstream, or the login has ended. It is an ErrCredentials too.
	ErrLoginRequired = fmt.Errorf("%w: a login is required", ErrCredentials)
	// ErrOpen: the breaker of the upstream is open; nothing was sent. It is an
	// ErrUnreachable too.
	ErrOpen = fmt.Errorf("%w: its breaker is open after repeated failures", ErrUnreachable)
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("upstream client is closed")
)

// Error is the type of every error of [Client.Do] and of a response body. It never
// contains a header value, a body or a query string.
type Error struct {
	// Upstream is the logical name.
	Upstream string
	// Op is the failed step: connect, write, read, …
	Op string
	// Kind is one of the Err values of this package, or context.Canceled when the caller
	// canceled. A deadline of the caller is an ErrTimeout and a context.DeadlineExceeded.
	Kind error
	// Sent reports whether the upstream may have received the request. When it
	// is false the request certainly had no effect.
	Sent bool
	// Err is the cause; may be nil.
	Err error
}

// Error formats the upstream, the step and the cause.
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

// kindOf returns the kind of an error. connecting means that there was no connection yet:
// a timeout then counts as unreachable, unless it used up the whole timeout of the
// request.
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

// isReset reports whether the peer reset or closed the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
