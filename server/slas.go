package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// evaluationWindow returns the filter for an agent's traces in the evaluation period that
// ends now.
func evaluationWindow(agentID, period string, now time.Time) store.StatsQuery {
	return store.StatsQuery{From: now.Add(-lookBacks[period]), To: upTo(now), AgentID: agentID}
}

// wireMeasured converts a target with the agent's measurements over the evaluation period.
func wireMeasured(target store.SLATarget, measured *store.Totals) api.SLATarget {
	standing := background.Measure(&target, measured)
	return api.SLATarget{
		ID: target.ID, Name: target.Name, AgentID: target.AgentID, AgentName: target.AgentName,
		P99LatencyMs: target.P99LatencyMs, ErrorRatePercent: target.ErrorRatePercent,
		EvaluationPeriod: target.EvaluationPeriod,
		CurrentP99Ms:     standing.P99Ms, CurrentErrorRate: standing.ErrorRate, Status: standing.Status,
	}
}

// slas are the SLA targets of a tenant. Their list has no pages, and POST answers with the
// target itself, without data. The violations of a deleted target stay.
var slas = &kind[store.SLATarget, api.SLACreate, api.SLAUpdate]{
	noun: "SLA target",
	echo: echo{fixed: []string{"id", "agentName"}, measured: []string{"currentP99Ms", "currentErrorRate", "status"}, nullable: []string{"p99LatencyMs", "errorRatePercent"},
		instead: map[string]string{"agentName": "agentId names the agent"}},
	find: func(c *call, _ *query) func(store.Page) ([]store.SLATarget, int, error) {
		return func(store.Page) ([]store.SLATarget, int, error) {
			all, err := c.tenant.ListSLAs(c.Context())
			return all, len(all), err
		}
	},
	read: func(c *call, id string) (store.SLATarget, error) { return c.tenant.GetSLA(c.Context(), id) },
	wire: func(_ *call, t store.SLATarget) any { return wireMeasured(t, &store.Totals{}) },
	// The status is computed on each read, over the evaluation period that ends now.
	measured: func(c *call, targets []store.SLATarget) ([]any, error) {
		out := make([]any, len(targets))
		for i, t := range targets {
			stats, err := c.traces.Stats(c.Context(), evaluationWindow(t.AgentID, t.EvaluationPeriod, c.now))
			if err != nil {
				return nil, err
			}
			out[i] = wireMeasured(t, &stats.Summary)
		}
		return out, nil
	},
	create: func(c *call, in *api.SLACreate) error {
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
	},
	update: func(c *call, id string, in *api.SLAUpdate, was before[store.SLATarget]) (t store.SLATarget, _ []string, err error) {
		up, ctx := store.SLAUpdate{
			Name: in.Name, AgentID: in.AgentID, P99LatencyMs: in.P99LatencyMs,
			ErrorRatePercent: in.ErrorRatePercent, EvaluationPeriod: in.EvaluationPeriod,
			NoLatency: slices.Contains(was.removed, "p99LatencyMs"), NoErrorRate: slices.Contains(was.removed, "errorRatePercent"),
		}, c.Context()
		if len(was.removed) > 0 { // the current target must keep one of the two
			after := was.object
			up.Apply(&after, c.now)
			if after.P99LatencyMs == nil && after.ErrorRatePercent == nil {
				return t, nil, invalidField(was.removed[0], "p99LatencyMs or errorRatePercent is required: a target has at least one")
			}
			if err := store.CheckMatch(ctx, was.object.Object()); err != nil {
				return t, nil, err
			}
			ctx = store.IfMatch(ctx, []string{was.object.Object().Digest()})
		}
		t, err = c.tenant.UpdateSLA(ctx, id, up)
		return t, nil, err
	},
	remove: func(c *call, id string) ([]string, error) { return nil, c.tenant.DeleteSLA(c.Context(), id) },
}

// listViolations serves GET /api/costs/sla/violations. The response has data and total
// only.
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
