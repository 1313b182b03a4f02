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
		res.Answers, err = d.count(`DELETE FROM requests WHERE tenant = $1 AND digest IN
				(SELECT digest FROM requests WHERE tenant = $1 AND until <= $2 AND handle = '' ORDER BY until LIMIT $3)`, d.n, b.AnswersExpired(d.s.now()).UnixNano(), limit)
		if err == nil {
			err = t.Trim(d, b, limit, &res)
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
