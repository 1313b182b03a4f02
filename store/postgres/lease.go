package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/record"
)

// holds rejects a write whose lease no longer belongs to its holder. The row stays
// locked until the write is committed, so that nobody can take the lease in
// between.
func (s *Store) holds(ctx context.Context, tx pgx.Tx, l store.Lease) error {
	row, err := lease(ctx, tx, l.Name, `FOR SHARE`)
	if err != nil {
		return err
	}
	now, err := s.engineNow(ctx, tx)
	if err != nil {
		return err
	}
	return row.Check(l, now)
}

// lease reads and locks the row of a lease.
func lease(ctx context.Context, tx pgx.Tx, name, lock string) (row record.Held, err error) {
	var holder []byte
	var token, until int64
	_, err = found(tx.QueryRow(ctx, `SELECT holder, token, until FROM leases WHERE name = $1 `+lock, []byte(name)), &holder, &token, &until)
	return record.Held{Holder: string(holder), Token: uint64(token), Until: timeOf(until)}, err
}

// Lease runs f on the locked row of a lease, with the time by the clock of the engine.
func (e engine) Lease(ctx context.Context, name string, f func(row *record.Held, now time.Time) bool) error {
	return e.s.free(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO leases (name, holder, token, until) VALUES ($1, '', 0, 0) ON CONFLICT DO NOTHING`, []byte(name))
		if err != nil {
			return err
		}
		row, err := lease(ctx, tx, name, `FOR UPDATE`)
		if err != nil {
			return err
		}
		now, err := e.s.engineNow(ctx, tx)
		if err != nil || !f(&row, now) {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE leases SET holder = $2, token = $3, until = $4 WHERE name = $1`, []byte(name), []byte(row.Holder), int64(row.Token), max(nanos(row.Until), 0))
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
