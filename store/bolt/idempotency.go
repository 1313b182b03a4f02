package bolt

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// responseRecord is the response to a finished request.
type responseRecord struct {
	Body    []byte // digest of the request's body
	Expires time.Time
	Answer  store.StoredResponse
}

// requestKey identifies an idempotent request of a tenant.
type requestKey struct {
	tenant string
	digest [sha256.Size]byte
}

// inFlight is a request that was begun. It is kept in memory only: it ends with the
// process.
type inFlight struct {
	body [sha256.Size]byte
	done chan struct{} // closed when the request has finished or was abandoned
}

func (t *tenant) requestKey(r store.IdempotentRequest) requestKey {
	return requestKey{t.id, r.Digest()}
}

var errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
	"Idempotency-Key", "was used with another request body")

// BeginAttempt claims a request or returns the response to an earlier one.
func (t *tenant) BeginAttempt(ctx context.Context, r store.IdempotentRequest) (*store.StoredResponse, error) {
	key := t.requestKey(r)
	for {
		t.s.mu.Lock()
		duplicate := t.s.inFlight[key]
		mine := &inFlight{body: r.Body, done: make(chan struct{})}
		if duplicate == nil {
			t.s.inFlight[key] = mine
		}
		t.s.mu.Unlock()
		if duplicate == nil {
			rec, err := t.storedResponse(ctx, key)
			if rec == nil && err == nil {
				return nil, nil
			}
			t.release(key, mine)
			if err != nil {
				return nil, err
			}
			if sha256Equal(rec.Body, r.Body) {
				return &rec.Answer, nil
			}
			return nil, errOtherBody
		}
		if duplicate.body != r.Body {
			return nil, errOtherBody
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

func sha256Equal(a []byte, b [sha256.Size]byte) bool { return string(a) == string(b[:]) }

func (t *tenant) storedResponse(ctx context.Context, key requestKey) (found *responseRecord, err error) {
	err = t.view(ctx, func(d data) error {
		rec, ok, err := getJSON[responseRecord](d.in(inAnswers), string(key.digest[:]))
		if ok && t.s.now().Before(rec.Expires) {
			found = &rec
		}
		return err
	})
	return found, err
}

// begun returns the request in flight with its key and body, nil when there is none.
func (t *tenant) begun(r store.IdempotentRequest) *inFlight {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if f := t.s.inFlight[t.requestKey(r)]; f != nil && f.body == r.Body {
		return f
	}
	return nil
}

// release removes a request from those in flight and wakes its duplicates.
func (t *tenant) release(key requestKey, f *inFlight) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if f != nil && t.s.inFlight[key] == f {
		delete(t.s.inFlight, key)
		close(f.done)
	}
}

var errNotBegun = errors.New("the response to an idempotent request that was not begun")

// FinishAttempt stores the response to a request.
func (t *tenant) FinishAttempt(ctx context.Context, r store.IdempotentRequest, response store.StoredResponse) error {
	f := t.begun(r)
	if f == nil {
		return errNotBegun
	}
	defer t.release(t.requestKey(r), f)
	// The work is done: its response is stored even when its client has disconnected.
	return t.update(context.WithoutCancel(ctx), func(_ *bbolt.Tx, d data) error {
		return t.putResponse(d, r, response)
	})
}

// create is update for a method that returns what it creates: a response that the
// context has to store is stored in the same transaction.
func (t *tenant) create(ctx context.Context, made func() any, fn func(tx *bbolt.Tx, d data) error) error {
	pending := store.PendingResponseOf(ctx)
	if pending == nil {
		return t.update(ctx, fn)
	}
	f := t.begun(pending.Request)
	if f == nil {
		return errNotBegun
	}
	stored := false
	err := t.update(ctx, func(tx *bbolt.Tx, d data) error {
		if err := fn(tx, d); err != nil {
			return err
		}
		var response store.StoredResponse
		if response, stored = pending.Of(made()); !stored {
			return nil
		}
		return t.putResponse(d, pending.Request, response)
	})
	if err == nil && stored {
		t.release(t.requestKey(pending.Request), f)
	}
	return err
}

// putResponse writes the response to a request, with its expiry.
func (t *tenant) putResponse(d data, r store.IdempotentRequest, response store.StoredResponse) error {
	key := t.requestKey(r)
	rec := responseRecord{Body: r.Body[:], Expires: t.s.now().UTC().Add(store.IdempotencyTTL), Answer: response}
	old, ok, err := getJSON[responseRecord](d.in(inAnswers), string(key.digest[:]))
	if err != nil {
		return err
	}
	if ok {
		if err := d.in(inAnswerExpiry).Delete(expiryKey(old.Expires, key.digest)); err != nil {
			return err
		}
	}
	if err := d.in(inAnswerExpiry).Put(expiryKey(rec.Expires, key.digest), []byte{}); err != nil {
		return err
	}
	return putJSON(d.in(inAnswers), string(key.digest[:]), rec)
}

func expiryKey(at time.Time, digest [sha256.Size]byte) []byte {
	return append(bytes8(uint64(at.UnixNano())), digest[:]...)
}

// AbandonAttempt forgets a request.
func (t *tenant) AbandonAttempt(_ context.Context, r store.IdempotentRequest) error {
	if f := t.begun(r); f != nil {
		t.release(t.requestKey(r), f)
	}
	return nil
}
