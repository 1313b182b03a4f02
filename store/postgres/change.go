package postgres

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

// change writes the event of a change, and changes the governance revision if gateways depend on
// it.
func (d *data) change(before, after *store.Object, governs bool) error {
	if governs {
		d.governs()
	}
	now := d.s.now()
	e, ok := store.NewAuditEvent(d.ctx, d.s.ids.New(store.PrefixAuditEvent, now), now, before, after, string(d.chain))
	if !ok {
		return nil
	}
	doc, err := document(e)
	if err != nil {
		return err
	}
	d.auditN++
	d.chain, d.dirty = []byte(e.Hash), true
	d.exec(`INSERT INTO audit_events (tenant, n, id, created, kind, object, key_id, user_id, hash, doc) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.n, d.auditN, []byte(e.ID), e.CreatedAt.UnixMicro(), []byte(e.Kind), []byte(e.ObjectID), []byte(e.By.KeyID), []byte(e.By.UserID), []byte(e.Hash), doc)
	return nil
}

// GovernanceRevision returns the text that changes with everything that gateways enforce.
func (t *tenant) GovernanceRevision(ctx context.Context) (revision string, err error) {
	err = t.read(ctx, func(d *data) error {
		var raw []byte
		_, err := d.one([]any{&raw}, `SELECT revision FROM tenants WHERE number = $1`, d.n)
		revision = string(raw)
		return err
	})
	return revision, err
}

// ListAuditEvents returns the events that pass the filter, newest first, in the order of their
// chain. Two processes may have dated events in another order.
func (t *tenant) ListAuditEvents(ctx context.Context, f store.AuditEventFilter, page store.Page) (list []store.AuditEvent, before string, err error) {
	err = t.read(ctx, func(d *data) error {
		before = ""
		where, args := ``, []any{d.n}
		add := func(sql string, arg any) {
			args = append(args, arg)
			where += ` AND ` + fmt.Sprintf(sql, len(args))
		}
		if f.Kind != "" {
			add(`kind = $%d`, []byte(f.Kind))
		}
		if f.ObjectID != "" {
			add(`object = $%d`, []byte(f.ObjectID))
		}
		if !f.Since.IsZero() {
			// The number in the chain bounds the rows that are read. Clocks of processes may
			// differ by 2 s.
			add(`created >= $%[1]d AND n >= (SELECT n FROM audit_events WHERE tenant = $1 AND created >= $%[1]d - 2000000 ORDER BY created, n LIMIT 1)`, microsUp(f.Since))
		}
		if !f.Until.IsZero() {
			add(`created <= $%[1]d AND n <= (SELECT n FROM audit_events WHERE tenant = $1 AND created <= $%[1]d + 2000000 ORDER BY created DESC, n DESC LIMIT 1)`, nanos(f.Until)/1000)
		}
		if page.After.ID != "" {
			// The position of a removed event is derived from its id.
			add(`n < coalesce((SELECT n FROM audit_events WHERE tenant = $1 AND id = $%[1]d),
				(SELECT min(n) FROM audit_events WHERE tenant = $1 AND id > $%[1]d), 9223372036854775807)`, []byte(page.After.ID))
		}
		args = append(args, limitOf(page))
		limit := fmt.Sprintf(` ORDER BY n DESC LIMIT $%d`, len(args))
		query := `SELECT n, doc FROM audit_events WHERE tenant = $1` + where + limit
		if f.Actor != "" {
			// Each half is sorted by an index.
			args = append(args, []byte(f.Actor))
			key, user := fmt.Sprintf(` AND key_id = $%d`, len(args)), fmt.Sprintf(` AND user_id = $%[1]d AND key_id <> $%[1]d`, len(args))
			half := `(SELECT n, doc FROM audit_events WHERE tenant = $1` + where
			query = `SELECT n, doc FROM (` + half + key + limit + `) UNION ALL ` + half + user + limit + `)) AS e` + limit
		}
		list = []store.AuditEvent{}
		var n int64
		var doc []byte
		err := d.each([]any{&n, &doc}, func() error {
			var e store.AuditEvent
			if err := parse(doc, &e); err != nil {
				return err
			}
			list = append(list, e)
			return nil
		}, query, args...)
		if err != nil || len(list) == 0 {
			return err
		}
		var hash []byte
		_, err = d.one([]any{&hash}, `SELECT coalesce((SELECT hash FROM audit_events WHERE tenant = $1 AND n = $2), (SELECT trimmed FROM tenants WHERE number = $1))`, d.n, n-1)
		before = string(hash)
		return err
	})
	return list, before, err
}

// microsUp returns a time in microseconds, rounded up.
func microsUp(t time.Time) int64 {
	n := nanos(t)
	if n > 0 && n%1000 != 0 {
		return n/1000 + 1
	}
	return n / 1000
}
