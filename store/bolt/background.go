package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
)

// dropLeases removes the leases of earlier processes. Only one process can have
// the file open, so an earlier holder has ended without releasing its lease.
func (s *Store) dropLeases() error {
	var held []string
	err := s.view(context.Background(), func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		return b.ForEach(func(k, _ []byte) error {
			row, _, err := getJSON[record.Held](b, string(k))
			if err == nil && row.Holder != "" {
				held = append(held, string(k))
			}
			return err
		})
	})
	if err != nil || len(held) == 0 {
		return err
	}
	return s.commit(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		for _, name := range held {
			row, _, err := getJSON[record.Held](b, name)
			if err != nil {
				return err
			}
			row.Release()
			if err := putJSON(b, name, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// holds rejects a write whose lease no longer belongs to its holder.
func (s *Store) holds(ctx context.Context, tx *bbolt.Tx) error {
	l, ok := store.LeaseOf(ctx)
	if !ok {
		return nil
	}
	row, _, err := getJSON[record.Held](tx.Bucket(bucketLeases), l.Name)
	if err != nil {
		return err
	}
	return row.Check(l, s.now())
}

// Lease runs f in a write transaction on the row of a lease.
func (e engine) Lease(ctx context.Context, name string, f func(row *record.Held, now time.Time) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.s.commit(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		row, _, err := getJSON[record.Held](b, name)
		if err != nil || !f(&row, e.Now()) {
			return err
		}
		return putJSON(b, name, row)
	})
}

// Watermark returns a named time.
func (s *Store) Watermark(ctx context.Context, name string) (at time.Time, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		at, err = marks{tx.Bucket(bucketMarks)}.Watermark(ctx, name)
		return err
	})
	return at, err
}

// SetWatermark sets a named time. After a failure of the disk it first checks that the file can
// grow again, because the probe of readiness is a call of this method.
func (s *Store) SetWatermark(ctx context.Context, name string, at time.Time) error {
	return s.update(ctx, func(tx *bbolt.Tx) error {
		if err := s.growAgain(tx); err != nil {
			return err
		}
		return marks{tx.Bucket(bucketMarks)}.SetWatermark(ctx, name, at)
	})
}
