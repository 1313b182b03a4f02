package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"svc/store"
	"svc/store/memory"
)

// TestTracesOfAnotherEngine: the records are in one store and the traces in another,
// and every answer that needs both is the same as with one.
func TestTracesOfAnotherEngine(t *testing.T) {
	var traces *memory.Store
	r := newRig(t, func(o *Options) {
		records := o.Records
		traces = memory.Open(memory.Options{Now: o.Now, Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
		o.Traces = traces
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
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 2) // one was registered
	r.ask(r.admin, "GET", "/api/policies/"+policy, "").want(200).data().is(t, "fireCount", 1)
	r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0].is(t, "currentUsd", 1.5)
	tool := r.ask(r.admin, "GET", "/api/agents/"+agent+"/tools", "").want(200).list()[0]
	tool.is(t, "toolName", "search")
	r.ask(r.admin, "GET", "/api/agents/agt_unknown/tools", "").want(404)

	// The statistics have the agent's present name, whichever store is asked.
	r.ask(r.admin, "PUT", "/api/agents/"+agent, `{"name":"invoices"}`).want(200)
	groups := toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?period=1h&groupBy=agent", "").want(200).object()["groups"].([]any)[0])
	groups.is(t, "agentName", "invoices")

	// Without its traces the server says so, and goes on with its records.
	if err := traces.Close(); err != nil {
		t.Fatal(err)
	}
	r.ask(r.admin, "GET", "/api/traces", "").want(500)
	r.ask(r.admin, "GET", "/api/teams", "").want(200)
	r.ask(r.admin, "GET", "/api/agents/"+agent, "").want(200)
}
