package credentials

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc/gateway/credentials/endpoint"
	"svc/gateway/upstream"
)

const (
	// early is how long before its end a token is replaced; shorter-lived tokens are used
	// for half of their time.
	early = 30 * time.Second
	// failureTime is how long a failure is the answer before the endpoint is asked again.
	failureTime = time.Second
	// freshTime is how long a new token that the upstream rejects is not replaced: another
	// one would be rejected too.
	freshTime = 5 * time.Second
)

// token is one that can be presented.
type token struct {
	fields  []upstream.Field
	fetched time.Time
	until   time.Time // it is replaced before it ends
}

// newToken returns a token that was asked for at a time and is valid from then on.
func newToken(text string, asked time.Time, valid time.Duration) *token {
	return &token{
		fields:  []upstream.Field{{Name: "Authorization", Value: "Bearer " + text}},
		fetched: asked, until: asked.Add(valid - min(early, valid/2)),
	}
}

// held is the place of one token, which is asked for when it is needed. The zero value
// is empty.
type held struct {
	mu      sync.Mutex
	token   *token
	failed  error // the last failure, until retryAt
	retryAt time.Time
	fetch   *fetch // in flight
}

// fetch is a request to the endpoint that several requests may wait for.
type fetch struct {
	done  chan struct{}
	token *token
	err   error
}

// errLeft is the error of a request that ended while it waited.
type errLeft struct{ cause error }

func (e *errLeft) Error() string { return "the request ended while it waited for a token" }
func (e *errLeft) Unwrap() error { return e.cause }

// kindOf returns the kind of an error of get.
func kindOf(err error) error {
	if errors.As(err, new(*errLeft)) {
		return context.Canceled
	}
	if errors.Is(err, upstream.ErrLoginRequired) {
		return upstream.ErrLoginRequired
	}
	return upstream.ErrCredentials
}

// get returns the fields of the token, which ask requests where there is none, or none
// that is good for long enough.
func (h *held) get(ctx context.Context, now func() time.Time, ask func(context.Context) (*token, error)) ([]upstream.Field, error) {
	h.mu.Lock()
	if at := now(); h.token != nil && at.Before(h.token.until) {
		defer h.mu.Unlock()
		return h.token.fields, nil
	} else if h.failed != nil && at.Before(h.retryAt) {
		defer h.mu.Unlock()
		return nil, h.failed
	}
	f := h.fetch
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		h.fetch = f
		// It outlives the request that began it: others wait for it too.
		go h.run(context.WithoutCancel(ctx), f, now, ask)
	}
	h.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, &errLeft{context.Cause(ctx)}
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.token.fields, nil
}

// run asks the endpoint, and tells everybody who waits.
func (h *held) run(ctx context.Context, f *fetch, now func() time.Time, ask func(context.Context) (*token, error)) {
	ctx, cancel := context.WithTimeout(ctx, endpoint.Timeout)
	defer cancel()
	f.token, f.err = ask(ctx)
	h.mu.Lock()
	h.fetch, h.failed = nil, f.err
	if f.err == nil {
		h.token = f.token
	} else {
		h.retryAt = now().Add(failureTime)
	}
	h.mu.Unlock()
	close(f.done)
}

// rejected drops the token that an upstream rejected, and reports whether there will be
// another one. A token that the endpoint has just issued stays: the upstream does not
// accept what this client may have.
func (h *held) rejected(fields []upstream.Field, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token == nil || len(fields) != 1 || h.token.fields[0].Value != fields[0].Value {
		return true // another request has replaced it
	}
	if now.Sub(h.token.fetched) < freshTime {
		return false
	}
	h.token = nil
	return true
}
