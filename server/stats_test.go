package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// No traces: zeros, never NaN; groups is [] without groupBy.
func TestStatsOfNothing(t *testing.T) {
	r := newRig(t)
	a := r.ask(r.admin, "GET", "/api/traces/stats", "").want(200)
	o := a.object().has(t, "period", "from", "to", "summary", "groups").is(t, "period", "24h")
	if !strings.Contains(string(a.raw), `"groups":[]`) {
		t.Errorf("groups of nothing: %s", a.raw)
	}
	for name, v := range toObject(t, o["summary"]) {
		if v != 0.0 {
			t.Errorf("%s is %v", name, v)
		}
	}
	r.ask(r.admin, "GET", "/api/traces/stats?groupBy=model&agentId=agt_unknown", "").want(200).object().is(t, "groups", []any{})
}

func TestStatsBadQueries(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "GET", "/api/traces/stats?period=2h", "").wantDetail("period")
	r.ask(r.admin, "GET", "/api/traces/stats?period=90d", "").wantDetail("period")
	r.ask(r.admin, "GET", "/api/traces/stats?groupBy=session", "").wantDetail("groupBy")
	r.ask(r.admin, "GET", "/api/traces/stats?groupBy=tool&agentId=agt_unknown", "").wantDetail("groupBy")
	r.ask(r.admin, "GET", "/api/costs/breakdown?groupBy=client&agentId=agt_unknown", "").wantDetail("groupBy")
}

// naive sums traces in the simplest way.
type naive struct {
	n, errors, blocked, in, out int64
	cost                        store.NanoUSD
	durations                   []time.Duration
}

func (s *naive) add(t store.Trace) {
	s.n++
	if t.Status == store.TraceError {
		s.errors++
	}
	if t.Blocked {
		s.blocked++
	}
	s.in += t.InputTokens
	s.out += t.OutputTokens
	s.cost += t.Cost
	s.durations = append(s.durations, t.Duration)
}

// quantile is the smallest duration such that at least the share of the
// durations do not exceed it.
func (s *naive) quantile(share float64) float64 {
	d := slices.Sorted(slices.Values(s.durations))
	return milliseconds(d[int(math.Ceil(share*float64(len(d))))-1])
}

func (s *naive) avg() float64 {
	var sum time.Duration
	for _, d := range s.durations {
		sum += d
	}
	return milliseconds(sum) / float64(s.n)
}

func near(t *testing.T, what string, got any, want, share float64) {
	t.Helper()
	f, ok := got.(float64)
	if !ok || math.Abs(f-want) > share*want+1e-9 {
		t.Errorf("%s is %v, want %v within %v %%", what, got, want, 100*share)
	}
}

// Statistics are compared with a naive computation, for each period and
// grouping.
func TestStatsAgainstRecount(t *testing.T) {
	r := newRig(t)
	all := seed(r)
	for _, period := range []string{"1h", "24h", "7d", "30d"} {
		for _, groupBy := range []string{"", "agent", "model", "environment", "tool", "rule", "client"} {
			t.Run(period+" "+groupBy, func(t *testing.T) {
				var sum naive
				groups := map[string]*naive{}
				from := r.clock.Now().Add(-lookBacks[period])
				if by, err := rollup.ResultDimension(&store.StatsQuery{GroupBy: store.GroupBy(groupBy)}); err != nil {
					t.Fatal(err)
				} else if by >= rollup.Tool {
					from = from.Truncate(time.Hour)
				}
				for _, tr := range all {
					if tr.CreatedAt.Before(from) {
						continue
					}
					sum.add(tr)
					key := map[string]string{"agent": tr.AgentName, "model": tr.ModelName, "environment": tr.Environment,
						"tool": tr.ToolName, "rule": tr.RuleID, "client": tr.ClientName}[groupBy]
					if groups[key] == nil {
						groups[key] = &naive{}
					}
					groups[key].add(tr)
				}
				query := "?period=" + period
				if groupBy != "" {
					query += "&groupBy=" + groupBy
				}
				o := r.ask(r.admin, "GET", "/api/traces/stats"+query, "").want(200).object().is(t, "period", period)
				s := toObject(t, o["summary"])
				s.is(t, "totalTraces", sum.n, "successCount", sum.n-sum.errors, "errorCount", sum.errors,
					"blockedCount", sum.blocked, "failedCount", sum.errors-sum.blocked,
					"totalInputTokens", sum.in, "totalOutputTokens", sum.out)
				near(t, "totalCostUsd", s["totalCostUsd"], sum.cost.USD(), 0)
				near(t, "errorRatePercent", s["errorRatePercent"], 100*float64(sum.errors)/float64(sum.n), 1e-9)
				near(t, "avgDurationMs", s["avgDurationMs"], sum.avg(), 1e-9)
				near(t, "p50DurationMs", s["p50DurationMs"], sum.quantile(.5), .01)
				near(t, "p95DurationMs", s["p95DurationMs"], sum.quantile(.95), .01)
				near(t, "p99DurationMs", s["p99DurationMs"], sum.quantile(.99), .01)

				got, _ := o["groups"].([]any)
				if groupBy == "" {
					if len(got) != 0 {
						t.Errorf("%d groups without groupBy", len(got))
					}
					return
				}
				if len(got) != len(groups) {
					t.Fatalf("%d groups, want %d", len(got), len(groups))
				}
				for _, v := range got {
					g := toObject(t, v)
					key := fmt.Sprint(g[map[string]string{"agent": "agentName", "model": "modelName", "environment": "environment",
						"tool": "toolName", "rule": "ruleId", "client": "clientName"}[groupBy]])
					want := groups[key]
					if want == nil {
						t.Fatalf("group %q is of nothing", key)
					}
					g.is(t, "blockedCount", want.blocked, "failedCount", want.errors-want.blocked, "traceCount", want.n)
					near(t, "totalCostUsd", g["totalCostUsd"], want.cost.USD(), 0)
					near(t, "avgDurationMs", g["avgDurationMs"], want.avg(), 1e-8) // whole nanoseconds
					near(t, "p99DurationMs", g["p99DurationMs"], want.quantile(.99), .01)
				}
			})
		}
	}
}

// The keys of a group depend on groupBy, as in the breakdown.
func TestStatsGroupKeys(t *testing.T) {
	r := newRig(t)
	seed(r)
	figures := []string{"traceCount", "blockedCount", "failedCount", "totalCostUsd", "errorRatePercent", "avgDurationMs", "p50DurationMs", "p95DurationMs", "p99DurationMs"}
	for groupBy, keys := range map[string][]string{
		"agent": {"agentId", "agentName"}, "model": {"modelProvider", "modelName"}, "environment": {"environment"},
		"tool": {"toolName"}, "rule": {"ruleId"}, "client": {"clientName"},
	} {
		groups := r.ask(r.admin, "GET", "/api/traces/stats?groupBy="+groupBy, "").want(200).object()["groups"].([]any)
		for _, g := range groups {
			toObject(t, g).has(t, append(keys, figures...)...)
		}
	}
}

// agentId narrows statistics to one agent.
func TestStatsOfOneAgent(t *testing.T) {
	r := newRig(t)
	all := seed(r)
	o := r.ask(r.admin, "GET", "/api/traces/stats?agentId="+all[1].AgentID, "").want(200).object()
	toObject(t, o["summary"]).is(t, "totalTraces", 60)
}

// A window is that of startDate and endDate, both inclusive, and its parts have each trace once.
func TestStatsWindow(t *testing.T) {
	r := newRig(t)
	all := seed(r) // one each minute of the last two hours
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	from, to := all[30].CreatedAt, all[89].CreatedAt
	for _, parts := range []int{1, 2, 7, 59, 60} {
		o := r.ask(r.admin, "GET", fmt.Sprintf("/api/traces/stats?startDate=%s&endDate=%s&parts=%d&groupBy=agent", stamp(from), stamp(to), parts), "").want(200).object()
		if _, some := o["period"]; some {
			t.Error("a query with dates has a period")
		}
		o.is(t, "from", stamp(from), "to", stamp(to.Add(time.Minute)))
		toObject(t, o["summary"]).is(t, "totalTraces", 60)
		list := o["parts"].([]any)
		if len(list) != parts {
			t.Errorf("%d parts became %d", parts, len(list))
		}
		n, at := 0.0, stamp(from)
		for _, v := range list {
			p := toObject(t, v)
			p.is(t, "from", at)
			at, n = p["to"].(string), n+p["totalTraces"].(float64)
		}
		if n != 60 || at != stamp(to.Add(time.Minute)) {
			t.Errorf("%d parts have %v traces until %v", parts, n, at)
		}
	}
	// Parts are at least a minute.
	short := r.ask(r.admin, "GET", "/api/traces/stats?parts=60&startDate="+stamp(from)+"&endDate="+stamp(from.Add(150*time.Second)), "").want(200).object()
	if n := len(short["parts"].([]any)); n != 3 {
		t.Errorf("60 parts of 2.5 minutes became %d", n)
	}
	toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?startDate="+stamp(from), "").want(200).object()["summary"]).is(t, "totalTraces", 90)
	if got := r.ask(r.admin, "GET", "/api/traces/stats?parts=24", "").want(200).object().is(t, "period", "24h")["parts"].([]any); len(got) != 24 {
		t.Errorf("24 parts of 24 h became %d", len(got))
	}
	for query, field := range map[string]string{
		"period=1h&startDate=2026-01-01": "period", "endDate=2026-01-01": "startDate", "startDate=2026-01-02&endDate=2026-01-01": "startDate",
		"startDate=2024-01-01&endDate=2026-01-01": "startDate", "startDate=soon": "startDate", "parts=0": "parts", "parts=61": "parts", "parts=x": "parts", "parts=": "parts",
	} {
		r.ask(r.admin, "GET", "/api/traces/stats?"+query, "").wantDetail(field)
	}
}
