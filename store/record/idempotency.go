package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"svc/store"
)

// answer is the response to a finished request.
type answer struct {
	Body    []byte // digest of the request's body
	Expires time.Time
	Answer  store.StoredResponse
}

var (
	errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
		"Idempotency-Key", "was used with another request body")
	errNotBegun = errors.New("the response to an idempotent request that was not begun")
)

// pollClaims is how often a duplicate asks whether a request in another process has ended.
const pollClaims = 100 * time.Millisecond

// BeginAttempt claims a request or returns the response to an earlier one.
func (t *Tenant) BeginAttempt(ctx context.Context, r store.IdempotentRequest) (*store.StoredResponse, error) {
	claims := t.e.Claims()
	c := Claim{Tenant: t.id, Digest: r.Digest(), Body: r.Body}
	for {
		mine, duplicate := claims.add(c)
		var ended <-chan struct{}
		var poll <-chan time.Time
		var body []byte // of the request that is in flight
		if duplicate != nil {
			body, ended = duplicate.body[:], duplicate.ended
		} else {
			response, other, err := t.begin(ctx, c)
			if err == nil && response == nil && other == nil {
				return nil, nil
			}
			claims.remove(c, mine)
			if err != nil || response != nil {
				return response, err
			}
			body, poll = other, time.After(pollClaims)
		}
		if string(body) != string(r.Body[:]) {
			return nil, errOtherBody
		}
		select {
		case <-ended:
		case <-poll:
		case <-t.e.Closed():
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin returns the response to an earlier request, or the digest of the body of the request
// that is in flight in another process. Without either the request is claimed.
func (t *Tenant) begin(ctx context.Context, c Claim) (response *store.StoredResponse, other []byte, err error) {
	other, err = t.e.Claim(ctx, c, func(tx Tx) (free bool, err error) {
		response = nil
		a, known, err := get[answer](tx, answers, c.Digest[:])
		if err != nil || !known || !t.e.Now().Before(a.Expires) {
			return true, err
		}
		if string(a.Body) != string(c.Body[:]) {
			return false, errOtherBody
		}
		response = &a.Answer
		return false, nil
	})
	return response, other, err
}

// FinishAttempt stores the response to a request.
func (t *Tenant) FinishAttempt(ctx context.Context, r store.IdempotentRequest, response store.StoredResponse) error {
	c, f := t.begun(r)
	if f == nil {
		return errNotBegun
	}
	// The work is done: its response is stored even when its client has disconnected.
	err := t.e.Update(context.WithoutCancel(ctx), t.id, func(tx Tx) error { return t.putAnswer(tx, c, response) })
	if err == nil || errors.Is(err, errNotBegun) {
		t.e.Claims().remove(c, f)
	}
	return err
}

// AbandonAttempt forgets a request.
func (t *Tenant) AbandonAttempt(ctx context.Context, r store.IdempotentRequest) error {
	c, f := t.begun(r)
	if f == nil {
		return nil
	}
	err := t.e.Unclaim(context.WithoutCancel(ctx), c)
	t.e.Claims().remove(c, f)
	return err
}

// begun returns the claim of a request, and the request if it is in flight in this process.
func (t *Tenant) begun(r store.IdempotentRequest) (Claim, *inFlight) {
	c := Claim{Tenant: t.id, Digest: r.Digest(), Body: r.Body}
	return c, t.e.Claims().find(c)
}

// create is an update for a method that returns what it creates: a response that the context
// has to store for what made returns is stored in the same transaction, see
// [store.StoringResponse].
func (t *Tenant) create(ctx context.Context, made func() any, write func(Tx) error) error {
	pending := store.PendingResponseOf(ctx)
	if pending == nil {
		return t.e.Update(ctx, t.id, write)
	}
	c, f := t.begun(pending.Request)
	if f == nil {
		return errNotBegun
	}
	stored := false
	err := t.e.Update(ctx, t.id, func(tx Tx) error {
		if err := write(tx); err != nil {
			return err
		}
		var response store.StoredResponse
		if response, stored = pending.Of(made()); !stored {
			return nil
		}
		return t.putAnswer(tx, c, response)
	})
	if err == nil && stored {
		t.e.Claims().remove(c, f)
	}
	return err
}

// putAnswer writes the response to a request in flight. A process that was paused for so long
// that another one took over its request stores nothing.
func (t *Tenant) putAnswer(tx Tx, c Claim, response store.StoredResponse) error {
	held, err := t.e.Settle(tx, c)
	if err != nil {
		return err
	}
	if !held {
		return errNotBegun
	}
	old, known, err := get[answer](tx, answers, c.Digest[:])
	if err == nil && known {
		err = tx.Delete(answerExpiry, expiry(old.Expires, c.Digest))
	}
	if err != nil {
		return err
	}
	expires := t.e.Now().Add(store.IdempotencyTTL)
	if err := tx.Put(answerExpiry, expiry(expires, c.Digest), []byte{1}); err != nil {
		return err
	}
	return put(tx, answers, c.Digest[:], answer{Body: c.Body[:], Expires: expires, Answer: response})
}

// expiry is the key of a row that expires at a time.
func expiry(at time.Time, digest [sha256.Size]byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())), digest[:]...)
}

// expired is the range of the rows that have expired at a time. Mostly there are none.
func expired(at time.Time) Range {
	return Range{To: expiry(at.Add(1), [sha256.Size]byte{}), Keys: true, Most: 1}
}

// trimAnswers removes responses that have expired at a time, the oldest first.
func trimAnswers(tx Tx, at time.Time, limit int) (int, error) {
	var rows, digests [][]byte
	err := tx.Scan(answerExpiry, expired(at), func(key, _ []byte) (bool, error) {
		row := bytes.Clone(key)
		rows, digests = append(rows, row), append(digests, row[len(row)-sha256.Size:])
		return len(rows) < limit, nil
	})
	if err == nil {
		err = tx.Delete(answers, digests...)
	}
	if err == nil {
		err = tx.Delete(answerExpiry, rows...)
	}
	return len(rows), err
}
