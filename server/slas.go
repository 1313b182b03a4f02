package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"svc/server/api"
	"svc/server/evaluate"
	"svc/store"
)

// wireSLA adds its current figures to a target: status is computed when it is
// read, over the evaluation period that ends now.
func wireSLA(ctx context.Context, t store.TenantTraces, target store.SLATarget, now time.Time) (api.SLATarget, error) {
	stats, err := t.Stats(ctx, evaluationWindow(target.AgentID, target.EvaluationPeriod, now))
	if err != nil {
		return api.SLATarget{}, err
	}
	return wireMeasured(target, &stats.Summary), nil
}

// evaluationWindow asks for the traces of an agent over the evaluation period that
// ends now.
func evaluationWindow(agentID, period string, now time.Time) store.StatsQuery {
	return store.StatsQuery{From: now.Add(-lookBacks[period]), To: upTo(now), AgentID: agentID}
}

// wireMeasured is a target with how its agent did over the evaluation period.
func wireMeasured(target store.SLATarget, measured *store.Totals) api.SLATarget {
	standing := evaluate.Measure(&target, measured)
	return api.SLATarget{
		ID: target.ID, Name: target.Name, AgentID: target.AgentID, AgentName: target.AgentName,
		P99LatencyMs: target.P99LatencyMs, ErrorRatePercent: target.ErrorRatePercent,
		EvaluationPeriod: target.EvaluationPeriod,
		CurrentP99Ms:     standing.P99Ms, CurrentErrorRate: standing.ErrorRate, Status: standing.Status,
	}
}

// listSLAs serves GET /api/costs/sla: data and total only.
func (s *Server) listSLAs(c *call) error {
	targets, err := c.tenant.ListSLAs(c.Context())
	if err != nil {
		return err
	}
	out := make([]api.SLATarget, 0, len(targets))
	for _, t := range targets {
		w, err := wireSLA(c.Context(), c.traces, t, c.now)
		if err != nil {
			return err
		}
		out = append(out, w)
	}
	return whole(c, out)
}

// createSLA serves POST /api/costs/sla; its answer is the bare target.
func (s *Server) createSLA(c *call) error {
	var in api.SLACreate
	if err := c.decode(&in); err != nil {
		return err
	}
	stats, err := c.traces.Stats(c.Context(), evaluationWindow(in.AgentID, in.EvaluationPeriod, c.now))
	if err != nil {
		return err
	}
	return create(c, func(ctx context.Context) (store.SLATarget, error) {
		return c.tenant.CreateSLA(ctx, store.SLACreate{
			Name: in.Name, AgentID: in.AgentID, P99LatencyMs: in.P99LatencyMs,
			ErrorRatePercent: in.ErrorRatePercent, EvaluationPeriod: in.EvaluationPeriod,
		})
	}, func(t store.SLATarget) error { return c.writeJSON(http.StatusCreated, wireMeasured(t, &stats.Summary)) })
}

// getSLA serves GET /api/costs/sla/:id.
func (s *Server) getSLA(c *call) error {
	id, err := c.pathID("SLA target")
	if err != nil {
		return err
	}
	t, err := c.tenant.GetSLA(c.Context(), id)
	if err != nil {
		return err
	}
	return c.sla(t)
}

// updateSLA serves PUT /api/costs/sla/:id.
func (s *Server) updateSLA(c *call) error {
	id, err := c.pathID("SLA target")
	if err != nil {
		return err
	}
	var in api.SLAUpdate
	var now store.SLATarget
	removed, err := c.decodeChange(&in, slaEcho, func() (any, error) {
		now, err = c.tenant.GetSLA(c.Context(), id)
		return wireMeasured(now, &store.Totals{}), err // how it is met is not compared
	})
	if err != nil {
		return err
	}
	up, ctx := store.SLAUpdate{
		Name: in.Name, AgentID: in.AgentID, P99LatencyMs: in.P99LatencyMs,
		ErrorRatePercent: in.ErrorRatePercent, EvaluationPeriod: in.EvaluationPeriod,
		NoLatency: slices.Contains(removed, "p99LatencyMs"), NoErrorRate: slices.Contains(removed, "errorRatePercent"),
	}, c.Context()
	if len(removed) > 0 {
		after := now
		up.Apply(&after, c.now)
		if after.P99LatencyMs == nil && after.ErrorRatePercent == nil {
			return invalidField(removed[0], "p99LatencyMs or errorRatePercent is required: a target has at least one")
		}
		if err := store.CheckMatch(ctx, now.Object()); err != nil {
			return err
		}
		ctx = store.IfMatch(ctx, []string{now.Object().Digest()})
	}
	t, err := c.tenant.UpdateSLA(ctx, id, up)
	if err != nil {
		return err
	}
	return c.sla(t)
}

// sla answers with one SLA target and how it is met.
func (c *call) sla(t store.SLATarget) error {
	out, err := wireSLA(c.Context(), c.traces, t, c.now)
	if err != nil {
		return err
	}
	c.etag(t.Object())
	return c.data(http.StatusOK, out)
}

// deleteSLA serves DELETE /api/costs/sla/:id. Its violations stay.
func (s *Server) deleteSLA(c *call) error {
	id, err := c.pathID("SLA target")
	if err != nil {
		return err
	}
	if err := c.tenant.DeleteSLA(c.Context(), id); err != nil {
		return err
	}
	return c.deleted()
}

// listViolations serves GET /api/costs/sla/violations: data and total only.
func (s *Server) listViolations(c *call) error {
	q := c.query()
	page := q.cursorPage(violationsList, api.DefaultLimit)
	period := q.enum("period", api.DefaultViolationPeriod, api.ViolationPeriods)
	filter := store.ViolationFilter{SLAID: q.text("slaId"), Since: c.now.Add(-lookBacks[period])}
	if err := q.err(); err != nil {
		return err
	}
	part := store.Page{}
	if page.asked {
		part = page.withOneMore()
	}
	violations, total, err := c.tenant.ListViolations(c.Context(), filter, part)
	if err != nil {
		return err
	}
	next := ""
	if page.asked {
		violations, next = cutPage(page, violations, func(v *store.SLAViolation) store.Place { return store.Place{ID: v.ID} })
	}
	return c.writeJSON(http.StatusOK, api.List[api.SLAViolation]{Data: each(violations, wireViolation), Total: total, Next: next})
}

func wireViolation(v store.SLAViolation) api.SLAViolation {
	out := api.SLAViolation{
		ID: v.ID, SLAID: v.SLAID, SLAName: v.SLAName, AgentName: v.AgentName,
		PeriodStart: v.PeriodStart.UTC(), PeriodEnd: v.PeriodEnd.UTC(), ViolationType: v.Type,
		TargetP99Ms: v.TargetP99Ms, TargetErrorRate: v.TargetErrorRate,
	}
	if v.ActualP99Ms != nil {
		out.ActualP99Ms = *v.ActualP99Ms
	}
	if v.ActualErrorRate != nil {
		out.ActualErrorRate = *v.ActualErrorRate
	}
	return out
}
