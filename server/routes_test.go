package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// specimens creates one of each resource for a tenant and returns the ids, by the
// first segments of the paths that take them.
func (r *rig) specimens(key, tenant string) map[string]string {
	r.t.Helper()
	agent := r.agent(key, "specimen")
	ids := map[string]string{
		"/api/agents/":        agent,
		"/api/teams/":         r.team(key, "specimen"),
		"/api/costs/budgets/": r.ask(key, "POST", "/api/costs/budgets", budgetBody("specimen", agent, "daily", 1)).want(201).object().id(r.t),
		"/api/costs/sla/":     r.ask(key, "POST", "/api/costs/sla", slaBody("specimen", agent, `"p99LatencyMs":1,`, "1h")).want(201).object().id(r.t),
		"/api/policies/":      r.ask(key, "POST", "/api/policies", policyBody("specimen", "")).want(201).data().id(r.t),
		"/api/traces/":        "trc-of-" + tenant,
		"/api/webhooks/":      r.hook(key, "specimen"),
	}
	_, ids["/api/keys/"] = r.key(key, "agent")
	if r.gateways == nil {
		r.gateways = map[string]string{}
	}
	r.gateways[tenant], _ = r.key(key, "ingest")
	ids["/api/approvals/"] = r.ask(r.gateways[tenant], "POST", "/api/approvals", approvalBody("key:specimen", 1)).want(201).data().id(r.t)
	if tenant == "one" {
		r.delivery = r.endedDelivery(ids["/api/webhooks/"])
	}
	_, err := r.store.TracesOf(tenant).Ingest(context.Background(), store.Batch{Traces: []store.Trace{
		{ID: ids["/api/traces/"], AgentID: agent, Status: store.TraceSuccess, CreatedAt: epoch},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.ask(key, "POST", "/api/teams/"+ids["/api/teams/"]+"/members", `{"userId":"usr_admin"}`).want(201)
	return ids
}

// goodBody is a body that a route accepts; agent is an id for bodies that refer to
// an agent.
func goodBody(rt *route, agent string) string {
	switch rt.method + " " + rt.path {
	case "POST /api/teams", "POST /api/agents", "PUT /api/teams/{id}", "PUT /api/agents/{id}", "PUT /api/policies/{id}",
		"PUT /api/costs/budgets/{id}", "PUT /api/costs/sla/{id}":
		return `{"name":"changed"}`
	case "PUT /api/teams/{id}/scopes":
		return `{"scopes":[]}`
	case "POST /api/teams/{id}/members":
		return `{"email":"new@example.com"}`
	case "DELETE /api/teams/{id}/members":
		return `{"userId":"usr_admin"}`
	case "POST /api/costs/budgets":
		return budgetBody("new", agent, "daily", 1)
	case "POST /api/costs/sla":
		return slaBody("new", agent, `"p99LatencyMs":1,`, "1h")
	case "POST /api/policies":
		return policyBody("new", "")
	case "POST /api/policies/templates/apply":
		return `{"template":"cost-guard"}`
	case "POST /api/webhooks":
		return hookBody("new")
	case "PUT /api/webhooks/{id}":
		return `{"name":"changed"}`
	case "POST /api/webhooks/{id}/redeliver":
		return `{"deliveryId":"dlv_specimen"}`
	case "POST /api/approvals":
		return approvalBody("key:new", 2)
	case "POST /api/approvals/{id}/claim", "POST /api/approvals/{id}/release":
		return claimBody(1, 1)
	case "POST /api/approvals/{id}/decision":
		return `{"decision":"grant"}`
	case "POST /api/keys":
		return `{"name":"new","scope":"agent"}`
	case "POST /api/traces":
		return `{"agentName":"new","status":"success","durationMs":1}`
	case "POST /api/audit/heads":
		return auditHeadBody("gateway-1", 7, "a")
	case "POST /api/audit/heads/accept":
		return `{"gateway":"gateway-1","publicKey":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`
	case "POST /api/otlp/v1/traces":
		return `{"resourceSpans":[]}`
	}
	return ""
}

// try sends a request to a route with a key and returns the status. A stream is
// closed as soon as it has begun.
func (r *rig) try(rt *route, key, id, agent string) int {
	r.t.Helper()
	path := strings.Replace(rt.path, "{id}", id, 1)
	if rt.path != streamPath {
		return r.ask(key, rt.method, path, strings.Replace(goodBody(rt, agent), "dlv_specimen", r.delivery, 1)).status
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req := httptest.NewRequest(rt.method, path, nil).WithContext(ctx)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	w := &leaving{httptest.NewRecorder(), cancel}
	r.srv.ServeHTTP(w, req)
	return w.Code
}

// leaving is a client that disconnects when it has the status.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w *leaving) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	w.leave()
}

// TestAnotherTenantsIDs calls every endpoint that takes an id with ids of another
// tenant: 404 and no effect. Then the owning tenant succeeds with the same request,
// so that a wrong id cannot make the test pass.
func TestAnotherTenantsIDs(t *testing.T) {
	for _, rt := range routes() {
		if !strings.Contains(rt.path, "{id}") {
			continue
		}
		t.Run(rt.method+" "+rt.path, func(t *testing.T) {
			r := newRig(t)
			ids := r.specimens(r.admin, "one")
			id, ok := ids[rt.path[:strings.Index(rt.path, "{id}")]]
			if !ok {
				t.Fatalf("no specimen for %s", rt.path)
			}
			r.specimens(r.other, "two") // tenant two has resources of the same kinds under other ids
			owner, other := r.admin, r.other
			if slices.Equal(rt.keys, []store.KeyScope{store.ScopeIngest}) { // the claim of an approval, and its release
				owner, other = r.gateways["one"], r.gateways["two"]
				r.ask(r.admin, "POST", "/api/approvals/"+id+"/decision", `{"decision":"grant"}`).want(200)
				if strings.HasSuffix(rt.path, "/release") {
					r.ask(owner, "POST", "/api/approvals/"+id+"/claim", claimBody(1, 1)).want(200)
				}
			}
			if status := r.try(&rt, other, id, ids["/api/agents/"]); status != 404 {
				t.Errorf("another tenant gets %d", status)
			}
			if status := r.try(&rt, owner, id, ids["/api/agents/"]); status != 200 && status != 201 {
				t.Errorf("the tenant itself gets %d", status)
			}
		})
	}
}

// TestAnotherTenantsLists: no list, statistic or bundle contains data of another
// tenant; ids of others match nothing in a query and are unknown in a body.
func TestAnotherTenantsLists(t *testing.T) {
	r := newRig(t)
	ids := r.specimens(r.admin, "one")
	for _, rt := range routes() {
		if rt.method != "GET" || strings.Contains(rt.path, "{") || rt.path == streamPath {
			continue
		}
		a := r.ask(r.other, "GET", rt.path, "").want(200)
		for noun, id := range ids {
			if strings.Contains(string(a.raw), id) {
				t.Errorf("%s shows the %s %s of another tenant", rt.path, noun, id)
			}
		}
		if strings.Contains(string(a.raw), "specimen") {
			t.Errorf("%s: %s", rt.path, a.raw)
		}
	}
	agent := ids["/api/agents/"]
	r.ask(r.other, "GET", "/api/traces?agentId="+agent, "").want(200).object().is(t, "total", 0)
	r.ask(r.other, "GET", "/api/costs/breakdown?agentId="+agent, "").want(200).object().is(t, "data", "[]")
	r.ask(r.other, "GET", "/api/costs/sla/violations?slaId="+ids["/api/costs/sla/"], "").want(200).object().is(t, "total", 0)
	r.ask(r.other, "POST", "/api/costs/budgets", budgetBody("x", agent, "daily", 1)).wantDetail("agentId")
	r.ask(r.other, "POST", "/api/costs/sla", slaBody("x", agent, `"p99LatencyMs":1,`, "1h")).wantDetail("agentId")
	r.ask(r.other, "POST", "/api/keys", `{"name":"x","scope":"api","teamId":"`+ids["/api/teams/"]+`"}`).wantDetail("teamId")
	r.ask(r.other, "POST", "/api/traces", `{"agentId":"`+agent+`","status":"success","durationMs":1}`).wantDetail("agentId")
}

// allowed returns what the specification and the design allow a key scope,
// independently of the route table.
func allowed(scope, method, path string) bool {
	ingest := method == "POST" && (path == "/api/traces" || path == "/api/otlp/v1/traces" || path == "/api/audit/heads") || path == "/api/governance"
	asks := method == "POST" && strings.HasPrefix(path, "/api/approvals") && !strings.HasSuffix(path, "/decision")
	switch {
	case asks || method == "PUT" && path == "/api/gateways/{name}": // who decides does not ask, and a person is no gateway
		return scope == "ingest"
	case scope == "api": // everything else, ingest included
		return true
	case scope != "none" && method == "GET" && path == "/api/whoami":
		return true
	case scope == "agent": // GET on agents and traces only
		return method == "GET" && (path == "/api/agents" || strings.HasPrefix(path, "/api/agents/") ||
			path == "/api/traces" || strings.HasPrefix(path, "/api/traces/"))
	case scope == "ingest": // ingest, audit heads included, and the governance bundle only
		return ingest
	}
	return false
}

// TestKeyScopeMatrix tries every method of every path with no key and with a key of
// each scope: 401, 403, 405 or success.
func TestKeyScopeMatrix(t *testing.T) {
	r := newRig(t)
	agentKey, _ := r.key(r.admin, "agent")
	ingestKey, _ := r.key(r.admin, "ingest")
	keys := map[string]string{"none": "", "api": r.admin, "agent": agentKey, "ingest": ingestKey}
	methods := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"}
	table := map[string]map[string]*route{}
	for _, rt := range routes() {
		if table[rt.path] == nil {
			table[rt.path] = map[string]*route{}
		}
		table[rt.path][rt.method] = &rt
	}
	for path, byMethod := range table {
		for _, method := range methods {
			for scope, key := range keys {
				rt := byMethod[method]
				if rt == nil {
					want := 405
					if scope == "none" {
						want = 401
					}
					a := r.ask(key, method, strings.Replace(path, "{id}", "some_id", 1), "")
					if a.status != want {
						t.Errorf("%s %s with key %s: %d, want %d", method, path, scope, a.status, want)
					}
					if allow := a.header.Get("Allow"); want == 405 && (allow == "" || strings.Contains(allow, method)) {
						t.Errorf("%s %s: Allow is %q", method, path, allow)
					}
					continue
				}
				status := r.try(rt, key, "some_id", "some_id")
				name := fmt.Sprintf("%s %s with key %s: %d", method, path, scope, status)
				switch {
				case rt.public:
					if status != 403 { // no signature
						t.Error(name)
					}
				case scope == "none":
					if status != 401 {
						t.Error(name + ", want 401")
					}
				case !allowed(scope, method, path):
					if status != 403 {
						t.Error(name + ", want 403")
					}
				case status == 401 || status == 403 || status == 405 || status >= 500:
					t.Error(name + ", want in")
				}
			}
		}
	}
}

// guards returns the team scopes that open an endpoint to a limited key of scope
// api (design: team scopes); nil means that team limits do not apply, an empty list
// that no scope opens it.
func guards(method, path string) []string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/"), "/")
	if noun == "webhooks" || noun == "approvals" && (method == "GET" || strings.HasSuffix(path, "/decision")) {
		noun = "policies"
	}
	switch {
	case noun == "gateways" && method == "PUT":
		return []string{}
	case noun == "gateways" && method == "GET":
		return []string{"traces:read"}
	case noun == "gateways":
		return []string{"policies:write"}
	case path == "/api/openapi.json", path == "/api/whoami":
		return nil
	case noun == "otlp", noun == "approvals", noun == "traces" && method == "POST", noun == "audit" && method == "POST":
		return []string{}
	case path == "/api/governance":
		return []string{"policies:read"}
	case noun == "apply" && method == "GET": // the request is for all kinds
		return []string{}
	case noun == "apply": // and the scopes of the kinds in the documents
		return []string{"teams:write", "agents:write", "policies:write", "costs:write"}
	case path == "/api/costs/sla/violations":
		return []string{"costs:read", "compliance:read"}
	case method == "GET":
		return []string{noun + ":read"}
	}
	return []string{noun + ":write"}
}

// TestTeamScopeMatrix tries every route with keys that are limited to a team with
// each single scope.
func TestTeamScopeMatrix(t *testing.T) {
	r := newRig(t)
	key, team := r.teamKey("limited")
	for _, scope := range append([]string{""}, api.TeamScopes...) {
		if scope == "" {
			r.scopes(r.admin, team).want(200)
		} else {
			r.scopes(r.admin, team, scope).want(200)
		}
		for _, rt := range routes() {
			if rt.public {
				continue
			}
			open := guards(rt.method, rt.path)
			in := open == nil || slices.Contains(open, scope)
			status := r.try(&rt, key, "some_id", "some_id")
			// Creating keys has a rule of its own, which is checked after this one.
			if rt.method == "POST" && rt.path == "/api/keys" && in {
				in = false
			}
			if (status != 403) != in || status == 401 || status >= 500 {
				t.Errorf("%s %s with a team that has %q: %d", rt.method, rt.path, scope, status)
			}
		}
	}
}

// TestUnknownRouteBeforePermission: an unknown path is 404 and a wrong method 405,
// also for keys with few permissions.
func TestUnknownRouteBeforePermission(t *testing.T) {
	r := newRig(t)
	for _, scope := range []string{"api", "agent", "ingest"} {
		key, _ := r.key(r.admin, scope)
		for _, path := range []string{"/api", "/api/", "/api/nothing", "/api/teams/x/nothing", "/api/agents/", "/api/costs", "/api/v1/agents", "/api/Teams"} {
			r.ask(key, "GET", path, "").want(404)
		}
		r.ask(key, "PATCH", "/api/teams", "").want(405)
		r.ask(key, "DELETE", "/api/costs/sla/violations", "").want(405)
	}
	r.ask("", "GET", "/api/nothing", "").want(401)
}

// TestLiteralPathsWin: /api/traces/stats is the statistics endpoint and not a trace
// id; likewise the other literal segments beside an id.
func TestLiteralPathsWin(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "GET", "/api/traces/stats", "").want(200).object().has(t, "period", "from", "to", "summary", "groups")
	r.ask(r.admin, "GET", "/api/policies/templates", "").want(200).object().has(t, "data")
	r.ask(r.admin, "GET", "/api/costs/sla/violations", "").want(200).object().has(t, "data", "total")
}

// TestRouteTable: every route is complete: known scopes, a window, a handler.
func TestRouteTable(t *testing.T) {
	seen := map[string]bool{}
	for _, rt := range routes() {
		name := rt.method + " " + rt.path
		if seen[name] {
			t.Errorf("%s is in the table twice", name)
		}
		seen[name] = true
		if !strings.HasPrefix(rt.path, "/api/") || rt.handle == nil {
			t.Errorf("%s", name)
		}
		if rt.public == (len(rt.keys) > 0) {
			t.Errorf("%s: open %v with keys %v", name, rt.public, rt.keys)
		}
		for _, scope := range rt.team {
			if !slices.Contains(api.TeamScopes, scope) {
				t.Errorf("%s: %s is no team scope", name, scope)
			}
		}
		if rt.public && rt.window != addressWindow {
			t.Errorf("%s: counts in the window of a tenant it does not know", name)
		}
	}
	// Every endpoint of the specification's tables and of the design's list.
	for _, name := range strings.Split(strings.TrimSpace(`
GET /api/teams
POST /api/teams
GET /api/teams/{id}/members
POST /api/teams/{id}/members
DELETE /api/teams/{id}/members
PUT /api/teams/{id}/scopes
GET /api/agents
GET /api/agents/{id}
POST /api/agents
GET /api/agents/{id}/tools
GET /api/agents/{id}/history
GET /api/costs/breakdown
GET /api/costs/budgets
POST /api/costs/budgets
DELETE /api/costs/budgets/{id}
GET /api/costs/sla
POST /api/costs/sla
GET /api/costs/sla/violations
GET /api/policies
POST /api/policies
PUT /api/policies/{id}
DELETE /api/policies/{id}
GET /api/policies/templates
POST /api/policies/templates/apply
GET /api/keys
POST /api/keys
DELETE /api/keys/{id}
GET /api/traces
GET /api/traces/{id}
GET /api/traces/stats
POST /api/auth/webhook
GET /api/teams/{id}
PUT /api/teams/{id}
DELETE /api/teams/{id}
PUT /api/agents/{id}
DELETE /api/agents/{id}
GET /api/policies/{id}
PUT /api/costs/budgets/{id}
PUT /api/costs/sla/{id}
DELETE /api/costs/sla/{id}
GET /api/traces/export
GET /api/traces/stream
GET /api/openapi.json
POST /api/traces
POST /api/otlp/v1/traces
GET /api/governance
POST /api/audit/heads
POST /api/audit/heads/accept
GET /api/audit/heads
GET /api/audit/events
GET /api/whoami
GET /api/costs/budgets/{id}
GET /api/costs/sla/{id}
GET /api/keys/{id}
GET /api/webhooks
POST /api/webhooks
GET /api/webhooks/{id}
PUT /api/webhooks/{id}
DELETE /api/webhooks/{id}
POST /api/webhooks/{id}/rotateSecret
POST /api/webhooks/{id}/test
GET /api/webhooks/{id}/deliveries
POST /api/webhooks/{id}/redeliver
GET /api/approvals
POST /api/approvals
GET /api/approvals/{id}
POST /api/approvals/{id}/claim
POST /api/approvals/{id}/release
POST /api/approvals/{id}/decision
GET /api/gateways
GET /api/gateways/{name}
PUT /api/gateways/{name}
DELETE /api/gateways/{name}
GET /api/apply
POST /api/apply`), "\n") {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
		delete(seen, name)
	}
	for name := range seen {
		t.Errorf("%s is in neither list", name)
	}
}
