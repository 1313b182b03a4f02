package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// requestKey identifies an idempotent request of a tenant.
type requestKey struct {
	tenant string
	digest [sha256.Size]byte
}

// inFlight is a request that was begun at this handle. Its row makes it visible to other
// handles.
type inFlight struct {
	body [sha256.Size]byte
	done chan struct{} // closed when the request has finished or was abandoned
}

// The row of a request in flight is renewed while its handle is alive and expires after
// requestTTL, so that after a crash of the process a retry can claim the request.
const (
	requestTTL   = 60 * time.Second
	renewEvery   = 15 * time.Second
	requestsPoll = 100 * time.Millisecond
	// settleAfter is the minimum age of a row that is removed because its request is no longer
	// in flight: a newer row may belong to a request that was begun meanwhile.
	settleAfter = 2 * time.Second
	settleEvery = 3 * time.Second
)

var errOtherBody = store.FieldError(store.Conflict, "the Idempotency-Key was used with another request body",
	"Idempotency-Key", "was used with another request body")

var errNotBegun = errors.New("the response to an idempotent request that was not begun")

func (t *tenant) requestKey(r store.IdempotentRequest) requestKey {
	return requestKey{t.id, r.Digest()}
}

// BeginAttempt claims a request or returns the response to an earlier one.
func (t *tenant) BeginAttempt(ctx context.Context, r store.IdempotentRequest) (*store.StoredResponse, error) {
	key := t.requestKey(r)
	for {
		mine := &inFlight{body: r.Body, done: make(chan struct{})}
		duplicate := t.s.claim(key, mine)
		if duplicate == nil {
			response, wait, err := t.begin(ctx, key, r)
			if err == nil && response == nil && !wait {
				return nil, nil
			}
			if err != nil {
				t.s.unsettled.Store(true) // the row may have been written
			}
			t.s.release(key, mine)
			if err != nil || response != nil {
				return response, err
			}
		} else if duplicate.body != r.Body {
			return nil, errOtherBody
		}
		done := make(<-chan struct{})
		var poll <-chan time.Time
		if duplicate != nil {
			done = duplicate.done
		} else {
			poll = time.After(requestsPoll) // the request is in flight at another handle
		}
		select {
		case <-done:
		case <-poll:
		case <-t.s.closed:
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claim registers a request as in flight unless one with its key is in flight, which it
// returns.
func (s *Store) claim(key requestKey, mine *inFlight) (duplicate *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if duplicate = s.inFlight[key]; duplicate == nil {
		s.inFlight[key] = mine
	}
	return duplicate
}

// release removes a request from those in flight and wakes its duplicates.
func (s *Store) release(key requestKey, f *inFlight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f != nil && s.inFlight[key] == f {
		delete(s.inFlight, key)
		close(f.done)
	}
}

// begin claims a request in the database, among all handles: it returns the response to an
// earlier one, or reports that the request is in flight at another handle.
func (t *tenant) begin(ctx context.Context, key requestKey, r store.IdempotentRequest) (response *store.StoredResponse, wait bool, err error) {
	err = t.s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		response, wait = nil, false
		n, err := t.number(ctx, tx)
		if err != nil {
			return err
		}
		now := t.s.now()
		var body, handle, raw []byte
		var until int64
		ok, err := found(tx.QueryRow(ctx, `SELECT body, handle, until, response FROM requests WHERE tenant = $1 AND digest = $2 FOR UPDATE`, n, key.digest[:]),
			&body, &handle, &until, &raw)
		if err != nil {
			return err
		}
		switch {
		case ok && now.UnixNano() < until && string(body) != string(r.Body[:]):
			return errOtherBody
		case ok && now.UnixNano() < until && len(handle) > 0 && string(handle) != string(t.s.handle):
			wait = true
			return nil
		case ok && now.UnixNano() < until && len(handle) == 0:
			response = &store.StoredResponse{}
			return parse(raw, response)
		case ok:
			// The row has expired, or belongs to a request at this handle whose row could not
			// be removed. No request with this key is in flight at this handle, because the
			// caller has claimed the key.
			_, err = tx.Exec(ctx, `UPDATE requests SET body = $3, handle = $4, until = $5, response = '' WHERE tenant = $1 AND digest = $2`,
				n, key.digest[:], r.Body[:], t.s.handle, now.Add(requestTTL).UnixNano())
		default:
			// Of two concurrent inserts one fails, and finds the row on its retry.
			_, err = tx.Exec(ctx, `INSERT INTO requests (tenant, digest, body, handle, until, response) VALUES ($1, $2, $3, $4, $5, '')`,
				n, key.digest[:], r.Body[:], t.s.handle, now.Add(requestTTL).UnixNano())
		}
		return err
	})
	return response, wait, err
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

// finish stores the response to a request in flight in a transaction. It returns an error when
// the request is no longer in flight because its handle was paused for too long.
func (d *data) finish(key requestKey, response store.StoredResponse) error {
	raw, err := document(response)
	if err != nil {
		return err
	}
	n, err := d.count(`UPDATE requests SET handle = '', until = $4, response = $5 WHERE tenant = $1 AND digest = $2 AND handle = $3`,
		d.n, key.digest[:], d.s.handle, d.s.now().Add(store.IdempotencyTTL).UnixNano(), raw)
	if err == nil && n == 0 {
		err = errNotBegun
	}
	return err
}

// FinishAttempt stores the response to a request.
func (t *tenant) FinishAttempt(ctx context.Context, r store.IdempotentRequest, response store.StoredResponse) error {
	key, f := t.requestKey(r), t.begun(r)
	if f == nil {
		return errNotBegun
	}
	// The work is done: its response is stored even when its client has disconnected.
	err := t.write(context.WithoutCancel(ctx), func(d *data) error { return d.finish(key, response) })
	if err == nil || errors.Is(err, errNotBegun) {
		t.s.release(key, f)
	}
	return err
}

// create is write for a method that returns what it creates: a response that the context has to
// store is stored in the same transaction.
func (t *tenant) create(ctx context.Context, made func() any, fn func(d *data) error) error {
	pending := store.PendingResponseOf(ctx)
	if pending == nil {
		return t.write(ctx, fn)
	}
	key, f := t.requestKey(pending.Request), t.begun(pending.Request)
	if f == nil {
		if err := t.s.usable(ctx); err != nil {
			return err
		}
		return errNotBegun
	}
	stored := false
	err := t.write(ctx, func(d *data) error {
		if err := fn(d); err != nil {
			return err
		}
		var response store.StoredResponse
		if response, stored = pending.Of(made()); !stored {
			return nil
		}
		return d.finish(key, response)
	})
	if err == nil && stored {
		t.s.release(key, f)
	}
	return err
}

// AbandonAttempt forgets a request.
func (t *tenant) AbandonAttempt(ctx context.Context, r store.IdempotentRequest) error {
	key, f := t.requestKey(r), t.begun(r)
	if f == nil {
		return nil
	}
	err := t.s.run(context.WithoutCancel(ctx), writing, func(ctx context.Context, tx pgx.Tx) error {
		n, err := t.number(ctx, tx)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM requests WHERE tenant = $1 AND digest = $2 AND handle = $3`, n, key.digest[:], t.s.handle)
		}
		return err
	})
	if err != nil {
		t.s.unsettled.Store(true)
	}
	t.s.release(key, f)
	return err
}

// inFlightDigests returns the digests of the requests in flight at this handle.
func (s *Store) inFlightDigests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([][]byte, 0, len(s.inFlight))
	for key := range s.inFlight {
		list = append(list, key.digest[:])
	}
	return list
}

// renewRequests renews the rows of the requests in flight at this handle.
func (s *Store) renewRequests(ctx context.Context) error {
	list := s.inFlightDigests()
	if len(list) == 0 {
		return nil
	}
	return s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE requests SET until = $2 WHERE handle = $1 AND digest = ANY($3)`, s.handle, s.now().Add(requestTTL).UnixNano(), list)
		return err
	})
}

// settleRequests removes rows of this handle whose requests are no longer in flight: the engine
// failed when the row was written or removed. Retries at other handles would wait for such a
// row until it expires.
func (s *Store) settleRequests(ctx context.Context) error {
	if !s.unsettled.Swap(false) {
		return nil
	}
	list, young := s.inFlightDigests(), 0
	err := s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		until := s.now().Add(requestTTL - settleAfter).UnixNano()
		_, err := tx.Exec(ctx, `DELETE FROM requests WHERE handle = $1 AND until <= $2 AND NOT digest = ANY($3)`, s.handle, until, list)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM requests WHERE handle = $1 AND NOT digest = ANY($2)`, s.handle, list).Scan(&young)
	})
	if err != nil || young > 0 {
		s.unsettled.Store(true)
	}
	return err
}

// releaseRequests removes the rows of all requests in flight at this handle, because the
// process ends.
func (s *Store) releaseRequests() error {
	s.mu.Lock()
	n := len(s.inFlight)
	s.mu.Unlock()
	if n == 0 {
		return nil
	}
	return s.tries(context.Background(), writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM requests WHERE handle = $1`, s.handle)
		return err
	})
}
