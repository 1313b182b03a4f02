package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/request/verdict"
	"svc/store/api"
)

// governor is a control plane that serves policies.
type governor struct {
	mu     sync.Mutex
	bundle *api.Governance // nil is an outage
	tag    int
}

func (g *governor) Governance(_ context.Context, etag string) (*api.Governance, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	tag := fmt.Sprint(g.tag)
	switch {
	case g.bundle == nil:
		return nil, "", errors.New("out")
	case etag == tag:
		return nil, tag, nil
	}
	return g.bundle, tag, nil
}

// give puts policies in the bundle, with ids by their index.
func (g *governor) give(policies ...api.GovernancePolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range policies {
		p := &policies[i]
		if p.ID == "" {
			p.ID = fmt.Sprintf("pol_%d", i)
		}
		if p.On == "" {
			p.On = "*"
		}
		p.Name = "the " + p.ID
	}
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	g.bundle = &api.Governance{Policies: append([]api.GovernancePolicy{}, policies...), HashKey: key}
	g.tag++
}

func (g *governor) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bundle = nil
}

const governance = `
control_plane:
  url: http://127.0.0.1:1
  ingest_key: svc_ingest_x
  agent: planner
  traces: {enabled: false}
  governance: {enabled: true, refresh_interval: 1s}
`

// governedRig is a gateway under policies.
func governedRig(t testing.TB, config string, g *governor) *rig {
	t.Helper()
	return newRigWith(t, config, func(o *gateway.Options) {
		o.Governance = g
		o.SinkStatus = func(error) (int, time.Duration) { return 0, 0 }
	})
}

// open is a configuration whose own rules allow everything.
func open(url string) string {
	return strings.Replace(basic(url), "default_action: deny", "default_action: allow", 1)
}

func requestPII(action, strategy string, entities ...string) api.GovernancePolicy {
	return api.GovernancePolicy{Phase: "request", Action: action, RedactionStrategy: strategy,
		Condition: api.Condition{Type: "pii_detected", Entities: entities}}
}

func responsePII(action, strategy string, entities ...string) api.GovernancePolicy {
	p := requestPII(action, strategy, entities...)
	p.Phase = "response"
	return p
}

const cardNumber = "4111 1111 1111 1111"

func callWith(arguments string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"safe","arguments":` + arguments + `}}`
}

// blocked checks a denial by a policy: the response says that a policy denied the request, and
// gives no details.
func (a answer) blocked(t *testing.T) {
	t.Helper()
	e := a.rpc(t)
	if a.status != http.StatusForbidden || e.Error.Code != -32001 || e.Error.Message != "policy_denied" || string(e.ID) != "7" {
		t.Errorf("answer %d %s, want a denial", a.status, a.body)
	}
	if strings.Contains(a.body, "pol_") {
		t.Errorf("the response names the policy: %s", a.body)
	}
}

func firedOf(line map[string]any) string {
	var list []string
	fired, _ := line["policies_fired"].([]any)
	for _, f := range fired {
		f := f.(map[string]any)
		list = append(list, fmt.Sprintf("%s:%s", f["id"], f["action"]))
	}
	return strings.Join(list, " ")
}

func stages(line map[string]any) []string {
	var list []string
	spans, _ := line["spans"].([]any)
	for _, s := range spans {
		list = append(list, s.(map[string]any)["stage"].(string))
	}
	return list
}

func TestGovernanceBlocksRequests(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("block", "", "CREDIT_CARD"))
	r := governedRig(t, open(up.URL)+governance, g)

	r.post(callWith(`{"to":"` + cardNumber + `"}`)).blocked(t)
	if n := len(up.seen()); n != 0 {
		t.Fatalf("the upstream received %d requests", n)
	}
	if a := r.post(callWith(`{"to":"nobody"}`)); a.status != 200 {
		t.Errorf("a call with nothing in it: %d %s", a.status, a.body)
	}
	lines := r.lines(2)
	l := lines[0]
	if l["action"] != "deny" || l["error_kind"] != "governance_block" || l["rule_id"] != nil || firedOf(l) != "pol_0:block" ||
		fmt.Sprint(l["pii_detected"]) != "[CREDIT_CARD]" || l["agent"] != "planner" {
		t.Errorf("line of the denial: %v", l)
	}
	if got := stages(l); !slices.Equal(got, []string{"policy_eval", "pii_scan"}) {
		t.Errorf("stages of the denial: %v", got)
	}
	if l := lines[1]; l["action"] != "allow" || l["policies_fired"] != nil || l["pii_detected"] != nil {
		t.Errorf("line of what passed: %v", l)
	}
	if got := stages(lines[1]); !slices.Equal(got, []string{"policy_eval", "pii_scan", "provider"}) {
		t.Errorf("stages of what passed: %v", got)
	}
}

// The message of a policy gives the client the reason, as error data or as a result that the
// model reads. Control characters in a message of the control plane are removed.
func TestGovernanceTellsWhy(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	policy := requestPII("block", "", "CREDIT_CARD")
	policy.Message = "Never send\x1b card \"numbers\"." + strings.Repeat("é", 600)
	g.give(policy)
	want := "Never send card \"numbers\"."
	want += strings.Repeat("é", 512-1-len(want)) // the removed escape character counts too
	for _, as := range []string{"http", "tool_error"} {
		r := governedRig(t, strings.Replace(open(up.URL), "policy:\n", "policy:\n  deny_as: "+as+"\n", 1)+governance, g)
		a := r.post(callWith(`{"to":"` + cardNumber + `"}`))
		var answer struct {
			Result struct{ Content []struct{ Text string } }
			Error  struct{ Data struct{ Message string } }
		}
		if err := json.Unmarshal([]byte(a.body), &answer); err != nil {
			t.Fatal(err)
		}
		got := answer.Error.Data.Message
		if as == "tool_error" && len(answer.Result.Content) == 1 {
			got, _, _ = strings.Cut(strings.TrimPrefix(answer.Result.Content[0].Text, "policy_denied: "), " (request ")
		}
		if got != want {
			t.Errorf("%s: %d %q, want %q", as, a.status, got, want)
		}
		if l := r.lines(1)[0]; l["action"] != "deny" || l["error_kind"] != "governance_block" || l["status"] != 403.0 {
			t.Errorf("%s: line %v", as, l)
		}
	}
}

// Content that a policy redacts is removed before the upstream receives it, also from the headers
// that mirror it; everything else is unchanged byte for byte.
func TestGovernanceRedactsRequests(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("redact", "replace", "CREDIT_CARD"))
	r := governedRig(t, open(up.URL)+governance, g)
	body := callWith(`{"to":"card ` + cardNumber + ` please","n":  1.0,"é":"\u00e9"}`)
	a := r.post(body, "Mcp-Param-To", "card "+cardNumber+" please", "Mcp-Param-N", "1.0", "Mcp-Param-Smuggled", cardNumber)
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	got := up.seen()[0]
	if want := callWith(`{"to":"card [CREDIT_CARD] please","n":  1.0,"é":"\u00e9"}`); got.body != want {
		t.Errorf("the upstream got\n%s, want\n%s", got.body, want)
	}
	if h := got.header; h.Get("Mcp-Param-To") != "card [CREDIT_CARD] please" || h.Get("Mcp-Param-N") != "1.0" || h.Get("Mcp-Param-Smuggled") != "" {
		t.Errorf("headers: %v", got.header)
	}
	l := r.lines(1)[0]
	if l["action"] != "redact" || firedOf(l) != "pol_0:redact" {
		t.Errorf("line: %v", l)
	}

	t.Run("after a rule that redacts", func(t *testing.T) {
		r := governedRig(t, strings.Replace(open(up.URL), "id: tools\n      action: allow", "id: tools\n      action: redact\n      redact: [{regex: please, replacement: thanks}]", 1)+governance, g)
		r.post(callWith(`{"to":"`+cardNumber+`","note":"please"}`), "Mcp-Param-To", cardNumber, "Mcp-Param-Note", "please")
		seen := up.seen()
		got := seen[len(seen)-1]
		if want := callWith(`{"to":"[CREDIT_CARD]","note":"thanks"}`); got.body != want || got.header.Get("Mcp-Param-Note") != "thanks" || got.header.Get("Mcp-Param-To") != "[CREDIT_CARD]" {
			t.Errorf("the upstream got\n%s and %v, want\n%s", got.body, got.header, want)
		}
	})
	t.Run("a finding that cannot be redacted is denied", func(t *testing.T) {
		r.post(callWith(`{"` + cardNumber + `":1}`)).blocked(t)
		if l := r.lines(2)[1]; l["error_kind"] != "governance_redact_invalid" || l["action"] != "deny" {
			t.Errorf("line: %v", l)
		}
	})
}

// A policy with a condition on arguments blocks and redacts by it. A redaction that cannot
// evaluate an argument denies with a reason, and mirrored headers have the redacted value.
func TestGovernanceLooksAtArguments(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	on := func(action, strategy, arguments string) api.GovernancePolicy {
		return api.GovernancePolicy{Phase: "request", Action: action, RedactionStrategy: strategy,
			Condition: api.Condition{Type: "tool_arguments", ToolName: "s*", Arguments: json.RawMessage(arguments)}}
	}
	g.give(on("block", "", `{"/path":{"not":{"path_within":"/srv"}}}`), on("redact", "replace", `{"/to":{"suffix":".example"}}`))
	r := governedRig(t, open(up.URL)+governance, g)

	r.post(callWith(`{"path":"/srv/%2e%2e/etc/passwd","to":"a.example"}`)).blocked(t)
	if l := r.lines(1)[0]; l["error_kind"] != "governance_block" || firedOf(l) != "pol_0:block pol_1:redact" || l["rule_id"] != nil {
		t.Errorf("line of the denial: %v", l)
	}
	a := r.post(callWith(`{"path":"/srv/a","to":7}`))
	if a.status != 403 || !strings.Contains(a.body, `"reason":"argument_type"`) {
		t.Errorf("a redaction that cannot judge: %d %s", a.status, a.body)
	}
	if l := r.lines(2)[1]; l["error_kind"] != "argument_type" || firedOf(l) != "pol_1:redact" || l["action"] != "deny" {
		t.Errorf("line: %v", l)
	}
	a = r.post(callWith(`{"path":"/srv/a","to":"bob@x.example"}`), "Mcp-Param-Path", "bob@x.example", "Mcp-Param-To", "[EMAIL]")
	got := up.seen()[0]
	if a.status != 200 || got.body != callWith(`{"path":"/srv/a","to":"[EMAIL]"}`) || got.header.Get("Mcp-Param-Path") != "" || got.header.Get("Mcp-Param-To") != "[EMAIL]" {
		t.Errorf("%d, the upstream got %s, %v", a.status, got.body, got.header)
	}
}

// The gateway's own rules are evaluated first.
func TestGovernanceComesAfterRules(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(api.GovernancePolicy{Phase: "request", Condition: api.Condition{Type: "always"}, Action: "warn"})
	r := governedRig(t, open(up.URL)+governance, g)
	r.post(call("7", "danger")).blocked(t)
	r.post(call("7", "safe"))
	lines := r.lines(2)
	if l := lines[0]; l["rule_id"] != "no-danger" || l["policies_fired"] != nil {
		t.Errorf("line of what a rule denied: %v", l)
	}
	if l := lines[1]; l["rule_id"] != "tools" || l["action"] != "allow" || firedOf(l) != "pol_0:warn" {
		t.Errorf("line of a warning: %v", l)
	}
}

// Until the first bundle is fetched no request passes, unless fail_open is set. With a bundle, a
// revoked key or an outage stops no request.
func TestGovernanceNeverFetched(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	g := &governor{}
	r := governedRig(t, open(up.URL)+governance, g)
	r.post(callWith(`{}`)).blocked(t)
	if l := r.lines(1)[0]; l["error_kind"] != "governance_unavailable" || l["action"] != "deny" {
		t.Errorf("line: %v", l)
	}
	if a := r.do(http.MethodGet, r.url, "", "Accept", "text/event-stream"); a.status != http.StatusForbidden {
		t.Errorf("GET answers %d", a.status)
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream received a request")
	}
	g.give()
	await(t, func() bool { return r.post(callWith(`{}`)).status == 200 })
	g.fail()
	await(t, func() bool { return r.services().Governance.Stats().Failing != "" })
	if a := r.post(callWith(`{}`)); a.status != 200 {
		t.Errorf("after an outage: %d %s", a.status, a.body)
	}

	t.Run("fail_open", func(t *testing.T) {
		r := governedRig(t, open(up.URL)+strings.Replace(governance, "enabled: true, refresh", "enabled: true, fail_open: true, refresh", 1), &governor{})
		if a := r.post(callWith(`{}`)); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		sent := len(up.seen())
		a := r.post(toolCallOf("safe", `{"a":"[EMAIL~`+strings.Repeat("A", 60)+`]"}`))
		if a.status != 403 || !strings.Contains(a.body, "token_invalid") || len(up.seen()) != sent {
			t.Errorf("with what could be a token: %d %s", a.status, a.body)
		}
	})
}

// A policy is in force within one refresh interval, without a reload, and still after a restart
// during an outage.
func TestGovernanceRefreshAndRestart(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	g := &governor{}
	g.give()
	r := governedRig(t, open(up.URL)+governance, g)
	if a := r.post(callWith(`{}`)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	live := r.services().Live.Load()
	g.give(api.GovernancePolicy{On: "planner", Phase: "request", Condition: api.Condition{Type: "tool_name", ToolName: "sa*"}, Action: "block"})
	awaitBlock(t, func() answer { return r.post(callWith(`{}`)) })
	if r.services().Live.Load() != live {
		t.Error("a refresh was a reload")
	}
	g.fail()
	r.stop()
	r.start()
	r.post(callWith(`{}`)).blocked(t)
	if a := r.post(call("7", "slow")); a.status != 200 {
		t.Errorf("another tool: %d %s", a.status, a.body)
	}
}

// Policies name agents as traces do.
func TestGovernanceIsByAgent(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(api.GovernancePolicy{On: "alice", Phase: "request", Condition: api.Condition{Type: "always"}, Action: "block"},
		api.GovernancePolicy{On: "builder", Phase: "request", Condition: api.Condition{Type: "always"}, Action: "warn"})
	r := governedRig(t, open(up.URL)+strings.Replace(governance, "agent: planner", "agents: {bob: builder}", 1), g)
	r.post(callWith(`{}`)).blocked(t)
	if a := r.post(callWith(`{}`), "Authorization", "Bearer "+r.other); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if l := r.lines(2)[1]; firedOf(l) != "pol_1:warn" || l["agent"] != "builder" {
		t.Errorf("line: %v", l)
	}
}

// A spent budget blocks within one refresh interval, until it is reset.
func TestGovernanceBudget(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	g := &governor{}
	guard := api.GovernancePolicy{Phase: "request", Condition: api.Condition{Type: "budget_exceeded"}, Action: "block"}
	g.give(guard)
	r := governedRig(t, open(up.URL)+governance, g)
	if a := r.post(callWith(`{}`)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	g.give(guard)
	g.mu.Lock()
	g.bundle.Budgets = []api.BudgetState{{ID: "b", AgentName: "planner", Exceeded: true, ResetAt: time.Now().Add(time.Hour)}}
	g.mu.Unlock()
	awaitBlock(t, func() answer { return r.post(callWith(`{}`)) })
	if a := r.post(`{"jsonrpc":"2.0","id":7,"method":"ping"}`); a.status != 200 {
		t.Errorf("a ping: %d %s", a.status, a.body)
	}
}

// Matches of observing and enforcing policies are counted, with labels that contain no text of
// requests.
func TestGovernanceMetrics(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("block", "", "CREDIT_CARD"), requestPII("warn", ""))
	config := strings.Replace(open(up.URL), "  rules:", "  rules:\n    - {id: tried, action: deny, mode: observe, when: {tool_name: safe}}", 1)
	r := governedRig(t, config+governance+"telemetry: {metrics: {listen: '127.0.0.1:0'}}\n", g)
	r.post(callWith(`{"to":"` + cardNumber + `"}`)).blocked(t)
	text := r.metrics()
	for _, want := range []string{`svc_gateway_observed_total{action="deny",rule="tried"} 1`, `svc_gateway_policies_fired_total{action="block"} 1`,
		`svc_gateway_policies_fired_total{action="warn"} 1`, "svc_gateway_governance_known 1", "svc_gateway_governance_policies 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not hold within 5 s")
		}
	}
}

// awaitBlock waits until a request is refused, and checks the refusal.
func awaitBlock(t *testing.T, ask func() answer) {
	t.Helper()
	var a answer
	await(t, func() bool { a = ask(); return a.status != 200 })
	a.blocked(t)
}

// A line has at most 32 policies: where more match, the one that blocks is among them.
func TestLineNamesThePolicyThatBlocks(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	var policies []api.GovernancePolicy
	for range verdict.MaxFired {
		policies = append(policies, requestPII("warn", "", "EMAIL"))
	}
	g.give(append(policies, requestPII("block", "", "EMAIL"))...)
	r := governedRig(t, open(up.URL)+governance, g)
	if a := r.post(callWith(`{"to":"bob@example.com"}`)); a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
	fired := firedOf(r.lines(1)[0])
	if n := strings.Count(fired, "pol_"); n != verdict.MaxFired || !strings.Contains(fired, "pol_32:block") || !strings.Contains(fired, "pol_0:warn") {
		t.Errorf("%d fired: %s", n, fired)
	}
}

// A gateway with a control plane whose policies it does not enforce logs that when it starts.
func TestGovernanceThatIsOffIsLogged(t *testing.T) {
	for name, section := range map[string]string{
		"off": "control_plane: {url: 'http://127.0.0.1:1', ingest_key: svc_ingest_x, traces: {enabled: false}}\n",
		"on":  "control_plane: {url: 'http://127.0.0.1:1', ingest_key: svc_ingest_x, traces: {enabled: false}, governance: {enabled: true}}\n",
		"":    "",
	} {
		r := newRig(t, open("http://127.0.0.1:1/mcp")+section)
		if logged := strings.Contains(r.logs.String(), "its policies are not enforced"); logged != (name == "off") {
			t.Errorf("%q: %s", name, r.logs)
		}
	}
}

// Spans have the decision of policies, its reason, and the time of the scan.
func TestGovernanceSpans(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	collector := newOTLPCollector(t)
	g := &governor{}
	g.give(requestPII("block", "", "CREDIT_CARD"), requestPII("redact", "mask", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance+"telemetry:\n"+pipeline("customer", collector.URL, ""), g)
	for body, want := range map[string][2]string{
		callWith(`{"to":"` + cardNumber + `"}`): {"deny", "governance_block"},
		callWith(`{"to":"bob@example.com"}`):    {"redact", ""},
		callWith(`{"to":"nobody"}`):             {"", ""},
	} {
		before := len(collector.roots())
		r.post(body)
		await(t, func() bool { return len(collector.roots()) == before+1 })
		root := collector.roots()[before]
		attributes := spanAttributes(root)
		if got := [2]string{attributes["mcp.policy.decision"], attributes["error.type"]}; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		await(t, func() bool { return collector.children(root)["pii_scan"] != nil })
	}
}
