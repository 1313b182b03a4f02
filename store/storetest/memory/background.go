package memory

import (
	"context"
	"time"

	"svc/store"
)

// lease is the holder of a piece of background work. A released lease keeps its
// token, without a holder.
type lease struct {
	holder string
	token  uint64
	until  time.Time
}

// holds reports whether a lease still belongs to its holder.
func (e *engine) holds(l store.Lease) bool {
	held := e.leases[l.Name]
	return held.holder == l.Holder && held.token == l.Token && e.now().Before(held.until)
}

// AcquireLease takes or renews a lease.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, ok bool, err error) {
	err = s.free(ctx, func(e *engine) error {
		now, held := e.now(), e.leases[name]
		if held.holder != "" && held.holder != holder && now.Before(held.until) {
			return nil
		}
		if held.holder != holder {
			held.holder, held.token = holder, held.token+1
		}
		held.until = now.Add(ttl)
		e.leases[name] = held
		l, ok = store.Lease{Name: name, Holder: holder, Token: held.token, Until: held.until}, true
		return nil
	})
	return l, ok, err
}

// ReleaseLease releases a lease.
func (s *Store) ReleaseLease(ctx context.Context, l store.Lease) error {
	return s.free(ctx, func(e *engine) error {
		if held := e.leases[l.Name]; held.holder == l.Holder && held.token == l.Token {
			e.leases[l.Name] = lease{token: held.token}
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

// ApplyRetention removes records that are too old, within a bound.
func (t *tenant) ApplyRetention(ctx context.Context, b store.RetentionBounds) (res store.RetentionResult, err error) {
	limit := b.Limit
	if limit <= 0 {
		limit = 1000
	}
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		for k, kept := range d.answers {
			if res.Answers < limit && !b.AnswersExpired(e.now()).Before(kept.expires) {
				delete(d.answers, k)
				res.Answers++
			}
		}
		if err := t.Trim(tx{d, &e.shared}, b, limit, &res); err != nil {
			return err
		}
		res.More = max(res.Violations, res.Events, res.Answers, res.AuditEvents) >= limit
		return nil
	})
	return res, err
}
