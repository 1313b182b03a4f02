package record

import (
	"context"
	"time"

	"svc/store"
)

// trimmedAtOnce bounds the rows of a kind that one transaction removes, by default.
const trimmedAtOnce = 1000

// ApplyRetention removes records that are too old, within a bound.
func (t *Tenant) ApplyRetention(ctx context.Context, b store.RetentionBounds) (res store.RetentionResult, err error) {
	if b.Limit <= 0 {
		b.Limit = trimmedAtOnce
	}
	// Mostly nothing is too old.
	err = t.mayWrite(ctx, func(tx Tx) error {
		res, err = t.trim(tx, b, b.Limit)
		return err
	})
	if err != nil {
		return store.RetentionResult{}, err
	}
	res.More = max(res.Violations, res.Events, res.Answers, res.AuditEvents, res.Deliveries, res.Approvals, res.Sessions, res.Gateways) >= b.Limit
	return res, nil
}

// trim removes records that are too old, at most limit of each kind.
func (t *Tenant) trim(tx Tx, b store.RetentionBounds, limit int) (res store.RetentionResult, err error) {
	if res.Answers, err = trimAnswers(tx, b.AnswersExpired(t.e.Now()), limit); err != nil {
		return res, err
	}
	if res.Violations, err = trimViolations(tx, b.Violations, limit); err != nil {
		return res, err
	}
	if res.Events, err = trimUserEvents(tx, b.Events, limit); err != nil {
		return res, err
	}
	arguments, err := trimApprovals(tx, approvalArguments, b.ApprovalArguments, limit)
	if err == nil {
		res.Approvals, err = trimApprovals(tx, approvalRecords, b.Approvals, limit)
		res.Approvals = max(res.Approvals, arguments)
	}
	if err != nil {
		return res, err
	}
	if res.Sessions, err = trimSessions(tx, t.e.Now(), limit); err != nil {
		return res, err
	}
	if res.Gateways, err = t.trimGateways(tx, b.Gateways, limit); err != nil {
		return res, err
	}
	if err = unbindGateways(tx, b.Gateways, limit); err != nil {
		return res, err
	}
	if res.Deliveries, err = trimDeliveries(tx, b.Deliveries, limit); err != nil {
		return res, err
	}
	res.AuditEvents, err = trimAuditEvents(tx, b.AuditEvents, limit)
	return res, err
}

func trimViolations(tx Tx, before time.Time, limit int) (int, error) {
	return trimRows(tx, violations, before, limit, func(v *store.SLAViolation) (string, time.Time) { return v.ID, v.PeriodEnd },
		func(v *store.SLAViolation) error { return tx.Delete(violationKeys, violationKey(v)) })
}

func trimUserEvents(tx Tx, before time.Time, limit int) (int, error) {
	return trimRows(tx, UserEvents, before, limit, func(e *store.RecordedEvent) (string, time.Time) { return e.ID, e.ReceivedAt }, nil)
}

// trimRows removes the oldest rows of a bucket, up to the first that is not older than a
// time. The zero time removes nothing.
func trimRows[T any](tx Tx, bucket string, before time.Time, limit int, old func(*T) (id string, at time.Time), also func(*T) error) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	var ids [][]byte
	var gone []T
	// Mostly the first row is not old.
	err := each(tx, bucket, Range{Most: 1}, func(v *T) (bool, error) {
		id, at := old(v)
		tooOld := at.Before(before)
		if tooOld {
			ids, gone = append(ids, []byte(id)), append(gone, *v)
		}
		return tooOld && len(ids) < limit, nil
	})
	if err != nil {
		return 0, err
	}
	if err := tx.Delete(bucket, ids...); err != nil {
		return 0, err
	}
	for i := 0; also != nil && i < len(gone); i++ {
		if err := also(&gone[i]); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// trimAuditEvents removes the oldest events, so that the remaining ones are a chain
// without gaps.
func trimAuditEvents(tx Tx, before time.Time, limit int) (int, error) {
	trimmed := ""
	n, err := trimRows(tx, AuditEvents, before, limit, func(e *store.AuditEvent) (string, time.Time) { return e.ID, e.CreatedAt },
		func(e *store.AuditEvent) error {
			trimmed = e.Hash
			return nil
		})
	if err != nil || n == 0 {
		return n, err
	}
	end, _, err := get[chain](tx, auditChain, keyChain)
	if err != nil {
		return n, err
	}
	end.Trimmed = trimmed
	return n, put(tx, auditChain, keyChain, end)
}
