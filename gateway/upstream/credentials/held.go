package credentials

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

const (
	// early is how long before its expiry a token is replaced; shorter-lived tokens are used for
	// half of their lifetime.
	early = 30 * time.Second
	// failureTime is how long a failure is cached before the endpoint is requested again.
	failureTime = time.Second
	// freshTime is the age below which a token that the upstream rejects is not replaced, because
	// the next one would be rejected too.
	freshTime = 5 * time.Second
)

// token is a token in the form in which it is sent.
type token struct {
	fields  []mcp.Field
	fetched time.Time
	until   time.Time // time of replacement, before it expires
}

// newToken returns a token that was requested at a time and is valid for a duration from then on.
func newToken(text string, asked time.Time, valid time.Duration) *token {
	return &token{
		fields:  []mcp.Field{{Name: "Authorization", Value: "Bearer " + text}},
		fetched: asked, until: asked.Add(valid - min(early, valid/2)),
	}
}

// held holds one token and requests it when it is needed. The zero value is empty. It is safe for
// concurrent use.
type held struct {
	mu      sync.Mutex
	token   *token
	failed  error // the last failure, until retryAt
	retryAt time.Time
	fetch   *fetch // in flight
}

// fetch is a request to the endpoint that several callers may wait for.
type fetch struct {
	done  chan struct{}
	token *token
	err   error
}

// errLeft is the error of a caller whose context ended while it waited.
type errLeft struct{ cause error }

func (e *errLeft) Error() string { return "the request ended while it waited for a token" }
func (e *errLeft) Unwrap() error { return e.cause }

// kindOf returns the kind of an error of get.
func kindOf(err error) error {
	if errors.As(err, new(*errLeft)) {
		return context.Canceled
	}
	for _, kind := range [...]error{upstream.ErrLoginRequired, upstream.ErrSubjectAudience} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return upstream.ErrCredentials
}

// get returns the fields of the token. If there is none, or it expires soon, get calls ask, once
// for all concurrent callers.
func (h *held) get(ctx context.Context, now func() time.Time, ask func(context.Context) (*token, error)) ([]mcp.Field, error) {
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
		// The fetch outlives the request that started it, because others wait for it too.
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

// run requests a token, and delivers the outcome to all callers that wait.
func (h *held) run(ctx context.Context, f *fetch, now func() time.Time, ask func(context.Context) (*token, error)) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
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

// rejected drops the token that an upstream rejected, and reports whether a new one can be
// expected. A token that the endpoint has just issued is kept: then the upstream rejects every
// token of this client.
func (h *held) rejected(fields []mcp.Field, now time.Time) bool {
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
