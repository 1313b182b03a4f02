package bolt

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
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
		some, err = t.anythingOld(d, b)
		return err
	})
	if err != nil || !some {
		return res, err
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		res = store.RetentionResult{}
		if err := t.Trim(recordTx{d: d, ctx: ctx}, b, limit, &res); err != nil {
			return err
		}
		res.Answers, err = trimAnswers(d, b.AnswersExpired(t.s.now()), limit)
		res.More = max(res.Violations, res.Events, res.Answers, res.AuditEvents) >= limit
		return err
	})
	return res, err
}

// anythingOld reports whether there is anything to remove.
func (t *tenant) anythingOld(d data, b store.RetentionBounds) (bool, error) {
	k, _ := d.in(inAnswerExpiry).Cursor().First()
	if len(k) >= 8 && !timeOf(number(k[:8])).After(b.AnswersExpired(t.s.now())) {
		return true, nil
	}
	return record.AnythingOld(recordTx{d: d}, b)
}

// trimAnswers removes responses that expired before a time.
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
