package client_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/server"
	"svc/server/client"
	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
)

// recorder records requests.
type recorder struct {
	mu   sync.Mutex
	seen []*http.Request
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	r.mu.Unlock()
	return http.DefaultTransport.RoundTrip(req)
}

// plane starts a control plane and returns a client of it with an api key.
func plane(t *testing.T, opts ...client.Option) (*client.Client, *recorder, string) {
	t.Helper()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	key := server.NewSecret(store.ScopeAPI)
	_, _, err = st.CreateTenant(context.Background(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{
		Name: "k", Scope: store.ScopeAPI, Prefix: server.SecretPrefix(key), Digest: store.DigestKey(key),
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Records: st, Traces: st, RateLimit: 100_000, IngestRateLimit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	t.Cleanup(func() { srv.Drain(); ts.Close() })
	rec := &recorder{}
	return client.New(ts.URL, key, append([]client.Option{client.WithTransport(rec)}, opts...)...), rec, ts.URL
}

func ptr[T any](v T) *T { return &v }

// must fails the test on an error and returns the value.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestEveryEndpoint calls every method against a real control plane, and checks
// that together they call every operation of its OpenAPI document.
func TestEveryEndpoint(t *testing.T) {
	c, rec, url := plane(t)
	ctx := context.Background()

	team := must[api.Team](t)(c.CreateTeam(ctx, api.TeamCreate{Name: "team", Description: "d"}))
	if got := must[api.Page[api.Team]](t)(c.ListTeams(ctx, client.Page{})); got.Total != 1 || got.Limit != 50 || got.Data[0].ID != team.ID {
		t.Errorf("teams %+v", got)
	}
	if got := must[api.Team](t)(c.UpdateTeam(ctx, team.ID, api.TeamUpdate{Name: ptr("renamed")})); got.Name != "renamed" || got.Description != "d" {
		t.Errorf("team %+v", got)
	}
	if got := must[api.Team](t)(c.ReplaceTeamScopes(ctx, team.ID, []string{"agents:read"})); len(got.Scopes) != 1 {
		t.Errorf("scopes %v", got.Scopes)
	}
	if got := must[api.Team](t)(c.ReplaceTeamScopes(ctx, team.ID, nil)); len(got.Scopes) != 0 {
		t.Errorf("scopes %v", got.Scopes)
	}
	if got := must[api.Member](t)(c.AddMember(ctx, team.ID, api.MemberAdd{UserID: "usr_admin"})); got.Role != "member" {
		t.Errorf("member %+v", got)
	}
	if got := must[api.List[api.Member]](t)(c.ListMembers(ctx, team.ID)); got.Total != 1 || got.Data[0].UserID != "usr_admin" {
		t.Errorf("members %+v", got)
	}
	if got := must[api.Team](t)(c.GetTeam(ctx, team.ID)); got.MemberCount != 1 {
		t.Errorf("team %+v", got)
	}

	agent := must[api.AgentCreated](t)(c.CreateAgent(ctx, api.AgentCreate{Name: "agent", Environment: "production", ConfigYAML: "a: 1"}))
	if got := must[api.Page[api.AgentItem]](t)(c.ListAgents(ctx, client.AgentQuery{Environment: "production", Page: client.Page{Limit: 5}})); got.Total != 1 || got.Limit != 5 {
		t.Errorf("agents %+v", got)
	}
	if got := must[api.Page[api.AgentItem]](t)(c.ListAgents(ctx, client.AgentQuery{Environment: "other"})); got.Total != 0 {
		t.Errorf("agents %+v", got)
	}
	if got := must[api.Agent](t)(c.GetAgent(ctx, agent.ID)); got.ConfigYAML != "a: 1" {
		t.Errorf("agent %+v", got)
	}
	must[api.Agent](t)(c.UpdateAgent(ctx, agent.ID, api.AgentUpdate{ConfigYAML: ptr("a: 2")}))
	if got := must[api.Page[api.Deployment]](t)(c.ListAgentHistory(ctx, agent.ID, client.Page{})); got.Total != 2 || got.Limit != 20 {
		t.Errorf("history %+v", got)
	}

	stream := must[*client.TraceStream](t)(c.StreamTraces(ctx, client.TraceFilter{AgentID: agent.ID}, ""))
	defer stream.Close()
	at := time.Now().UTC().Truncate(time.Millisecond)
	if got := must[api.IngestResult](t)(c.PostTraces(ctx, []api.TraceInput{
		{ID: "t1", AgentID: agent.ID, Status: "success", DurationMs: 12.5, CostUSD: ptr(0.25), ToolName: "search", CreatedAt: at},
		{ID: "t2", AgentName: "another", Status: "error", DurationMs: 1},
	})); got.Accepted != 2 || got.Duplicates != 0 {
		t.Errorf("ingest %+v", got)
	}
	if got := must[client.TraceEvent](t)(stream.Next()); got.Trace.ID != "t1" || got.ID == "" || got.ID != stream.LastEventID() {
		t.Errorf("event %+v", got)
	}
	if got := must[api.Page[api.AgentTool]](t)(c.ListAgentTools(ctx, agent.ID, client.Page{})); got.Total != 1 || got.Data[0].ToolName != "search" {
		t.Errorf("tools %+v", got)
	}
	q := client.TraceQuery{TraceFilter: client.TraceFilter{AgentID: agent.ID, Status: "success", Start: at, End: at,
		MinCostUSD: ptr(0.2), MaxCostUSD: ptr(0.3), MinInjectionScore: ptr(0.0)}}
	if got := must[api.Page[api.TraceItem]](t)(c.ListTraces(ctx, q)); got.Total != 1 || got.Data[0].ID != "t1" {
		t.Errorf("traces %+v", got)
	}
	var export bytes.Buffer
	if err := c.ExportTraces(ctx, q.TraceFilter, "ndjson", &export); err != nil || strings.Count(export.String(), "\n") != 1 || !strings.Contains(export.String(), `"t1"`) {
		t.Errorf("export %q, %v", &export, err)
	}
	q.MinCostUSD = ptr(0.26)
	if got := must[api.Page[api.TraceItem]](t)(c.ListTraces(ctx, q)); got.Total != 0 {
		t.Errorf("traces %+v", got)
	}
	if got := must[api.Trace](t)(c.GetTrace(ctx, "t1")); got.CostUSD != 0.25 || !got.CreatedAt.Equal(at) {
		t.Errorf("trace %+v", got)
	}
	if got := must[api.TraceStats](t)(c.TraceStats(ctx, client.StatsQuery{Period: "1h", GroupBy: "agent"})); got.Summary.TotalTraces != 2 || len(got.Groups) != 2 {
		t.Errorf("stats %+v", got)
	}
	if got := must[api.TraceStats](t)(c.TraceStats(ctx, client.StatsQuery{Start: at.Add(-time.Hour), End: at, Parts: 6})); got.Summary.TotalTraces == 0 || len(got.Parts) != 6 || got.Period != "" {
		t.Errorf("stats of a window %+v", got)
	}

	if got := must[api.CostBreakdown](t)(c.CostBreakdown(ctx, client.BreakdownQuery{Period: "1d", GroupBy: "agent", AgentID: agent.ID})); got.TotalCostUSD != 0.25 {
		t.Errorf("breakdown %+v", got)
	}
	budget := must[api.Budget](t)(c.CreateBudget(ctx, api.BudgetCreate{Name: "b", AgentID: agent.ID, Period: "daily", LimitUSD: ptr(1.0)}))
	if got := must[api.Budget](t)(c.UpdateBudget(ctx, budget.ID, api.BudgetUpdate{LimitUSD: ptr(0.5)})); got.PercentUsed != 50 {
		t.Errorf("budget %+v", got)
	}
	if got := must[api.List[api.Budget]](t)(c.ListBudgets(ctx)); got.Total != 1 {
		t.Errorf("budgets %+v", got)
	}
	sla := must[api.SLATarget](t)(c.CreateSLA(ctx, api.SLACreate{Name: "s", AgentID: agent.ID, P99LatencyMs: ptr(5.0), EvaluationPeriod: "1h"}))
	if got := must[api.SLATarget](t)(c.UpdateSLA(ctx, sla.ID, api.SLAUpdate{P99LatencyMs: ptr(5000.0)})); got.Status != "healthy" {
		t.Errorf("sla %+v", got)
	}
	if got := must[api.List[api.SLATarget]](t)(c.ListSLAs(ctx)); got.Total != 1 {
		t.Errorf("slas %+v", got)
	}
	if got := must[api.List[api.SLAViolation]](t)(c.ListViolations(ctx, client.ViolationQuery{Period: "7d", SLAID: sla.ID})); got.Total != 0 {
		t.Errorf("violations %+v", got)
	}

	policy := must[api.Policy](t)(c.CreatePolicy(ctx, api.PolicyCreate{Name: "p", Phase: "request", Action: "warn",
		Condition: &api.Condition{Type: "pii_detected", Entities: []string{"EMAIL"}}, Enabled: ptr(false)}))
	if got := must[api.Page[api.Policy]](t)(c.ListPolicies(ctx, client.PolicyQuery{Phase: "request", Enabled: ptr(false)})); got.Total != 1 {
		t.Errorf("policies %+v", got)
	}
	_, etag, err := c.Governance(ctx, "")
	if err != nil || etag == "" {
		t.Fatal(etag, err)
	}
	if bundle, again, err := c.Governance(ctx, etag); bundle != nil || again != etag || err != nil {
		t.Errorf("unchanged bundle: %+v, %q, %v", bundle, again, err)
	}
	if got := must[api.Policy](t)(c.UpdatePolicy(ctx, policy.ID, api.PolicyUpdate{Enabled: ptr(true)})); !got.Enabled || got.Condition.Entities[0] != "EMAIL" {
		t.Errorf("policy %+v", got)
	}
	if bundle, again, err := c.Governance(ctx, etag); err != nil || again == etag || len(bundle.Policies) != 1 {
		t.Errorf("changed bundle: %+v, %q, %v", bundle, again, err)
	}
	read := must[api.Policy](t)(c.GetPolicy(ctx, policy.ID))
	must[api.Policy](t)(c.UpdatePolicy(ctx, policy.ID, api.PolicyUpdate{Message: ptr("no"), IfMatch: read.ETag}))
	var outdated *client.Error
	if _, err := c.UpdatePolicy(ctx, policy.ID, api.PolicyUpdate{Message: ptr("never"), IfMatch: read.ETag}); !errors.As(err, &outdated) || outdated.Status != http.StatusPreconditionFailed {
		t.Errorf("a change of another state: %v", err)
	}
	if got := must[[]api.PolicyTemplate](t)(c.ListPolicyTemplates(ctx)); len(got) < 5 {
		t.Errorf("templates %+v", got)
	}
	if got := must[api.TemplateApplied](t)(c.ApplyPolicyTemplate(ctx, api.TemplateApply{Template: "cost-guard"})); got.Created != 1 {
		t.Errorf("applied %+v", got)
	}

	declared := must[api.Documents](t)(c.ExportDocuments(ctx, api.KindAgent, api.KindBudget))
	if got := must[api.Applied](t)(c.Apply(ctx, api.Apply{Documents: declared.Documents})); !got.Applied || len(got.Data) == 0 || got.Data[0].Change != api.ChangeNone {
		t.Errorf("applied %+v of %+v", got, declared)
	}

	must[api.Budget](t)(c.GetBudget(ctx, budget.ID))
	must[api.SLATarget](t)(c.GetSLA(ctx, sla.ID))
	if got := must[api.Whoami](t)(c.Whoami(ctx)); got.Tenant.ID == "" {
		t.Errorf("whoami %+v", got)
	}
	if got := must[api.AuditEvents](t)(c.ListAuditEvents(ctx, client.EventQuery{Object: "budget"})); len(got.Data) == 0 {
		t.Errorf("audit events %+v", got)
	}

	key := must[api.KeyCreated](t)(c.CreateKey(ctx, api.KeyCreate{Name: "k2", Scope: "agent", TeamID: team.ID}))
	if !strings.HasPrefix(key.Key, "svc_agent_") {
		t.Errorf("key %+v", key)
	}
	if got := must[api.Page[api.KeyItem]](t)(c.ListKeys(ctx, client.KeyQuery{Scope: "agent"})); got.Total != 1 || got.Data[0].ID != key.ID {
		t.Errorf("keys %+v", got)
	}

	if got := must[api.KeyItem](t)(c.GetKey(ctx, key.ID)); got.ID != key.ID {
		t.Errorf("key %+v", got)
	}

	head := api.AuditHeadReport{Gateway: "gateway-1", Trail: "0a1b2c3d", Seq: 7, Hash: strings.Repeat("a", 64)}
	if got := must[api.AuditHead](t)(c.ReportAuditHead(ctx, head)); got.AuditHeadReport != head {
		t.Errorf("head %+v", got)
	}
	if got := must[api.List[api.AuditHead]](t)(c.ListAuditHeads(ctx)); got.Total != 1 || got.Data[0].Hash != head.Hash {
		t.Errorf("heads %+v", got)
	}

	signer := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	head.PublicKey = base64.StdEncoding.EncodeToString(signer.Public().(ed25519.PublicKey))
	head.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(signer, head.SignedText()))
	if got := must[api.AuditHead](t)(c.ReportAuditHead(ctx, head)); !got.Signed || got.PublicKey != head.PublicKey {
		t.Errorf("signed head %+v", got)
	}
	if got := must[api.AuditKey](t)(c.AcceptAuditKey(ctx, api.AuditKeyAccept{Gateway: head.Gateway, PublicKey: head.PublicKey})); got.KeyID == "" {
		t.Errorf("key %+v", got)
	}

	gateway := client.New(url, must[api.KeyCreated](t)(c.CreateKey(ctx, api.KeyCreate{Name: "gateway", Scope: "ingest"})).Key, client.WithTransport(rec))
	testApprovals(t, c, gateway)
	testGateways(t, c, gateway, signer)

	testWebhooks(t, c)

	doc := must[[]byte](t)(c.OpenAPI(ctx))
	for _, err := range []error{
		c.DeleteKey(ctx, key.ID), c.RemoveMember(ctx, team.ID, "usr_admin"), deleteTeam(ctx, c, team.ID), c.DeletePolicy(ctx, policy.ID),
		c.DeleteBudget(ctx, budget.ID), c.DeleteSLA(ctx, sla.ID), deleteAgent(ctx, c, agent.ID),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	reached(t, doc, rec.seen)
}

// testGateways follows a gateway from its report until it is forgotten.
func testGateways(t *testing.T, person, gateway *client.Client, signer ed25519.PrivateKey) {
	t.Helper()
	const name = "edge-1"
	body, err := json.Marshal(api.GatewayReport{Instance: strings.Repeat("0a", 16), Seq: 1, StartedAt: time.Now(), State: api.GatewayRunning})
	if err != nil {
		t.Fatal(err)
	}
	signature := api.GatewaySignature(signer.Public().(ed25519.PublicKey), ed25519.Sign(signer, api.GatewaySignedText(name, body)))
	if err := gateway.ReportGateway(t.Context(), name, body, signature); err != nil {
		t.Fatal(err)
	}
	if got := must[api.List[api.Gateway]](t)(person.ListGateways(t.Context(), true)); got.Total != 1 || got.Data[0].Name != name {
		t.Errorf("gateways %+v", got)
	}
	if got := must[api.Gateway](t)(person.GetGateway(t.Context(), name)); len(got.Instances) != 1 || !got.Instances[0].Signed {
		t.Errorf("gateway %+v", got)
	}
	if err := person.ForgetGateway(t.Context(), name); err != nil {
		t.Error(err)
	}
	if err := person.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// testWebhooks follows a webhook from its creation to its end.
func testWebhooks(t *testing.T, c *client.Client) {
	hook := must[api.Webhook](t)(c.CreateWebhook(t.Context(), api.WebhookCreate{Name: "h", URL: "https://h.example/secret", Events: []string{"agent.created"}}))
	if got := must[api.Page[api.Webhook]](t)(c.ListWebhooks(t.Context(), client.Page{})); got.Total != 1 || got.Data[0].ID != hook.ID {
		t.Errorf("webhooks %+v", got)
	}
	if got := must[api.Webhook](t)(c.GetWebhook(t.Context(), hook.ID)); got.Secret != "" || strings.Contains(got.URL, "secret") {
		t.Errorf("webhook %+v", got)
	}
	name := "other"
	if got := must[api.Webhook](t)(c.UpdateWebhook(t.Context(), hook.ID, api.WebhookUpdate{Name: &name})); got.Name != name {
		t.Errorf("webhook %+v", got)
	}
	if got := must[api.Webhook](t)(c.RotateWebhookSecret(t.Context(), hook.ID)); got.Secret == "" || got.Secret == hook.Secret {
		t.Errorf("rotated %+v", got)
	}
	sent := must[api.Delivery](t)(c.TestWebhook(t.Context(), hook.ID))
	if got := must[api.Page[api.Delivery]](t)(c.ListDeliveries(t.Context(), hook.ID, client.DeliveryQuery{})); got.Total != 1 || got.Data[0].ID != sent.ID {
		t.Errorf("deliveries %+v", got)
	}
	_, err := c.Redeliver(t.Context(), hook.ID, sent.ID) // it waits for its first attempt
	var refused *client.Error
	if err != nil && !errors.As(err, &refused) {
		t.Error(err)
	}
	if err := c.DeleteWebhook(t.Context(), hook.ID); err != nil {
		t.Error(err)
	}
}

// testApprovals follows an approval from the gateway that asks to its use.
func testApprovals(t *testing.T, person, gateway *client.Client) {
	t.Helper()
	ctx := context.Background()
	call := api.ApprovalRequest{Digest: strings.Repeat("d", 64), KeyTag: "00c0ffee", Tool: "pay", Method: "tools/call", AgentName: "agent", Principal: "key:bob",
		Upstream: "bank", Gateway: "gw", RequestID: "req", ValidFor: 60, Expires: 60, NotSelf: api.SelfForbidden, Show: api.ShowAll,
		Reasons: []api.ApprovalReason{{RuleID: "r"}}, Arguments: []api.ApprovalArgument{{Pointer: "/a", Value: "1"}}}
	asked := must[api.ApprovalAnswer](t)(gateway.RequestApproval(ctx, call))
	if got := must[api.Page[api.ApprovalRecord]](t)(person.ListApprovals(ctx, client.ApprovalQuery{Status: api.ApprovalPending})); got.Total != 1 || got.Data[0].ID != asked.ID {
		t.Errorf("approvals %+v", got)
	}
	if got := must[[]api.ApprovalRecord](t)(client.AllApprovals(ctx, person.ListApprovals, api.ApprovalPending)); len(got) != 1 || got[0].Version != 1 {
		t.Errorf("approvals %+v", got)
	}
	if got := must[api.ApprovalRecord](t)(person.GetApproval(ctx, asked.ID)); len(got.Arguments) != 1 || got.Status != api.ApprovalPending {
		t.Errorf("approval %+v", got)
	}
	claim := api.ApprovalClaim{Nonce: strings.Repeat("e", 32), Digest: call.Digest}
	var refused *client.Error
	if _, err := gateway.ClaimApproval(ctx, asked.ID, claim); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		t.Errorf("claim before the grant: %v", err)
	}
	if _, err := person.DecideApproval(ctx, asked.ID, api.ApprovalDecision{Decision: "grant", Version: 2}); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		t.Errorf("a grant of another version: %v", err)
	}
	if got := must[api.ApprovalRecord](t)(person.DecideApproval(ctx, asked.ID, api.ApprovalDecision{Decision: "grant", Version: 1})); got.Status != api.ApprovalGranted {
		t.Errorf("decided %+v", got)
	}
	if got := must[api.ApprovalAnswer](t)(gateway.ClaimApproval(ctx, asked.ID, claim)); got.Status != api.ApprovalUsed || got.ApprovedBy != "usr_admin" {
		t.Errorf("claimed %+v", got)
	}
	if got := must[api.ApprovalAnswer](t)(gateway.ReleaseApproval(ctx, asked.ID, claim)); got.Status != api.ApprovalGranted {
		t.Errorf("released %+v", got)
	}
}

// reached checks that every operation of the document was called, except those
// for the identity provider and OpenTelemetry exporters.
func reached(t *testing.T, doc []byte, seen []*http.Request) {
	t.Helper()
	var d struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	for path, methods := range d.Paths {
		for method := range methods {
			if method == "parameters" || path == "/api/auth/webhook" || path == "/api/otlp/v1/traces" {
				continue
			}
			found := false
			for _, r := range seen {
				found = found || strings.EqualFold(r.Method, method) && fits(path, r.URL.Path)
			}
			if !found {
				t.Errorf("no method of the client asks %s %s", strings.ToUpper(method), path)
			}
		}
	}
}

func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && want[i] != "{id}" && want[i] != "{name}" {
			return false
		}
	}
	return true
}

// TestHeaders: the key; a random Idempotency-Key on creations; and none on
// creations of keys unless the caller sets it.
func TestHeaders(t *testing.T) {
	c, rec, _ := plane(t, client.WithUserAgent("tests"))
	ctx := context.Background()
	must[api.Team](t)(c.CreateTeam(ctx, api.TeamCreate{Name: "a"}))
	must[api.Team](t)(c.CreateTeam(ctx, api.TeamCreate{Name: "b"}))
	must[api.Team](t)(c.CreateTeam(ctx, api.TeamCreate{Name: "b2"}, client.IdempotencyKey("mine")))
	must[api.KeyCreated](t)(c.CreateKey(ctx, api.KeyCreate{Name: "k", Scope: "agent"}))
	key := func(i int) string { return rec.seen[i].Header.Get("Idempotency-Key") }
	if key(0) == "" || key(0) == key(1) || key(2) != "mine" || key(3) != "" {
		t.Errorf("attempts %q, %q, %q, %q", key(0), key(1), key(2), key(3))
	}
	for _, r := range rec.seen {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer svc_api_") || r.Header.Get("User-Agent") != "tests" {
			t.Errorf("%v", r.Header)
		}
	}
	again := must[api.Team](t)(c.CreateTeam(ctx, api.TeamCreate{Name: "b2"}, client.IdempotencyKey("mine")))
	if again.Name != "b2" {
		t.Errorf("%+v", again)
	}
}

// TestErrors: every unsuccessful response is an *Error with the response's
// contents.
func TestErrors(t *testing.T) {
	c, _, url := plane(t)
	ctx := context.Background()
	var e *client.Error
	_, err := c.GetAgent(ctx, "agt_unknown")
	if !errors.As(err, &e) || e.Status != 404 || e.RequestID == "" {
		t.Errorf("%#v", err)
	}
	_, err = c.CreateAgent(ctx, api.AgentCreate{Name: "", ModelName: strings.Repeat("x", 300)})
	if !errors.As(err, &e) || e.Status != 400 || e.Details["name"] == "" || e.Details["modelName"] == "" {
		t.Errorf("%#v", err)
	}
	if got := err.Error(); !strings.HasPrefix(got, "invalid input (400): modelName ") || !strings.Contains(got, "; name is required") {
		t.Errorf("%q", got)
	}
	_, err = client.New(url, "svc_api_wrong").ListTeams(ctx, client.Page{})
	if !errors.As(err, &e) || e.Status != 401 || strings.Contains(err.Error(), "svc_api_wrong") {
		t.Errorf("%v", err)
	}
	if _, err := c.GetTeam(ctx, "../keys"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("an id is a path: %v", err)
	}
}

// TestStrangeAnswers: responses of proxies and other programs are recognized as
// not coming from a control plane.
func TestStrangeAnswers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"a proxy's error page", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(502)
			io.WriteString(w, "<html>\x1b[31mBad Gateway</html>")
		}, "bad gateway (502)"},
		{"429", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			io.WriteString(w, `{"error":"rate limit exceeded"}`)
		}, "rate limit exceeded (429); try again in 7s"},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/teams" {
				t.Error("the key went elsewhere")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "temporary redirect, which redirects to /elsewhere: write the final address into the configuration (307)"},
		{"a page", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") }, "is not one of this API"},
		{"an endless error", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			for range 40 {
				w.Write(make([]byte, 64<<10))
			}
		}, "internal server error (500)"},
		{"unnamed status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(599) }, "unexpected status (599)"},
		{"cut answer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"data":[`)
		}, "read response"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ts := httptest.NewServer(tc.handler)
			defer ts.Close()
			_, err := client.New(ts.URL, "k").ListTeams(context.Background(), client.Page{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\x1b") {
				t.Errorf("the error has a stranger's text: %q", err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer ts.Close()
	defer close(release)
	_, err := client.New(ts.URL, "k", client.WithTimeout(20*time.Millisecond)).ListTeams(context.Background(), client.Page{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.New(ts.URL, "k").ListTeams(ctx, client.Page{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestBaseAddress(t *testing.T) {
	_, _, url := plane(t)
	for _, base := range []string{url, url + "/", url + "/api", url + "/api/"} {
		var e *client.Error
		if _, err := client.New(base, "svc_api_x").ListTeams(context.Background(), client.Page{}); !errors.As(err, &e) || e.Status != 401 {
			t.Errorf("%s: %v", base, err)
		}
	}
	for _, base := range []string{"", "localhost:1", "http://[::1", "\x7f"} {
		if _, err := client.New(base, "k").ListTeams(context.Background(), client.Page{}); err == nil {
			t.Errorf("%q: accepted", base)
		}
	}
}

// A trace that cannot be encoded is an error without a request.
func TestPostTracesRefusesWhatCannotBeEncoded(t *testing.T) {
	rec := &recorder{}
	c := client.New("http://127.0.0.1:1", "", client.WithTransport(rec))
	_, err := c.PostTraces(context.Background(), []api.TraceInput{{Status: "success", DurationMs: math.NaN()}})
	if err == nil || !strings.Contains(err.Error(), "traces[0]") || len(rec.seen) != 0 {
		t.Errorf("error %v after %d requests, want one that names traces[0] after none", err, len(rec.seen))
	}
}

// deleteTeam deletes a team and ignores warnings.
func deleteTeam(ctx context.Context, c *client.Client, id string) error {
	_, err := c.DeleteTeam(ctx, id)
	return err
}

// deleteAgent deletes an agent and ignores warnings.
func deleteAgent(ctx context.Context, c *client.Client, id string) error {
	_, err := c.DeleteAgent(ctx, id)
	return err
}
