package bolt

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// answerRecord is the answer of a finished attempt.
type answerRecord struct {
	Body    []byte // digest of the request's body
	Expires time.Time
	Answer  store.Answer
}

// flightKey names an attempt of a tenant.
type flightKey struct {
	tenant  string
	attempt [sha256.Size]byte
}

// flight is an attempt at work. Attempts need no place on disk before they are
// finished: they end with the process.
type flight struct {
	body [sha256.Size]byte
	done chan struct{} // closed when it has finished or was abandoned
}

func attemptDigest(a store.Attempt) [sha256.Size]byte {
	return sha256.Sum256(joined(a.KeyID, a.Route, a.Token))
}

var errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
	"Idempotency-Key", "was used with another request body")

// BeginAttempt claims an attempt or returns the answer of an earlier one.
func (t *tenant) BeginAttempt(ctx context.Context, a store.Attempt) (*store.Answer, error) {
	key := flightKey{t.id, attemptDigest(a)}
	for {
		t.s.mu.Lock()
		twin := t.s.flights[key]
		mine := &flight{body: a.Body, done: make(chan struct{})}
		if twin == nil {
			t.s.flights[key] = mine
		}
		t.s.mu.Unlock()
		if twin == nil {
			rec, err := t.answer(ctx, key)
			if rec == nil && err == nil {
				return nil, nil
			}
			t.land(key, mine)
			if err != nil {
				return nil, err
			}
			if sha256Equal(rec.Body, a.Body) {
				return &rec.Answer, nil
			}
			return nil, errOtherBody
		}
		if twin.body != a.Body {
			return nil, errOtherBody
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

func sha256Equal(a []byte, b [sha256.Size]byte) bool { return string(a) == string(b[:]) }

func (t *tenant) answer(ctx context.Context, key flightKey) (found *answerRecord, err error) {
	err = t.view(ctx, func(d data) error {
		rec, ok, err := getJSON[answerRecord](d.in(inAnswers), string(key.attempt[:]))
		if ok && t.s.now().Before(rec.Expires) {
			found = &rec
		}
		return err
	})
	return found, err
}

// land ends a flight and wakes its twins.
func (t *tenant) land(key flightKey, f *flight) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if f != nil && t.s.flights[key] == f {
		delete(t.s.flights, key)
		close(f.done)
	}
}

// FinishAttempt keeps the answer of an attempt.
func (t *tenant) FinishAttempt(ctx context.Context, a store.Attempt, answer store.Answer) error {
	key := flightKey{t.id, attemptDigest(a)}
	t.s.mu.Lock()
	f := t.s.flights[key]
	t.s.mu.Unlock()
	if f == nil {
		return errors.New("finish an attempt that was not begun")
	}
	defer t.land(key, f)
	// The work is done: its answer is kept even when its client has left.
	return t.update(context.WithoutCancel(ctx), func(_ *bbolt.Tx, d data) error {
		rec := answerRecord{Body: a.Body[:], Expires: t.s.now().UTC().Add(store.IdempotencyTTL), Answer: answer}
		old, ok, err := getJSON[answerRecord](d.in(inAnswers), string(key.attempt[:]))
		if err != nil {
			return err
		}
		if ok {
			if err := d.in(inAnswerExpiry).Delete(expiryKey(old.Expires, key.attempt)); err != nil {
				return err
			}
		}
		if err := d.in(inAnswerExpiry).Put(expiryKey(rec.Expires, key.attempt), []byte{}); err != nil {
			return err
		}
		return putJSON(d.in(inAnswers), string(key.attempt[:]), rec)
	})
}

func expiryKey(at time.Time, attempt [sha256.Size]byte) []byte {
	return append(bytes8(uint64(at.UnixNano())), attempt[:]...)
}

// AbandonAttempt forgets an attempt.
func (t *tenant) AbandonAttempt(_ context.Context, a store.Attempt) error {
	key := flightKey{t.id, attemptDigest(a)}
	t.s.mu.Lock()
	f := t.s.flights[key]
	t.s.mu.Unlock()
	t.land(key, f)
	return nil
}
