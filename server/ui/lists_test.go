package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"svc/server/client"
	"svc/store"
	"svc/store/api"
)

// hostile is a name that would be a script, an attribute, or another text.
const hostile = "<script>alert(1)</script>\" onload=x \u202egnp.exe\u200b 'é"

// shownHostile is what a page shows of it.
const shownHostile = `&lt;script&gt;alert(1)&lt;/script&gt;&#34; onload=x \u{202E}gnp.exe\u{200B} &#39;é`

// harmless fails the test when a page has markup of a name.
func (s seen) harmless(t testing.TB) seen {
	t.Helper()
	if s.status != http.StatusOK || strings.Contains(s.body, "<script>alert") || strings.ContainsAny(s.body, "\u202e\u200b") || strings.Contains(s.body, "style=") {
		t.Errorf("status %d, or markup of a name: %s", s.status, s.body)
	}
	return s
}

// report sends the report of an instance.
func (r *rig) report(key, gateway string, instance int, change func(*api.GatewayReport)) {
	r.t.Helper()
	r.reports++
	in := api.GatewayReport{Instance: fmt.Sprintf("%032x", instance), Seq: r.reports, Version: "1.0.0", StartedAt: r.now(), State: api.GatewayRunning, ConfigDigest: "00c0ffee00c0ffee"}
	in.Governance = api.GatewayGovernance{Enabled: true, Revision: api.MaxAuditSeq, Policies: 12}
	in.Audit.Writable = true
	in.Upstreams = []api.GatewayUpstream{{Name: "bank", State: "ok", Revision: "2026-07-28"}}
	change(&in)
	body, err := json.Marshal(in)
	if err == nil {
		err = client.New(r.url, key).ReportGateway(r.t.Context(), gateway, body, "")
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// costing returns a trace of an agent that cost something.
func costing(agent, tool string, cost float64) api.TraceInput {
	return api.TraceInput{AgentID: agent, Status: "success", ToolName: tool, DurationMs: 250, CostUSD: &cost, CreatedAt: epoch}
}

func TestGatewaysPage(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	b.get("/gateways").want(t, 200, "No gateway reports to this control plane", "svc keys create")

	key := r.key("ingest")
	r.ask(r.admin, "POST", "/api/policies", `{"name":"p","on":"*","phase":"request","condition":{"type":"pii_detected"},"action":"block"}`)
	r.advance(2 * time.Minute) // gateways have policies of before for so long
	r.report(key, "gone", 9, func(*api.GatewayReport) {})
	r.advance(2 * time.Minute)
	fine := func(*api.GatewayReport) {}
	r.report(key, "edge-1", 1, fine)
	r.report(key, "edge-1", 2, func(in *api.GatewayReport) { in.ConfigDigest = "00000000deadbeef" })
	b.get("/gateways").want(t, 200, "All 2 running instances enforce the newest policies", "1 gateway is silent and may enforce older ones", "edge-1", "silent for 2m")
	r.report(key, "old", 3, func(in *api.GatewayReport) { in.Governance.Revision = 7 })
	r.report(key, "plain", 4, func(in *api.GatewayReport) { in.Governance = api.GatewayGovernance{} })
	r.report(key, "broken'gateway; reboot", 5, func(in *api.GatewayReport) {
		in.Upstreams = []api.GatewayUpstream{{Name: "fine", State: "ok"}, {Name: "<b>shop</b>", State: "failing"}, {Name: "mail", State: "open"}}
		in.Audit = api.GatewayAudit{Lost: 3}
		in.License = api.GatewayLicense{State: "valid", DaysLeft: 3}
		in.RestartPending = []string{"listen"}
		in.Version = "<i>1</i>"
	})
	r.report(key, "ended", 6, func(in *api.GatewayReport) { in.State = api.GatewayStopped })
	got := b.get("/gateways").harmless(t).want(t, 200,
		"3 of 5 running instances enforce the newest policies", `<a href="/gateways/old"><bdi dir="auto">old</bdi></a> (behind)`, `(off)`,
		"does not have the newest policies for more than a minute", "the audit log cannot be written", "3 audit lines were lost", "3 days are left",
		"upstreams that fail: &lt;b&gt;shop&lt;/b&gt;", "1 open, 1 failing, 1 ok", "restart pending", "revision 7", "&lt;i&gt;1&lt;/i&gt;", "not signed",
		"svc gateways forget gone", `href="/gateways/broken%27gateway%3B%20reboot"`, "!<i>1", "!ended")
	if strings.Index(got.body, `<tbody>
<tr><th scope="rowgroup" rowspan="1"><a href="/gateways/broken`) > strings.Index(got.body, `<tr><th scope="rowgroup" rowspan="2"><a href="/gateways/edge-1">`) {
		t.Error("what is wrong does not come first")
	}
	b.get("/gateways?all=1").want(t, 200, "ended", "○ stopped", "Hide stopped ones")

	b.get("/gateways/edge-1").want(t, 200, "different configurations", "00000000deadbeef", "00c0ffee00c0ffee", "2 instances", "whoever has an ingest key")
	one := b.get("/gateways/"+url.PathEscape("broken'gateway; reboot")).harmless(t).want(t, 200, "&lt;b&gt;shop&lt;/b&gt;", "listen", "not writable", "!different configurations")
	if strings.Index(one.body, ">mail<") > strings.Index(one.body, ">fine<") {
		t.Error("upstreams that fail are not first")
	}
	b.get("/gateways/unknown").want(t, 404, "gateway not found")
	r.signIn(r.other).get("/gateways/edge-1").want(t, 404, "!deadbeef")
	r.signIn(r.other).get("/gateways").want(t, 200, "!edge-1")

	policies, _ := r.teamKey("readers", "policies:read")
	r.signIn(policies).get("/gateways").want(t, 404, "!edge-1")
	traces, _ := r.teamKey("watchers", "traces:read")
	r.signIn(traces).get("/gateways").want(t, 200, "edge-1", "This key may not see administrators")
}

// TestNewestPolicies: the pages name the gateways that do not enforce the newest policies from the first second on, and
// call that wrong after a minute. Where gateways sign, only those that sign count, as on the page of a policy.
func TestNewestPolicies(t *testing.T) {
	r := newRig(t)
	b, key := r.signIn(r.admin), r.key("ingest")
	old := func(in *api.GatewayReport) { in.Governance.Revision = 1 }
	r.report(key, "edge-1", 1, func(*api.GatewayReport) {})
	r.report(key, "edge-2", 2, old)
	b.get("/gateways").want(t, 200, "All 2 running instances enforce the newest policies")
	b.get("/").want(t, 200, "2 gateways report and have the newest policies.")
	r.policy("no rm", "")
	b.get("/gateways").want(t, 200, `class="note"><strong>1 of 2 running instances enforce the newest policies.</strong> Not yet: <a href="/gateways/edge-2">`,
		"The policies changed less than a minute ago.", `<span class="dim"><bdi dir="auto">not yet</bdi></span>`, "!These do not", "!behind")
	b.get("/").want(t, 200, `<a href="/gateways/edge-2"><bdi dir="auto">edge-2</bdi> does not yet enforce the newest policies</a>`, "1 of 2 running instances have the newest policies.", "!gateways report")
	b.get("/gateways/edge-2").want(t, 200, "not yet")

	r.advance(behindAfter)
	r.report(key, "edge-1", 1, func(*api.GatewayReport) {})
	r.report(key, "edge-2", 2, old)
	r.policy("no ls", "")
	r.report(key, "edge-3", 3, func(in *api.GatewayReport) { in.Governance = api.GatewayGovernance{} })
	r.advance(behindAfter)
	b.get("/gateways").want(t, 200, `class="problem"><strong class="bad">1 of 3 running instances enforce the newest policies.</strong> These do not: <a href="/gateways/edge-2"><bdi dir="auto">edge-2</bdi></a> (behind), <a href="/gateways/edge-3"><bdi dir="auto">edge-3</bdi></a> (off).`)
	b.get("/").want(t, 200, "edge-2</bdi> does not enforce the newest policies", "edge-3</bdi> does not enforce policies", "1 of 3 running instances have the newest policies.")
}

// behindAfter is the time from which a gateway without the newest policies is wrong.
const behindAfter = 61 * time.Second

// TestManyGatewaysPage: a list of many has pages, and one gateway of many instances too.
func TestManyGatewaysPage(t *testing.T) {
	r := newRig(t)
	r.fillGateways(250)
	b := r.signIn(r.admin)
	first := b.get("/gateways").want(t, 200, "250 gateways", "and 5 more", `href="/gateways?after=100" rel="next"`, `94 more</li>`)
	last := b.get("/gateways?after=200&all=1").want(t, 200, "g0249", `href="/gateways?all=1">First page`, "!Next page")
	if n, m := strings.Count(first.body, "rowgroup"), strings.Count(last.body, "rowgroup"); n != 100 || m != 50 {
		t.Errorf("%d rows, then %d", n, m)
	}
	for _, after := range []string{"-1", "x", "99999999999999999999", "260"} {
		b.get("/gateways?after="+after).want(t, 200)
	}
}

func TestAgentsPage(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	b.get("/agents").want(t, 200, "No agents yet", "svc agents create NAME")
	team := r.ask(r.admin, "POST", "/api/teams", `{"name":"</option><b>team"}`)["id"].(string)
	body, _ := json.Marshal(map[string]string{"name": "</title>" + strings.Map(func(c rune) rune {
		if c == '\u202e' || c == '\u200b' {
			return 'x'
		}
		return c
	}, hostile), "environment": "prod", "teamId": team, "description": hostile, "configYaml": "a: <b>\n"})
	id := r.ask(r.admin, "POST", "/api/agents", string(body))["id"].(string)
	r.ask(r.admin, "POST", "/api/agents", `{"name":"second","environment":"test"}`)
	r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"<em>limit","agentId":%q,"period":"daily","limitUsd":5}`, id))
	r.traces(costing(id, "<u>transfer</u>", 2.5))
	b.get("/agents").harmless(t).want(t, 200, "2 agents", "&lt;script&gt;", "$2.50", `<a href="/agents/`+id+`">`, "&lt;/option&gt;&lt;b&gt;team", "!<b>team")
	b.get("/agents?environment=test").want(t, 200, "second", "1 agent with these filters", "!&lt;script&gt;")
	b.get("/agents?environment="+url.QueryEscape(hostile)).want(t, 200, "!<script>alert", "No agent has these filters")
	b.get("/agents?teamId="+team+"&period=7d").want(t, 200, "Traces, 7 d", "!second")
	r.advance(24 * time.Hour)
	r.signIn(r.admin).get("/agents?period=yesterday").want(t, 200, "Traces, Yesterday", "$2.50")
	r.advance(-24 * time.Hour)
	b = r.signIn(r.admin)
	b.get("/agents?after=nonsense").want(t, 400, "invalid")
	b.get("/agents/"+id).harmless(t).want(t, 200, "&lt;script&gt;", shownHostile[:20], `/traces?agentId=`+id, "a: &lt;b&gt;", "&lt;em&gt;limit", "$2.50 of $5.00", "24 h", "Yesterday", "startDate=2026-11-29T00%3A00%3A00Z", "&lt;u&gt;transfer", "toolName=%3Cu%3Etransfer%3C%2Fu%3E")
	b.get("/agents/agt_unknown").want(t, 404)
	b.get("/agents/%2e%2e").want(t, 404)
	r.signIn(r.other).get("/agents/"+id).want(t, 404, "!script&gt;")

	reader, _ := r.teamKey("readers", "agents:read")
	br := r.signIn(reader)
	br.get("/agents").want(t, 200, "This key may not see traces")
	br.get("/agents/"+id).want(t, 200, "This key may not see traces", "This key may not see budgets", "!href=\"/traces")
	for i := range 150 {
		r.ask(r.admin, "POST", "/api/agents", fmt.Sprintf(`{"name":"agent-%d"}`, i))
	}
	first := b.get("/agents").want(t, 200, "152 agents", `rel="next"`)
	_, next, _ := strings.Cut(first.body, `<a href="/agents?after=`)
	next, _, _ = strings.Cut(next, `"`)
	b.get("/agents?after="+next).want(t, 200, "First page", "!rel=\"next\"")
}

func TestBudgetsPage(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	b.get("/budgets").want(t, 200, "No budgets yet", "No SLA targets yet", "svc costs budgets create", "svc slas create", "None.")
	id := r.ask(r.admin, "POST", "/api/agents", `{"name":"<b>spender"}`)["id"].(string)
	r.ask(r.admin, "POST", "/api/costs/budgets", fmt.Sprintf(`{"name":"<em>limit","agentId":%q,"period":"daily","limitUsd":5,"warnAt":[50,90]}`, id))
	r.ask(r.admin, "POST", "/api/costs/budgets", `{"name":"all","scope":"tenant","period":"monthly","limitUsd":100}`)
	r.ask(r.admin, "POST", "/api/costs/sla", fmt.Sprintf(`{"name":"<u>fast","agentId":%q,"p99LatencyMs":100,"evaluationPeriod":"24h"}`, id))
	r.traces(costing(id, "tool", 4.5))
	b.get("/budgets").harmless(t).want(t, 200, "2 budgets", "▲ nearly", `value="90"`, "90.0 %", "$4.50", "$5.00", "50 %, 90 %", `<a href="/agents/`+id+`"><bdi dir="auto">&lt;b&gt;spender`, "1 nearly",
		"&lt;u&gt;fast", "✕ breached", "250 ms / 100 ms", "!<em>", "!<u>")
	r.signIn(r.other).get("/budgets").want(t, 200, "!limit</bdi>", "No budgets yet")
	compliance, _ := r.teamKey("auditors", "compliance:read", "agents:read")
	r.signIn(compliance).get("/budgets").want(t, 404)
}

func TestEventsPage(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	id := r.ask(r.admin, "POST", "/api/agents", `{"name":"<b>one"}`)["id"].(string)
	r.ask(r.admin, "PUT", "/api/agents/"+id, `{"description":"other"}`)
	gone := r.ask(r.admin, "POST", "/api/agents", `{"name":"gone"}`)["id"].(string)
	var done any
	r.decode(r.admin, "DELETE", "/api/agents/"+gone, "", &done)
	b.get("/events").harmless(t).want(t, 200, "created agent", "changed agent", "deleted agent", `<a href="/agents/`+id+`"><bdi dir="auto">&lt;b&gt;one`, "description", "Digest before", "none: it is new", "first</bdi>", "!<b>one")
	b.get("/events?object=agent&objectId="+gone).want(t, 200, "deleted agent", "!&lt;b&gt;one", "All events")
	b.get("/events?object=budget").want(t, 200, "No event has these filters")
	b.get("/events?since=2026-11-30&until=2026-11-30").want(t, 200, "created agent")
	b.get("/events?until=2026-11-29").want(t, 200, "No event has these filters")
	b.get("/events?since="+url.QueryEscape(hostile)).want(t, 200, "A day is written as", "!<script>alert")
	b.get("/events?object="+url.QueryEscape(hostile)).want(t, 400, "!<script>alert")
	r.signIn(r.other).get("/events").want(t, 200, "!"+id)
	agents, _ := r.teamKey("readers", "agents:read")
	r.signIn(agents).get("/events").want(t, 404)
	auditors, _ := r.teamKey("auditors", "audit:read", "policies:read")
	r.signIn(auditors).get("/events").want(t, 200, "&lt;b&gt;one", `!href="/agents/`)
}

// fillGateways stores reports of many gateways.
func (r *rig) fillGateways(n int) {
	r.t.Helper()
	for i := range n {
		in := api.GatewayReport{Version: "1.0.0", StartedAt: r.now(), ConfigDigest: "00c0ffee00c0ffee", Governance: api.GatewayGovernance{Enabled: i%10 > 0, Policies: 12}}
		in.Audit.Writable = i%20 > 0
		for u := range 20 {
			in.Upstreams = append(in.Upstreams, api.GatewayUpstream{Name: fmt.Sprintf("upstream-%d", u), State: map[bool]string{true: "failing", false: "ok"}[i%50 == u], Revision: "2026-07-28"})
		}
		body, _ := json.Marshal(in)
		err := r.store.Tenant("one").ReportGateway(r.t.Context(), store.GatewayReport{Gateway: fmt.Sprintf("g%04d", i), Instance: fmt.Sprintf("%032x", i), Seq: 1, Governed: i%10 > 0, Revision: api.MaxAuditSeq, Report: body, KeyID: "key_1"})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// BenchmarkLists measures the pages with 1,000 gateways, 1,000 agents, 1,000 budgets and 10,000 events.
func BenchmarkLists(b *testing.B) {
	r := newRig(b)
	r.fillGateways(1000)
	tn, last := r.store.Tenant("one"), ""
	for i := range 1000 {
		a, err := tn.CreateAgent(b.Context(), store.AgentCreate{Name: fmt.Sprintf("agent-%04d", i), Environment: "production"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tn.CreateBudget(b.Context(), store.BudgetCreate{Name: fmt.Sprintf("budget-%04d", i), Payer: store.Payer{Scope: "agent", AgentID: a.ID}, Period: "daily", Limit: 5_000_000_000}); err != nil {
			b.Fatal(err)
		}
		last = a.ID
	}
	for i := range 8000 {
		text := fmt.Sprint(i)
		if _, err := tn.UpdateAgent(b.Context(), last, store.AgentUpdate{Description: &text}); err != nil {
			b.Fatal(err)
		}
	}
	browser := r.signIn(r.admin)
	for _, path := range []string{"/gateways", "/gateways/g0001", "/agents", "/agents/" + last, "/budgets", "/events", "/events?object=policy"} {
		b.Run(strings.ReplaceAll(strings.Replace(path, last, "ID", 1), "/", "_"), func(b *testing.B) {
			for b.Loop() {
				got := browser.get(path)
				if got.status != 200 {
					b.Fatal(got)
				}
				b.ReportMetric(float64(len(got.body)), "B/page")
			}
		})
	}
}
