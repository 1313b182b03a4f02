package background

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/store"
)

// defaultEvaluateInterval is how often SLA targets are evaluated.
const defaultEvaluateInterval = time.Minute

// The states of an SLA target.
const (
	stateNoData   = "no_data"
	stateHealthy  = "healthy"
	stateAtRisk   = "at_risk"
	stateBreached = "breached"
)

// atRisk is the share of a target above which it is at risk: within 10 %.
const atRisk = 0.9

// periods maps an SLA target's evaluation period to its length.
var periods = map[string]time.Duration{
	"1h":  time.Hour,
	"24h": 24 * time.Hour,
	"7d":  7 * 24 * time.Hour,
	"30d": 30 * 24 * time.Hour,
}

// Assessment is a comparison of a target with measured values.
type Assessment struct {
	P99Ms     float64
	ErrorRate float64 // percent
	Status    string
	// Latency and Errors are true when the target is missed.
	Latency, Errors bool
}

// Measure compares the totals of a target's evaluation period with the target. A
// request that a policy blocked is not a failure of the agent and is left out of
// the error rate. The p99 of the statistics has an error of about 1 %; the latency
// target is missed only if the lowest possible value is above it.
func Measure(target *store.SLATarget, t *store.Totals) Assessment {
	if t.Traces == 0 {
		return Assessment{Status: stateNoData}
	}
	s := Assessment{P99Ms: float64(t.P99) / float64(time.Millisecond), Status: stateHealthy}
	if served := t.Traces - t.Blocked; served > 0 {
		s.ErrorRate = 100 * float64(t.Errors-t.Blocked) / float64(served)
	}
	var risk bool
	low := float64(t.P99Low) / float64(time.Millisecond)
	s.Latency, risk = missed(low, s.P99Ms, target.P99LatencyMs, risk)
	s.Errors, risk = missed(s.ErrorRate, s.ErrorRate, target.ErrorRatePercent, risk)
	switch {
	case s.Latency || s.Errors:
		s.Status = stateBreached
	case risk:
		s.Status = stateAtRisk
	}
	return s
}

// missed reports whether a target is missed by a value that is at least low, and
// whether it is at risk.
func missed(low, current float64, target *float64, risk bool) (bool, bool) {
	if target == nil {
		return false, risk
	}
	return low > *target, risk || current > 0 && current >= atRisk**target
}

// Evaluator writes the violations of SLA targets.
//
// A target is measured over its evaluation period up to now, like its status in
// responses. When it is missed, a violation of that period is written, one for each
// kind of target. The next violation of the kind can only be of a period that
// begins after that one ended. Periods in which no evaluator ran are evaluated
// later, up to catchUp, in whole periods.
//
// It also queues the events of budgets, whose spending is measured up to now alone, and of gateways that
// are silent.
type Evaluator struct {
	worker
	began time.Time // before it, this process has heard of no gateway
	ended time.Time // end of the last pass
}

// NewEvaluator returns an Evaluator; Run starts it.
func NewEvaluator(o EvaluatorOptions) *Evaluator {
	e := &Evaluator{worker: newWorker(o, "evaluate-slas", defaultEvaluateInterval)}
	e.began = e.Now()
	e.ended = e.began
	e.pass = e.evaluate
	return e
}

// Run evaluates until ctx ends.
func (e *Evaluator) Run(ctx context.Context) { e.run(ctx) }

const (
	// evaluated is the watermark: the time up to which targets were evaluated.
	evaluated = "slas-evaluated"
	// catchUp bounds how far back missed periods are evaluated: as far as
	// violations can be queried.
	catchUp = 7 * 24 * time.Hour
)

func (e *Evaluator) evaluate(ctx context.Context) error {
	now := e.Now().UTC()
	if now.Sub(e.ended) > e.Interval+store.GatewaySilent/2 {
		e.began = now // it was suspended, or its clock was set: nobody could report meanwhile
	}
	defer func() { e.ended = e.Now() }()
	last, err := e.Records.Watermark(ctx, evaluated)
	if err != nil {
		return err
	}
	err = e.eachTenant(ctx, func(t store.Tenant) error {
		return errors.Join(e.tenant(ctx, t, last, now), e.budgets(ctx, t, now), e.gateways(ctx, t, now))
	})
	if err != nil {
		return err // the watermark is not moved, so the next pass evaluates them
	}
	return e.Records.SetWatermark(ctx, evaluated, now)
}

func (e *Evaluator) tenant(ctx context.Context, t store.Tenant, last, now time.Time) error {
	targets, err := t.ListSLAs(ctx)
	if err != nil {
		return err
	}
	measured := map[string][]Assessment{}
	for i := 0; err == nil && i < len(targets); i++ {
		target := &targets[i]
		for _, at := range evaluationTimes(target, last, now) {
			s, failed := e.target(ctx, t, target, at)
			if failed != nil {
				err = fmt.Errorf("SLA %s: %w", target.ID, failed)
				break
			}
			measured[target.ID] = append(measured[target.ID], s)
		}
	}
	return errors.Join(err, noteTargets(ctx, t, targets, measured), e.notePolicies(ctx, t, now))
}

// evaluationTimes returns the times at which a target has to be measured: the ends
// of the periods in which no evaluator ran, and now.
func evaluationTimes(target *store.SLATarget, last, now time.Time) []time.Time {
	period, ok := periods[target.EvaluationPeriod]
	if !ok {
		return nil
	}
	var out []time.Time
	if !last.IsZero() {
		from := last
		if oldest := now.Add(-catchUp); from.Before(oldest) {
			from = oldest
		}
		if from.Before(target.CreatedAt) {
			from = target.CreatedAt
		}
		for at := from.Add(period); at.Before(now); at = at.Add(period) {
			out = append(out, at)
		}
	}
	return append(out, now)
}

// target measures one target over the period that ends at the given time, including
// the current minute. Statistics are kept by the minute; the period that is
// recorded ends at the given time, which is never in the future.
func (e *Evaluator) target(ctx context.Context, t store.Tenant, target *store.SLATarget, end time.Time) (s Assessment, err error) {
	at := minuteAfter(end)
	stats, err := e.Traces.TracesOf(t.ID()).Stats(ctx, store.StatsQuery{
		From: at.Add(-periods[target.EvaluationPeriod]), To: at, AgentID: target.AgentID,
	})
	if err != nil {
		return s, err
	}
	if s = Measure(target, &stats.Summary); s.Status != stateBreached {
		return s, nil
	}
	v := store.SLAViolation{
		SLAID: target.ID, SLAName: target.Name, AgentName: target.AgentName,
		PeriodStart: stats.From, PeriodEnd: end,
		TargetP99Ms: target.P99LatencyMs, ActualP99Ms: &s.P99Ms,
		TargetErrorRate: target.ErrorRatePercent, ActualErrorRate: &s.ErrorRate,
	}
	known, _, err := t.ListViolations(ctx, store.ViolationFilter{SLAID: target.ID, Since: stats.From}, store.Page{})
	if err != nil {
		return s, err
	}
	for _, kind := range []struct {
		name   string
		missed bool
	}{{"latency", s.Latency}, {"error_rate", s.Errors}} {
		v.Type = kind.name
		if !kind.missed || overlaps(known, &v) {
			continue
		}
		created, err := t.RecordViolation(ctx, v)
		switch {
		case store.KindOf(err) == store.NotFound: // the target was deleted meanwhile
			return Assessment{Status: stateNoData}, nil
		case err != nil:
			return s, err
		case created:
			e.Logger.Info("SLA violated", "tenant", t.ID(), "sla", target.ID, "type", v.Type,
				"p99_ms", s.P99Ms, "error_rate", s.ErrorRate)
		}
	}
	return s, nil
}

// minuteAfter returns the end of the minute in which a period ends: it was measured up to there.
func minuteAfter(end time.Time) time.Time { return end.Truncate(time.Minute).Add(time.Minute) }

// overlaps reports whether a violation of the kind covers part of the period.
func overlaps(known []store.SLAViolation, v *store.SLAViolation) bool {
	for i := range known {
		if k := &known[i]; k.Type == v.Type && minuteAfter(k.PeriodEnd).After(v.PeriodStart) && k.PeriodStart.Before(v.PeriodEnd) {
			return true
		}
	}
	return false
}
