package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"svc/store"
)

// attemptKey names an attempt of a tenant, flightKey one of any.
type (
	attemptKey struct{ keyID, route, token string }
	flightKey  struct {
		tenant string
		attemptKey
	}
)

// keptAnswer is the answer of a finished attempt.
type keptAnswer struct {
	body    [sha256.Size]byte
	expires time.Time
	answer  store.Answer
}

// flight is an attempt at work, at whichever handle.
type flight struct {
	body [sha256.Size]byte
	done chan struct{} // closed when it has finished or was abandoned
}

var errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
	"Idempotency-Key", "was used with another request body")

func keyOf(a store.Attempt) attemptKey { return attemptKey{a.KeyID, a.Route, a.Token} }

// BeginAttempt claims an attempt or returns the answer of an earlier one.
func (t *tenant) BeginAttempt(ctx context.Context, a store.Attempt) (answer *store.Answer, err error) {
	for {
		var twin *flight
		err := t.write(ctx, func(e *engine, d *tenantData) error {
			k := flightKey{t.id, keyOf(a)}
			kept, ok := d.answers[k.attemptKey]
			ok = ok && e.now().Before(kept.expires)
			twin = e.flights[k]
			switch {
			case twin != nil && twin.body != a.Body, twin == nil && ok && kept.body != a.Body:
				return errOtherBody
			case twin != nil:
			case ok:
				out := answerOut(kept.answer)
				answer = &out
			default:
				e.flights[k] = &flight{body: a.Body, done: make(chan struct{})}
			}
			return nil
		})
		if err != nil || twin == nil {
			return answer, err
		}
		select {
		case <-twin.done:
		case <-t.s.closed:
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func answerOut(a store.Answer) store.Answer {
	a.Body = slices.Clone(a.Body)
	return a
}

// FinishAttempt keeps the answer of an attempt.
func (t *tenant) FinishAttempt(ctx context.Context, a store.Attempt, answer store.Answer) error {
	// The work is done: its answer is kept even when its client has left.
	return t.write(context.WithoutCancel(ctx), func(e *engine, d *tenantData) error {
		if !e.land(flightKey{t.id, keyOf(a)}) {
			return errors.New("finish an attempt that was not begun")
		}
		d.answers[keyOf(a)] = keptAnswer{a.Body, e.now().Add(store.IdempotencyTTL), answerOut(answer)}
		return nil
	})
}

// land ends a flight and wakes its twins; false where there is none.
func (e *engine) land(k flightKey) bool {
	f := e.flights[k]
	if f == nil {
		return false
	}
	delete(e.flights, k)
	close(f.done)
	return true
}

// AbandonAttempt forgets an attempt.
func (t *tenant) AbandonAttempt(ctx context.Context, a store.Attempt) error {
	return t.read(ctx, func(e *engine, _ *tenantData) error {
		e.land(flightKey{t.id, keyOf(a)})
		return nil
	})
}
