package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// approvalBody is a request for the approval of a call.
func approvalBody(principal string, digest int, more ...string) string {
	return fmt.Sprintf(`{"digest":"%064x","keyTag":"00c0ffee","tool":"pay","method":"tools/call","agentName":"billing","principal":%q,"upstream":"bank","gateway":"gw",
		"requestId":"req","validFor":3600,"expires":86400,"notSelf":"true","show":"all","argumentsBytes":9,"reasons":[{"ruleId":"r1","note":"ask"}]%s}`,
		digest, principal, strings.Join(more, ""))
}

const someArguments = `,"persons":["bob@example.com"],"arguments":[{"pointer":"/to","value":"\"a…b\"","omitted":7,"restored":"EMAIL","tag":"00000001"}]`

func claimBody(digest, nonce int) string {
	return fmt.Sprintf(`{"digest":"%064x","nonce":"%032x"}`, digest, nonce)
}

// TestApprovals follows an approval from the gateway that asks to its use.
func TestApprovals(t *testing.T) {
	r := newRig(t)
	gateway, gatewayID := r.key(r.admin, "ingest")
	other, _ := r.key(r.admin, "ingest")
	made := r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 1, someArguments)).want(201).data()
	made.is(t, "status", "pending").has(t, "id", "status", "until", "reasons")
	path := "/api/approvals/" + made.id(t)
	r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 1, someArguments)).want(200).data().is(t, "id", made.id(t))
	second := r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 2, strings.Replace(someArguments, "00000001", "00000002", 1))).want(201).data()
	if got := fmt.Sprint(second["similar"]); got != "[map[approvalId:"+made.id(t)+" differs:[/to]]]" {
		t.Errorf("similar calls: %s", got)
	}
	one := r.ask(r.admin, "GET", path, "").want(200).data()
	one.is(t, "status", "pending", "tool", "pay", "principal", "key:bob", "selfCheck", "known", "argumentsBytes", 9, "truncated", false)
	toObject(t, one["requestedBy"]).is(t, "keyId", gatewayID)
	toObject(t, one["arguments"].([]any)[0]).has(t, "pointer", "value", "omitted", "restored").is(t, "value", `"a…b"`)
	for _, item := range r.ask(r.admin, "GET", "/api/approvals?status=pending", "").want(200).list() {
		if item["arguments"] != nil || item["decisions"] == nil {
			t.Errorf("item of a list: %v", item)
		}
	}
	// Pages by cursor and by offset.
	first := r.ask(r.admin, "GET", "/api/approvals?status=pending&limit=1", "").want(200)
	if next := first.object()["next"].(string); first.list()[0].id(t) != second.id(t) || r.ask(r.admin, "GET", "/api/approvals?status=pending&limit=1&after="+next, "").want(200).list()[0].id(t) != made.id(t) {
		t.Error("the second page is not what follows the first")
	}
	if list := r.ask(r.admin, "GET", "/api/approvals?offset=1", "").want(200).list(); len(list) != 1 || list[0].id(t) != made.id(t) {
		t.Errorf("behind the first: %v", list)
	}

	r.ask(gateway, "POST", path+"/claim", claimBody(1, 1)).want(409)
	r.ask(r.admin, "POST", path+"/decision", `{"decision":"grant","note":"fine"}`).want(200).data().is(t, "status", "granted")
	r.ask(r.admin, "POST", path+"/decision", `{"decision":"grant"}`).want(200)
	r.ask(r.admin, "POST", path+"/decision", `{"decision":"deny"}`).want(409)
	r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 1)).want(200).data().is(t, "status", "granted", "approvedBy", "usr_admin")
	r.ask(other, "POST", path+"/claim", claimBody(1, 1)).want(404)
	r.ask(gateway, "POST", path+"/claim", claimBody(2, 1)).want(409)
	for range 2 {
		r.ask(gateway, "POST", path+"/claim", claimBody(1, 1)).want(200).data().is(t, "status", "used", "approvedBy", "usr_admin")
	}
	r.ask(gateway, "POST", path+"/claim", claimBody(1, 2)).want(409)
	r.ask(gateway, "POST", path+"/release", claimBody(1, 2)).want(409)
	r.ask(gateway, "POST", path+"/release", claimBody(1, 1)).want(200).data().is(t, "status", "granted")
	r.ask(gateway, "POST", path+"/claim", claimBody(1, 2)).want(200)
	r.clock.advance(store.ReleaseWithin + 1)
	r.ask(gateway, "POST", path+"/release", claimBody(1, 2)).want(409)
	if used := r.ask(r.admin, "GET", path, "").want(200).data(); used["status"] != "used" || used["expiresAt"] != nil || len(used["decisions"].([]any)) != 1 {
		t.Errorf("used: %v", used)
	}
	events := r.ask(r.admin, "GET", "/api/audit/events?object=approval", "").want(200).object()["data"].([]any)
	if len(events) != 1 || toObject(t, events[0])["route"] != "/api/approvals/{id}/decision" {
		t.Errorf("events of the decision: %v", events)
	}
}

// TestApprovalAccess: who may call what, and read the arguments.
func TestApprovalAccess(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	agent, _ := r.key(r.admin, "agent")
	reader, _ := r.teamKey("readers", "policies:read")
	writer, team := r.teamKey("writers", "policies:read", "policies:write")
	r.ask(r.admin, "POST", "/api/agents", `{"name":"theirs","teamId":"`+team+`"}`).want(201)
	path := "/api/approvals/" + r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 1, someArguments)).want(201).data().id(t)
	for _, test := range []struct {
		key, method, path, body string
		status                  int
	}{
		{r.admin, "POST", "/api/approvals", approvalBody("key:bob", 9), 403},
		{r.admin, "POST", path + "/claim", claimBody(1, 1), 403},
		{agent, "GET", "/api/approvals", "", 403},
		{gateway, "GET", "/api/approvals", "", 403},
		{gateway, "GET", path, "", 403},
		{gateway, "POST", path + "/decision", `{"decision":"grant"}`, 403},
		{reader, "POST", path + "/decision", `{"decision":"grant"}`, 403},
		{writer, "POST", path + "/decision", `{"decision":"grant"}`, 404}, // the agent belongs to no team
		{reader, "GET", path, "", 404},
		{writer, "GET", path, "", 404},
		{r.other, "GET", path, "", 404},
		{r.other, "POST", path + "/decision", `{"decision":"grant"}`, 404},
		{r.admin, "GET", "/api/approvals/apr_x", "", 404},
		{reader, "GET", "/api/approvals", "", 200},
		{r.admin, "GET", "/api/approvals?status=open", "", 400},
		{r.admin, "POST", path + "/decision", `{"decision":"maybe"}`, 400},
		{r.admin, "POST", path + "/decision", `{"decision":"grant","version":-1}`, 400},
		{r.admin, "POST", path + "/decision", `{"decision":"grant","version":2}`, 409},
		{gateway, "POST", path + "/claim", `{"nonce":"x","digest":"y"}`, 400},
	} {
		r.ask(test.key, test.method, test.path, test.body).want(test.status)
	}
	theirs := strings.Replace(approvalBody("key:eve", 3, someArguments), "billing", "theirs", 1)
	id := r.ask(gateway, "POST", "/api/approvals", theirs).want(201).data().id(t)
	for key, want := range map[string]struct{ listed, arguments bool }{r.admin: {true, true}, reader: {false, false}, writer: {true, true}} {
		for _, query := range []string{"", "?status=pending"} {
			a := r.ask(key, "GET", "/api/approvals"+query, "").want(200)
			listed := map[string]bool{}
			for _, item := range a.list() {
				listed[item.id(t)] = true
			}
			all := key == r.admin
			if len(listed) != len(a.list()) || a.object()["total"] != float64(len(listed)) || listed[id] != want.listed || listed[strings.TrimPrefix(path, "/api/approvals/")] != all {
				t.Errorf("listed%s: %s", query, a.raw)
			}
		}
		if !want.listed {
			continue
		}
		if got := r.ask(key, "GET", "/api/approvals/"+id, "").want(200).data(); (got["arguments"] != nil) != want.arguments {
			t.Errorf("arguments %v, want any: %v", got["arguments"], want)
		}
	}
	// What was merged after an approval was read is not granted with it.
	r.ask(gateway, "POST", "/api/approvals", strings.Replace(theirs, `"r1"`, `"r2"`, 1)).want(200)
	r.ask(writer, "GET", "/api/approvals/"+id, "").want(200).data().is(t, "version", 2)
	for body, status := range map[string]int{`{"decision":"grant"}`: 409, `{"decision":"grant","version":1}`: 409} {
		if a := r.ask(writer, "POST", "/api/approvals/"+id+"/decision", body).want(status); a.detail("version") == "" {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	r.ask(writer, "POST", "/api/approvals/"+id+"/decision", `{"decision":"grant","version":2}`).want(200).data().is(t, "status", "granted", "version", 2)
	r.clock.advance(time.Second)
	late, _ := r.key(r.admin, "api")
	r.ask(late, "POST", path+"/decision", `{"decision":"grant"}`).want(403)
	self := "/api/approvals/" + r.ask(gateway, "POST", "/api/approvals", approvalBody("oauth:USR_ADMIN", 2)).want(201).data().id(t)
	r.ask(r.admin, "POST", self+"/decision", `{"decision":"grant"}`).want(403)
}

// TestApprovalLimits: the bounds are 429 with a time to wait, and the requests of a key have a
// window of their own.
func TestApprovalLimits(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit, o.IngestRateLimit = 30, 1 })
	gateway, _ := r.key(r.admin, "ingest")
	for i := range store.MaxOpenApprovalsPrincipal {
		r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", i)).want(201)
	}
	a := r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 99)).want(429)
	if a.detail("reason") != "approval_limit" || a.header.Get("Retry-After") != "60" {
		t.Errorf("over the limit: %s, Retry-After %q", a.raw, a.header.Get("Retry-After"))
	}
	for i := store.MaxOpenApprovalsPrincipal + 1; i < approvalsPerMinute; i++ {
		r.ask(gateway, "POST", "/api/approvals/apr_x/claim", claimBody(1, 1)).want(404)
	}
	a = r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 0)).want(429)
	if a.object()["details"] != nil {
		t.Errorf("over the window: %s", a.raw)
	}
	another, _ := r.key(r.admin, "ingest")
	r.ask(another, "POST", "/api/approvals/apr_x/claim", claimBody(1, 1)).want(404)
	r.ask(another, "GET", "/api/governance", "").want(200)
}

// TestApprovalBodies: what is wrong is named, and lists are bounded while they are read.
func TestApprovalBodies(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	good := approvalBody("key:bob", 1, someArguments)
	for detail, body := range map[string]string{
		"digest":                strings.Replace(good, "0001", "000X", 1),
		"keyTag":                strings.Replace(good, "00c0ffee", "", 1),
		"tool":                  strings.Replace(good, `"pay"`, `"p\u0007y"`, 1),
		"principal":             strings.Replace(good, `"key:bob"`, `""`, 1),
		"validFor":              strings.Replace(good, "3600", "86401", 1),
		"expires":               strings.Replace(good, `"expires":86400`, `"expires":0`, 1),
		"notSelf":               strings.Replace(good, `"true"`, `"no"`, 1),
		"show":                  strings.Replace(good, `"show":"all"`, `"show":""`, 1),
		"reasons":               strings.Replace(good, `{"ruleId":"r1","note":"ask"}`, strings.Repeat(`{"ruleId":"r"},`, 32)+`{"ruleId":"r"}`, 1),
		"reasons[0]":            strings.Replace(good, `"ruleId":"r1"`, `"ruleId":"r1","policyId":"p"`, 1),
		"persons":               strings.Replace(good, `["bob@example.com"]`, `["`+strings.Repeat(`a","`, 8)+`a"]`, 1),
		"arguments":             strings.Replace(good, `"arguments":[`, `"arguments":[`+strings.Repeat(`{"pointer":"/a","value":"1"},`, 64), 1),
		"arguments[0].value":    strings.Replace(good, `"\"a…b\""`, `"a\u001b"`, 1),
		"arguments[0].restored": strings.Replace(good, `"EMAIL"`, `"e mail"`, 1),
	} {
		if a := r.ask(gateway, "POST", "/api/approvals", body).want(400); a.detail(detail) == "" {
			t.Errorf("%s: %s", detail, a.raw)
		}
	}
	long := strings.Repeat(`{"pointer":"/a","value":"`+strings.Repeat("x", 30<<10)+`"},`, 3)
	r.ask(gateway, "POST", "/api/approvals", strings.Replace(good, `"arguments":[`, `"arguments":[`+long, 1)).wantDetail("arguments")
	// The tags of session keys: a warning once, and the number with the key.
	r.ask(gateway, "POST", "/api/approvals", good).want(201)
	if strings.Contains(r.log.String(), "different session keys") {
		t.Error("a warning about one session key")
	}
	for range 2 {
		r.ask(gateway, "POST", "/api/approvals", strings.Replace(good, "00c0ffee", "0badcafe", 1)).want(200)
	}
	if n := strings.Count(r.log.String(), "different session keys"); n != 1 {
		t.Errorf("%d warnings about two session keys", n)
	}
	var seen any
	for _, k := range r.ask(r.admin, "GET", "/api/keys?scope=ingest", "").want(200).list() {
		seen = k["sessionKeys"]
	}
	if seen != 2.0 {
		t.Errorf("the key has %v session keys, want 2", seen)
	}
}

// TestPolicyApproval: the member approval of a policy.
func TestPolicyApproval(t *testing.T) {
	r := newRig(t)
	policy := func(name, action, phase, approval string) string {
		return fmt.Sprintf(`{"name":%q,"phase":%q,"action":%q,"condition":{"type":"always"},"approval":%s}`, name, phase, action, approval)
	}
	for detail, body := range map[string]string{
		"approval":          policy("x", "warn", "request", `{}`),
		"approval.validFor": policy("x", "block", "request", `{"validFor":"25h"}`),
		"approval.expires":  policy("x", "block", "request", `{"expires":"500ms"}`),
		"approval.notSelf":  policy("x", "block", "request", `{"notSelf":"maybe"}`),
		"approval.show":     policy("x", "block", "request", `{"show":"some"}`),
		"approval.note":     policy("x", "block", "request", `{"note":"a\u001b"}`),
	} {
		r.ask(r.admin, "POST", "/api/policies", body).wantDetail(detail)
	}
	r.ask(r.admin, "POST", "/api/policies", policy("x", "block", "response", `{}`)).wantDetail("approval")
	p := r.ask(r.admin, "POST", "/api/policies", policy("x", "block", "request", `{"validFor":"30m","note":"look"}`)).want(201).data()
	toObject(t, p["approval"]).is(t, "validFor", "30m", "note", "look")
	path := "/api/policies/" + p.id(t)
	r.ask(r.admin, "PUT", path, `{"action":"warn"}`).wantDetail("approval")
	r.ask(r.admin, "PUT", path, `{"approval":{}}`).want(200)
	if body := string(r.ask(r.admin, "GET", "/api/governance", "").want(200).raw); !strings.Contains(body, `"approval":{}`) {
		t.Errorf("gateways get %s", body)
	}
	docs := string(r.ask(r.admin, "GET", "/api/apply?kind=Policy", "").want(200).raw)
	if !strings.Contains(docs, `"approval":{}`) {
		t.Errorf("exported: %s", docs)
	}
	apply := strings.Replace(docs, `"approval":{}`, `"approval":{"show":"none"}`, 1)
	if got := string(r.ask(r.admin, "POST", "/api/apply", apply).want(200).raw); !strings.Contains(got, `"fields":["approval"]`) {
		t.Errorf("applied: %s", got)
	}
	toObject(t, r.ask(r.admin, "GET", path, "").want(200).data()["approval"]).is(t, "show", "none")
	if got := r.ask(r.admin, "PUT", path, `{"approval":null,"action":"warn"}`).want(200).data(); got["approval"] != nil {
		t.Errorf("removed: %v", got)
	}
}
