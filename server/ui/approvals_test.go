package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store/api"
)

// hostileName is a name that tries to be markup, a script and text of another direction.
const hostileName = `</bdi><script>alert(1)</script>" onmouseover="x" 'y' {{.Token}} ` + "\u202edrowssap\u2066\u200b\U000e0041\u00a0"

// approval asks for the approval of a call; change changes the request.
func (r *rig) approval(gateway string, digest int, change func(*api.ApprovalRequest)) string {
	r.t.Helper()
	in := api.ApprovalRequest{Digest: fmt.Sprintf("%064x", digest), KeyTag: "00c0ffee", Tool: "pay", Method: "tools/call", AgentName: "billing", Principal: "key:bob", Upstream: "bank",
		Gateway: "edge", RequestID: "req", ValidFor: 3600, Expires: 86400, NotSelf: "true", Show: "all", ArgumentsBytes: 9,
		Reasons:   []api.ApprovalReason{{RuleID: "ask-first", Note: "look at the account"}},
		Arguments: []api.ApprovalArgument{{Pointer: "/to", Value: `"a…b"`, Omitted: 7000}, {Pointer: "/mail", Value: `"bob@example.com"`, Restored: "EMAIL"}}, Truncated: true}
	if change != nil {
		change(&in)
	}
	b, err := json.Marshal(in)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.ask(gateway, "POST", "/api/approvals", string(b))["id"].(string)
}

// TestApprovalPages: lists by status with pages, the whole call, and a decision in two steps.
func TestApprovalPages(t *testing.T) {
	r := newRig(t)
	gateway := r.key("ingest")
	policy := r.policy("ask", `,"approval":{}`)
	id := r.approval(gateway, 1, func(in *api.ApprovalRequest) {
		in.Reasons = append(in.Reasons, api.ApprovalReason{PolicyID: policy, Note: "a policy"})
	})
	r.advance(90 * time.Second)
	b := r.signIn(r.admin)
	b.get("/approvals").want(t, 200, `href="/approvals/`+id+`"`, "pay", "billing", "key:bob", "edge", "ask-first: look at the account", "waits 1 min 30 s", "23 h 58 min", `status=pending" aria-current="true"`)
	b.get("/approvals?status=granted").want(t, 200, "!"+id, "No approvals with this status")
	b.get("/approvals?status=all").want(t, 200, id, `<td class="warn">`)
	b.get("/approvals?status=open").want(t, 400)

	page := "/approvals/" + id
	whole := []string{"/to", "a…b", "7,000 characters left out", "bob@example.com", "restored: ", "EMAIL", "2 values, 9 bytes, shortened", "look at the account", `href="/policies/` + policy + `"`,
		"unknown: the caller&#39;s person is not known", "ends in 23 h 58 min", "Asked with key", "/traces?requestId=req"}
	b.get(page).want(t, 200, whole...).want(t, 200, `?decide=grant&amp;version=1"`, `?decide=deny`, `<a href="#decide">Decide</a>`, "!?decide=revoke", "!<form method=\"post\" action=\"/approvals")
	b.get(page+"?decide=grant&version=1").want(t, 200, whole...).want(t, 200, "Grant this call?", `<form method="post" action="`+page+`"`, `name="version" value="1"`, `maxlength="512"`, "required", "!role=\"alert\"")
	b.get(page+"?decide=revoke&version=1").want(t, 200, "not possible any more: the approval is pending", "!class=\"confirm\"")

	// What cannot be a decision of the form.
	b.post(page, "decision", "grant", "version", "1").want(t, 400, "you have read the call", "class=\"confirm\"")
	b.post(page, "decision", "grant", "read", "yes").want(t, 400)
	b.post(page, "decision", "maybe", "version", "1").want(t, 400, "Nothing was decided")
	b.post(page, "decision", "deny", "version", "1", "note", strings.Repeat("é", 513)).want(t, 400, "note")
	b.post(page, "decision", "grant", "version", "1", "read", "yes", "token", "of another session").want(t, 403, "another session")
	b.post(page, "decision", "grant", "version", "1", "read", "yes", "token", "").want(t, 403)
	b.get(page).want(t, 200, `<strong class="warn">`)

	// Another reason makes another version: what was read is not what would be granted.
	r.approval(gateway, 1, func(in *api.ApprovalRequest) { in.Reasons = []api.ApprovalReason{{RuleID: "second", Note: "and this"}} })
	b.get(page+"?decide=grant&version=1").want(t, 200, "has changed since you read it", `name="version" value="2"`, "and this")
	b.post(page, "decision", "grant", "version", "1", "read", "yes", "note", "fine <b>").want(t, 409, "has changed since you read it", `name="version" value="2"`, "and this", `value="fine &lt;b&gt;"`)
	if got := b.post(page, "decision", "grant", "version", "2", "read", "yes", "note", "fine <b>"); got.status != 303 || got.goes != page {
		t.Fatalf("granted: %+v", got)
	}
	b.get(page).want(t, 200, `<strong class="good">`, "unused 0 s", "with this key", "fine &lt;b&gt;", "?decide=revoke", "!?decide=grant", "can be revoked")
	b.post(page, "decision", "deny", "version", "2").want(t, 409, "the approval is granted", "!class=\"confirm\"")
	b.post(page, "decision", "revoke", "version", "2").want(t, 303)
	b.get(page).want(t, 200, `<strong class="bad">`, "!?decide=", "The same call is refused")
	if got := r.ask(r.admin, "GET", "/api/approvals/"+id, ""); len(got["decisions"].([]any)) != 2 || got["status"] != "denied" {
		t.Errorf("decided: %v", got)
	}
}

// TestManyApprovals: the list has pages, newest first.
func TestManyApprovals(t *testing.T) {
	r := newRig(t)
	gateway := r.key("ingest")
	const n = api.DefaultLimit + 5
	for i := range n {
		r.approval(gateway, i+1, func(in *api.ApprovalRequest) { in.Principal = fmt.Sprintf("key:%d", i/10) })
	}
	b := r.signIn(r.admin)
	first := b.get("/approvals").want(t, 200, fmt.Sprintf("%d approvals", n), "Next page", "!First page")
	_, rest, _ := strings.Cut(first.body, `<a href="/approvals?after=`)
	cursor, _, _ := strings.Cut(rest, `"`)
	second := b.get("/approvals?after="+cursor).want(t, 200, "First page", "!Next page")
	if a, b := strings.Count(first.body, `href="/approvals/`), strings.Count(second.body, `href="/approvals/`); a != api.DefaultLimit || b != 5 {
		t.Errorf("pages of %d and %d", a, b)
	}
	b.get("/approvals?after=x").want(t, 400)
}

// TestApprovalRefusals: who may not see an approval, or not decide, and what the page says.
func TestApprovalRefusals(t *testing.T) {
	r := newRig(t)
	gateway, agent := r.key("ingest"), r.key("agent")
	reader, _ := r.teamKey("readers", "policies:read")
	writer, team := r.teamKey("writers", "policies:read", "policies:write")
	blind, _ := r.teamKey("blind", "traces:read")
	r.ask(r.admin, "POST", "/api/agents", `{"name":"theirs","teamId":"`+team+`"}`)
	r.ask(r.admin, "POST", "/api/agents", `{"name":"billing"}`)
	r.advance(time.Second)
	ours := "/approvals/" + r.approval(gateway, 1, nil)
	theirs := "/approvals/" + r.approval(gateway, 2, func(in *api.ApprovalRequest) { in.AgentName = "theirs" })
	self := "/approvals/" + r.approval(gateway, 3, func(in *api.ApprovalRequest) { in.Principal = "oauth:USR_ADMIN" })
	strict := "/approvals/" + r.approval(gateway, 4, func(in *api.ApprovalRequest) { in.NotSelf, in.Principal = "strict", "key:eve" })
	hidden := "/approvals/" + r.approval(gateway, 5, func(in *api.ApprovalRequest) { in.Show, in.Arguments = "none", nil })
	form := []string{"decision", "grant", "version", "1", "read", "yes"}
	admin := r.signIn(r.admin)

	// Teams see what belongs to their agents.
	w := r.signIn(writer)
	w.get("/approvals").want(t, 200, `href="`+theirs+`"`, "!"+ours)
	w.get(ours).want(t, 404)
	w.post(ours, form...).want(t, 404)
	w.get(theirs).want(t, 200, "a…b", "?decide=grant", "!href=\"/traces")
	w.post(theirs, form...).want(t, 303)
	w.post(theirs, form...).want(t, 303) // a second click changes nothing
	admin.post(theirs, form...).want(t, 409, "the approval is granted")
	// Keys that may only read, or neither.
	rd := r.signIn(reader)
	rd.get("/approvals").want(t, 200, "!"+theirs)
	rd.post(ours, form...).want(t, 404)
	for _, key := range []string{agent, blind} {
		b := r.signIn(key)
		b.get("/traces").want(t, 200, "!href=\"/approvals\"", "!href=\"/policies\"")
		for _, path := range []string{"/approvals", ours, "/policies"} {
			b.get(path).want(t, 404)
		}
		b.post(ours, form...).want(t, 404)
	}
	r.signIn(r.other).get(ours).want(t, 404, "!a…b")
	admin.get("/approvals/apr_none").want(t, 404)

	// Refusals in words, at the page of the call.
	admin.post(strict, form...).want(t, 403, "not known who the caller is", "auth.keys[].owner", "key:eve", "?decide=deny")
	admin.get(hidden+"?decide=grant&version=1").want(t, 200, "9 bytes, not shown", "you decide without them")
	r.advance(time.Second)
	late := r.signIn(r.key("api"))
	late.get(ours).want(t, 200, "not shown")
	late.post(ours, form...).want(t, 403, "made after the approval was requested", "use a key that existed before")
	admin.post(self, form...).want(t, 403, "the caller cannot decide about the own call", "another person must decide")
	r.advance(25 * time.Hour)
	r.signIn(r.admin).get(ours).want(t, 200, "expired", "!?decide=", "<dt>Asked</dt>")
}

// TestHostileApproval: nothing that comes from a client is markup, or hides.
func TestHostileApproval(t *testing.T) {
	r := newRig(t)
	gateway := r.key("ingest")
	evil := strings.ReplaceAll(hostileName, "\u00a0", "")
	long := evil + strings.Repeat("x", 300) + "THE END"
	id := r.approval(gateway, 1, func(in *api.ApprovalRequest) {
		in.Tool, in.AgentName, in.Principal, in.Client, in.Upstream, in.View, in.Gateway, in.Environment, in.RequestID = long, evil, long, evil, evil, evil, evil, evil, evil
		in.Reasons = []api.ApprovalReason{{RuleID: evil, Note: `</pre><img src=x onerror=alert(1)>`}}
		in.Arguments = []api.ApprovalArgument{{Pointer: "/" + long, Value: `"` + long + `"`}}
	})
	b := r.signIn(r.admin)
	for _, path := range []string{"/approvals", "/approvals/" + id, "/approvals/" + id + "?decide=grant&version=1", "/approvals/" + id + "?decide=" + "%3Cscript%3E"} {
		got := b.get(path).want(t, 200, "!<script>", "!<img src=x", "!\u202e", "!\u2066", "!\u200b", "!\U000e0041", "!{{.Token}}\"", `\u{202E}`, "!style=", "!onmouseover=\"x\"")
		if strings.Contains(path, id) && strings.Count(got.body, "THE END") != 4 { // tool, principal, pointer, value
			t.Errorf("%s: the call is not shown as a whole: %d", path, strings.Count(got.body, "THE END"))
		}
	}
}
