package postgres

import (
	"context"

	"svc/store"
)

// ApplyRetention removes records that are too old, within a bound.
func (t *tenant) ApplyRetention(ctx context.Context, b store.RetentionBounds) (res store.RetentionResult, err error) {
	limit := b.Limit
	if limit <= 0 {
		limit = 1000
	}
	err = t.write(ctx, func(d *data) (err error) {
		res = store.RetentionResult{}
		if !b.Violations.IsZero() {
			res.Violations, err = d.count(`DELETE FROM violations WHERE tenant = $1 AND id IN
				(SELECT id FROM violations WHERE tenant = $1 AND period_end < $2 ORDER BY id LIMIT $3)`, d.n, nanos(b.Violations), limit)
		}
		if err == nil && !b.Events.IsZero() {
			res.Events, err = d.count(`DELETE FROM user_events WHERE tenant = $1 AND id IN
				(SELECT id FROM user_events WHERE tenant = $1 AND received < $2 ORDER BY id LIMIT $3)`, d.n, nanos(b.Events), limit)
		}
		if err == nil {
			res.Answers, err = d.count(`DELETE FROM requests WHERE tenant = $1 AND digest IN
				(SELECT digest FROM requests WHERE tenant = $1 AND until <= $2 AND handle = '' ORDER BY until LIMIT $3)`, d.n, d.s.now().UnixNano(), limit)
		}
		if err == nil && !b.AuditEvents.IsZero() {
			res.AuditEvents, err = d.trimEvents(microsUp(b.AuditEvents), limit)
		}
		d.exec(`DELETE FROM requests WHERE tenant = $1 AND until <= $2 AND handle <> ''`, d.n, d.s.now().UnixNano())
		res.More = max(res.Violations, res.Events, res.Answers, res.AuditEvents) >= limit
		return err
	})
	if err != nil {
		return store.RetentionResult{}, err
	}
	return res, nil
}

// trimEvents removes the oldest audit events, so that the remaining ones are a chain
// without gaps.
func (d *data) trimEvents(before int64, limit int) (removed int, err error) {
	var n, created, last int64
	var hash []byte
	old := true
	err = d.each([]any{&n, &created, &hash}, func() error {
		if old = old && created < before; old {
			removed++
			last, d.trimmed, d.dirty = n, append([]byte{}, hash...), true
		}
		return nil
	}, `SELECT n, created, hash FROM audit_events WHERE tenant = $1 ORDER BY n LIMIT $2`, d.n, limit)
	if err == nil && removed > 0 {
		d.exec(`DELETE FROM audit_events WHERE tenant = $1 AND n <= $2`, d.n, last)
	}
	return removed, err
}
