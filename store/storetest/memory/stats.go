package memory

import (
	"context"
	"math"
	"slices"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// bounds rounds a window outwards to units: whole minutes or hours; to whole hours where the
// statistics by the minute have been removed.
func (t *traces) bounds(from, to time.Time, unit time.Duration) (time.Time, time.Time) {
	from, to = floorTo(from, unit), ceilTo(to, unit)
	if from.Before(t.minutes) {
		from = floorTo(from, time.Hour)
	}
	if to.Before(t.minutes) {
		to = ceilTo(to, time.Hour)
	}
	if !from.Before(to) {
		to = from
	}
	return from, to
}

func floorTo(at time.Time, unit time.Duration) time.Time {
	if epoch := time.Unix(0, 0); at.Before(epoch) {
		at = epoch
	}
	return at.UTC().Truncate(unit)
}

func ceilTo(at time.Time, unit time.Duration) time.Time {
	floor := floorTo(at, unit)
	if floor.Before(at) {
		floor = floor.Add(unit)
	}
	return floor
}

// group is the key by which statistics are grouped.
type group struct {
	id, name        string // id of an agent, or its name if it has no id
	provider, model string
	environment     string
	names           [3]string
}

func groupOf(tr *store.Trace, by store.GroupBy) group {
	switch by {
	case store.GroupByAgent:
		if tr.AgentID == "" {
			return group{name: tr.AgentName}
		}
		return group{id: tr.AgentID}
	case store.GroupByModel:
		return group{provider: tr.ModelProvider, model: tr.ModelName}
	case store.GroupByEnvironment:
		return group{environment: tr.Environment}
	case store.GroupByTool:
		return group{names: [3]string{tr.Names()[0]}}
	case store.GroupByRule:
		return group{names: [3]string{1: tr.Names()[1]}}
	case store.GroupByClient:
		return group{names: [3]string{2: tr.Names()[2]}}
	}
	return group{}
}

// Stats sums up the traces of a window.
func (t *tenant) Stats(ctx context.Context, q store.StatsQuery) (out store.Stats, err error) {
	if err := q.Check(); err != nil {
		return out, err
	}
	names := rollup.Names{}
	groups := map[group][]store.Trace{}
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		unit := time.Minute
		switch q.GroupBy {
		case store.GroupByTool, store.GroupByRule, store.GroupByClient:
			unit = time.Hour
		}
		out.From, out.To = tr.bounds(q.From, q.To, unit)
		var all []store.Trace
		for _, one := range tr.seen {
			g := groupOf(&one, q.GroupBy)
			for i := range g.names {
				g.names[i] = names.Of(rollup.Tool+rollup.Dimension(i), one.CreatedAt, g.names[i])
			}
			if one.CreatedAt.Before(out.From) || !one.CreatedAt.Before(out.To) || q.AgentID != "" && q.AgentID != one.AgentID {
				continue
			}
			all = append(all, one)
			if q.GroupBy != store.GroupNone {
				groups[g] = append(groups[g], one)
			}
		}
		out.Summary = totals(all)
		return nil
	})
	if err != nil {
		return out, err
	}
	present, err := t.presentNames(ctx, groups)
	out.Groups = []store.StatsGroup{}
	for g, list := range groups {
		if g.id != "" {
			g.name = present[g.id]
		}
		out.Groups = append(out.Groups, store.StatsGroup{AgentID: g.id, AgentName: g.name, ModelProvider: g.provider,
			ModelName: g.model, Environment: g.environment,
			ToolName: g.names[0], RuleID: g.names[1], ClientName: g.names[2], Totals: totals(list)})
	}
	rollup.Sort(out.Groups)
	return out, err
}

// presentNames returns the current names of the agents of groups, from the store of
// the records.
func (t *tenant) presentNames(ctx context.Context, groups map[group][]store.Trace) (map[string]string, error) {
	var ids []string
	for g := range groups {
		if g.id != "" {
			ids = append(ids, g.id)
		}
	}
	if elsewhere := t.s.e.opts.Agents; elsewhere != nil && len(ids) > 0 {
		return elsewhere(t.id).AgentNames(ctx, ids)
	}
	return t.AgentNames(ctx, ids)
}

// totals aggregates traces. Quantiles are exact.
func totals(list []store.Trace) (sum store.Totals) {
	durations := make([]time.Duration, 0, len(list))
	for i := range list {
		tr := &list[i]
		sum.Traces++
		if tr.Status == store.TraceError {
			sum.Errors++
		}
		if tr.Blocked {
			sum.Blocked++
		}
		sum.InputTokens += tr.InputTokens
		sum.OutputTokens += tr.OutputTokens
		sum.Cost += tr.Cost
		sum.DurationSum += tr.Duration
		durations = append(durations, tr.Duration)
	}
	if len(durations) == 0 {
		return sum
	}
	slices.Sort(durations)
	rank := func(q float64) time.Duration {
		return durations[max(int(math.Ceil(q*float64(len(durations)))), 1)-1]
	}
	sum.P50, sum.P95, sum.P99 = rank(0.50), rank(0.95), rank(0.99)
	sum.P99Low = sum.P99
	return sum
}

// Spend returns the cost of traces in windows.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.traces(ctx, func(_ *engine, tr *traces) error {
		spent = make([]store.NanoUSD, len(q))
		for i := range q {
			from, to := tr.bounds(q[i].From, q[i].To, time.Minute)
			for k, one := range tr.seen {
				pays := q[i].AgentID != "" && one.AgentID == q[i].AgentID
				switch q[i].Scope {
				case store.EnvironmentBudget:
					pays = q[i].Environment != "" && one.Environment == q[i].Environment
				case store.TeamBudget:
					pays = q[i].TeamID != "" && tr.teams[k] == q[i].TeamID
				case store.TenantBudget:
					pays = true
				}
				if pays && !one.CreatedAt.Before(from) && one.CreatedAt.Before(to) {
					spent[i] += one.Cost
				}
			}
		}
		return nil
	})
	return spent, err
}

// expireStep bounds the traces that one step of Expire removes.
const expireStep = 100

// Expire removes what is too old.
func (t *tenant) Expire(ctx context.Context, b store.ExpireBounds) (res store.Expired, err error) {
	for began := time.Now(); ; {
		err := t.write(ctx, func(_ *engine, d *tenantData) error {
			n := d.traces.expire(b.Traces)
			res.Traces += n
			res.Minutes += d.traces.dropMinutes(b.Minutes)
			res.More = n == expireStep
			return nil
		})
		if t.s.e.opts.Agents != nil && store.KindOf(err) == store.NotFound {
			return res, nil // a tenant without traces
		}
		if err != nil || !res.More || time.Since(began) >= b.Budget {
			return res, err
		}
	}
}

// expire removes traces that were created before a time, the earliest commits first.
func (t *traces) expire(before time.Time) (n int) {
	t.stored = slices.DeleteFunc(t.stored, func(s stored) bool {
		if n == expireStep || !s.trace.CreatedAt.Before(before) {
			return false
		}
		n++
		return true
	})
	if n > 0 && before.After(t.horizon) {
		t.horizon = before
	}
	return n
}

// dropMinutes removes the statistics by the minute before the hour of a time.
func (t *traces) dropMinutes(before time.Time) int {
	hour := before.UTC().Truncate(time.Hour)
	gone := map[time.Time]bool{}
	for _, tr := range t.seen {
		if tr.CreatedAt.Before(hour) && !tr.CreatedAt.Before(t.minutes) {
			gone[tr.CreatedAt.Truncate(time.Minute)] = true
		}
	}
	if len(gone) > 0 {
		t.minutes = hour
	}
	return len(gone)
}
