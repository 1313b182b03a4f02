package memory

import (
	"context"
	"time"

	"svc/store/record"
)

// Lease runs f on the row of a lease.
func (r records) Lease(ctx context.Context, name string, f func(row *record.Held, now time.Time) bool) error {
	return r.s.free(ctx, func(e *engine) error {
		if row := e.leases[name]; f(&row, e.now()) {
			e.leases[name] = row
		}
		return nil
	})
}

// Watermark returns a named time.
func (s *Store) Watermark(ctx context.Context, name string) (at time.Time, err error) {
	err = s.read(ctx, func(e *engine) error {
		at = e.marks[name]
		return nil
	})
	return at, err
}

// SetWatermark sets a named time.
func (s *Store) SetWatermark(ctx context.Context, name string, at time.Time) error {
	return s.write(ctx, func(e *engine) error {
		e.marks[name] = at.UTC()
		return nil
	})
}
