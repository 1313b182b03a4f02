package tui

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"svc/store/api"
)

// tally sums up traces.
type tally struct {
	n, errors, blocked, in, out int64
	cost, sum                   float64
	durations                   []float64
}

func (t *tally) add(r *row) {
	t.n++
	if r.outcome != succeeded {
		t.errors++
	}
	if r.outcome == blocked {
		t.blocked++
	}
	t.in += r.trace.InputTokens
	t.out += r.trace.OutputTokens
	t.cost += r.trace.CostUSD
	t.sum += r.trace.DurationMs
	t.durations = append(t.durations, r.trace.DurationMs)
}

// quantile is the nearest rank; the durations must be sorted.
func (t *tally) quantile(q float64) float64 {
	if t.n == 0 {
		return 0
	}
	return t.durations[max(0, int(math.Ceil(q*float64(t.n)))-1)]
}

func (t *tally) mean() float64 { return t.sum / float64(max(1, t.n)) }

func (t *tally) errorRate() float64 { return 100 * float64(t.errors) / float64(max(1, t.n)) }

// sumUp computes the statistics of all rows in memory, by agent, sorted by
// the number of traces.
func sumUp(h *history) api.TraceStats {
	var all tally
	agents := make(map[string]*tally)
	for n := h.first; n < h.next; n++ {
		r := h.at(n)
		all.add(r)
		if agents[r.agent] == nil {
			agents[r.agent] = &tally{}
		}
		agents[r.agent].add(r)
	}
	slices.Sort(all.durations)
	stats := api.TraceStats{Summary: api.StatsSummary{
		TotalTraces: all.n, SuccessCount: all.n - all.errors, ErrorCount: all.errors, ErrorRatePercent: all.errorRate(),
		BlockedCount: all.blocked, FailedCount: all.errors - all.blocked,
		TotalInputTokens: all.in, TotalOutputTokens: all.out, TotalCostUSD: all.cost, AvgDurationMs: all.mean(),
		P50DurationMs: all.quantile(0.5), P95DurationMs: all.quantile(0.95), P99DurationMs: all.quantile(0.99),
	}}
	names := slices.SortedFunc(maps.Keys(agents), func(a, b string) int {
		return cmp.Or(cmp.Compare(agents[b].n, agents[a].n), cmp.Compare(a, b))
	})
	for _, name := range names {
		t := agents[name]
		slices.Sort(t.durations)
		stats.Groups = append(stats.Groups, api.StatsGroup{
			GroupKey: api.GroupKey{AgentName: &name}, TraceCount: t.n, TotalCostUSD: t.cost, ErrorRatePercent: t.errorRate(),
			BlockedCount: t.blocked, FailedCount: t.errors - t.blocked,
			AvgDurationMs: t.mean(), P50DurationMs: t.quantile(0.5), P95DurationMs: t.quantile(0.95), P99DurationMs: t.quantile(0.99),
		})
	}
	return stats
}
