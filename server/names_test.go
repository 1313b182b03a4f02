package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"svc/store"
	"svc/store/api"
)

const (
	composed   = "caf\u00e9"
	decomposed = "cafe\u0301"
)

// named is a resource with a name. body is the body of its creation, with %s for the
// quoted name.
type named struct {
	what, path, body string
	unique           bool
	update           bool
	bare             bool // answered without data
}

func namedResources(agent string) []named {
	return []named{
		{"team", "/api/teams", `{"name":%s}`, true, true, false},
		{"agent", "/api/agents", `{"name":%s}`, true, true, false},
		{"budget", "/api/costs/budgets", `{"name":%s,"agentId":"` + agent + `","period":"daily","limitUsd":1}`, true, true, true},
		{"SLA target", "/api/costs/sla", `{"name":%s,"agentId":"` + agent + `","errorRatePercent":1,"evaluationPeriod":"24h"}`, false, true, true},
		{"policy", "/api/policies", `{"name":%s,"phase":"request","condition":{"type":"always"},"action":"warn"}`, true, true, false},
		{"key", "/api/keys", `{"name":%s,"scope":"agent"}`, false, false, false},
	}
}

func (n named) create(r *rig, name string) *reply {
	b, _ := json.Marshal(name)
	return r.ask(r.admin, "POST", n.path, fmt.Sprintf(n.body, b))
}

func (n named) object(a *reply) object {
	if n.bare {
		return a.object()
	}
	return a.data()
}

// Names of all resources are trimmed and normalized to NFC, in the response and in
// the store; a name with invisible characters is a 400 that names the field.
func TestNamesAreStoredNormalized(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "of budgets")
	for _, n := range namedResources(agent) {
		t.Run(n.what, func(t *testing.T) {
			o := n.object(n.create(r, " \t"+decomposed+" ").want(201)).is(t, "name", composed)
			for _, bad := range []string{"Dup\u200b", "\ufeffDup", "a\u202eb", "a\u2066b", "a\x1bb", "a\u3164", " \u00a0", "\u2028a\u2028b"} {
				n.create(r, bad).wantDetail("name")
			}
			if n.unique {
				n.create(r, composed).wantDetail("name")
				n.create(r, decomposed+"\n").wantDetail("name")
			}
			found := 0
			for _, item := range r.ask(r.admin, "GET", n.path, "").want(200).list() {
				if item["name"] == composed {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%d are listed as %q", found, composed)
			}
			if !n.update {
				return
			}
			path := n.path + "/" + o.id(t)
			r.ask(r.admin, "PUT", path, `{"name":" re\u0301 "}`).want(200).data().is(t, "name", "r\u00e9")
			r.ask(r.admin, "PUT", path, `{"name":"a\u202eb"}`).wantDetail("name")
		})
	}
}

// A policy refers to its agent by the normalized name.
func TestOnOfAPolicyIsNormalized(t *testing.T) {
	r := newRig(t)
	r.agent(r.admin, composed)
	body := `{"name":%q,"phase":"request","on":%s,"condition":{"type":"always"},"action":"warn"}`
	p := r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, "a", `" cafe\u0301"`)).want(201)
	if w := p.object()["warnings"]; w != nil {
		t.Errorf("warnings %v", w)
	}
	p.data().is(t, "on", composed)
	path := "/api/policies/" + p.data().id(t)
	r.ask(r.admin, "PUT", path, `{"on":"cafe\u0301 "}`).want(200).data().is(t, "on", composed)
	for _, bad := range []string{`"a\u200bb"`, `"\ufeff"`, `" "`} { // a blank name must not mean all agents
		r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, "b", bad)).wantDetail("on")
		r.ask(r.admin, "PUT", path, `{"on":`+bad+`}`).wantDetail("on")
		r.ask(r.admin, "POST", "/api/policies/templates/apply", `{"template":"pii-protection","agentName":`+bad+`}`).wantDetail("agentName")
	}
	r.ask(r.admin, "POST", "/api/policies/templates/apply", `{"template":"pii-protection","agentName":"cafe\u0301 "}`).want(201)
	for _, p := range r.ask(r.admin, "GET", "/api/policies", "").want(200).list() {
		p.is(t, "on", composed)
	}
}

// Agents that traces register have normalized names, and no name makes a batch
// invalid.
func TestAgentsAreRegisteredUnderCleanNames(t *testing.T) {
	r := newRig(t)
	names := []string{composed, decomposed, " " + composed, composed + "\u200b", "a\u202eb", "\u200b", " ", "\u200b*",
		strings.Repeat("\u0958", 200), strings.Repeat("x\u0301", 100)}
	var b api.TraceBatch
	for i, name := range names {
		b.Traces = append(b.Traces, api.TraceInput{ID: fmt.Sprint("t", i), AgentName: name, Status: "success"})
	}
	body, err := json.Marshal(&b)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := r.key(r.admin, "ingest")
	for range 2 { // the second time the names are cached
		r.ask(key, "POST", "/api/traces", string(body)).want(201)
		for i := range b.Traces {
			b.Traces[i].ID += "x"
		}
		body, _ = json.Marshal(&b)
	}
	got := map[string]int{}
	for _, tr := range r.ask(r.admin, "GET", "/api/traces", "").want(200).list() {
		got[tr["agentName"].(string)]++
	}
	for name, n := range map[string]int{composed: 8, "ab": 2, api.UnnamedAgent: 6} {
		if got[name] != n {
			t.Errorf("%q has %d traces, want %d", name, got[name], n)
		}
	}
	agents := r.ask(r.admin, "GET", "/api/agents", "").want(200).list()
	if len(agents) != 5 {
		t.Errorf("%d agents, want 5: %v", len(agents), agents)
	}
	for _, a := range agents {
		if name := a["name"].(string); api.NormalizeName(name) != name || api.NameProblem(name) != "" {
			t.Errorf("the agent %q has no normalized name", name)
		}
	}
	r.ask(key, "POST", "/api/traces", `{"agentName":"*","status":"success","durationMs":1}`).wantDetail("agentName")
}

// Names that were stored before names were normalized stay unchanged and keep their
// meaning; another spelling of them is rejected.
func TestNamesStoredBeforeStay(t *testing.T) {
	r := newRig(t)
	ctx, one := context.Background(), r.store.Tenant("one")
	old := "old\u200b"
	ids := map[string]string{}
	for _, name := range []string{decomposed, old} {
		a, err := one.CreateAgent(ctx, store.AgentCreate{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = a.ID
		if _, err := one.CreateTeam(ctx, store.TeamCreate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := one.CreatePolicies(ctx, store.PolicyCreate{Name: old, Phase: "request", On: old, Action: "warn", Condition: store.PolicyCondition{Type: "always"}})
	if err != nil {
		t.Fatal(err)
	}

	// Traces with the exact spelling belong to the agent that has it, also when the
	// name is cached.
	key, _ := r.key(r.admin, "ingest")
	for i := range 2 {
		for name, id := range ids {
			b, _ := json.Marshal(api.TraceInput{ID: fmt.Sprint(id, i), AgentName: name, Status: "success"})
			r.ask(key, "POST", "/api/traces", string(b)).want(201)
			r.ask(r.admin, "GET", fmt.Sprint("/api/traces/", id, i), "").want(200).data().is(t, "agentId", id, "agentName", name)
		}
	}
	if agents := r.ask(r.admin, "GET", "/api/agents", "").want(200).list(); len(agents) != 2 {
		t.Errorf("agents are %v", agents)
	}

	// Policies refer to it by the exact spelling, and other members of it can be
	// changed.
	path := "/api/policies/" + p[0].ID
	r.ask(r.admin, "PUT", path, `{"enabled":true}`).want(200).data().is(t, "name", old, "on", old)
	for name := range ids {
		b, _ := json.Marshal(map[string]string{"on": name})
		a := r.ask(r.admin, "PUT", path, string(b)).want(200)
		a.data().is(t, "on", name)
		if w := a.object()["warnings"]; w != nil {
			t.Errorf("on %q: warnings %v", name, w)
		}
	}
	r.ask(r.admin, "PUT", "/api/agents/"+ids[old], `{"environment":"prod"}`).want(200).data().is(t, "name", old)

	// Another spelling is rejected as taken.
	for _, path := range []string{"/api/agents", "/api/teams"} {
		if got := r.ask(r.admin, "POST", path, `{"name":"`+composed+`"}`).want(400).detail("name"); !strings.Contains(got, "another spelling") {
			t.Errorf("%s: details.name is %q", path, got)
		}
	}
	id := r.team(r.admin, "other")
	r.ask(r.admin, "PUT", "/api/teams/"+id, `{"name":"`+composed+`"}`).wantDetail("name")

	// The agent itself may change to the normalized spelling.
	r.ask(r.admin, "PUT", "/api/agents/"+ids[decomposed], `{"name":"`+decomposed+`"}`).want(200).data().is(t, "name", composed)
}
