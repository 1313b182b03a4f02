package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store/record"
)

// The table requests has a row for each request that is in flight at a handle, because other
// handles cannot see its memory. The row is renewed while its handle is alive and expires
// after claimTTL, so that after a crash of the process a retry can claim the request.
const (
	claimTTL   = 60 * time.Second
	renewEvery = 15 * time.Second
	// settleAfter is the minimum age of a row that is removed because its request is no longer
	// in flight: a newer row may belong to a request that was begun meanwhile.
	settleAfter = 2 * time.Second
	settleEvery = 3 * time.Second
	// expiredEvery is the time between removals of rows that have expired.
	expiredEvery = 10 * time.Minute
)

// errNotFree rolls a claim back.
var errNotFree = errors.New("the request is not free")

// Claims returns the requests in flight at this handle.
func (e engine) Claims() *record.Claims { return &e.s.claims }

// Claim writes the row of a request, and then runs f on what was committed before: a request
// at another handle removes its row and stores its response in one transaction. The row of
// this handle is left over from an earlier request whose row could not be removed, because
// the caller has no such request in flight.
func (e engine) Claim(ctx context.Context, c record.Claim, f func(record.Tx) (bool, error)) (other []byte, err error) {
	t := e.s.tenant(c.Tenant)
	err = e.s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		other = nil
		n, err := t.number(ctx, tx)
		if err != nil {
			return err
		}
		now := e.s.now()
		// The conflicting row is locked, also when it is not updated.
		tag, err := tx.Exec(ctx, `INSERT INTO requests AS r (tenant, digest, body, handle, until) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant, digest) DO UPDATE SET body = excluded.body, handle = excluded.handle, until = excluded.until
			WHERE r.handle = excluded.handle OR r.until <= $6`, n, c.Digest[:], c.Body[:], e.s.handle, now.Add(claimTTL).UnixNano(), now.UnixNano())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return tx.QueryRow(ctx, `SELECT body FROM requests WHERE tenant = $1 AND digest = $2`, n, c.Digest[:]).Scan(&other)
		}
		free, err := f(&data{ctx: ctx, tx: tx, s: e.s, n: n})
		if err == nil && !free {
			err = errNotFree
		}
		return err
	})
	if errors.Is(err, errNotFree) {
		return nil, nil
	}
	if err != nil {
		e.s.unsettled.Store(true) // the row may have been written
	}
	return other, err
}

// Unclaim removes the row of a request.
func (e engine) Unclaim(ctx context.Context, c record.Claim) error {
	t := e.s.tenant(c.Tenant)
	err := e.s.free(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n, err := t.number(ctx, tx)
		if err == nil {
			_, err = tx.Exec(ctx, deleteClaim, n, c.Digest[:], e.s.handle)
		}
		return err
	})
	if err != nil {
		e.s.unsettled.Store(true)
	}
	return err
}

const deleteClaim = `DELETE FROM requests WHERE tenant = $1 AND digest = $2 AND handle = $3`

// Settle removes the row of a request.
func (e engine) Settle(tx record.Tx, c record.Claim) (bool, error) {
	d := tx.(*data)
	n, err := d.count(deleteClaim, d.n, c.Digest[:], e.s.handle)
	return n > 0, err
}

// renewRequests renews the rows of the requests in flight at this handle.
func (s *Store) renewRequests(ctx context.Context) error {
	list := s.claims.Digests()
	if len(list) == 0 {
		return nil
	}
	return s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE requests SET until = $2 WHERE handle = $1 AND digest = ANY($3)`, s.handle, s.now().Add(claimTTL).UnixNano(), list)
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
	list, young := s.claims.Digests(), 0
	err := s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		until := s.now().Add(claimTTL - settleAfter).UnixNano()
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

// dropExpired removes the rows of requests whose process has ended without removing them.
func (s *Store) dropExpired(ctx context.Context) error {
	_, err := s.delete(ctx, `DELETE FROM requests WHERE until <= $1`, s.now().UnixNano())
	return err
}

// releaseRequests removes the rows of all requests in flight at this handle, because the
// process ends.
func (s *Store) releaseRequests() error {
	if len(s.claims.Digests()) == 0 {
		return nil
	}
	return s.tries(context.Background(), writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM requests WHERE handle = $1`, s.handle)
		return err
	})
}
