package postgres

import (
	"context"
	"time"

	"svc/store"
)

var slas = &kind[store.SLATarget]{
	noun: "SLA target", prefix: store.PrefixSLA, table: "slas", object: (*store.SLATarget).Object,
	whole: func(d *data, list []store.SLATarget) error {
		return nameAgents(d, list, func(s *store.SLATarget) (string, *string) { return s.AgentID, &s.AgentName })
	},
}

// ListSLAs returns all targets, newest first.
func (t *tenant) ListSLAs(ctx context.Context) ([]store.SLATarget, error) {
	list, _, err := listOf(ctx, t, slas, store.Page{})
	return list, err
}

// GetSLA returns one target.
func (t *tenant) GetSLA(ctx context.Context, id string) (store.SLATarget, error) {
	return getOne(ctx, t, slas, id)
}

// CreateSLA creates a target.
func (t *tenant) CreateSLA(ctx context.Context, in store.SLACreate) (store.SLATarget, error) {
	return createOne(ctx, t, slas, func(d *data, id string, now time.Time) (store.SLATarget, error) {
		return in.Make(id, now), d.knownAgent(in.AgentID)
	})
}

// UpdateSLA changes a target.
func (t *tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (store.SLATarget, error) {
	return updateOne(ctx, t, slas, id, func(d *data, s *store.SLATarget, now time.Time) error {
		up.Apply(s, now)
		return d.newAgent(up.AgentID)
	})
}

// DeleteSLA removes a target; its violations stay.
func (t *tenant) DeleteSLA(ctx context.Context, id string) error {
	return deleteOne(ctx, t, slas, id)
}

// RecordViolation stores a violation once per target, type and period.
func (t *tenant) RecordViolation(ctx context.Context, v store.SLAViolation) (created bool, err error) {
	if bad(v.Type) {
		return false, store.FieldError(store.Invalid, "violation without a type", "violationType", "is required")
	}
	err = t.write(ctx, func(d *data) error {
		created = false
		known, err := d.exists(`SELECT 1 FROM slas WHERE tenant = $1 AND id = $2`, d.n, []byte(v.SLAID))
		if err == nil && !known {
			err = store.Missing("SLA target")
		}
		if err != nil {
			return err
		}
		kept := v
		kept.CreatedAt = d.s.now()
		kept.ID = d.s.ids.New(store.PrefixViolation, kept.CreatedAt)
		kept.PeriodStart, kept.PeriodEnd = v.PeriodStart.UTC(), v.PeriodEnd.UTC()
		doc, err := document(kept)
		if err != nil {
			return err
		}
		n, err := d.count(`INSERT INTO violations (tenant, id, sla, type, period_start, period_end, doc) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			d.n, []byte(kept.ID), []byte(v.SLAID), []byte(v.Type), v.PeriodStart.Unix(), nanos(v.PeriodEnd), doc)
		created = n > 0
		return err
	})
	return created && err == nil, err
}

// ListViolations returns the violations that pass the filter, newest first.
func (t *tenant) ListViolations(ctx context.Context, f store.ViolationFilter, page store.Page) ([]store.SLAViolation, int, error) {
	var conditions []condition
	if f.SLAID != "" {
		conditions = append(conditions, condition{`sla = $%d`, []byte(f.SLAID)})
	}
	if !f.Since.IsZero() {
		conditions = append(conditions, condition{`period_end >= $%d`, nanos(f.Since)})
	}
	return listOf(ctx, t, &kind[store.SLAViolation]{table: "violations"}, page, conditions...)
}
