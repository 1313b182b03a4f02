package bolt

import (
	"context"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// slas implements the kind of SLA targets, whose names need not be unique.
var slas = &kind[store.SLATarget]{
	noun: "SLA target", prefix: store.PrefixSLA, rows: inSLAs, object: (*store.SLATarget).Object, fill: nameSLA, item: nameSLA,
}

func nameSLA(d data, s *store.SLATarget) (err error) {
	s.AgentName, err = agentName(d, s.AgentID)
	return err
}

// ListSLAs returns all targets, newest first.
func (t *tenant) ListSLAs(ctx context.Context) ([]store.SLATarget, error) {
	list, _, err := listOf(ctx, t, slas, store.Page{}, nil)
	return list, err
}

// GetSLA returns one target.
func (t *tenant) GetSLA(ctx context.Context, id string) (store.SLATarget, error) {
	return getOne(ctx, t, slas, id)
}

// CreateSLA creates a target.
func (t *tenant) CreateSLA(ctx context.Context, in store.SLACreate) (store.SLATarget, error) {
	return createOne(ctx, t, slas, func(d data, id string, now time.Time) (store.SLATarget, error) {
		if err := checkName("SLA target", in.Name); err != nil {
			return store.SLATarget{}, err
		}
		return in.Make(id, now), knownAgent(d, in.AgentID)
	})
}

// UpdateSLA changes a target.
func (t *tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (store.SLATarget, error) {
	return updateOne(ctx, t, slas, id, func(d data, s *store.SLATarget, now time.Time) error {
		up.Apply(s, now)
		return newAgent(d, up.AgentID)
	})
}

// DeleteSLA removes a target; its violations stay.
func (t *tenant) DeleteSLA(ctx context.Context, id string) error {
	return deleteOne(ctx, t, slas, id)
}

func violationKey(v *store.SLAViolation) []byte {
	return joined(v.SLAID, v.Type, strconv.FormatInt(v.PeriodStart.Unix(), 10))
}

// RecordViolation stores a violation once per target, type and period.
func (t *tenant) RecordViolation(ctx context.Context, v store.SLAViolation) (created bool, err error) {
	if badKey(v.Type) {
		return false, store.FieldError(store.Invalid, "violation without a type", "violationType", "is required")
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		created = false
		if _, err := slas.find(d, v.SLAID); err != nil {
			return err
		}
		key := violationKey(&v)
		if d.in(inViolationKey).Get(key) != nil {
			return nil
		}
		created = true
		v.CreatedAt = t.s.now().UTC()
		v.ID = t.s.ids.New(store.PrefixViolation, v.CreatedAt)
		if err := d.in(inViolationKey).Put(key, []byte(v.ID)); err != nil {
			return err
		}
		return putJSON(d.in(inViolations), v.ID, v)
	})
	return created && err == nil, err
}

// ListViolations returns the violations that pass the filter, newest first.
func (t *tenant) ListViolations(ctx context.Context, f store.ViolationFilter, page store.Page) (list []store.SLAViolation, total int, err error) {
	err = t.view(ctx, func(d data) error {
		list, total, err = newest(d.in(inViolations), page, func(v *store.SLAViolation) bool {
			return (f.SLAID == "" || f.SLAID == v.SLAID) && (f.Since.IsZero() || !v.PeriodEnd.Before(f.Since))
		})
		return err
	})
	return list, total, err
}
