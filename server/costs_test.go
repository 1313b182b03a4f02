package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// spend is a trace of one second with a cost.
func spend(id, agent string, at time.Time, usd float64) store.Trace {
	cost, _ := store.DollarsToNano(usd)
	return store.Trace{ID: id, AgentID: agent, Status: store.TraceSuccess, Environment: "production",
		ModelProvider: "anthropic", ModelName: "claude", InputTokens: 100, OutputTokens: 10,
		Cost: cost, Duration: time.Second, CreatedAt: at}
}

// TestBreakdownRow tests GET /api/costs/breakdown.
func TestBreakdownRow(t *testing.T) {
	figures := []string{"totalCostUsd", "inputTokens", "outputTokens", "traceCount", "avgCostPerTrace"}
	r := newRig(t)
	one, two := r.agent(r.admin, "one"), r.agent(r.admin, "two")
	r.traces(
		spend("a", one, epoch.Add(-time.Hour), 0.1),
		spend("b", one, epoch.Add(-2*time.Hour), 0.2),
		spend("c", two, epoch.Add(-3*24*time.Hour), 5),
		spend("d", two, epoch.Add(-20*24*time.Hour), 7),
		spend("e", two, epoch.Add(-60*24*time.Hour), 11),
	)
	get := func(query string) object {
		t.Helper()
		o := r.ask(r.admin, "GET", "/api/costs/breakdown"+query, "").want(200).object()
		return o.has(t, "period", "groupBy", "totalCostUsd", "data") // top level, without data
	}
	t.Run("defaults: 30d by agent", func(t *testing.T) {
		o := get("").is(t, "period", "30d", "groupBy", "agent", "totalCostUsd", 12.3)
		data := o["data"].([]any)
		if len(data) != 2 {
			t.Fatalf("%d entries", len(data))
		}
		toObject(t, data[0]).has(t, append(figures, "agentId", "agentName")...).
			is(t, "agentId", two, "agentName", "two", "totalCostUsd", 12, "traceCount", 2, "avgCostPerTrace", 6, "inputTokens", 200, "outputTokens", 20)
		toObject(t, data[1]).is(t, "agentName", "one", "totalCostUsd", 0.3, "avgCostPerTrace", 0.15) // 0.1 + 0.2 is 0.3 in nano-dollars
	})
	for period, want := range map[string]any{"1d": 0.3, "7d": 5.3, "30d": 12.3, "90d": 23.3} {
		t.Run("period "+period, func(t *testing.T) { get("?period="+period).is(t, "period", period, "totalCostUsd", want) })
	}
	t.Run("groupBy model", func(t *testing.T) {
		data := get("?groupBy=model")["data"].([]any)
		toObject(t, data[0]).has(t, append(figures, "modelProvider", "modelName")...).is(t, "modelProvider", "anthropic", "modelName", "claude", "traceCount", 4)
	})
	t.Run("groupBy environment", func(t *testing.T) {
		data := get("?groupBy=environment")["data"].([]any)
		toObject(t, data[0]).has(t, append(figures, "environment")...).is(t, "environment", "production", "traceCount", 4)
	})
	t.Run("agentId", func(t *testing.T) {
		o := get("?agentId="+one).is(t, "totalCostUsd", 0.3)
		if n := len(o["data"].([]any)); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
	t.Run("agentId unknown: nothing, and no NaN", func(t *testing.T) {
		get("?agentId=agt_unknown").is(t, "totalCostUsd", 0, "data", "[]")
	})
	t.Run("bad values", func(t *testing.T) {
		r.ask(r.admin, "GET", "/api/costs/breakdown?period=1h", "").wantDetail("period")
		r.ask(r.admin, "GET", "/api/costs/breakdown?period=", "").wantDetail("period")
		r.ask(r.admin, "GET", "/api/costs/breakdown?groupBy=team", "").wantDetail("groupBy")
	})
}

var budgetFields = []string{"id", "name", "scope", "agentId", "agentName", "environment", "teamId", "teamName", "period", "limitUsd", "warnAt", "currentUsd", "percentUsed", "resetAt"}

func budgetBody(name, agent, period string, limit any) string {
	return fmt.Sprintf(`{"name":%q,"agentId":%q,"period":%q,"limitUsd":%v}`, name, agent, period, limit)
}

// TestBudgetRows has a test per row about budgets, including those of the
// design.
func TestBudgetRows(t *testing.T) {
	t.Run("POST /api/costs/budgets", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		r.traces(spend("a", agent, epoch, 2.5))
		b := r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 10)).want(201).object() // without data
		b.has(t, budgetFields...).is(t, "name", "b", "agentId", agent, "agentName", "billing", "period", "daily",
			"limitUsd", 10, "currentUsd", 2.5, "percentUsed", 25)
		b.moment(t, "resetAt")
	})
	t.Run("POST /api/costs/budgets: all four are required", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		a := r.ask(r.admin, "POST", "/api/costs/budgets", `{}`)
		for _, f := range []string{"name", "agentId", "period", "limitUsd"} {
			a.wantDetail(f)
		}
		for _, limit := range []any{0, -1, "null", `"10"`, 1e300, 1e-12} {
			r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", limit)).wantDetail("limitUsd")
		}
		r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "yearly", 1)).wantDetail("period")
	})
	t.Run("POST /api/costs/budgets: the name is unique", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 10)).want(201)
		if got := r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "weekly", 1)).want(400).detail("name"); got != "already exists" {
			t.Errorf("details.name is %q", got)
		}
	})
	t.Run("POST /api/costs/budgets: unknown agentId in the body", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", "agt_unknown", "daily", 1)).wantDetail("agentId")
		theirs := r.agent(r.other, "theirs")
		r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", theirs, "daily", 1)).wantDetail("agentId")
	})
	t.Run("GET /api/costs/budgets has data and total only", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).object().has(t, "data", "total").is(t, "data", "[]", "total", 0)
		for i := range 55 {
			r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody(fmt.Sprint("b", i), agent, "daily", 10)).want(201)
		}
		a := r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200)
		a.object().has(t, "data", "total").is(t, "total", 55)
		list := a.list()
		if len(list) != 55 {
			t.Fatalf("%d budgets", len(list))
		}
		list[0].has(t, budgetFields...).is(t, "name", "b54")
	})
	t.Run("PUT /api/costs/budgets/:id", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		id := r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 10)).want(201).object().id(t)
		r.ask(r.admin, "PUT", "/api/costs/budgets/"+id, `{"limitUsd":20,"period":"monthly"}`).want(200).data().
			has(t, budgetFields...).is(t, "limitUsd", 20, "period", "monthly", "name", "b")
		r.ask(r.admin, "PUT", "/api/costs/budgets/"+id, `{"limitUsd":0}`).wantDetail("limitUsd")
		r.ask(r.admin, "PUT", "/api/costs/budgets/"+id, `{"agentId":"agt_unknown"}`).wantDetail("agentId")
		r.ask(r.admin, "PUT", "/api/costs/budgets/bud_unknown", `{}`).want(404)
	})
	t.Run("DELETE /api/costs/budgets/:id", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		id := r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 10)).want(201).object().id(t)
		r.ask(r.admin, "DELETE", "/api/costs/budgets/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		r.ask(r.admin, "DELETE", "/api/costs/budgets/"+id, "").want(404)
	})
}

// TestBudgetPeriods: UTC day, ISO week from Monday, calendar month; resetAt is
// the next boundary, and earlier spending no longer counts after it.
func TestBudgetPeriods(t *testing.T) {
	for _, tc := range []struct{ name, period, now, resetAt string }{
		{"day", "daily", "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"},
		{"day, last moment", "daily", "2026-03-01T23:59:59Z", "2026-03-02T00:00:00Z"},
		{"day, first moment", "daily", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"},
		{"week from a Sunday", "weekly", "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z"},
		{"week from a Monday", "weekly", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"week over a new year", "weekly", "2026-12-31T12:00:00Z", "2027-01-04T00:00:00Z"},
		{"month of 28 days", "monthly", "2026-02-28T23:00:00Z", "2026-03-01T00:00:00Z"},
		{"month of 29 days", "monthly", "2028-02-29T23:00:00Z", "2028-03-01T00:00:00Z"},
		{"month at the end of a year", "monthly", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
		{"month at its 31st", "monthly", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			now, err := time.Parse(time.RFC3339, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			r.clock.advance(now.Sub(r.clock.Now()))
			agent := r.agent(r.admin, "billing")
			r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, tc.period, 10)).want(201)
			r.traces(spend("now", agent, now, 3), spend("long ago", agent, now.AddDate(0, 0, -40), 100))
			get := func() object { return r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0] }
			get().is(t, "resetAt", tc.resetAt, "currentUsd", 3, "percentUsed", 30)
			reset, _ := time.Parse(time.RFC3339, tc.resetAt)
			r.clock.advance(reset.Sub(now))
			b := get().is(t, "currentUsd", 0, "percentUsed", 0)
			if next := b.moment(t, "resetAt"); !next.After(reset) {
				t.Errorf("after the reset at %s the next is %s", reset, next)
			}
		})
	}
}

// TestMoneyIsExact: amounts add up exactly: a thousand tenths of a cent are
// one dollar.
func TestMoneyIsExact(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "billing")
	r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 1)).want(201)
	batch := make([]store.Trace, 1000)
	for i := range batch {
		batch[i] = spend(fmt.Sprint("t", i), agent, epoch, 0.001)
	}
	r.traces(batch...)
	r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0].is(t, "currentUsd", 1, "percentUsed", 100)
}

var slaFields = []string{"id", "name", "agentId", "agentName", "p99LatencyMs", "errorRatePercent", "evaluationPeriod", "currentP99Ms", "currentErrorRate", "status"}

func slaBody(name, agent, targets, period string) string {
	return fmt.Sprintf(`{"name":%q,"agentId":%q,%s"evaluationPeriod":%q}`, name, agent, targets, period)
}

// TestSLARows has a test per row about SLA targets, including those of the
// design.
func TestSLARows(t *testing.T) {
	t.Run("POST /api/costs/sla", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":500,"errorRatePercent":1,`, "24h")).want(201).object(). // without data
																			has(t, slaFields...).is(t, "name", "s", "agentId", agent, "agentName", "billing", "p99LatencyMs", 500, "errorRatePercent", 1,
			"evaluationPeriod", "24h", "currentP99Ms", 0, "currentErrorRate", 0, "status", "no_data")
	})
	t.Run("POST /api/costs/sla: required are name, agentId, evaluationPeriod and one target", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		a := r.ask(r.admin, "POST", "/api/costs/sla", `{}`)
		for _, f := range []string{"name", "agentId", "evaluationPeriod", "p99LatencyMs"} {
			a.wantDetail(f)
		}
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("a", agent, `"p99LatencyMs":500,`, "1h")).want(201).object().is(t, "errorRatePercent", nil)
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("b", agent, `"errorRatePercent":0,`, "7d")).want(201).object().is(t, "p99LatencyMs", nil)
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("c", agent, `"p99LatencyMs":500,`, "30d")).want(201)
	})
	t.Run("POST /api/costs/sla: bad values", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		for _, tc := range []struct{ targets, period, field string }{
			{`"p99LatencyMs":0,`, "1h", "p99LatencyMs"},
			{`"p99LatencyMs":-1,`, "1h", "p99LatencyMs"},
			{`"p99LatencyMs":"5",`, "1h", "p99LatencyMs"},
			{`"errorRatePercent":101,`, "1h", "errorRatePercent"},
			{`"errorRatePercent":-1,`, "1h", "errorRatePercent"},
			{`"p99LatencyMs":5,`, "90d", "evaluationPeriod"},
			{`"p99LatencyMs":5,`, "1d", "evaluationPeriod"},
		} {
			r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, tc.targets, tc.period)).wantDetail(tc.field)
		}
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", "agt_unknown", `"p99LatencyMs":5,`, "1h")).wantDetail("agentId")
	})
	t.Run("GET /api/costs/sla has data and total only", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		r.ask(r.admin, "GET", "/api/costs/sla", "").want(200).object().has(t, "data", "total").is(t, "data", "[]", "total", 0)
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":500,`, "24h")).want(201)
		a := r.ask(r.admin, "GET", "/api/costs/sla", "").want(200)
		a.object().has(t, "data", "total").is(t, "total", 1)
		a.list()[0].has(t, slaFields...)
	})
	t.Run("PUT /api/costs/sla/:id", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		id := r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":500,`, "24h")).want(201).object().id(t)
		r.ask(r.admin, "PUT", "/api/costs/sla/"+id, `{"errorRatePercent":2.5,"evaluationPeriod":"7d"}`).want(200).data().
			has(t, slaFields...).is(t, "p99LatencyMs", 500, "errorRatePercent", 2.5, "evaluationPeriod", "7d")
		r.ask(r.admin, "PUT", "/api/costs/sla/"+id, `{"evaluationPeriod":"2h"}`).wantDetail("evaluationPeriod")
		r.ask(r.admin, "PUT", "/api/costs/sla/sla_unknown", `{}`).want(404)
	})
	t.Run("DELETE /api/costs/sla/:id", func(t *testing.T) {
		r := newRig(t)
		agent := r.agent(r.admin, "billing")
		id := r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":500,`, "24h")).want(201).object().id(t)
		r.ask(r.admin, "DELETE", "/api/costs/sla/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		r.ask(r.admin, "DELETE", "/api/costs/sla/"+id, "").want(404)
	})
}

// TestSLAStatusIsCurrentWhenRead: the measurements and the status reflect new
// traces at once, although no evaluator runs.
func TestSLAStatusIsCurrentWhenRead(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "billing")
	r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"errorRatePercent":50,`, "1h")).want(201)
	status := func() object { return r.ask(r.admin, "GET", "/api/costs/sla", "").want(200).list()[0] }
	status().is(t, "status", "no_data")
	r.traces(spend("ok", agent, epoch, 0))
	status().is(t, "status", "healthy", "currentErrorRate", 0)
	bad := spend("bad", agent, epoch, 0)
	bad.Status = store.TraceError
	r.traces(bad)
	status().is(t, "status", "at_risk", "currentErrorRate", 50)
	bad.ID = "worse"
	r.traces(bad)
	status().is(t, "status", "breached")
	r.clock.advance(2 * time.Hour) // all traces are older than the evaluation period
	status().is(t, "status", "no_data", "currentErrorRate", 0)
}

// TestStanding: at_risk means within 10 % of a target; the worse of two
// targets counts; and traces that a policy blocked do not count in the error
// rate.
func TestStanding(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	ms := time.Millisecond
	for _, tc := range []struct {
		name          string
		latency, rate *float64
		totals        store.Totals
		status        string
		errorRate     float64
	}{
		{"no traces", f(100), f(1), store.Totals{}, "no_data", 0},
		{"well below", f(100), nil, store.Totals{Traces: 10, P99: 50 * ms}, "healthy", 0},
		{"just below the danger", f(100), nil, store.Totals{Traces: 10, P99: 89 * ms}, "healthy", 0},
		{"at 90 %", f(100), nil, store.Totals{Traces: 10, P99: 90 * ms}, "at_risk", 0},
		{"exactly the target", f(100), nil, store.Totals{Traces: 10, P99: 100 * ms}, "at_risk", 0},
		{"above", f(100), nil, store.Totals{Traces: 10, P99: 101 * ms, P99Low: 101 * ms}, "breached", 0},
		{"error rate above", nil, f(5), store.Totals{Traces: 10, Errors: 1}, "breached", 10},
		{"error rate of a target of none", nil, f(0), store.Totals{Traces: 10}, "healthy", 0},
		{"one error against a target of none", nil, f(0), store.Totals{Traces: 10, Errors: 1}, "breached", 10},
		{"the worse of two", f(100), f(50), store.Totals{Traces: 10, P99: 95 * ms, Errors: 6}, "breached", 60},
		{"the worse of two, other way", f(100), f(50), store.Totals{Traces: 10, P99: 95 * ms}, "at_risk", 0},
		{"blocked do not count", nil, f(5), store.Totals{Traces: 10, Errors: 5, Blocked: 5}, "healthy", 0},
		{"all blocked", nil, f(5), store.Totals{Traces: 5, Errors: 5, Blocked: 5}, "healthy", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := background.Measure(&store.SLATarget{P99LatencyMs: tc.latency, ErrorRatePercent: tc.rate}, &tc.totals)
			if got.Status != tc.status || got.ErrorRate != tc.errorRate {
				t.Errorf("got %+v, want %s at %v %%", got, tc.status, tc.errorRate)
			}
		})
	}
}

// TestViolationsRow tests GET /api/costs/sla/violations.
func TestViolationsRow(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "billing")
	ctx := context.Background()
	ids := map[string]string{}
	for _, name := range []string{"a", "b"} {
		ids[name] = r.ask(r.admin, "POST", "/api/costs/sla", slaBody(name, agent, `"p99LatencyMs":500,`, "1h")).want(201).object().id(t)
	}
	target, actual := 500.0, 730.5
	for i, at := range []time.Duration{-30 * time.Minute, -3 * time.Hour, -3 * 24 * time.Hour, -10 * 24 * time.Hour} {
		for _, name := range []string{"a", "b"} {
			v := store.SLAViolation{SLAID: ids[name], SLAName: name, AgentName: "billing", Type: "latency",
				PeriodStart: epoch.Add(at - time.Hour), PeriodEnd: epoch.Add(at), TargetP99Ms: &target, ActualP99Ms: &actual}
			if created, err := r.store.Tenant("one").RecordViolation(ctx, v); err != nil || !created {
				t.Fatal(i, created, err)
			}
		}
	}
	get := func(query string) *reply { return r.ask(r.admin, "GET", "/api/costs/sla/violations"+query, "") }
	t.Run("data and total only, 24h by default, newest first", func(t *testing.T) {
		a := get("").want(200)
		a.object().has(t, "data", "total").is(t, "total", 4)
		v := a.list()[0].has(t, "id", "slaId", "slaName", "agentName", "periodStart", "periodEnd", "violationType",
			"targetP99Ms", "actualP99Ms", "targetErrorRate", "actualErrorRate")
		v.is(t, "agentName", "billing", "violationType", "latency", "targetP99Ms", 500, "actualP99Ms", 730.5, "targetErrorRate", nil, "actualErrorRate", 0)
		v.moment(t, "periodStart")
		v.moment(t, "periodEnd")
	})
	for period, want := range map[string]int{"1h": 2, "24h": 4, "7d": 6} {
		t.Run("period "+period, func(t *testing.T) { get("?period="+period).want(200).object().is(t, "total", want) })
	}
	t.Run("slaId", func(t *testing.T) {
		a := get("?slaId=" + ids["b"]).want(200)
		a.object().is(t, "total", 2)
		a.list()[0].is(t, "slaId", ids["b"], "slaName", "b")
	})
	t.Run("slaId unknown: an empty list", func(t *testing.T) {
		get("?slaId=sla_unknown").want(200).object().is(t, "total", 0, "data", "[]")
	})
	t.Run("bad period", func(t *testing.T) { get("?period=30d").wantDetail("period") })
	t.Run("a deleted target's violations stay", func(t *testing.T) {
		r.ask(r.admin, "DELETE", "/api/costs/sla/"+ids["a"], "").want(200)
		get("").want(200).object().is(t, "total", 4)
	})
}

// TestScopesOfBudgets: a budget limits an agent, an environment, a team or the tenant, and has the
// members of its scope alone.
func TestScopesOfBudgets(t *testing.T) {
	r := newRig(t)
	team := r.team(r.admin, "ops", "teams:write")
	agent := r.ask(r.admin, "POST", "/api/agents", `{"name":"bot","teamId":"`+team+`"}`).want(201).data().id(t)
	r.traces(store.Trace{ID: "1", AgentName: "bot", Environment: "production", Status: store.TraceSuccess, Cost: 1e9, CreatedAt: epoch},
		store.Trace{ID: "2", AgentName: "other", Status: store.TraceSuccess, Cost: 3e9, CreatedAt: epoch})
	post := func(members string) *reply {
		return r.ask(r.admin, "POST", "/api/costs/budgets", `{"name":`+strconv.Quote("b"+strconv.Itoa(len(members)))+`,"period":"daily","limitUsd":10`+members+`}`)
	}
	for _, wrong := range []struct{ members, field string }{
		{`,"scope":"environment"`, "environment"}, {`,"scope":"team"`, "teamId"}, {`,"scope":"agent"`, "agentId"}, {`,"scope":"world"`, "scope"},
		{`,"scope":"tenant","agentId":"` + agent + `"`, "agentId"}, {`,"agentId":"` + agent + `","environment":"x"`, "environment"},
		{`,"scope":"team","teamId":"tea_unknown"`, "teamId"}, {`,"scope":"tenant","warnAt":[0]`, "warnAt"}, {`,"scope":"tenant","warnAt":[100]`, "warnAt"},
		{`,"scope":"tenant","warnAt":[5,5]`, "warnAt"}, {`,"scope":"tenant","warnAt":[1,2,3]`, "warnAt"},
	} {
		post(wrong.members).wantDetail(wrong.field)
	}
	post(`,"scope":"tenant","warnAt":[80,50]`).want(201).object().is(t, "scope", "tenant", "agentId", nil, "agentName", nil, "environment", nil, "teamId", nil, "currentUsd", 4, "warnAt", "[50 80]")
	post(`,"scope":"environment","environment":"production"`).want(201).object().is(t, "environment", "production", "agentId", nil, "currentUsd", 1)
	b := post(`,"scope":"team","teamId":"`+team+`"`).want(201).object().is(t, "teamId", team, "teamName", "ops", "agentName", nil, "currentUsd", 1)
	url := "/api/costs/budgets/" + b.id(t)
	r.ask(r.admin, "PUT", url, `{"scope":"agent"}`).wantDetail("agentId")
	r.ask(r.admin, "PUT", url, `{"teamId":null}`).wantDetail("teamId")
	r.ask(r.admin, "PUT", url, `{"scope":"agent","agentId":"`+agent+`","teamId":null}`).want(200).data().is(t, "teamId", nil, "agentName", "bot", "scope", "agent", "environment", nil)
	r.ask(r.admin, "PUT", url, `{"scope":"team","teamId":"`+team+`","warnAt":[1]}`).want(200).data().is(t, "agentId", nil, "warnAt", "[1]")

	limited, _ := r.key(r.admin, "api", "teamId", team)
	r.ask(limited, "DELETE", "/api/teams/"+team, "").want(403)
	var bundle api.Governance
	secret, _ := r.key(r.admin, "ingest")
	if err := json.Unmarshal(r.ask(secret, "GET", "/api/governance", "").want(200).raw, &bundle); err != nil || len(bundle.Budgets) != 3 ||
		len(bundle.Teams) != 1 || bundle.Teams[0].TeamID != team || len(bundle.Teams[0].AgentNames) != 1 || bundle.Teams[0].AgentNames[0] != "bot" {
		t.Errorf("bundle %+v, %v", bundle, err)
	}
	a := r.ask(r.admin, "DELETE", "/api/teams/"+team, "").want(200)
	if !strings.Contains(string(a.raw), "was deleted too") {
		t.Errorf("the response does not name the budget: %s", a.raw)
	}
	r.ask(r.admin, "GET", url, "").want(404)

	declare := func(spec string) *reply {
		return r.apply(r.admin, `{"documents":[{"kind":"Team","name":"new"},{"kind":"Budget","name":"declared","spec":{"period":"daily","limitUsd":1`+spec+`}}]}`)
	}
	declare(`,"scope":"team"`).wantDetail("documents[1].spec.team")
	declare(`,"scope":"team","team":"nobody"`).wantDetail("documents[1].spec.team")
	declare(`,"scope":"tenant","agent":"bot"`).wantDetail("documents[1].spec.agent")
	wantChanges(t, declare(`,"scope":"team","team":"new","warnAt":[50]`), "Team new create", "Budget declared create")
	wantChanges(t, declare(`,"scope":"team","team":"new","warnAt":[50]`), "Team new none", "Budget declared none")
	wantChanges(t, declare(`,"agent":"bot"`), "Team new none", "Budget declared update agent,scope,team,warnAt")
	wantChanges(t, declare(`,"scope":"agent","agent":"bot"`), "Team new none", "Budget declared none")
	wantChanges(t, declare(`,"scope":"environment","environment":"e"`), "Team new none", "Budget declared update agent,environment,scope")
}
