package ui

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// policy makes a policy that blocks a tool; more are members of its body.
func (r *rig) policy(name, more string) string {
	r.t.Helper()
	quoted, _ := json.Marshal(name)
	return r.ask(r.admin, "POST", "/api/policies", `{"name":`+string(quoted)+`,"phase":"request","condition":{"type":"tool_name","toolName":"rm"},"action":"block"`+more+`}`)["id"].(string)
}

// enforces reports an instance of a gateway; revision is that of the policies that it enforces, -1: none.
func (r *rig) enforces(gateway string, instance int, revision int64) {
	r.t.Helper()
	r.report(gateway, "edge", instance, func(in *api.GatewayReport) {
		in.Governance = api.GatewayGovernance{Enabled: revision >= 0, Revision: max(revision, 0)}
	})
}

var etagField = regexp.MustCompile(`name="etag" value="([^"]+)"`)

// TestPolicyPages: the list with who enforces a policy, the policy, and its change in two steps.
func TestPolicyPages(t *testing.T) {
	r := newRig(t)
	gateway := r.key("ingest")
	id := r.policy("no rm", `,"message":"never <b>"`)
	off := r.policy("off", `,"enabled":false`)
	watching := r.policy("watch", `,"enabled":true`)
	r.ask(r.admin, "PUT", "/api/policies/"+watching, `{"action":"warn"}`)
	b := r.signIn(r.admin)
	b.get("/policies").want(t, 200, "no rm", "off", "no gateway runs", "3 policies", "tool rm")
	b.get("/policies?enabled=true").want(t, 200, `href="/policies/`+id, "!"+off, "2 policies", `value="true" selected`)
	b.get("/policies?enabled=false").want(t, 200, off, "!"+id, "1 policy")
	page := "/policies/" + id
	b.get(page).want(t, 200, "no rm", "enabled", "tool rm", "never &lt;b&gt;", `&#34;toolName&#34;: &#34;rm&#34;`, "0 times", "?change=disable", "!class=\"confirm\"")
	b.get("/policies/"+watching).want(t, 200, "Observed", "only records")

	var bundle struct{ Revision int64 }
	r.decode(gateway, "GET", "/api/governance", "", &bundle)
	r.enforces(gateway, 1, bundle.Revision)
	r.enforces(gateway, 2, 0)
	r.enforces(gateway, 3, -1)
	b.get(page).want(t, 200, `<span class="dim">1 of 3 so far</span>`)
	r.advance(70 * time.Second)
	b.get(page).want(t, 200, `<span class="warn">1 of 3</span>`)
	b.get("/policies").want(t, 200, `<td class="warn">1 of 3</td>`)

	confirm := b.get(page+"?change=disable").want(t, 200, "Disable this policy?", "1 of 3 running gateways enforce it now")
	etag := field(t, confirm)
	b.get(page+"?change=enable").want(t, 200, "already", "!class=\"confirm\"")
	b.post(page, "change", "disable").want(t, 400)
	b.post(page, "change", "drop", "etag", etag).want(t, 400)
	b.post(page, "change", "disable", "etag", etag, "token", "x").want(t, 403)
	// Somebody changes it meanwhile.
	r.ask(r.admin, "PUT", "/api/policies/"+id, `{"message":"another one"}`)
	refused := b.post(page, "change", "disable", "etag", etag).want(t, 412, "somebody has changed the policy", "another one", "Disable this policy?")
	if got := b.post(page, "change", "disable", "etag", field(t, refused)); got.status != 303 || got.goes != page {
		t.Fatalf("disabled: %+v", got)
	}
	b.get(page).want(t, 200, "disabled: nobody enforces it", "!Enforced by", "?change=enable")
	b.post(page, "change", "disable", "etag", etag).want(t, 412, "!class=\"confirm\"") // it is disabled already

	// Enabling says who will enforce it, and shows what the API warns of.
	r.enforces(gateway, 1, -1)
	r.enforces(gateway, 2, -1)
	ask := b.get(page+"?change=enable").want(t, 200, "None of the 3 running gateways enforces policies")
	b.post(page, "change", "enable", "etag", field(t, ask)).want(t, 200, "The policy is enabled.", "none of the 3 running instances", "?change=disable")
	r.advance(70 * time.Second)
	b.get(page).want(t, 200, `<span class="bad">none of 2</span>`)
	r.enforces(gateway, 1, 0)
	b.get("/policies/"+off+"?change=enable").want(t, 200, "1 of 2 running gateways enforce policies")
	r.advance(time.Hour)
	again := b.get("/policies/"+off+"?change=enable").want(t, 200, "No gateway runs now")
	b.post("/policies/"+off, "change", "enable", "etag", field(t, again)).want(t, 200, "nobody enforces")
}

// field returns the ETag in the form of a page.
func field(t *testing.T, s seen) string {
	t.Helper()
	found := etagField.FindStringSubmatch(s.body)
	if found == nil {
		t.Fatalf("no ETag in %s", s.body)
	}
	return strings.ReplaceAll(found[1], "&#34;", `"`)
}

// TestPolicyAccess: keys that may only read have no form, and those without gateways see who enforces nothing.
func TestPolicyAccess(t *testing.T) {
	r := newRig(t)
	id := r.policy("</bdi><script>alert(1)</script>", `,"message":"<script>"`)
	reader, _ := r.teamKey("readers", "policies:read")
	b := r.signIn(reader)
	b.get("/policies").want(t, 200, "may not see gateways", "!Enforced by", "!<script>alert")
	b.get("/policies/"+id).want(t, 200, "not shown: this key may not see gateways", "needs the scope policies:write", "!?change=", "!href=\"/traces", "!<script>alert", "!<script>&", "!\u202e")
	b.get("/policies/"+id+"?change=disable").want(t, 200, "may not change policies", "!class=\"confirm\"")
	b.post("/policies/"+id, "change", "disable", "etag", `"x"`).want(t, 404)
	r.signIn(r.other).get("/policies/"+id).want(t, 404)
	r.signIn(r.key("agent")).get("/policies/"+id).want(t, 404)
	writer, _ := r.teamKey("writers", "policies:read", "policies:write")
	w := r.signIn(writer)
	ask := w.get("/policies/"+id+"?change=disable").want(t, 200, "stop to enforce it within seconds")
	w.post("/policies/"+id, "change", "disable", "etag", field(t, ask)).want(t, 303)
	w.get("/policies/"+id+"?change=enable").want(t, 200, "Gateways that enforce policies do so within seconds")
}

// BenchmarkDecisionPages measures the pages of approvals and policies with 1,000 gateways, 250 open approvals with the
// longest arguments, and 60 policies.
func BenchmarkDecisionPages(b *testing.B) {
	r := newRig(b)
	for i := range store.MaxGatewayInstances {
		report := store.GatewayReport{Gateway: fmt.Sprint("gateway-", i), Instance: fmt.Sprintf("%032x", i), Seq: 1, Governed: true, Report: []byte(`{}`)}
		if err := r.store.Tenant("one").ReportGateway(b.Context(), report); err != nil {
			b.Fatal(err)
		}
	}
	gateway, policy, approval := r.key("ingest"), "", ""
	for i := range 60 {
		policy = r.policy(fmt.Sprint("policy ", i), "")
	}
	for i := range store.MaxOpenApprovalsKey {
		approval = r.approval(gateway, i+1, func(in *api.ApprovalRequest) {
			in.Principal, in.Arguments = fmt.Sprint("key:", i/10), nil
			for j := range api.MaxApprovalArguments {
				in.Arguments = append(in.Arguments, api.ApprovalArgument{Pointer: fmt.Sprint("/", j), Value: strings.Repeat("'", 1000)})
			}
		})
	}
	browser := r.signIn(r.admin)
	for _, path := range []string{"/approvals", "/approvals/" + approval, "/policies", "/policies/" + policy} {
		b.Run(strings.Trim(path, "/"), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = len(browser.get(path).want(b, 200).body)
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}
