package server

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/storetest/memory"
)

// TestTracesOfAnotherEngine: with records and traces in different stores, responses
// that need both are the same as with one store.
func TestTracesOfAnotherEngine(t *testing.T) {
	var traces *memory.Store
	var fault error
	r := newRig(t, func(o *Options) {
		records := o.Records
		traces = memory.Open(memory.Options{Now: o.Now, Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
		o.Traces = faulty{traces, &fault}
	})
	agent := r.agent(r.admin, "billing")
	policy := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
	r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"b","agentId":%q,"period":"daily","limitUsd":2}`, agent)).want(201)
	at := epoch.Add(-time.Minute).Format(time.RFC3339)
	body := fmt.Sprintf(`{"traces":[
		{"id":"1","agentId":%q,"status":"error","toolName":"search","costUsd":1.5,"durationMs":10,"createdAt":%q,"policiesFired":[{"id":%q,"name":"x","action":"warn"}]},
		{"id":"2","agentName":"unheard of","status":"success","durationMs":20,"createdAt":%q}]}`, agent, at, policy, at)
	r.ask(r.admin, "POST", "/api/traces", body).want(201)

	if _, total, err := r.store.TracesOf("one").ListTraces(context.Background(), store.TraceFilter{}, store.Page{}); err != nil || total != 0 {
		t.Errorf("%d traces in the store of the records, %v", total, err)
	}
	r.ask(r.admin, "GET", "/api/traces", "").want(200).object().is(t, "total", 2)
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 2) // one agent was registered
	r.ask(r.admin, "GET", "/api/policies/"+policy, "").want(200).data().is(t, "fireCount", 1)
	r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0].is(t, "currentUsd", 1.5)
	tool := r.ask(r.admin, "GET", "/api/agents/"+agent+"/tools", "").want(200).list()[0]
	tool.is(t, "toolName", "search")
	r.ask(r.admin, "GET", "/api/agents/agt_unknown/tools", "").want(404)

	// Statistics show the agent's current name.
	r.ask(r.admin, "PUT", "/api/agents/"+agent, `{"name":"invoices"}`).want(200)
	groups := toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?period=1h&groupBy=agent", "").want(200).object()["groups"].([]any)[0])
	groups.is(t, "agentName", "invoices")

	// While the traces are unavailable, requests that need them are 503 with
	// Retry-After, and the others succeed.
	away := errors.New("dial tcp 10.0.0.7:9440: connection refused")
	fault = fmt.Errorf("list traces: %w: %w", store.ErrUnavailable, away)
	for _, path := range []string{"/api/traces", "/api/traces/1", "/api/traces/export", "/api/traces/stats", "/api/traces/stream", "/api/costs/breakdown", "/api/costs/budgets"} {
		a := r.ask(r.admin, "GET", path, "").want(503)
		if a.header.Get("Retry-After") != "5" || strings.Contains(string(a.raw), "10.0.0.7") {
			t.Errorf("%s: Retry-After %q, %s", path, a.header.Get("Retry-After"), a.raw)
		}
	}
	r.ask(r.admin, "POST", "/api/traces", body).want(503)
	r.ask(r.admin, "GET", "/api/agents", "").want(200)
	if a := r.ask("", "GET", "/readyz", ""); a.status != 200 {
		t.Errorf("/readyz is %d while only the traces are unavailable", a.status)
	}
	fault = nil
	r.ask(r.admin, "GET", "/api/traces", "").want(200)

	// While the traces are unavailable, the server reports it and continues with its
	// records.
	if err := traces.Close(); err != nil {
		t.Fatal(err)
	}
	r.ask(r.admin, "GET", "/api/traces", "").want(500)
	r.ask(r.admin, "GET", "/api/teams", "").want(200)
	r.ask(r.admin, "GET", "/api/agents/"+agent, "").want(200)
}

// TestPoliciesWhileTracesAreUnavailable: changes of policies and limits reach
// gateways, and budgets keep their last known spending; only a budget that has not been compared
// with traces before needs them.
func TestPoliciesWhileTracesAreUnavailable(t *testing.T) {
	var fault error
	r := newRig(t, func(o *Options) { o.Traces = faulty{o.Traces, &fault} })
	agent := r.agent(r.admin, "billing")
	newBudget := func(period string) string {
		return r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":%q,"agentId":%q,"period":%[1]q,"limitUsd":2}`, period, agent)).want(201).object().id(t)
	}
	daily := newBudget("daily")
	policy := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
	r.traces(store.Trace{ID: "1", AgentID: agent, Status: store.TraceSuccess, Cost: 1.5e9, CreatedAt: epoch.Add(-time.Minute)})
	governance := func(policies int, exceeded bool) {
		t.Helper()
		g := r.ask(r.admin, "GET", "/api/governance", "").want(200).object()
		if list := g["policies"].([]any); len(list) != policies {
			t.Errorf("%d policies, want %d", len(list), policies)
		}
		toObject(t, g["budgets"].([]any)[0]).is(t, "exceeded", exceeded)
	}
	governance(1, false)

	fault = fmt.Errorf("spend: %w", store.ErrUnavailable)
	r.ask(r.admin, "PUT", "/api/policies/"+policy, `{"enabled":false}`)
	governance(0, false)
	r.clock.advance(2 * budgetsLag)
	r.ask(r.admin, "PUT", "/api/costs/budgets/"+daily, `{"limitUsd":1}`)
	governance(0, true)
	r.clock.advance(24 * time.Hour) // the spending of the next day is unknown
	r.ask(r.admin, "GET", "/api/governance", "").want(503)
	fault = nil
	governance(0, false)

	fault = fmt.Errorf("spend: %w", store.ErrUnavailable)
	if _, err := r.store.Tenant("one").CreateBudget(context.Background(), store.BudgetCreate{Name: "monthly", Payer: store.Payer{AgentID: agent}, Period: store.Monthly, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	r.ask(r.admin, "GET", "/api/governance", "").want(503)
}

// faulty is a store of traces that fails while a fault is set.
type faulty struct {
	store.Traces
	fault *error
}

func (f faulty) TracesOf(tenant string) store.TenantTraces {
	if *f.fault == nil {
		return f.Traces.TracesOf(tenant)
	}
	return failing{err: *f.fault}
}

// failing is a TenantTraces whose methods all fail.
type failing struct {
	store.TenantTraces
	err error
}

func (f failing) Ingest(context.Context, store.Batch) (store.IngestResult, error) {
	return store.IngestResult{}, f.err
}
func (f failing) ListTraces(context.Context, store.TraceFilter, store.Page) ([]store.Trace, int, error) {
	return nil, 0, f.err
}
func (f failing) GetTrace(context.Context, string) (store.Trace, error) { return store.Trace{}, f.err }
func (f failing) StreamTraces(context.Context, store.StreamOptions) (store.TraceStream, error) {
	return nil, f.err
}
func (f failing) Stats(context.Context, store.StatsQuery) (store.Stats, error) {
	return store.Stats{}, f.err
}
func (f failing) Spend(context.Context, []store.SpendQuery) ([]store.NanoUSD, error) {
	return nil, f.err
}
func (f failing) PolicyFires(context.Context, []string) (map[string]int64, error) {
	return nil, f.err
}

// TestATotalThatWasNotCounted: the response marks the total as a lower bound.
func TestATotalThatWasNotCounted(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Traces = uncounted{o.Traces} })
	r.traces(store.Trace{ID: "1", AgentName: "a", Status: store.TraceSuccess}, store.Trace{ID: "2", AgentName: "a", Status: store.TraceSuccess})
	r.ask(r.admin, "GET", "/api/traces?limit=1", "").want(200).object().is(t, "total", 2, "totalIsLowerBound", true)
}

// uncounted is a TenantTraces whose lists are not counted beyond the page.
type uncounted struct{ store.Traces }

func (u uncounted) TracesOf(tenant string) store.TenantTraces {
	return uncountedTenant{u.Traces.TracesOf(tenant)}
}

type uncountedTenant struct{ store.TenantTraces }

func (u uncountedTenant) ListUncounted(ctx context.Context, f store.TraceFilter, p store.Page) ([]store.Trace, int, bool, error) {
	list, _, err := u.ListTraces(ctx, f, p)
	return list, p.Offset + len(list), true, err
}

// TestReadinessOfAStoreThatTakesNoWrites: when the probe reports a reason, /readyz is
// 503. The reason is logged once, and is shown on the metrics listener.
func TestReadinessOfAStoreThatTakesNoWrites(t *testing.T) {
	var hangs error
	r := newRig(t, func(o *Options) { o.Writable = func() error { return hangs } })
	verbose := func() (int, string) {
		w := httptest.NewRecorder()
		r.srv.Readiness().ServeHTTP(w, httptest.NewRequest("GET", "/readyz?verbose", nil))
		return w.Code, w.Body.String()
	}
	r.ask("", "GET", "/readyz", "").want(200)
	hangs = errors.New("a write to /var/lib/svc/svc.db has not ended")
	for range 3 {
		if a := r.ask("", "GET", "/readyz?verbose", "").want(503); strings.Contains(string(a.raw), "/var/lib") {
			t.Errorf("the public response has the reason: %s", a.raw)
		}
	}
	if got := strings.Count(r.log.String(), "has not ended"); got != 1 {
		t.Errorf("the reason was logged %d times", got)
	}
	if code, body := verbose(); code != 503 || !strings.Contains(body, `"reason":"a write to /var/lib/svc/svc.db has not ended"`) {
		t.Errorf("the metrics listener answers %d %s", code, body)
	}
	hangs = nil
	r.ask("", "GET", "/readyz", "").want(200)
	if code, _ := verbose(); code != 200 || !strings.Contains(r.log.String(), "ready again") {
		t.Errorf("%d after the probe succeeded; %s", code, r.log)
	}
}
