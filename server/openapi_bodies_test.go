package server

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc/store/api"
)

// bodyRoute is an endpoint with a request body in the document.
type bodyRoute struct {
	method, path string
	at           string // pointer to the schema
	schema       map[string]any
}

// bodyRoutes lists the endpoints with a JSON body that is defined by this API. OTLP
// and identity events are defined by others, who may add members, and gateways of later versions may add some to
// their reports.
func bodyRoutes(doc map[string]any) []bodyRoute {
	var out []bodyRoute
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			o, _ := op.(map[string]any)
			body, ok := o["requestBody"].(map[string]any)
			if !ok || path == "/api/otlp/v1/traces" || path == "/api/auth/webhook" || path == "/api/gateways/{name}" {
				continue
			}
			schema := body["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
			at := "served.json#/paths/" + escape(path) + "/" + method + "/requestBody/content/application~1json/schema"
			out = append(out, bodyRoute{strings.ToUpper(method), path, at, schema})
		}
	}
	slices.SortFunc(out, func(a, b bodyRoute) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return out
}

// bodyRig is a control plane with one of every resource that bodies refer to.
type bodyRig struct {
	*rig
	gen  *samples
	ids  map[string]string // values of {id}, by documented path
	sign checkpointKey
	n    int

	gateway string // a key of scope ingest
}

// keyFor returns the key that an endpoint is called with.
func (b *bodyRig) keyFor(rt bodyRoute) string {
	if strings.HasPrefix(rt.path, "/api/approvals") && rt.path != "/api/approvals/{id}/decision" {
		return b.gateway
	}
	return b.admin
}

// approval makes the approval that a body is for.
func (b *bodyRig) approval(rt bodyRoute, fresh string, body map[string]any) {
	path := "/api/approvals/" + b.ask(b.gateway, "POST", "/api/approvals", approvalBody("key:"+fresh, b.n)).want(201).data().id(b.t)
	b.ids[rt.path] = strings.TrimPrefix(path, "/api/approvals/")
	if body["decision"] == nil || body["decision"] == "revoke" {
		b.ask(b.admin, "POST", path+"/decision", `{"decision":"grant"}`).want(200)
	}
	if body["digest"] != nil {
		body["digest"] = fmt.Sprintf("%064x", b.n)
	}
	if body["version"] != nil {
		body["version"] = 1 // that of the approval
	}
	if strings.HasSuffix(rt.path, "/release") {
		b.ask(b.gateway, "POST", path+"/claim", text(b.t, body)).want(200)
	}
}

// finishApproval makes the approval of a policy valid, or removes it where a policy cannot have one.
func finishApproval(policy map[string]any) {
	approval, ok := policy["approval"].(map[string]any)
	if !ok {
		return
	}
	if action, ok := policy["action"]; ok && action != "block" || policy["phase"] == "response" || !ok {
		delete(policy, "approval")
		return
	}
	approval = maps.Clone(approval)
	for _, name := range []string{"validFor", "expires"} {
		if _, ok := approval[name]; ok {
			approval[name] = "1h"
		}
	}
	policy["approval"] = approval
}

// finishBudget gives a budget the member of its scope, and no member of another one.
func finishBudget(budget map[string]any, members map[string][2]string) {
	scope, _ := budget["scope"].(string)
	if scope == "" {
		scope = "agent"
	}
	for of, member := range members {
		if of == scope {
			budget[member[0]] = member[1]
		} else {
			delete(budget, member[0])
		}
	}
}

func newBodyRig(t *testing.T, doc map[string]any) *bodyRig {
	r := newRig(t)
	agent, team := r.agent(r.admin, "one"), r.team(r.admin, "one", "agents:read")
	r.webhook("user.created", epoch, "usr_one", "one@example.com", "org_one").want(200)
	budget := r.ask(r.admin, "POST", "/api/costs/budgets", `{"name":"b","agentId":"`+agent+`","period":"daily","limitUsd":1}`).want(201).object().id(t)
	sla := r.ask(r.admin, "POST", "/api/costs/sla", `{"name":"s","agentId":"`+agent+`","errorRatePercent":1,"evaluationPeriod":"24h"}`).want(201).object().id(t)
	policy := r.ask(r.admin, "POST", "/api/policies", policyBody("p", "")).want(201).data().id(t)
	hook := r.hook(r.admin, "hook")
	b := &bodyRig{rig: r, sign: newCheckpointKey(t)}
	b.gateway, _ = r.key(r.admin, "ingest")
	b.gen = &samples{t: t, doc: doc, meet: map[string]any{
		"arguments":   map[string]any{"/a": map[string]any{"absent": true}},
		"inputTokens": 1_000_000_000, // includes the cached tokens
		"agentId":     agent, "agentName": "one", "teamId": team, "userId": "usr_one", "email": "one@example.com",
		"url": "https://hooks.example/x", "deliveryId": r.endedDelivery(hook), "format": "json", "failingSince": epoch.UTC().Format(time.RFC3339),
		"template": "pii-protection", "on": "one", "name": "named by finish", "id": "named_by_finish",
		"digest": strings.Repeat("d", 64), "nonce": strings.Repeat("e", 32), "keyTag": "00c0ffee", "tag": "00000001", "policyId": "pol_x", "restored": "EMAIL",
		"hash": strings.Repeat("a", 64), "publicKey": b.sign.public, "signature": strings.Repeat("s", 88),
	}}
	b.ids = map[string]string{
		"/api/teams/{id}": team, "/api/teams/{id}/scopes": team, "/api/teams/{id}/members": team, "/api/agents/{id}": agent,
		"/api/approvals/{id}/claim": "apr_x", "/api/approvals/{id}/release": "apr_x", "/api/approvals/{id}/decision": "apr_x",
		"/api/costs/budgets/{id}": budget, "/api/costs/sla/{id}": sla, "/api/policies/{id}": policy,
		"/api/webhooks/{id}": hook, "/api/webhooks/{id}/redeliver": hook,
	}
	return b
}

// finishDocuments gives documents unused names and an existing agent, and adds the
// members of the body that depend on each other.
func finishDocuments(fresh string, body map[string]any) {
	documents, _ := body["documents"].([]any)
	documents = slices.Clone(documents)
	for i := range documents {
		document := maps.Clone(documents[i].(map[string]any))
		document["name"] = fmt.Sprint(fresh, "-", i)
		if spec, ok := document["spec"].(map[string]any); ok {
			spec = maps.Clone(spec)
			finishApproval(spec)
			if _, ok := spec["agent"]; ok {
				spec["agent"] = "one"
			}
			if _, ok := spec["team"]; ok {
				spec["team"] = "one"
			}
			if document["kind"] == "Budget" {
				finishBudget(spec, map[string][2]string{"agent": {"agent", "one"}, "environment": {"environment", "production"}, "team": {"team", "one"}})
			}
			if names, ok := spec["formerNames"].([]any); ok && len(names) > 0 {
				spec["formerNames"] = []any{fmt.Sprint(fresh, "-was-", i)}
			}
			document["spec"] = spec
		}
		documents[i] = document
	}
	if documents != nil {
		body["documents"] = documents
	}
	if _, ok := body["pruneLimit"].(float64); ok {
		body["prune"] = true
	}
	if body["prune"] == true || body["adopt"] == true || body["set"] != nil {
		body["set"] = fresh
	}
}

func (b *bodyRig) url(rt bodyRoute) string {
	return strings.Replace(rt.path, "{id}", b.ids[rt.path], 1)
}

// finish sets the values of a body that depend on the request: an unused name or id, a
// signature, the member of the team.
func (b *bodyRig) finish(rt bodyRoute, body map[string]any) map[string]any {
	b.n++
	body = maps.Clone(body)
	fresh := "n" + strconv.Itoa(b.n)
	for _, name := range []string{"name", "id"} {
		if _, ok := body[name]; ok {
			body[name] = fresh
		}
	}
	if e, ok := echoes[rt.path]; ok && rt.method == "PUT" {
		now := b.ask(b.admin, "GET", b.url(rt), "").want(200).data()
		for _, name := range slices.Concat(e.fixed, e.counted) { // unchanged
			if _, ok := body[name]; ok {
				body[name] = now[name]
			}
		}
	}
	for one, other := range map[string]string{"p99LatencyMs": "errorRatePercent", "errorRatePercent": "p99LatencyMs"} {
		if given, ok := body[one]; ok && given == nil { // a target needs one of them
			body[other] = 5
		}
	}
	if rt.path == "/api/teams/{id}/members" {
		for name, value := range map[string]string{"userId": fresh, "email": fresh + "@example.com"} {
			if _, ok := body[name]; ok {
				body[name] = value
			}
		}
		if rt.method == "DELETE" {
			b.ask(b.admin, "POST", b.url(rt), `{"userId":"`+fresh+`"}`).want(201)
		}
	}
	if strings.HasPrefix(rt.path, "/api/policies") {
		finishApproval(body)
		if _, ok := body["approval"]; !ok && rt.method == "PUT" {
			body["approval"] = nil // of an earlier body
		}
	}
	switch rt.path {
	case "/api/costs/budgets", "/api/costs/budgets/{id}":
		if _, ok := body["scope"]; !ok && rt.method == "PUT" {
			body["scope"] = "agent" // an earlier body changed it
		}
		finishBudget(body, map[string][2]string{"agent": {"agentId", b.gen.meet["agentId"].(string)}, "environment": {"environment", "production"}, "team": {"teamId", b.gen.meet["teamId"].(string)}})
	case "/api/approvals/{id}/claim", "/api/approvals/{id}/release", "/api/approvals/{id}/decision":
		b.approval(rt, fresh, body)
	case "/api/apply":
		for _, hook := range b.ask(b.admin, "GET", "/api/webhooks", "").want(200).list() { // a tenant may have few
			b.ask(b.admin, "DELETE", "/api/webhooks/"+hook.id(b.t), "").want(200)
		}
		finishDocuments(fresh, body)
	case "/api/policies/templates/apply": // a template is applied once per agent
		for _, policy := range b.ask(b.admin, "GET", "/api/policies?limit=500", "").want(200).list() {
			b.ask(b.admin, "DELETE", "/api/policies/"+policy.id(b.t), "").want(200)
		}
	case "/api/audit/heads/accept":
		b.ask(b.admin, "POST", "/api/audit/heads", b.sign.body(b.t, body["gateway"].(string), 1)).want(201)
	}
	if _, ok := body["signature"]; ok {
		oldest, _ := body["oldestLine"].(float64)
		body["signature"] = b.sign.signature(api.AuditHeadReport{
			Gateway: body["gateway"].(string), Trail: body["trail"].(string), Seq: int64(body["seq"].(float64)), Hash: body["hash"].(string), OldestLine: int64(oldest)})
	}
	return body
}

// bodies yields each sample of an endpoint's body once, ready to be sent.
func (b *bodyRig) bodies(rt bodyRoute) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		seen := map[string]bool{}
		for _, v := range b.gen.of(rt.schema, "body") {
			same := text(b.t, v)
			if seen[same] {
				continue
			}
			seen[same] = true
			if !yield(b.finish(rt, v.(map[string]any))) {
				return
			}
		}
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func fits(t testing.TB, s *jsonschema.Schema, body string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// Every body that the served document allows is accepted. A member that the document
// does not name is rejected by the document and by the server, in every object of a
// body.
func TestServedSchemasAndServerAcceptTheSameMembers(t *testing.T) {
	doc, compiler := servedDocument(t)
	all := bodyRoutes(doc)
	if len(all) < 18 {
		t.Fatalf("only %d request bodies in the document", len(all))
	}
	for _, rt := range all {
		t.Run(rt.method+" "+rt.path, func(t *testing.T) {
			schema, err := compiler.Compile(rt.at)
			if err != nil {
				t.Fatal(err)
			}
			b := newBodyRig(t, doc)
			accepted, refused := 0, 0
			for body := range b.bodies(rt) {
				sent := text(t, body)
				if err := fits(t, schema, sent); err != nil {
					t.Errorf("a sample does not fit its schema: %v\n%s", err, sent)
				}
				if a := b.ask(b.keyFor(rt), rt.method, b.url(rt), sent); a.status >= 300 {
					t.Errorf("the document allows %s, the server answers %d: %s", sent, a.status, a.raw)
				}
				accepted++
				for at, more := range withMember(body, "", "unnamed", true) {
					b.refuse(t, rt, schema, text(t, more), at)
					refused++
				}
			}
			if accepted == 0 || refused < accepted {
				t.Errorf("%d samples, %d with one more member", accepted, refused)
			}
		})
	}
}

// refuse fails the test unless the schema and the server reject a body, the server
// with a detail about the member at.
func (b *bodyRig) refuse(t *testing.T, rt bodyRoute, schema *jsonschema.Schema, body, at string) {
	t.Helper()
	if fits(t, schema, body) == nil {
		t.Errorf("the document allows %s in %s", at, body)
	}
	if a := b.ask(b.keyFor(rt), rt.method, b.url(rt), body); a.status != 400 || at != "" && a.detail(at) == "" {
		t.Errorf("with %s the server answers %d: %s\n%s", at, a.status, a.raw, body)
	}
}

// A member of another form of a body is rejected by the document and by the server.
func TestMembersOfOtherFormsAreRefused(t *testing.T) {
	doc, compiler := servedDocument(t)
	forms := 0
	for _, rt := range bodyRoutes(doc) {
		schema, err := compiler.Compile(rt.at)
		if err != nil {
			t.Fatal(err)
		}
		b := newBodyRig(t, doc)
		for body := range b.bodies(rt) {
			for _, mixed := range b.mixed(rt.schema, body) {
				b.refuse(t, rt, schema, text(t, mixed), "")
				forms++
			}
		}
	}
	if forms < 30 {
		t.Errorf("only %d bodies of two forms", forms)
	}
}

// mixed returns copies of a value of a schema, each with a member that belongs to
// another form of the same object.
func (b *bodyRig) mixed(schema map[string]any, v map[string]any) []map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return b.mixed(b.gen.resolve(ref), v)
	}
	var out []map[string]any
	properties, closed := schema["properties"].(map[string]any)
	for name, p := range properties {
		inner, ok := v[name].(map[string]any)
		if !ok {
			continue
		}
		for _, changed := range b.mixed(p.(map[string]any), inner) {
			one := maps.Clone(v)
			one[name] = changed
			out = append(out, one)
		}
	}
	if closed {
		return out
	}
	others, own := map[string]map[string]any{}, map[string]bool{}
	for _, form := range branchesOf(schema) {
		f := form.(map[string]any)
		if ref, ok := f["$ref"].(string); ok {
			f = b.gen.resolve(ref)
		}
		members, ok := f["properties"].(map[string]any)
		if !ok { // null
			continue
		}
		mine := !slices.ContainsFunc(slices.Collect(maps.Keys(v)), func(name string) bool { return members[name] == nil }) && b.sameForm(members, v)
		for name, p := range members {
			if mine {
				own[name] = true
			}
			others[name] = p.(map[string]any)
		}
	}
	for name, p := range others {
		if !own[name] {
			one := maps.Clone(v)
			one[name] = b.gen.of(p, name)[0]
			out = append(out, one)
		}
	}
	return out
}

// sameForm reports whether a value has the constant members of a form.
func (b *bodyRig) sameForm(members, v map[string]any) bool {
	for name, p := range members {
		if c, ok := p.(map[string]any)["const"]; ok && v[name] != c {
			return false
		}
		if list, ok := p.(map[string]any)["enum"].([]any); ok && v[name] != nil && !slices.Contains(list, v[name]) {
			return false
		}
	}
	return true
}

// Responses may get members in later releases: no object in a response is closed
// (additionalProperties: false), and every object in a request body is.
func TestRequestsAreClosedAndAnswersOpen(t *testing.T) {
	doc, _ := servedDocument(t)
	gen := &samples{t: t, doc: doc}
	for _, rt := range bodyRoutes(doc) {
		gen.walk(rt.schema, map[string]bool{}, func(at string, s map[string]any) {
			if s["additionalProperties"] != false && s["propertyNames"] == nil { // a map defines which names it has
				t.Errorf("%s %s: %s does not say that it has no other members", rt.method, rt.path, at)
			}
		})
	}
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			o, _ := op.(map[string]any)
			answers, _ := o["responses"].(map[string]any)
			for status, answer := range answers {
				gen.walk(answer, map[string]bool{}, func(at string, s map[string]any) {
					if s["additionalProperties"] == false {
						t.Errorf("%s %s %s: %s leaves no room for new members", method, path, status, at)
					}
				})
			}
		}
	}
}

// walk calls visit with each object schema below v, and follows references.
func (g *samples) walk(v any, seen map[string]bool, visit func(at string, schema map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			if !seen[ref] {
				seen[ref] = true
				g.walk(g.resolve(ref), seen, visit)
			}
			return
		}
		if v["type"] == "object" {
			visit(fmt.Sprint("an object with ", slices.Sorted(maps.Keys(membersOf(v)))), v)
		}
		for _, child := range v {
			g.walk(child, seen, visit)
		}
	case []any:
		for _, child := range v {
			g.walk(child, seen, visit)
		}
	}
}

func membersOf(schema map[string]any) map[string]any {
	m, _ := schema["properties"].(map[string]any)
	return m
}
