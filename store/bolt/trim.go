package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ApplyRetention removes records that are too old, within a bound.
func (t *tenant) ApplyRetention(ctx context.Context, b store.RetentionBounds) (res store.RetentionResult, err error) {
	limit := b.Limit
	if limit <= 0 {
		limit = 1000
	}
	// First in a read transaction: if nothing is too old, nothing is written.
	some := false
	err = t.view(ctx, func(d data) error {
		some = t.anythingOld(d, b)
		return nil
	})
	if err != nil || !some {
		return res, err
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		res = store.RetentionResult{}
		for _, kind := range []struct {
			removed *int
			trim    func() (int, error)
		}{
			{&res.Violations, func() (int, error) { return trimViolations(d, b.Violations, limit) }},
			{&res.Events, func() (int, error) { return trimEvents(d, b.Events, limit) }},
			{&res.AuditEvents, func() (int, error) { return trimAuditEvents(d, b.AuditEvents, limit) }},
			{&res.Answers, func() (int, error) { return trimAnswers(d, t.s.now(), limit) }},
		} {
			n, err := kind.trim()
			if err != nil {
				return err
			}
			*kind.removed = n
			res.More = res.More || n >= limit
		}
		return nil
	})
	return res, err
}

// anythingOld reports whether there is anything to remove.
func (t *tenant) anythingOld(d data, b store.RetentionBounds) bool {
	if !b.Violations.IsZero() {
		if k, _ := d.in(inViolations).Cursor().First(); k != nil {
			return true
		}
	}
	if !b.Events.IsZero() {
		if k, _ := d.in(inUserEvents).Cursor().First(); k != nil {
			return true
		}
	}
	if !b.AuditEvents.IsZero() {
		if k, _ := d.in(inAuditEvents).Cursor().First(); k != nil {
			return true
		}
	}
	k, _ := d.in(inAnswerExpiry).Cursor().First()
	return len(k) >= 8 && !timeOf(number(k[:8])).After(t.s.now())
}

// trimRecords removes the oldest JSON records that old accepts, up to the first
// that it does not.
func trimRecords[T any](b *bbolt.Bucket, limit int, old func(*T) bool, also func(key []byte, v *T) error) (int, error) {
	var keys [][]byte
	var gone []T
	c := b.Cursor()
	for k, raw := c.First(); k != nil && len(keys) < limit; k, raw = c.Next() {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return 0, err
		}
		if !old(&v) {
			break
		}
		keys, gone = append(keys, bytes.Clone(k)), append(gone, v)
	}
	for i := range keys {
		if err := b.Delete(keys[i]); err != nil {
			return 0, err
		}
		if also != nil {
			if err := also(keys[i], &gone[i]); err != nil {
				return 0, err
			}
		}
	}
	return len(keys), nil
}

func trimViolations(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	return trimRecords(d.in(inViolations), limit,
		func(v *store.SLAViolation) bool { return v.PeriodEnd.Before(before) },
		func(_ []byte, v *store.SLAViolation) error { return d.in(inViolationKey).Delete(violationKey(v)) })
}

func trimEvents(d data, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	return trimRecords(d.in(inUserEvents), limit,
		func(e *store.RecordedEvent) bool { return e.ReceivedAt.Before(before) }, nil)
}

// trimAnswers removes expired responses.
func trimAnswers(d data, now time.Time, limit int) (int, error) {
	b := d.in(inAnswerExpiry)
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.First(); len(k) > 8 && !timeOf(number(k[:8])).After(now) && len(keys) < limit; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
		if err := d.in(inAnswers).Delete(k[8:]); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}
