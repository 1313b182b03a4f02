package server

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// GET /api/governance: enabled policies oldest first, budget states, the
// tenant's hash key.
func TestGovernanceBundle(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	policy := func(name, body string) string {
		return r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(`{"name":%q,%s}`, name, body)).want(201).data().id(t)
	}
	agent := r.agent(r.admin, "planner")
	first := policy("first", `"phase":"request","on":"planner","condition":{"type":"injection_score","threshold":0.5},"action":"block"`)
	policy("off", `"phase":"request","condition":{"type":"always"},"action":"warn","enabled":false`)
	second := policy("second", `"phase":"response","condition":{"type":"pii_detected"},"action":"redact","redactionStrategy":"hash"`)
	budget := r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"b","agentId":%q,"period":"daily","limitUsd":1}`, agent)).want(201).object().id(t)

	got := r.ask(ingest, "GET", "/api/governance", "").want(200).object().has(t, "revision", "policies", "budgets", "hashKey")
	policies := got["policies"].([]any)
	if len(policies) != 2 {
		t.Fatalf("policies are %v", policies)
	}
	toObject(t, policies[0]).has(t, "id", "name", "phase", "on", "condition", "action", "createdAt").
		is(t, "id", first, "on", "planner", "phase", "request", "action", "block", "condition", map[string]any{"type": "injection_score", "threshold": 0.5})
	toObject(t, policies[1]).has(t, "id", "name", "phase", "on", "condition", "action", "redactionStrategy", "createdAt").
		is(t, "id", second, "on", "*", "redactionStrategy", "hash", "condition", map[string]any{"type": "pii_detected", "entities": []any{}})
	state := toObject(t, got["budgets"].([]any)[0])
	state.has(t, "id", "scope", "agentId", "agentName", "period", "exceeded", "resetAt").
		is(t, "id", budget, "agentId", agent, "agentName", "planner", "scope", "agent", "period", "daily", "exceeded", false)
	if _, want := store.Daily.Window(r.clock.Now()); !state.moment(t, "resetAt").Equal(want) {
		t.Errorf("resetAt is %v, want %v", state["resetAt"], want)
	}
	key, err := base64.StdEncoding.DecodeString(got["hashKey"].(string))
	if err != nil || len(key) != 32 {
		t.Errorf("hashKey is %v", got["hashKey"])
	}
	theirs := r.ask(r.other, "GET", "/api/governance", "").want(200).object()
	if theirs["hashKey"] == got["hashKey"] || len(theirs["policies"].([]any)) != 0 || len(theirs["budgets"].([]any)) != 0 {
		t.Errorf("another tenant's bundle is %v", theirs)
	}
}

// The ETag changes only with values that gateways need.
func TestGovernanceETag(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	agent := r.agent(r.admin, "planner")
	tag := ""
	same := func(what string) {
		t.Helper()
		a := r.ask(ingest, "GET", "/api/governance", "", "If-None-Match", tag).want(304)
		if len(a.raw) != 0 || a.header.Get("ETag") != tag {
			t.Errorf("%s: 304 with body %q and ETag %q", what, a.raw, a.header.Get("ETag"))
		}
	}
	other := func(what string) {
		t.Helper()
		a := r.ask(ingest, "GET", "/api/governance", "", "If-None-Match", tag).want(200)
		if tag = a.header.Get("ETag"); tag == "" {
			t.Errorf("%s: no ETag", what)
		}
	}
	other("at first")
	same("nothing happened")
	r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"b","agentId":%q,"period":"daily","limitUsd":1}`, agent)).want(201)
	other("a budget")
	r.traces(store.Trace{ID: "t1", AgentID: agent, Status: store.TraceSuccess, Cost: 4e8, CreatedAt: r.clock.Now()})
	same("some was spent")
	r.traces(store.Trace{ID: "t2", AgentID: agent, Status: store.TraceSuccess, Cost: 6e8, CreatedAt: r.clock.Now()})
	r.clock.advance(budgetsLag)
	other("the budget is exceeded")
	if got := r.ask(ingest, "GET", "/api/governance", "").want(200).object(); !strings.Contains(fmt.Sprint(got), "exceeded:true") {
		t.Errorf("bundle is %v", got)
	}
	r.clock.advance(24 * time.Hour)
	other("the next day")
	id := r.ask(r.admin, "POST", "/api/policies", `{"name":"p","phase":"request","condition":{"type":"always"},"action":"warn","enabled":false}`).want(201).data().id(t)
	same("a policy that is off")
	r.ask(r.admin, "PUT", "/api/policies/"+id, `{"enabled":true}`).want(200)
	other("it is on")
	r.ask(ingest, "GET", "/api/governance", "", "If-None-Match", `"x", W/`+tag).want(304)
	r.ask(ingest, "GET", "/api/governance", "", "If-None-Match", "*").want(304)
	r.ask(ingest, "GET", "/api/governance", "", "If-None-Match", `"x"`).want(200)
}

func TestGovernancePermissions(t *testing.T) {
	r := newRig(t)
	agent, _ := r.key(r.admin, "agent")
	r.ask(agent, "GET", "/api/governance", "").want(403)
	r.ask("", "GET", "/api/governance", "").want(401)
	r.ask(r.admin, "GET", "/api/governance", "").want(200)
}

// The labels of metrics come from the route table, never from requests.
func TestMetrics(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", batch(full, full)).want(201)
	// Duplicates are not counted.
	outcomes := batch(traceAt("b1", "a", "error", r.clock.Now(), "blocked", "true"), traceAt("b2", "a", "error", r.clock.Now(), "blocked", "true"), traceAt("f", "a", "error", r.clock.Now()))
	r.ask(r.admin, "POST", "/api/traces", outcomes).want(201)
	r.ask(r.admin, "POST", "/api/traces", outcomes).want(201)
	r.ask(r.admin, "GET", "/api/traces/some-id-of-the-wire", "").want(404)
	r.ask(r.admin, "GET", "/api/unheard-of", "").want(404)
	r.ask("", "BREW", "/api/traces", "").want(401)
	srv := httptest.NewServer(r.srv.Metrics())
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		`svc_traces_ingested_total{outcome="accepted"} 4`, `svc_traces_ingested_total{outcome="duplicate"} 4`,
		`svc_traced_requests_total{outcome="blocked"} 2`, `svc_traced_requests_total{outcome="failed"} 1`, `svc_traced_requests_total{outcome="success"} 1`,
		`svc_http_requests_total{method="GET",route="/api/traces/{id}",status="404"} 1`,
		`svc_http_requests_total{method="POST",route="/api/traces",status="201"} 3`,
		`svc_http_requests_total{method="other",route="unmatched",status="404"} 1`,
		`svc_http_requests_total{method="other",route="unmatched",status="401"} 1`,
		`svc_http_request_duration_seconds_count{method="POST",route="/api/traces"} 3`, "go_goroutines", "svc_trace_streams 0", "svc_store_size_bytes ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, wire := range []string{"some-id-of-the-wire", "unheard-of", "BREW", "planner"} {
		if strings.Contains(text, wire) {
			t.Errorf("%s of a request became a label", wire)
		}
	}
}
