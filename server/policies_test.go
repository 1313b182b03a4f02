package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

var policyFields = []string{"id", "name", "phase", "on", "condition", "action", "enabled", "fireCount", "createdAt", "updatedAt"}

// enforcedFields are those of an enabled policy.
var enforcedFields = slices.Concat(policyFields, []string{"enforcedBy"})

func policyBody(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"phase":"request","action":"warn","condition":{"type":"always"}%s}`, name, more)
}

// TestPolicyRows has a test per row of the specification's table "Policies" and
// of the endpoint that the design adds.
func TestPolicyRows(t *testing.T) {
	t.Run("POST /api/policies", func(t *testing.T) {
		r := newRig(t)
		r.agent(r.admin, "billing")
		p := r.ask(r.admin, "POST", "/api/policies",
			`{"name":"no injections","phase":"request","on":"billing","condition":{"type":"injection_score","threshold":0.8},"action":"block","enabled":false}`).want(201).data()
		p.has(t, policyFields...).is(t, "name", "no injections", "phase", "request", "on", "billing", "action", "block", "enabled", false, "fireCount", 0)
		toObject(t, p["condition"]).has(t, "type", "threshold").is(t, "type", "injection_score", "threshold", 0.8)
		p.moment(t, "createdAt")
		p.moment(t, "updatedAt")
	})
	t.Run("POST /api/policies: defaults", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().is(t, "on", "*", "enabled", true, "fireCount", 0)
	})
	t.Run("POST /api/policies: required are name, phase, condition, action", func(t *testing.T) {
		r := newRig(t)
		a := r.ask(r.admin, "POST", "/api/policies", `{}`)
		for _, f := range []string{"name", "phase", "condition", "action"} {
			a.wantDetail(f)
		}
	})
	t.Run("POST /api/policies: redactionStrategy is needed when action is redact", func(t *testing.T) {
		r := newRig(t)
		body := `{"name":"x","phase":"response","condition":{"type":"pii_detected","entities":["EMAIL"]},"action":"redact"%s}`
		r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, "")).wantDetail("redactionStrategy")
		r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, `,"redactionStrategy":"blur"`)).wantDetail("redactionStrategy")
		p := r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, `,"redactionStrategy":"mask"`)).want(201).data()
		p.has(t, append(slices.Clone(enforcedFields), "redactionStrategy")...).is(t, "redactionStrategy", "mask")
		toObject(t, p["condition"]).has(t, "type", "entities").is(t, "entities", "[EMAIL]")
		for i, s := range []string{"remove", "hash", "replace", "token"} {
			r.ask(r.admin, "POST", "/api/policies", strings.Replace(fmt.Sprintf(body, `,"redactionStrategy":"`+s+`"`), `"x"`, fmt.Sprintf(`"x%d"`, i), 1)).want(201)
		}
	})
	t.Run("redactionStrategy token is for responses", func(t *testing.T) {
		r := newRig(t)
		body := `{"name":"x","phase":%q,"condition":{"type":"pii_detected"},"action":"redact","redactionStrategy":"token"}`
		r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, "request")).wantDetail("redactionStrategy")
		path := "/api/policies/" + r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(body, "response")).want(201).data()["id"].(string)
		r.ask(r.admin, "PUT", path, `{"phase":"request"}`).wantDetail("redactionStrategy")
		r.ask(r.admin, "PUT", path, `{"phase":"request","redactionStrategy":"mask"}`).want(200)
		r.ask(r.admin, "PUT", path, `{"redactionStrategy":"token"}`).wantDetail("redactionStrategy")
	})
	t.Run("the template for personal data changes no requests", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/policies/templates/apply", `{"template":"pii-protection"}`).want(201)
		all := r.ask(r.admin, "GET", "/api/policies", "").want(200).object()["data"].([]any)
		p := toObject(t, all[0])
		p.is(t, "phase", "response", "redactionStrategy", "token")
		toObject(t, p["condition"]).is(t, "entities", "[EMAIL PHONE CREDIT_CARD IBAN SSN NHS_NUMBER NIF CPF]")
		if len(all) != 1 {
			t.Errorf("%d policies", len(all))
		}
	})
	t.Run("the message of a policy", func(t *testing.T) {
		r := newRig(t)
		p := r.ask(r.admin, "POST", "/api/policies", policyBody("x", `,"message":"Ask an operator.\n"`)).want(201).data()
		p.is(t, "message", "Ask an operator.\n")
		path := "/api/policies/" + p["id"].(string)
		r.ask(r.admin, "PUT", path, `{"message":"a\u001b"}`).wantDetail("message")
		r.ask(r.admin, "PUT", path, `{"name":"y"}`).want(200).data().is(t, "message", "Ask an operator.\n")
		if body := string(r.ask(r.admin, "GET", "/api/governance", "").want(200).raw); !strings.Contains(body, `"message":"Ask an operator.\n"`) {
			t.Errorf("gateways get %s", body)
		}
		r.ask(r.admin, "PUT", path, `{"message":""}`).want(200)
		if p := r.ask(r.admin, "GET", path, "").want(200).data(); p["message"] != nil {
			t.Errorf("the message that was taken away is %v", p["message"])
		}
	})
	t.Run("POST /api/policies: the name is unique", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201)
		if got := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(400).detail("name"); got != "already exists" {
			t.Errorf("details.name is %q", got)
		}
	})
	t.Run("GET /api/policies", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/policies", policyBody("a", "")).want(201)
		r.ask(r.admin, "POST", "/api/policies", policyBody("b", `,"enabled":false`)).want(201)
		r.ask(r.admin, "POST", "/api/policies", strings.Replace(policyBody("c", ""), "request", "response", 1)).want(201)
		a := r.ask(r.admin, "GET", "/api/policies", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 3, "limit", 50, "offset", 0)
		a.list()[0].has(t, enforcedFields...).is(t, "name", "c")
		for query, want := range map[string]string{
			"?phase=request": "b a", "?phase=response": "c", "?enabled=true": "c a", "?enabled=false": "b",
			"?phase=request&enabled=true": "a", "?limit=1&offset=1": "b",
		} {
			var names []string
			for _, p := range r.ask(r.admin, "GET", "/api/policies"+query, "").want(200).list() {
				names = append(names, p["name"].(string))
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s gives %q, want %q", query, got, want)
			}
		}
		r.ask(r.admin, "GET", "/api/policies?phase=both", "").wantDetail("phase")
		r.ask(r.admin, "GET", "/api/policies?enabled=1", "").wantDetail("enabled")
	})
	t.Run("GET /api/policies/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
		r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200).data().has(t, enforcedFields...).is(t, "id", id)
		r.ask(r.admin, "GET", "/api/policies/pol_unknown", "").want(404)
	})
	t.Run("PUT /api/policies/:id: any subset, same shape as the create response", func(t *testing.T) {
		r := newRig(t)
		r.agent(r.admin, "billing")
		id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
		r.clock.advance(time.Minute)
		for _, tc := range []struct {
			body string
			want []any
		}{
			{`{}`, []any{"name", "x"}},
			{`{"name":"y"}`, []any{"name", "y", "phase", "request"}},
			{`{"phase":"response"}`, []any{"name", "y", "phase", "response"}},
			{`{"on":"billing"}`, []any{"on", "billing"}},
			{`{"condition":{"type":"tool_name","toolName":"delete_*"}}`, []any{"condition", "map[toolName:delete_* type:tool_name]"}},
			{`{"action":"block"}`, []any{"action", "block", "name", "y", "on", "billing"}},
		} {
			r.ask(r.admin, "PUT", "/api/policies/"+id, tc.body).want(200).data().has(t, enforcedFields...).is(t, tc.want...)
		}
		r.ask(r.admin, "PUT", "/api/policies/pol_unknown", `{}`).want(404)
	})
	t.Run("PUT /api/policies/:id: what comes out must be a policy", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/policies", policyBody("taken", "")).want(201)
		id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
		for body, field := range map[string]string{
			`{"name":"taken"}`:                         "name",
			`{"name":""}`:                              "name",
			`{"phase":"later"}`:                        "phase",
			`{"action":"redact"}`:                      "redactionStrategy", // none fires there yet
			`{"condition":{"type":"injection_score"}}`: "condition.threshold",
			`{"enabled":"no"}`:                         "enabled",
			`{"fireCount":5}`:                          "fireCount",
			`{"id":"pol_other"}`:                       "id",
		} {
			r.ask(r.admin, "PUT", "/api/policies/"+id, body).wantDetail(field)
		}
		r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200).data().is(t, "name", "x", "action", "warn")
	})
	t.Run("DELETE /api/policies/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
		r.ask(r.admin, "DELETE", "/api/policies/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		r.ask(r.admin, "DELETE", "/api/policies/"+id, "").want(404)
		r.ask(r.admin, "GET", "/api/policies/"+id, "").want(404)
	})
}

// TestPolicyTransitions tests the two rows about policies in the table "States and
// transitions".
func TestPolicyTransitions(t *testing.T) {
	r := newRig(t)
	id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().is(t, "enabled", true).id(t)
	for _, enabled := range []bool{false, false, true, true} {
		r.ask(r.admin, "PUT", "/api/policies/"+id, fmt.Sprintf(`{"enabled":%v}`, enabled)).want(200).data().is(t, "enabled", enabled)
		r.ask(r.admin, "GET", fmt.Sprintf("/api/policies?enabled=%v", enabled), "").want(200).object().is(t, "total", 1)
	}
}

// TestPolicyConditions: each condition type has its own fields and no others; unknown
// types are 400.
func TestPolicyConditions(t *testing.T) {
	r := newRig(t)
	for i, tc := range []struct{ condition, wrong string }{
		{`{"type":"injection_score","threshold":0}`, ""},
		{`{"type":"injection_score","threshold":1}`, ""},
		{`{"type":"injection_score","threshold":1.1}`, "condition.threshold"},
		{`{"type":"injection_score","threshold":-0.1}`, "condition.threshold"},
		{`{"type":"injection_score"}`, "condition.threshold"},
		{`{"type":"injection_score","threshold":"0.5"}`, "condition.threshold"},
		{`{"type":"injection_score","threshold":0.5,"entities":["EMAIL"]}`, "condition.entities"},
		{`{"type":"pii_detected","entities":["EMAIL","PHONE"]}`, ""},
		{`{"type":"pii_detected","entities":[]}`, ""},
		{`{"type":"pii_detected"}`, ""},
		{`{"type":"pii_detected","entities":"EMAIL"}`, "condition.entities"},
		{`{"type":"pii_detected","entities":[1]}`, "condition.entities[0]"},
		{`{"type":"pii_detected","threshold":0.5}`, "condition.threshold"},
		{`{"type":"tool_name","toolName":"delete_*"}`, ""},
		{`{"type":"tool_name"}`, "condition.toolName"},
		{`{"type":"tool_arguments","toolName":"read*","arguments":{"/path":{"path_within":"/srv/data"},"/to/*":{"host_in":["*.x.io"],"match":"all"}}}`, ""},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"equals":null},"/b":{"one_of":[null,1e3,"x"]},"":{"not":{"equals":null}}}}`, ""},
		{`{"type":"tool_arguments","toolName":"t"}`, "condition.arguments"},
		{`{"type":"tool_arguments","arguments":{"/a":{"equals":1}}}`, "condition.toolName"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{}}`, "condition.arguments"},
		{`{"type":"tool_arguments","toolName":"t","arguments":null}`, "condition.arguments"},
		{`{"type":"tool_arguments","toolName":"t","arguments":[]}`, "condition.arguments"},
		{`{"type":"tool_arguments","toolName":"t","arguments":"x"}`, "condition.arguments"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"path":{"equals":1}}}`, "condition.arguments.path"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a/-":{"equals":1}}}`, "condition.arguments./a/-"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a~2":{"equals":1}}}`, "condition.arguments./a~2"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{}}}`, "condition.arguments./a"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":null}}`, "condition.arguments./a"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"not":null}}}`, "condition.arguments./a.not"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"Equals":1}}}`, "condition.arguments./a.Equals"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"equals":1,"equals":2}}}`, "condition.arguments./a.equals"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"regex":"("}}}`, "condition.arguments./a.regex"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"regex":"(?:[a-z]{100}){10}{60}"}}}`, "condition.arguments./a.regex"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"regex":"` + strings.Repeat("(?:abcdefgh){999}", 100) + `"}}}`, "condition.arguments./a.regex"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"max_length":"9"}}}`, "condition.arguments./a.max_length"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"min":"9"}}}`, "condition.arguments./a.min"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"not":{"path_within":"srv"}}}}`, "condition.arguments./a.not.path_within"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"not":{"match":"all","equals":1}}}}`, "condition.arguments./a.not.match"},
		{`{"type":"tool_arguments","toolName":"t","arguments":{"/a":{"one_of":[` + strings.Repeat("1,", 9000) + `1]}}}`, "condition.arguments"},
		{`{"type":"tool_name","toolName":"t","arguments":{"/a":{"equals":1}}}`, "condition.arguments"},
		{`{"type":"data_flow","labelsAll":["untrusted","private"],"labelsAny":["x-1_y"],"toolName":"send_*"}`, ""},
		{`{"type":"data_flow","labelsAny":["untrusted"]}`, ""},
		{`{"type":"data_flow"}`, "condition.labelsAny"},
		{`{"type":"data_flow","labelsAll":[],"labelsAny":[]}`, "condition.labelsAny"},
		{`{"type":"data_flow","labelsAll":["Private"]}`, "condition.labelsAll[0]"},
		{`{"type":"data_flow","labelsAny":["a","` + strings.Repeat("b", 33) + `"]}`, "condition.labelsAny[1]"},
		{`{"type":"data_flow","labelsAny":"private"}`, "condition.labelsAny"},
		{`{"type":"data_flow","labelsAny":["a"],"entities":["EMAIL"]}`, "condition.entities"},
		{`{"type":"tool_name","toolName":"t","labelsAny":["a"]}`, "condition.labelsAny"},
		{`{"type":"always","labelsAll":["a"]}`, "condition.labelsAll"},
		{`{"type":"budget_exceeded"}`, ""},
		{`{"type":"always"}`, ""},
		{`{"type":"always","threshold":1}`, "condition.threshold"},
		{`{"type":"never"}`, "condition.type"},
		{`{}`, "condition.type"},
		{`{"type":"always","more":1}`, "condition.more"},
		{`[]`, "condition"},
		{`null`, "condition"},
	} {
		a := r.ask(r.admin, "POST", "/api/policies", fmt.Sprintf(`{"name":"p%d","phase":"request","action":"warn","condition":%s}`, i, tc.condition))
		if tc.wrong == "" {
			a.want(201)
		} else {
			a.wantDetail(tc.wrong)
		}
	}
	a := r.ask(r.admin, "POST", "/api/policies", `{"name":"any","phase":"request","action":"warn","condition":{"type":"pii_detected"}}`).want(201).data()
	toObject(t, a["condition"]).has(t, "type", "entities").is(t, "entities", "[]") // empty = any
}

// TestConditionsOnLabels: labels are returned unchanged, are in the governance bundle, and are for
// requests alone.
func TestConditionsOnLabels(t *testing.T) {
	r := newRig(t)
	const labels = `"labelsAll":["private","untrusted"],"labelsAny":["x"]`
	id := r.ask(r.admin, "POST", "/api/policies", `{"name":"x","phase":"request","action":"block","condition":{"type":"data_flow","toolName":"send",`+labels+`}}`).want(201).data().id(t)
	got := r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200)
	if !strings.Contains(string(got.raw), labels) {
		t.Errorf("read back: %s", got.raw)
	}
	r.ask(r.admin, "PUT", "/api/policies/"+id, string(got.raw[len(`{"data":`):len(got.raw)-1])).want(200)
	r.ask(r.admin, "PUT", "/api/policies/"+id, `{"phase":"response"}`).wantDetail("phase")
	if b := r.ask(r.admin, "GET", "/api/governance", "").want(200); !strings.Contains(string(b.raw), labels) {
		t.Errorf("bundle: %s", b.raw)
	}
}

// TestConditionsOnArguments: conditions are returned unchanged, are in the governance
// bundle, and are accepted by PUT; the other phase is rejected.
func TestConditionsOnArguments(t *testing.T) {
	r := newRig(t)
	const arguments = `{"/amount":{"min":1.50,"not":{"equals":null}}}`
	body := `{"name":"x","phase":"request","action":"block","condition":{"type":"tool_arguments","toolName":"pay","arguments": ` + strings.ReplaceAll(arguments, ":", " : ") + `}}`
	id := r.ask(r.admin, "POST", "/api/policies", body).want(201).data().id(t)
	got := r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200)
	if !strings.Contains(string(got.raw), `"arguments":`+arguments) {
		t.Errorf("read back: %s", got.raw)
	}
	echo := got.raw[len(`{"data":`) : len(got.raw)-1]
	r.ask(r.admin, "PUT", "/api/policies/"+id, string(echo)).want(200)
	r.ask(r.admin, "PUT", "/api/policies/"+id, `{"phase":"response"}`).wantDetail("phase")
	r.ask(r.admin, "PUT", "/api/policies/"+id, `{"condition":{"type":"tool_arguments","toolName":"pay"}}`).wantDetail("condition.arguments")
	if b := r.ask(r.admin, "GET", "/api/governance", "").want(200); !strings.Contains(string(b.raw), `"arguments":`+arguments) {
		t.Errorf("bundle: %s", b.raw)
	}
}

// TestFireCount: fireCount is the number of traces in which a policy fired.
func TestFireCount(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "billing")
	id := r.ask(r.admin, "POST", "/api/policies", policyBody("x", "")).want(201).data().id(t)
	for i := range 3 {
		r.traces(store.Trace{ID: fmt.Sprint(i), AgentID: agent, Status: store.TraceSuccess, CreatedAt: epoch,
			PoliciesFired: []store.PolicyFired{{ID: id, Name: "x", Action: "warn"}}})
	}
	r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200).data().is(t, "fireCount", 3)
	r.ask(r.admin, "GET", "/api/policies", "").want(200).list()[0].is(t, "fireCount", 3)
}

// TestTemplateRows tests GET /api/policies/templates and POST
// /api/policies/templates/apply.
func TestTemplateRows(t *testing.T) {
	apply := func(r *rig, body string) *reply { return r.ask(r.admin, "POST", "/api/policies/templates/apply", body) }
	t.Run("GET /api/policies/templates has data only", func(t *testing.T) {
		r := newRig(t)
		a := r.ask(r.admin, "GET", "/api/policies/templates", "").want(200)
		a.object().has(t, "data")
		found := map[string]bool{}
		for _, tmpl := range a.list() {
			tmpl.has(t, "id", "name", "description", "policyCount")
			found[tmpl.id(t)] = true
		}
		for _, id := range []string{"pii-protection", "prompt-injection-defense", "secrets-leak-prevention", "cost-guard", "observe-only"} {
			if !found[id] {
				t.Errorf("no template %s", id)
			}
		}
	})
	t.Run("every template can be applied, and makes as many policies as it says", func(t *testing.T) {
		r := newRig(t)
		total := 0
		for _, tmpl := range r.ask(r.admin, "GET", "/api/policies/templates", "").want(200).list() {
			n := int(tmpl["policyCount"].(float64))
			o := apply(r, fmt.Sprintf(`{"template":%q}`, tmpl.id(t))).want(201).object()
			o.has(t, "created", "policies").is(t, "created", n) // top level
			for _, p := range o["policies"].([]any) {
				id := toObject(t, p).has(t, "id", "name").id(t)
				r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200).data().is(t, "on", "*", "enabled", true)
			}
			total += n
		}
		r.ask(r.admin, "GET", "/api/policies", "").want(200).object().is(t, "total", total)
	})
	t.Run("agentName and enabled", func(t *testing.T) {
		r := newRig(t)
		o := apply(r, `{"template":"cost-guard","agentName":"billing","enabled":false}`).want(201).object()
		id := toObject(t, o["policies"].([]any)[0]).id(t)
		r.ask(r.admin, "GET", "/api/policies/"+id, "").want(200).data().is(t, "on", "billing", "enabled", false)
	})
	t.Run("twice for the same agent is a 400 that names the clash, and makes nothing", func(t *testing.T) {
		r := newRig(t)
		apply(r, `{"template":"pii-protection"}`).want(201)
		a := apply(r, `{"template":"pii-protection"}`).wantDetail("template")
		if msg := a.object()["error"].(string); !strings.Contains(msg, "pii-protection") {
			t.Errorf("error %q does not name the clash", msg)
		}
		apply(r, `{"template":"pii-protection","agentName":"*"}`).want(400)
		apply(r, `{"template":"pii-protection","agentName":"billing"}`).want(201) // another agent
		r.ask(r.admin, "GET", "/api/policies", "").want(200).object().is(t, "total", 2)
	})
	t.Run("bad values", func(t *testing.T) {
		r := newRig(t)
		apply(r, `{}`).wantDetail("template")
		apply(r, `{"template":"unknown"}`).wantDetail("template")
		apply(r, `{"template":"cost-guard","enabled":1}`).wantDetail("enabled")
		apply(r, fmt.Sprintf(`{"template":"cost-guard","agentName":%q}`, strings.Repeat("x", 190))).wantDetail("agentName")
		r.ask(r.admin, "GET", "/api/policies", "").want(200).object().is(t, "total", 0)
	})
}

// TestTemplatesAreValid: each policy of a template would be accepted by POST
// /api/policies.
func TestTemplatesAreValid(t *testing.T) {
	seen := map[string]bool{}
	for _, tmpl := range templates {
		if seen[tmpl.id] || !api.ValidID(tmpl.id) || tmpl.name == "" || tmpl.description == "" || len(tmpl.policies) == 0 {
			t.Errorf("template %q", tmpl.id)
		}
		seen[tmpl.id] = true
		for _, p := range tmpl.policies {
			p.On = "*"
			if err := checkPolicy(store.Policy{Name: p.Name, Phase: p.Phase, On: p.On, Condition: p.Condition, Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message}); err != nil {
				t.Errorf("%s: %s: %v", tmpl.id, p.Name, err)
			}
		}
	}
}

// TestPoliciesThatCanMatchNothing: such policies are created, and the response warns
// about the likely mistake with the most similar name.
func TestPoliciesThatCanMatchNothing(t *testing.T) {
	r := newRig(t)
	id := r.agent(r.admin, "support-bot")
	r.traces(store.Trace{ID: "t1", AgentID: id, Status: store.TraceSuccess, CreatedAt: epoch, ToolName: "send_mail"})
	n := 0
	create := func(on, condition string) *reply {
		t.Helper()
		n++
		return r.ask(r.admin, "POST", "/api/policies",
			fmt.Sprintf(`{"name":"p%d","phase":"request","on":%q,"condition":%s,"action":"warn"}`, n, on, condition)).want(201)
	}
	const always = `{"type":"always"}`
	for _, row := range []struct{ on, condition, want string }{
		{"*", always, ""},
		{"support-bot", always, ""},
		{"suport-bot", always, `on: no agent is called "suport-bot"; did you mean "support-bot"?`},
		{"quite another", always, `on: no agent is called "quite another"`},
		{"support*", always, `on: "support*" is compared as a name, not as a pattern, and no agent has it; "*" means all agents`},
		{"*", `{"type":"pii_detected","entities":["SSN","email","IPV4"]}`, ""},
		{"*", `{"type":"pii_detected","entities":["SSNN"]}`, `condition.entities: no detector finds "SSNN"; did you mean "SSN"?`},
		{"*", `{"type":"tool_name","toolName":"send_mail"}`, ""},
		{"*", `{"type":"tool_name","toolName":"send_*"}`, ""},
		{"*", `{"type":"tool_name","toolName":"sendmail"}`, `condition.toolName: no trace has named the tool "sendmail"; did you mean "send_mail"?`},
	} {
		o := create(row.on, row.condition).object()
		got := ""
		if list, ok := o["warnings"].([]any); ok {
			got = fmt.Sprint(list...)
		}
		if got != row.want {
			t.Errorf("on %q, %s: warnings %q, want %q", row.on, row.condition, got, row.want)
		}
	}
	p := create("support-bot", always).data().id(t)
	r.ask(r.admin, "PUT", "/api/policies/"+p, `{"on":"support-bott"}`).want(200).object().is(t, "warnings", `[on: no agent is called "support-bott"; did you mean "support-bot"?]`)
	r.ask(r.admin, "PUT", "/api/agents/"+id, `{"name":"helper"}`).want(200)
	lacks(t, create("support-bot", always).object(), "warnings") // a former name means the agent
	applied := r.ask(r.admin, "POST", "/api/policies/templates/apply", `{"template":"pii-protection","agentName":"helpr"}`).want(201).object()
	applied.is(t, "warnings", `[on: no agent is called "helpr"; did you mean "helper"?]`)
}
