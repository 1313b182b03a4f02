package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store"
)

var (
	agentItemFields    = []string{"id", "name", "description", "modelProvider", "modelName", "environment", "teamId", "createdAt", "updatedAt"}
	agentFields        = append([]string{"configYaml"}, agentItemFields...)
	agentCreatedFields = []string{"id", "name", "modelProvider", "modelName", "environment", "teamId", "createdAt", "updatedAt"}
)

// TestAgentRows has a test per row of the specification's table "Agents" and of
// the endpoints that the design adds for them.
func TestAgentRows(t *testing.T) {
	const full = `{"name":"billing","modelProvider":"anthropic","modelName":"claude","environment":"production","description":"pays","configYaml":"tools: []\n"}`
	t.Run("POST /api/agents", func(t *testing.T) {
		r := newRig(t)
		a := r.ask(r.admin, "POST", "/api/agents", full).want(201).data()
		a.has(t, agentCreatedFields...).is(t, "name", "billing", "modelProvider", "anthropic", "modelName", "claude", "environment", "production")
		a.moment(t, "createdAt")
		a.moment(t, "updatedAt")
	})
	t.Run("POST /api/agents requires name alone", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/agents", `{"description":"x"}`).wantDetail("name")
		r.ask(r.admin, "POST", "/api/agents", `{"name":""}`).wantDetail("name")
		r.ask(r.admin, "POST", "/api/agents", `{"name":"x"}`).want(201).data().has(t, agentCreatedFields...).is(t, "environment", "")
	})
	t.Run("POST /api/agents: all fields are strings", func(t *testing.T) {
		r := newRig(t)
		for _, f := range []string{"name", "modelProvider", "modelName", "environment", "description", "configYaml"} {
			body := map[string]any{"name": "x"}
			body[f] = 5
			b, _ := json.Marshal(body)
			r.ask(r.admin, "POST", "/api/agents", string(b)).wantDetail(f)
		}
	})
	t.Run("POST /api/agents: the name is unique in the tenant", func(t *testing.T) {
		r := newRig(t)
		r.agent(r.admin, "x")
		if got := r.ask(r.admin, "POST", "/api/agents", `{"name":"x"}`).want(400).detail("name"); got != "already exists" {
			t.Errorf("details.name is %q", got)
		}
		r.agent(r.other, "x")
	})
	t.Run("POST /api/agents: the name * means all agents and is refused", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/agents", `{"name":"*"}`).wantDetail("name")
	})
	t.Run("GET /api/agents", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/agents", full).want(201)
		r.agent(r.admin, "second")
		a := r.ask(r.admin, "GET", "/api/agents", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 2, "limit", 50, "offset", 0)
		list := a.list()
		list[0].has(t, agentItemFields...).is(t, "name", "second")
		list[1].has(t, agentItemFields...).is(t, "name", "billing", "description", "pays") // no configYaml in a list
	})
	t.Run("GET /api/agents limit at most 500", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "GET", "/api/agents?limit=501", "").want(200).object().is(t, "limit", 500)
		r.ask(r.admin, "GET", "/api/agents?limit=0", "").wantDetail("limit")
	})
	t.Run("GET /api/agents environment filter", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/agents", full).want(201)
		r.agent(r.admin, "second")
		a := r.ask(r.admin, "GET", "/api/agents?environment=production", "").want(200)
		a.object().is(t, "total", 1)
		a.list()[0].is(t, "name", "billing")
		r.ask(r.admin, "GET", "/api/agents?environment=nowhere", "").want(200).object().is(t, "total", 0, "data", "[]")
	})
	t.Run("GET /api/agents/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.ask(r.admin, "POST", "/api/agents", full).want(201).data().id(t)
		r.ask(r.admin, "GET", "/api/agents/"+id, "").want(200).data().has(t, agentFields...).
			is(t, "id", id, "configYaml", "tools: []\n", "description", "pays")
		r.ask(r.admin, "GET", "/api/agents/agt_unknown", "").want(404)
	})
	t.Run("PUT /api/agents/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.ask(r.admin, "POST", "/api/agents", full).want(201).data().id(t)
		r.agent(r.admin, "taken")
		r.clock.advance(time.Minute)
		a := r.ask(r.admin, "PUT", "/api/agents/"+id, `{"environment":"staging"}`).want(200).data()
		a.has(t, agentFields...).is(t, "name", "billing", "environment", "staging", "configYaml", "tools: []\n")
		if !a.moment(t, "updatedAt").After(a.moment(t, "createdAt")) {
			t.Errorf("updatedAt %v, createdAt %v", a["updatedAt"], a["createdAt"])
		}
		r.ask(r.admin, "PUT", "/api/agents/"+id, `{"name":"taken"}`).wantDetail("name")
		r.ask(r.admin, "PUT", "/api/agents/"+id, `{"name":""}`).wantDetail("name")
		r.ask(r.admin, "PUT", "/api/agents/agt_unknown", `{}`).want(404)
	})
	t.Run("DELETE /api/agents/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.agent(r.admin, "x")
		r.ask(r.admin, "DELETE", "/api/agents/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		for _, path := range []string{"", "/tools", "/history"} {
			r.ask(r.admin, "GET", "/api/agents/"+id+path, "").want(404)
		}
		r.ask(r.admin, "DELETE", "/api/agents/"+id, "").want(404)
	})
	t.Run("GET /api/agents/:id/tools", func(t *testing.T) {
		r := newRig(t)
		id := r.agent(r.admin, "x")
		for i := range 3 {
			r.traces(
				store.Trace{ID: fmt.Sprint("a", i), AgentID: id, Status: store.TraceSuccess, ToolName: "search", CreatedAt: epoch.Add(time.Duration(i-60) * time.Minute)},
				store.Trace{ID: fmt.Sprint("b", i), AgentID: id, Status: store.TraceSuccess, ToolName: fmt.Sprint("tool", i), CreatedAt: epoch.Add(-time.Hour)},
			)
		}
		a := r.ask(r.admin, "GET", "/api/agents/"+id+"/tools", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 4, "limit", 50, "offset", 0)
		var search object
		for _, tool := range a.list() {
			tool.has(t, "id", "agentId", "toolName", "callCount", "lastCalledAt").is(t, "agentId", id)
			if tool["toolName"] == "search" {
				search = tool
			}
		}
		search.is(t, "callCount", 3)
		if at := search.moment(t, "lastCalledAt"); !at.Equal(epoch.Add(-58 * time.Minute)) {
			t.Errorf("lastCalledAt %s", at)
		}
		if n := len(r.ask(r.admin, "GET", "/api/agents/"+id+"/tools?limit=1&offset=3", "").want(200).list()); n != 1 {
			t.Errorf("%d on the last page", n)
		}
		r.ask(r.admin, "GET", "/api/agents/agt_unknown/tools", "").want(404)
	})
	t.Run("GET /api/agents/:id/history", func(t *testing.T) {
		r := newRig(t)
		id := r.ask(r.admin, "POST", "/api/agents", full).want(201).data().id(t)
		a := r.ask(r.admin, "GET", "/api/agents/"+id+"/history", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 1, "limit", 20, "offset", 0)
		first := a.list()[0].has(t, "id", "agentId", "configYaml", "deployedBy", "deployedAt")
		first.is(t, "agentId", id, "configYaml", "tools: []\n", "deployedBy", "usr_admin")
		first.moment(t, "deployedAt")
		for i := range 25 {
			r.clock.advance(time.Second)
			r.ask(r.admin, "PUT", "/api/agents/"+id, fmt.Sprintf(`{"configYaml":"version: %d"}`, i)).want(200)
		}
		r.ask(r.admin, "PUT", "/api/agents/"+id, `{"configYaml":"version: 24"}`).want(200)  // unchanged: no record
		r.ask(r.admin, "PUT", "/api/agents/"+id, `{"description":"no new text"}`).want(200) // neither changes the configuration
		a = r.ask(r.admin, "GET", "/api/agents/"+id+"/history", "").want(200)
		a.object().is(t, "total", 26)
		list := a.list()
		if len(list) != 20 {
			t.Fatalf("%d records on the default page, want 20", len(list))
		}
		list[0].is(t, "configYaml", "version: 24") // the most recent first
		list[19].is(t, "configYaml", "version: 5")
		last := r.ask(r.admin, "GET", "/api/agents/"+id+"/history?offset=25", "").want(200).list()
		last[0].is(t, "configYaml", "tools: []\n")
	})
	t.Run("history of an agent without configuration is empty", func(t *testing.T) {
		r := newRig(t)
		id := r.agent(r.admin, "x")
		r.ask(r.admin, "GET", "/api/agents/"+id+"/history", "").want(200).object().is(t, "total", 0, "data", "[]")
	})
}

// TestAgentTextIsData: text of a client is returned unchanged as JSON and is
// never executed.
func TestAgentTextIsData(t *testing.T) {
	r := newRig(t)
	for i, text := range []string{
		`<script>alert(1)</script>`, "emoji 😀 é", "right-to-left \u202e override", `{"a":"\u0000"}`, `"; DROP TABLE agents; --`, "../../etc/passwd",
	} {
		b, _ := json.Marshal(map[string]string{"name": fmt.Sprint("agent ", i), "description": text})
		id := r.ask(r.admin, "POST", "/api/agents", string(b)).want(201).data().id(t)
		if got := r.ask(r.admin, "GET", "/api/agents/"+id, "").want(200).data()["description"]; got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	for _, name := range []string{strings.Repeat("x", 201), "line\nbreak", "a\ttab", "escape \x1b[31m"} {
		b, _ := json.Marshal(map[string]string{"name": name})
		r.ask(r.admin, "POST", "/api/agents", string(b)).wantDetail("name")
	}
}

// TestAgentConfigSize: a configuration of the documented size is stored whole; a
// longer one is a 400 that names the field.
func TestAgentConfigSize(t *testing.T) {
	r := newRig(t)
	text := strings.Repeat("key: value # secret\n", 512<<10/20)
	b, _ := json.Marshal(map[string]string{"name": "large", "configYaml": text})
	id := r.ask(r.admin, "POST", "/api/agents", string(b)).want(201).data().id(t)
	if got := r.ask(r.admin, "GET", "/api/agents/"+id, "").want(200).data()["configYaml"]; got != text {
		t.Errorf("%d bytes came back of %d", len(got.(string)), len(text))
	}
	b, _ = json.Marshal(map[string]string{"name": "larger", "configYaml": text + strings.Repeat("x", 100)})
	r.ask(r.admin, "POST", "/api/agents", string(b)).wantDetail("configYaml")
}

// TestDeletedAgentIsRemembered: budgets, SLA targets and traces keep the id and
// the last name of a deleted agent.
func TestDeletedAgentIsRemembered(t *testing.T) {
	r := newRig(t)
	id := r.agent(r.admin, "gone")
	r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"b","agentId":%q,"period":"daily","limitUsd":1}`, id)).want(201)
	r.ask(r.admin, "POST", "/api/costs/sla", fmt.Sprintf(`{"name":"s","agentId":%q,"p99LatencyMs":10,"evaluationPeriod":"1h"}`, id)).want(201)
	r.traces(store.Trace{ID: "t1", AgentID: id, Status: store.TraceSuccess, CreatedAt: epoch})
	r.ask(r.admin, "DELETE", "/api/agents/"+id, "").want(200)
	r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0].is(t, "agentId", id, "agentName", "gone")
	r.ask(r.admin, "GET", "/api/costs/sla", "").want(200).list()[0].is(t, "agentId", id, "agentName", "gone")
	r.ask(r.admin, "GET", "/api/traces/t1", "").want(200).data().is(t, "agentId", id, "agentName", "gone")
}

// TestARenamedAgentKeepsWhatRefersToIt: traces with the former name count for
// the agent's budget, and the governance bundle has the former name as an alias.
func TestARenamedAgentKeepsWhatRefersToIt(t *testing.T) {
	r := newRig(t)
	id := r.agent(r.admin, "ren")
	r.ask(r.admin, "POST", "/api/policies", `{"name":"p","phase":"request","on":"ren","condition":{"type":"always"},"action":"warn"}`).want(201)
	r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", id, "daily", 1)).want(201)
	lacks(t, r.ask(r.admin, "GET", "/api/governance", "").want(200).object(), "aliases")
	r.ask(r.admin, "PUT", "/api/agents/"+id, `{"name":"ren2"}`).want(200)
	r.ask(r.admin, "POST", "/api/traces", `{"agentName":"ren","status":"success","durationMs":1,"costUsd":2}`).want(201)
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 1)
	r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()[0].is(t, "currentUsd", 2, "agentName", "ren2")
	bundle := r.ask(r.admin, "GET", "/api/governance", "").want(200)
	if want := fmt.Sprintf(`"aliases":[{"alias":"ren","agentId":%q,"agentName":"ren2"}]`, id); !strings.Contains(string(bundle.raw), want) {
		t.Errorf("the bundle lacks %s: %s", want, bundle.raw)
	}
	r.agent(r.admin, "ren") // another agent takes the name
	lacks(t, r.ask(r.admin, "GET", "/api/governance", "").want(200).object(), "aliases")
}

// lacks fails the test when an object has the member.
func lacks(t *testing.T, o object, name string) {
	t.Helper()
	if v, ok := o[name]; ok {
		t.Errorf("there are %s: %v", name, v)
	}
}

// TestDeletingAnAgentWarns: the response names the resources that refer to the
// agent, by its name, a former name or its id.
func TestDeletingAnAgentWarns(t *testing.T) {
	r := newRig(t)
	id := r.agent(r.admin, "old")
	r.ask(r.admin, "PUT", "/api/agents/"+id, `{"name":"new"}`).want(200)
	for name, on := range map[string]string{"by name": "new", "by former name": "old", "of another": "other", "of all": "*"} {
		r.ask(r.admin, "POST", "/api/policies",
			fmt.Sprintf(`{"name":%q,"phase":"request","on":%q,"condition":{"type":"always"},"action":"warn"}`, name, on)).want(201)
	}
	r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("purse", id, "daily", 1)).want(201)
	r.ask(r.admin, "POST", "/api/costs/sla", slaBody("fast", id, `"p99LatencyMs":10,`, "1h")).want(201)
	a := r.ask(r.admin, "DELETE", "/api/agents/"+id, "").want(200).object().is(t, "success", true)
	warnings := fmt.Sprint(a["warnings"])
	for _, name := range []string{`policy "by name"`, `policy "by former name"`, `budget "purse"`, `SLA target "fast"`} {
		if !strings.Contains(warnings, name) {
			t.Errorf("no warning about %s: %s", name, warnings)
		}
	}
	if len(a["warnings"].([]any)) != 4 {
		t.Errorf("warnings: %s", warnings)
	}
	lonely := r.agent(r.admin, "lonely")
	lacks(t, r.ask(r.admin, "DELETE", "/api/agents/"+lonely, "").want(200).object(), "warnings")
}

// An agent belongs to at most one team, which a key that is limited to a team does not choose.
func TestTeamOfAnAgent(t *testing.T) {
	r := newRig(t)
	one, other := r.team(r.admin, "one", "agents:read", "agents:write"), r.team(r.admin, "other")
	limited, _ := r.key(r.admin, "api", "teamId", one)
	a := r.ask(r.admin, "POST", "/api/agents", `{"name":"a","teamId":"`+one+`"}`).want(201).data().is(t, "teamId", one)
	url := "/api/agents/" + a.id(t)
	r.agent(r.admin, "b")
	if list := r.ask(r.admin, "GET", "/api/agents?teamId="+one, "").want(200).list(); len(list) != 1 || list[0].id(t) != a.id(t) {
		t.Errorf("the team has the agents %v", list)
	}
	r.ask(r.admin, "PUT", url, `{"teamId":"tea_unknown"}`).wantDetail("teamId")
	r.ask(r.admin, "POST", "/api/agents", `{"name":"c","teamId":"tea_unknown"}`).wantDetail("teamId")

	r.ask(limited, "PUT", url, `{"teamId":"`+other+`"}`).want(403)
	r.ask(limited, "PUT", url, `{"teamId":""}`).want(403)
	r.ask(limited, "PUT", url, `{"teamId":"`+one+`","description":"d"}`).want(200)
	r.ask(limited, "POST", "/api/agents", `{"name":"d","teamId":"`+other+`"}`).want(403)
	r.ask(limited, "POST", "/api/agents", `{"name":"d","teamId":"`+one+`"}`).want(201)
	declared := `{"documents":[{"kind":"Agent","name":"b","spec":{%s}}]}`
	r.apply(limited, fmt.Sprintf(declared, `"team":"one"`)).want(403)
	r.apply(limited, fmt.Sprintf(declared, `"description":"d"`)).want(200)

	r.ask(r.admin, "PUT", url, `{"teamId":"`+other+`"}`).want(200).data().is(t, "teamId", other)
	r.ask(r.admin, "DELETE", "/api/teams/"+other, "", "If-Match", r.ask(r.admin, "GET", "/api/teams/"+other, "").header.Get("ETag")).want(200)
	r.ask(r.admin, "GET", url, "").want(200).data().is(t, "teamId", "")
}
