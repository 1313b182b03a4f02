package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// bundleOfEverything declares at least one resource of each kind. Documents come before
// the resources that they refer to.
const bundleOfEverything = `{"documents":[
	{"kind":"SLATarget","name":"latency","spec":{"agent":"bot","p99LatencyMs":2000,"evaluationPeriod":"24h"}},
	{"kind":"Budget","name":"monthly","spec":{"agent":"bot","period":"monthly","limitUsd":500.25}},
	{"kind":"Policy","name":"z first","spec":{"phase":"request","on":"bot","condition":{"type":"injection_score","threshold":0.8},"action":"block"}},
	{"kind":"Policy","name":"a second","spec":{"phase":"response","condition":{"type":"pii_detected","entities":["EMAIL"]},"action":"redact","redactionStrategy":"hash"}},
	{"kind":"Policy","name":"m third","spec":{"phase":"request","on":"*","condition":{"type":"tool_name","toolName":"shell_*"},"action":"warn","enabled":false}},
	{"kind":"Policy","name":"paths","spec":{"phase":"request","condition":{"type":"tool_arguments","toolName":"read","arguments":{"/p":{"not":{"prefix":"<a&b>"}},"/n":{"max":1.50}}},"action":"block"}},
	{"kind":"Agent","name":"bot","spec":{"modelName":"m-1","environment":"production","team":"ops","configYaml":"a: 1\n","formerNames":["robot"]}},
	{"kind":"Team","name":"ops","spec":{"description":"on call","scopes":["agents:read","policies:write"]}}],"set":"prod"%s}`

// apply sends documents and returns the response.
func (r *rig) apply(key, body string) *reply { return r.ask(key, "POST", "/api/apply", body) }

// changesOf formats the changes in a response as "kind name change fields".
func changesOf(t testing.TB, a *reply) (list []string) {
	t.Helper()
	var out api.Applied
	if err := json.Unmarshal(a.raw, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Data {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Kind, c.Name, c.Change, strings.Join(c.Fields, ","))))
		if (c.ID == "") != (c.Change == api.ChangeCreate && !out.Applied) {
			t.Errorf("the id of %+v", c)
		}
	}
	return list
}

func wantChanges(t testing.TB, a *reply, want ...string) {
	t.Helper()
	if got := changesOf(t, a.want(200)); !slices.Equal(got, want) {
		t.Errorf("changes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestApply(t *testing.T) {
	r := newRig(t)
	all := fmt.Sprintf(bundleOfEverything, "")
	created := []string{"SLATarget latency create", "Budget monthly create", "Policy z first create", "Policy a second create", "Policy m third create",
		"Policy paths create",
		"Agent bot create", "Team ops create"}
	dry := r.apply(r.admin, fmt.Sprintf(bundleOfEverything, `,"dryRun":true`))
	wantChanges(t, dry, created...)
	dry.object().is(t, "applied", false)
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 0)

	wantChanges(t, r.apply(r.admin, all), created...)
	again := r.apply(r.admin, all)
	again.object().is(t, "applied", true)
	var none []string
	for _, c := range created {
		none = append(none, strings.ReplaceAll(c, " create", " none"))
	}
	wantChanges(t, again, none...)
	before := r.ask(r.admin, "GET", "/api/audit/events?limit=500", "").want(200).list()
	r.apply(r.admin, all).want(200)
	if n := len(r.ask(r.admin, "GET", "/api/audit/events?limit=500", "").want(200).list()); n != len(before) {
		t.Errorf("%d audit events for an apply that changed nothing", n-len(before))
	}
	event := before[0] // newest first
	event.is(t, "route", "/api/apply")
	if actor := event["actor"].(map[string]any); actor["keyId"] == "" {
		t.Errorf("event %v", event)
	}

	// Members that are not in a spec have their defaults; resources that are already as
	// declared are not changed.
	wantChanges(t, r.apply(r.admin, `{"set":"prod","documents":[
		{"kind":"Budget","name":"monthly","spec":{"agent":"bot","period":"daily","limitUsd":5}},
		{"kind":"Agent","name":"bot"},
		{"kind":"Team","name":"ops","spec":{"scopes":["agents:read"],"description":"on call"}}]}`),
		"Budget monthly update limitUsd,period", "Agent bot update configYaml,environment,modelName,team", "Team ops update scopes")
	// A name is compared in its normalized form.
	wantChanges(t, r.apply(r.admin, `{"set":"prod","documents":[{"kind":"Agent","name":"  bot "}]}`), "Agent bot none")
}

// TestApplyRefuses: the error names the document by its index, and nothing is written.
func TestApplyRefuses(t *testing.T) {
	r := newRig(t)
	r.apply(r.admin, `{"documents":[{"kind":"Agent","name":"outside"},{"kind":"Agent","name":"of other"}]}`).want(200)
	r.apply(r.admin, `{"set":"other","adopt":true,"documents":[{"kind":"Agent","name":"of other"}]}`).want(200)
	agent := r.agent(r.admin, "old")
	r.ask(r.admin, "POST", "/api/costs/sla", slaBody("twice", agent, `"p99LatencyMs":1,`, "1h")).want(201)
	r.ask(r.admin, "POST", "/api/costs/sla", slaBody("twice", agent, `"p99LatencyMs":2,`, "1h")).want(201)
	events := len(r.ask(r.admin, "GET", "/api/audit/events?limit=500", "").want(200).list())
	ok := `{"kind":"Team","name":"fine"},`
	for _, tc := range []struct{ what, body, field string }{
		{"no body", `{}`, "documents"},
		{"no documents", `{"documents":[]}`, "documents"},
		{"prune without a set", `{"documents":[` + ok[:len(ok)-1] + `],"prune":true}`, "prune"},
		{"adopt without a set", `{"documents":[` + ok[:len(ok)-1] + `],"adopt":true}`, "adopt"},
		{"prune without documents", `{"documents":[],"set":"s","prune":true}`, "prune"},
		{"a limit without prune", `{"documents":[` + ok[:len(ok)-1] + `],"pruneLimit":1}`, "pruneLimit"},
		{"a negative limit", `{"documents":[` + ok[:len(ok)-1] + `],"set":"s","prune":true,"pruneLimit":-1}`, "pruneLimit"},
		{"a set that is no name", `{"documents":[` + ok[:len(ok)-1] + `],"set":"a b"}`, "set"},
		{"an unknown member", `{"documents":[` + ok[:len(ok)-1] + `],"force":true}`, "force"},
		{"an unknown kind", `{"documents":[` + ok + `{"kind":"Key","name":"x"}]}`, "documents[1].kind"},
		{"kind in lower case", `{"documents":[` + ok + `{"kind":"agent","name":"x"}]}`, "documents[1].kind"},
		{"no kind", `{"documents":[` + ok + `{"name":"x"}]}`, "documents[1].kind"},
		{"no name", `{"documents":[` + ok + `{"kind":"Agent"}]}`, "documents[1].name"},
		{"a name that is an id", `{"documents":[` + ok + `{"kind":"Agent","name":"` + agent + `"}]}`, "documents[1].name"},
		{"an invisible name", `{"documents":[` + ok + `{"kind":"Agent","name":"a\u200bb"}]}`, "documents[1].name"},
		{"all agents", `{"documents":[` + ok + `{"kind":"Agent","name":"*"}]}`, "documents[1].name"},
		{"the same name", `{"documents":[` + ok + `{"kind":"Agent","name":"e\u0301"},{"kind":"Agent","name":"\u00e9"}]}`, "documents[2].name"},
		{"an unknown member of a document", `{"documents":[` + ok + `{"kind":"Agent","name":"x","id":"agt_1"}]}`, "documents[1].id"},
		{"an unknown member of a spec", `{"documents":[` + ok + `{"kind":"Agent","name":"x","spec":{"modelname":"m"}}]}`, "documents[1].spec.modelname"},
		{"null", `{"documents":[` + ok + `{"kind":"Agent","name":"x","spec":{"modelName":null}}]}`, "documents[1].spec.modelName"},
		{"a spec that is no object", `{"documents":[` + ok + `{"kind":"Agent","name":"x","spec":[]}]}`, "documents[1].spec"},
		{"a member twice", `{"documents":[` + ok + `{"kind":"Agent","name":"x","spec":{"modelName":"a","modelName":"b"}}]}`, "documents[1].spec.modelName"},
		{"a wrong type", `{"documents":[` + ok + `{"kind":"Budget","name":"x","spec":{"agent":"outside","period":"daily","limitUsd":"5"}}]}`, "documents[1].spec.limitUsd"},
		{"too little", `{"documents":[` + ok + `{"kind":"Budget","name":"x","spec":{"agent":"outside","period":"daily","limitUsd":1e-12}}]}`, "documents[1].spec.limitUsd"},
		{"an unknown agent", `{"documents":[` + ok + `{"kind":"Budget","name":"x","spec":{"agent":"nobody","period":"daily","limitUsd":5}}]}`, "documents[1].spec.agent"},
		{"an id of an agent", `{"documents":[` + ok + `{"kind":"Budget","name":"x","spec":{"agent":"` + agent + `","period":"daily","limitUsd":5}}]}`, "documents[1].spec.agent"},
		{"no agent", `{"documents":[` + ok + `{"kind":"SLATarget","name":"x","spec":{"p99LatencyMs":5,"evaluationPeriod":"1h"}}]}`, "documents[1].spec.agent"},
		{"an unknown scope", `{"documents":[` + ok + `{"kind":"Team","name":"x","spec":{"scopes":["agents:read","all"]}}]}`, "documents[1].spec.scopes[1]"},
		{"redact without a strategy", `{"documents":[` + ok + `{"kind":"Policy","name":"x","spec":{"phase":"request","condition":{"type":"always"},"action":"redact"}}]}`, "documents[1].spec.redactionStrategy"},
		{"a name of several", `{"documents":[` + ok + `{"kind":"SLATarget","name":"twice","spec":{"agent":"old","p99LatencyMs":5,"evaluationPeriod":"1h"}}]}`, "documents[1].name"},
		{"of no set", `{"set":"s","documents":[` + ok + `{"kind":"Agent","name":"outside"}]}`, "documents[1].name"},
		{"of another set", `{"set":"s","documents":[` + ok + `{"kind":"Agent","name":"of other"}]}`, "documents[1].name"},
		{"a former name that is a name", `{"documents":[` + ok + `{"kind":"Agent","name":"x","spec":{"formerNames":["old"]}}]}`, "documents[1].spec.formerNames[0]"},
		{"two former names of one", `{"documents":[{"kind":"Agent","name":"y","spec":{"formerNames":["q"]}},{"kind":"Agent","name":"x","spec":{"formerNames":["q"]}}]}`, "documents[1].spec.formerNames[0]"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			r.t = t
			for _, dry := range []string{"", `,"dryRun":true}`} {
				body := tc.body
				if dry != "" && strings.HasSuffix(body, "]}") {
					body = strings.TrimSuffix(body, "}") + dry
				}
				r.apply(r.admin, body).wantDetail(tc.field)
			}
		})
	}
	r.t = t
	many := `{"documents":[` + strings.Repeat(`{"kind":"Nothing","name":"x"},`, 1000) + ok[:len(ok)-1] + `]}`
	r.apply(r.admin, many).wantDetail("documents")
	if n := len(r.ask(r.admin, "GET", "/api/audit/events?limit=500", "").want(200).list()); n != events {
		t.Errorf("%d events of what was refused", n-events)
	}
	r.ask(r.admin, "GET", "/api/teams", "").want(200).object().is(t, "total", 0)
}

// TestApplyPrunes: only resources that carry the set are deleted, and at most a third
// of them without a limit.
func TestApplyPrunes(t *testing.T) {
	r := newRig(t)
	policies := func(names ...string) string {
		var list []string
		for _, n := range names {
			list = append(list, `{"kind":"Policy","name":"`+n+`","spec":{"phase":"request","condition":{"type":"always"},"action":"warn"}}`)
		}
		return strings.Join(list, ",")
	}
	body := func(documents, more string) string { return `{"set":"s","documents":[` + documents + `]` + more + `}` }
	r.apply(r.admin, `{"documents":[`+policies("other")+`]}`).want(200)
	r.apply(r.admin, body(policies("a", "b", "c")+`,{"kind":"Agent","name":"bot"}`, "")).want(200)

	agent := `,{"kind":"Agent","name":"bot"}`
	r.apply(r.admin, body(policies("a")+agent, `,"prune":true`)).wantDetail("prune") // two of three
	r.apply(r.admin, body(policies("a", "b", "c"), `,"prune":true`)).wantDetail("prune")
	r.apply(r.admin, body(policies("a"), `,"prune":true,"pruneLimit":2`)).wantDetail("pruneLimit")
	r.apply(r.admin, body(policies("a", "b")+`,{"kind":"Budget","name":"x","spec":{"agent":"bot","period":"daily","limitUsd":5}}`, `,"prune":true,"pruneLimit":9`)).
		wantDetail("documents[2].spec.agent") // a later step would delete the agent
	wantChanges(t, r.apply(r.admin, body(policies("a", "b")+agent, `,"prune":true,"dryRun":true`)),
		"Policy a none", "Policy b none", "Agent bot none", "Policy c delete")
	wantChanges(t, r.apply(r.admin, body(policies("a", "b")+agent, `,"prune":true`)),
		"Policy a none", "Policy b none", "Agent bot none", "Policy c delete")
	wantChanges(t, r.apply(r.admin, body(policies("a"), `,"prune":true,"pruneLimit":2`)), "Policy a none", "Policy b delete", "Agent bot delete")
	r.ask(r.admin, "GET", "/api/policies", "").want(200).object().is(t, "total", 2)
	// Adopted resources are deleted as well.
	wantChanges(t, r.apply(r.admin, body(policies("a", "other"), `,"adopt":true`)), "Policy a none", "Policy other update set")
	wantChanges(t, r.apply(r.admin, body(policies("a"), `,"prune":true,"pruneLimit":1`)), "Policy a none", "Policy other delete")
}

// TestApplyTakesTheScopesOfEveryKind: a key that is limited to a team needs the scopes
// of all kinds of the documents and of pruned resources, and the scopes of the teams
// that it declares.
func TestApplyTakesTheScopesOfEveryKind(t *testing.T) {
	r := newRig(t)
	key, team := r.teamKey("limited")
	docs := map[string]string{
		"teams:write":    `{"kind":"Team","name":"t"}`,
		"agents:write":   `{"kind":"Agent","name":"a"}`,
		"policies:write": `{"kind":"Policy","name":"p","spec":{"phase":"request","condition":{"type":"always"},"action":"warn"}}`,
		"costs:write":    `{"kind":"Budget","name":"b","spec":{"agent":"base","period":"daily","limitUsd":5}}`,
	}
	r.apply(r.admin, `{"documents":[{"kind":"Agent","name":"base"}]}`).want(200)
	for scope := range docs {
		read := strings.Replace(scope, "write", "read", 1)
		for other, doc := range docs {
			want := 403
			if other == scope {
				want = 200
			}
			r.scopes(r.admin, team, scope).want(200)
			r.apply(key, `{"documents":[`+doc+`],"dryRun":false}`).want(want)
			// A dry run names the fields of a resource that differ, so it needs the read scope too.
			r.apply(key, `{"documents":[`+doc+`],"dryRun":true}`).want(403)
			r.scopes(r.admin, team, scope, read).want(200)
			r.apply(key, `{"documents":[`+doc+`],"dryRun":true}`).want(want)
			if other != scope {
				r.apply(key, `{"documents":[`+docs[scope]+`,`+doc+`]}`).want(403)
			}
		}
	}
	// A team that would hold scopes that the key lacks, and a team that already does.
	r.scopes(r.admin, team, "teams:write").want(200)
	r.apply(key, `{"documents":[{"kind":"Team","name":"u","spec":{"scopes":["keys:write"]}}]}`).want(403)
	r.apply(r.admin, `{"set":"s","documents":[{"kind":"Team","name":"v","spec":{"scopes":["keys:write"]}},{"kind":"Team","name":"w"}]}`).want(200)
	r.apply(key, `{"set":"s","documents":[{"kind":"Team","name":"v"}]}`).want(403)
	r.apply(key, `{"set":"s","documents":[{"kind":"Team","name":"w"}],"prune":true,"pruneLimit":5}`).want(403)
	// A dry run of pruning names the resources that would be deleted.
	r.scopes(r.admin, team, "teams:write", "teams:read", "policies:write").want(200)
	r.apply(r.admin, `{"set":"p","documents":[{"kind":"Team","name":"kept"},`+docs["policies:write"]+`],"adopt":true}`).want(200)
	r.apply(key, `{"set":"p","documents":[{"kind":"Team","name":"kept"}],"prune":true,"pruneLimit":5,"dryRun":true}`).want(403)
	r.scopes(r.admin, team, "teams:write", "teams:read", "policies:write", "policies:read").want(200)
	r.apply(key, `{"set":"p","documents":[{"kind":"Team","name":"kept"}],"prune":true,"pruneLimit":5,"dryRun":true}`).want(200)
	r.scopes(r.admin, team, "teams:write").want(200)
	// Policies of the set are pruned only by a key that may delete policies.
	r.apply(r.admin, `{"set":"s","documents":[`+docs["policies:write"]+`],"adopt":true}`).want(200)
	r.ask(r.admin, "DELETE", "/api/teams/"+r.ask(r.admin, "GET", "/api/teams", "").list()[1].id(t), "").want(200)
	r.apply(key, `{"set":"s","documents":[{"kind":"Team","name":"w"}],"prune":true,"pruneLimit":5}`).want(403)
	r.ask(r.admin, "GET", "/api/policies", "").want(200).object().is(t, "total", 1)
}

// TestApplyIsIdempotent: a retry gets the response to the first request.
func TestApplyIsIdempotent(t *testing.T) {
	r := newRig(t)
	first := r.ask(r.admin, "POST", "/api/apply", `{"documents":[{"kind":"Agent","name":"a"}]}`, "Idempotency-Key", "k1").want(200)
	again := r.ask(r.admin, "POST", "/api/apply", `{"documents":[{"kind":"Agent","name":"a"}]}`, "Idempotency-Key", "k1").want(200)
	if string(first.raw) != string(again.raw) || !strings.Contains(string(again.raw), `"create"`) {
		t.Errorf("the retry got %s", again.raw)
	}
}

// TestApplyAtOnce: when two administrators apply different documents concurrently, the
// result is all of one or all of the other, never a mixture.
func TestApplyAtOnce(t *testing.T) {
	r := newRig(t)
	documents := func(limit int) string {
		list := []string{`{"kind":"Agent","name":"bot"}`}
		for i := range 20 {
			list = append(list, fmt.Sprintf(`{"kind":"Budget","name":"b%d","spec":{"agent":"bot","period":"daily","limitUsd":%d}}`, i, limit))
		}
		return `{"set":"s","documents":[` + strings.Join(list, ",") + `]}`
	}
	var all sync.WaitGroup
	for admin := range 6 {
		all.Go(func() {
			for range 5 {
				r.apply(r.admin, documents(admin+1)).want(200)
			}
		})
	}
	all.Wait()
	limits := map[any]bool{}
	list := r.ask(r.admin, "GET", "/api/costs/budgets", "").want(200).list()
	for _, b := range list {
		limits[b["limitUsd"]] = true
	}
	if len(list) != 20 || len(limits) != 1 {
		t.Errorf("%d budgets with limits %v", len(list), limits)
	}
}

// TestExportIntoAnEmptyTenant: applying the export of one tenant to an empty one yields
// the same governance bundle and the same export.
func TestExportIntoAnEmptyTenant(t *testing.T) {
	r := newRig(t)
	r.apply(r.admin, fmt.Sprintf(bundleOfEverything, "")).want(200)
	agent := r.agent(r.admin, "renamed once")
	r.ask(r.admin, "PUT", "/api/agents/"+agent, `{"name":"renamed twice"}`).want(200)
	r.ask(r.admin, "PUT", "/api/agents/"+agent, `{"name":"now"}`).want(200)
	r.ask(r.admin, "POST", "/api/policies/templates/apply", `{"template":"observe-only","agentName":"renamed once"}`).want(201)
	gone := r.agent(r.admin, "gone")
	r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("second", agent, "weekly", 7)).want(201)
	export := func(key string) string {
		a := r.ask(key, "GET", "/api/apply", "").want(200)
		return string(a.raw)
	}
	r.ask(r.admin, "DELETE", "/api/agents/"+gone, "").want(200)
	out := export(r.admin)
	r.apply(r.other, out).want(200)
	if again := export(r.other); again != out {
		t.Errorf("the other tenant exports\n%s\nof\n%s", again, out)
	}
	wantChanges := changesOf(t, r.apply(r.other, out).want(200))
	for _, c := range wantChanges {
		if !strings.HasSuffix(c, " none") {
			t.Errorf("a second run: %s", c)
		}
	}
	one, other := governanceOf(t, r, r.admin), governanceOf(t, r, r.other)
	if one != other {
		t.Errorf("governance bundle\n%s\nand of the copy\n%s", one, other)
	}
	if !strings.Contains(one, `"alias":"robot"`) || !strings.Contains(one, `"on":"renamed once"`) || strings.Count(one, `"period"`) != 2 {
		t.Errorf("the bundle is %s", one)
	}
	// A key of the tenant that may read only some kinds.
	key, team := r.teamKey("limited")
	r.scopes(r.admin, team, "policies:read").want(200)
	r.ask(key, "GET", "/api/apply", "").want(403)
	r.ask(key, "GET", "/api/apply?kind=Agent,Policy", "").want(403)
	if a := r.ask(key, "GET", "/api/apply?kind=Policy", "").want(200); strings.Contains(string(a.raw), `"Agent"`) {
		t.Errorf("%s", a.raw)
	}
	r.ask(key, "GET", "/api/apply?kind=policy", "").wantDetail("kind")
}

// governanceOf returns the governance bundle without ids, times and the key.
func governanceOf(t testing.TB, r *rig, key string) string {
	t.Helper()
	var g api.Governance
	if err := json.Unmarshal(r.ask(key, "GET", "/api/governance", "").want(200).raw, &g); err != nil {
		t.Fatal(err)
	}
	g.HashKey = ""
	for i := range g.Policies {
		g.Policies[i].ID, g.Policies[i].CreatedAt = "", time.Time{}
	}
	for i := range g.Budgets {
		g.Budgets[i].ID, g.Budgets[i].AgentID = "", ""
	}
	for i := range g.Aliases {
		g.Aliases[i].AgentID = ""
	}
	out, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestExportWarns: the warnings name the resources that documents cannot express.
func TestExportWarns(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "a")
	gone := r.agent(r.admin, "gone")
	r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("left", gone, "weekly", 7)).want(201)
	for range 2 {
		r.ask(r.admin, "POST", "/api/costs/sla", slaBody("twice", agent, `"p99LatencyMs":1,`, "1h")).want(201)
	}
	r.ask(r.admin, "DELETE", "/api/agents/"+gone, "").want(200)
	var out api.Documents
	if err := json.Unmarshal(r.ask(r.admin, "GET", "/api/apply", "").want(200).raw, &out); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(out.Warnings, "\n"); len(out.Warnings) != 3 || !strings.Contains(text, `budget "left"`) || !strings.Contains(text, `"twice"`) {
		t.Errorf("warnings %q", out.Warnings)
	}
}

// TestApplyThousand applies a thousand resources in one request, twice.
func TestApplyThousand(t *testing.T) {
	r := newRig(t)
	var list []string
	for i := range 250 {
		list = append(list, fmt.Sprintf(`{"kind":"Team","name":"t%d","spec":{"scopes":["agents:read"]}},{"kind":"Agent","name":"a%d","spec":{"configYaml":"a: %d"}}`, i, i, i),
			fmt.Sprintf(`{"kind":"Policy","name":"p%d","spec":{"phase":"request","on":"a%d","condition":{"type":"always"},"action":"warn"}}`, i, i),
			fmt.Sprintf(`{"kind":"Budget","name":"b%d","spec":{"agent":"a%d","period":"daily","limitUsd":5}}`, i, i))
	}
	body := `{"set":"s","prune":true,"documents":[` + strings.Join(list, ",") + `]}`
	for run, change := range []string{"create", "none"} {
		began := time.Now()
		changes := changesOf(t, r.apply(r.admin, body).want(200))
		took := time.Since(began)
		if len(changes) != 1000 || took > 10*time.Second {
			t.Errorf("run %d: %d changes in %s", run, len(changes), took)
		}
		for _, c := range changes {
			if !strings.HasSuffix(c, " "+change) {
				t.Fatalf("run %d: %s", run, c)
			}
		}
		t.Logf("run %d took %s", run, took)
	}
	tenant := r.store.Tenant("one")
	events, _, err := tenant.ListAuditEvents(context.Background(), store.AuditEventFilter{}, store.Page{})
	if err != nil || len(events) < 1000 {
		t.Errorf("%d events, %v", len(events), err)
	}
}
