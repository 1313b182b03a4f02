package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"svc/store"
)

// requestKey identifies an idempotent request of a tenant, flightKey one of any
// tenant.
type (
	requestKey struct{ keyID, route, token string }
	flightKey  struct {
		tenant string
		requestKey
	}
)

// keptResponse is the response to a finished request.
type keptResponse struct {
	body     [sha256.Size]byte
	expires  time.Time
	response store.StoredResponse
}

// inFlight is a request that was begun, at any handle.
type inFlight struct {
	body [sha256.Size]byte
	done chan struct{} // closed when the request has finished or was abandoned
}

var errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
	"Idempotency-Key", "was used with another request body")

var errNotBegun = errors.New("the response to an idempotent request that was not begun")

func keyOf(r store.IdempotentRequest) requestKey { return requestKey{r.KeyID, r.Route, r.Token} }

// BeginAttempt claims a request or returns the response to an earlier one.
func (t *tenant) BeginAttempt(ctx context.Context, r store.IdempotentRequest) (response *store.StoredResponse, err error) {
	for {
		var duplicate *inFlight
		err := t.write(ctx, func(e *engine, d *tenantData) error {
			k := flightKey{t.id, keyOf(r)}
			kept, ok := d.answers[k.requestKey]
			ok = ok && e.now().Before(kept.expires)
			duplicate = e.inFlight[k]
			switch {
			case duplicate != nil && duplicate.body != r.Body, duplicate == nil && ok && kept.body != r.Body:
				return errOtherBody
			case duplicate != nil:
			case ok:
				out := responseOut(kept.response)
				response = &out
			default:
				e.inFlight[k] = &inFlight{body: r.Body, done: make(chan struct{})}
			}
			return nil
		})
		if err != nil || duplicate == nil {
			return response, err
		}
		select {
		case <-duplicate.done:
		case <-t.s.closed:
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func responseOut(r store.StoredResponse) store.StoredResponse {
	r.Body = slices.Clone(r.Body)
	return r
}

// FinishAttempt stores the response to a request.
func (t *tenant) FinishAttempt(ctx context.Context, r store.IdempotentRequest, response store.StoredResponse) error {
	// The work is done: its response is stored even when its client has
	// disconnected.
	return t.write(context.WithoutCancel(ctx), func(e *engine, d *tenantData) error {
		if !e.begun(t.id, r) {
			return errNotBegun
		}
		e.finish(d, t.id, r, response)
		return nil
	})
}

// create is write for a method that returns what it creates: a response that the
// context has to store is stored in the same step.
func (t *tenant) create(ctx context.Context, made func() any, fn func(e *engine, d *tenantData) error) error {
	pending := store.PendingResponseOf(ctx)
	return t.write(ctx, func(e *engine, d *tenantData) error {
		if pending != nil && !e.begun(t.id, pending.Request) {
			return errNotBegun
		}
		if err := fn(e, d); err != nil || pending == nil {
			return err
		}
		if response, ok := pending.Of(made()); ok {
			e.finish(d, t.id, pending.Request, response)
		}
		return nil
	})
}

// begun reports whether a request is in flight.
func (e *engine) begun(tenant string, r store.IdempotentRequest) bool {
	f := e.inFlight[flightKey{tenant, keyOf(r)}]
	return f != nil && f.body == r.Body
}

// finish stores the response to a request in flight.
func (e *engine) finish(d *tenantData, tenant string, r store.IdempotentRequest, response store.StoredResponse) {
	e.release(flightKey{tenant, keyOf(r)})
	d.answers[keyOf(r)] = keptResponse{r.Body, e.now().Add(store.IdempotencyTTL), responseOut(response)}
}

// release removes a request from those in flight and wakes its duplicates.
func (e *engine) release(k flightKey) {
	if f := e.inFlight[k]; f != nil {
		delete(e.inFlight, k)
		close(f.done)
	}
}

// AbandonAttempt forgets a request.
func (t *tenant) AbandonAttempt(ctx context.Context, r store.IdempotentRequest) error {
	return t.read(ctx, func(e *engine, _ *tenantData) error {
		if e.begun(t.id, r) {
			e.release(flightKey{t.id, keyOf(r)})
		}
		return nil
	})
}
