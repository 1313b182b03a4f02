package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// holds rejects a write whose lease no longer belongs to its holder. The row stays
// locked until the write is committed, so that nobody can take the lease in
// between.
func (s *Store) holds(ctx context.Context, tx pgx.Tx, l store.Lease) error {
	var holder []byte
	var token, until int64
	ok, err := found(tx.QueryRow(ctx, `SELECT holder, token, until FROM leases WHERE name = $1 FOR SHARE`, []byte(l.Name)), &holder, &token, &until)
	if err != nil {
		return err
	}
	now, err := s.engineNow(ctx, tx)
	if err == nil && (!ok || string(holder) != l.Holder || uint64(token) != l.Token || now.UnixNano() >= until) {
		err = store.ErrLeaseLost
	}
	return err
}

// AcquireLease takes or renews a lease, by the clock of the engine.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, ok bool, err error) {
	err = s.free(ctx, func(ctx context.Context, tx pgx.Tx) error {
		l, ok = store.Lease{}, false
		_, err := tx.Exec(ctx, `INSERT INTO leases (name, holder, token, until) VALUES ($1, '', 0, 0) ON CONFLICT DO NOTHING`, []byte(name))
		if err != nil {
			return err
		}
		var held []byte
		var token, until int64
		if err := tx.QueryRow(ctx, `SELECT holder, token, until FROM leases WHERE name = $1 FOR UPDATE`, []byte(name)).Scan(&held, &token, &until); err != nil {
			return err
		}
		now, err := s.engineNow(ctx, tx)
		if err != nil || len(held) > 0 && string(held) != holder && now.UnixNano() < until {
			return err
		}
		if string(held) != holder {
			token++
		}
		end := now.Add(ttl)
		_, err = tx.Exec(ctx, `UPDATE leases SET holder = $2, token = $3, until = $4 WHERE name = $1`, []byte(name), []byte(holder), token, end.UnixNano())
		if err == nil {
			l, ok = store.Lease{Name: name, Holder: holder, Token: uint64(token), Until: end}, true
		}
		return err
	})
	if err != nil {
		return store.Lease{}, false, err
	}
	return l, ok, nil
}

// ReleaseLease releases a lease. The row keeps the token.
func (s *Store) ReleaseLease(ctx context.Context, l store.Lease) error {
	return s.free(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE leases SET holder = '', until = 0 WHERE name = $1 AND holder = $2 AND token = $3`, []byte(l.Name), []byte(l.Holder), int64(l.Token))
		return err
	})
}

// Watermark returns a named time.
func (s *Store) Watermark(ctx context.Context, name string) (at time.Time, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var n int64
		_, err := found(tx.QueryRow(ctx, `SELECT at FROM marks WHERE name = $1`, []byte(name)), &n)
		at = timeOf(n)
		return err
	})
	return at, err
}

// SetWatermark sets a named time.
func (s *Store) SetWatermark(ctx context.Context, name string, at time.Time) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO marks (name, at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET at = excluded.at`, []byte(name), at.UnixNano())
		return err
	})
}
