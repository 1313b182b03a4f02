package bolt

import (
	"context"
	"strconv"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ListSLAs returns all targets, newest first.
func (t *tenant) ListSLAs(ctx context.Context) (list []store.SLATarget, err error) {
	err = t.view(ctx, func(d data) error {
		if list, _, err = newest[store.SLATarget](d.in(inSLAs), store.Page{}, nil); err != nil {
			return err
		}
		for i := range list {
			if list[i].AgentName, err = agentName(d, list[i].AgentID); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// GetSLA returns one target.
func (t *tenant) GetSLA(ctx context.Context, id string) (sla store.SLATarget, err error) {
	err = t.view(ctx, func(d data) error {
		sla, err = slaByID(d, id)
		return err
	})
	return sla, err
}

func slaByID(d data, id string) (store.SLATarget, error) {
	sla, err := findJSON[store.SLATarget](d.in(inSLAs), "SLA target", id)
	if err == nil {
		sla.AgentName, err = agentName(d, sla.AgentID)
	}
	return sla, err
}

// CreateSLA makes a target.
func (t *tenant) CreateSLA(ctx context.Context, in store.SLACreate) (sla store.SLATarget, err error) {
	err = t.create(ctx, func() any { return sla }, func(_ *bbolt.Tx, d data) error {
		if err := checkName("SLA target", in.Name); err != nil {
			return err
		}
		if err := knownAgent(d, in.AgentID); err != nil {
			return err
		}
		now := t.s.now().UTC()
		sla = store.SLATarget{ID: t.s.ids.New(store.PrefixSLA, now), Name: in.Name, AgentID: in.AgentID,
			P99LatencyMs: in.P99LatencyMs, ErrorRatePercent: in.ErrorRatePercent,
			EvaluationPeriod: in.EvaluationPeriod, CreatedAt: now, UpdatedAt: now}
		if err := putJSON(d.in(inSLAs), sla.ID, sla); err != nil {
			return err
		}
		sla, err = slaByID(d, sla.ID)
		return err
	})
	return sla, err
}

// UpdateSLA changes a target.
func (t *tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (sla store.SLATarget, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if sla, err = slaByID(d, id); err != nil {
			return err
		}
		if up.Name != nil {
			if err := checkName("SLA target", *up.Name); err != nil {
				return err
			}
			sla.Name = *up.Name
		}
		if up.AgentID != nil {
			if err := knownAgent(d, *up.AgentID); err != nil {
				return err
			}
			sla.AgentID = *up.AgentID
		}
		if up.P99LatencyMs != nil {
			sla.P99LatencyMs = up.P99LatencyMs
		}
		if up.ErrorRatePercent != nil {
			sla.ErrorRatePercent = up.ErrorRatePercent
		}
		if up.EvaluationPeriod != nil {
			sla.EvaluationPeriod = *up.EvaluationPeriod
		}
		sla.UpdatedAt = t.s.now().UTC()
		if err := putJSON(d.in(inSLAs), id, sla); err != nil {
			return err
		}
		sla, err = slaByID(d, id)
		return err
	})
	return sla, err
}

// DeleteSLA removes a target; its violations stay.
func (t *tenant) DeleteSLA(ctx context.Context, id string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if _, err := slaByID(d, id); err != nil {
			return err
		}
		return d.in(inSLAs).Delete([]byte(id))
	})
}

func violationKey(v *store.SLAViolation) []byte {
	return joined(v.SLAID, v.Type, strconv.FormatInt(v.PeriodStart.Unix(), 10))
}

// RecordViolation keeps a violation once per target, type and period.
func (t *tenant) RecordViolation(ctx context.Context, v store.SLAViolation) (created bool, err error) {
	if badKey(v.Type) {
		return false, store.FieldError(store.Invalid, "violation without a type", "violationType", "is required")
	}
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		created = false
		if _, err := slaByID(d, v.SLAID); err != nil {
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
