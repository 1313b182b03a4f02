package storetest

import (
	"context"
	"errors"
	"testing"

	"svc/store"
)

// Opened is the store under test: one engine with records and traces, or two that work
// together.
type Opened struct {
	Records store.Records
	Traces  store.Traces
	Clock   *Ticking
	// MaxAutoAgents is the bound that the store was opened with; at least 3.
	MaxAutoAgents int

	// Another opens another handle on the same store, as another process does, and
	// closes it when its test ends. nil: the store supports one process.
	Another func(t testing.TB) (store.Records, store.Traces)
	// Fail makes every commit call a function that returns the error to fail with; nil
	// ends that. If Fail is nil, no faults are injected.
	Fail func(fault func() error)
}

// close closes the store under test.
func (o Opened) close() error { return errors.Join(o.Traces.Close(), o.Records.Close()) }

// group is a group of tests that share a store.
type group struct {
	name string
	run  func(t testing.TB, o Opened)
}

// groups is the suite, except for tests that open many stores.
var groups = []group{
	{"Tenants", testTenants}, {"Bootstrap", testBootstrap}, {"OnlyTenantOfAnOrganization", testOnlyTenantOfAnOrganization},
	{"Isolation", testIsolation},
	{"Teams", testTeams}, {"Members", testMembers}, {"Agents", testAgents}, {"TeamsOfAgents", testTeamsOfAgents}, {"SpendByScope", testSpendByScope}, {"Budgets", testBudgets},
	{"SLAs", testSLAs}, {"Policies", testPolicies}, {"Keys", testKeys}, {"Sessions", testSessions}, {"SessionsOfAKey", testSessionsOfAKey}, {"SessionsEnd", testSessionsEnd},
	{"Approvals", testApprovals}, {"ApprovalRace", testApprovalRace}, {"ApprovalMerge", testApprovalMerge},
	{"ApprovalDeciders", testApprovalDeciders}, {"ApprovalLimits", testApprovalLimits}, {"ApprovalEnds", testApprovalEnds}, {"ApprovalMessages", testApprovalMessages},
	{"Webhooks", testWebhooks}, {"Deliveries", testDeliveries}, {"DroppedDeliveries", testDroppedDeliveries}, {"EventsOfState", testEventsOfState}, {"FailingWebhook", testFailingWebhook},
	{"LastUnlimitedKey", testLastUnlimitedKey}, {"TenantKey", testTenantKey},
	{"UserEvents", testUserEvents}, {"UserEventOrder", testUserEventOrder}, {"InvitedUsers", testInvitedUsers},
	{"InvitedUserIsDeleted", testInvitedUserIsDeleted}, {"InvitedAddressMovesOn", testInvitedAddressMovesOn},
	{"InvitedAddressIsTaken", testInvitedAddressIsTaken}, {"InvitedAndNeverAnnounced", testInvitedAndNeverAnnounced},
	{"EventDatedInTheFuture", testEventDatedInTheFuture},
	{"Races", testRaces}, {"Idempotency", testIdempotency},
	{"StoredWithChange", testStoredWithChange}, {"FaultBetweenChangeAndResponse", testFaultBetweenChangeAndResponse},
	{"Leases", testLeases}, {"Fencing", testFencing},
	{"Ingest", testIngest}, {"Batches", testBatches}, {"IngestRefusals", testIngestRefusals}, {"AutoRegistration", testAutoRegistration}, {"AgentAliases", testAgentAliases},
	{"ListTraces", testListTraces}, {"TraceDetails", testTraceDetails}, {"GetTrace", testGetTrace}, {"Streams", testStreams},
	{"Stats", testStats}, {"StatsOfNames", testStatsOfNames}, {"BoundOfNames", testBoundOfNames}, {"QuantilesInBounds", testQuantilesInBounds}, {"LateArrivals", testLateArrivals}, {"Retention", testRetention},
	{"AuditHeads", testAuditHeads}, {"Gateways", testGateways}, {"GatewaysMove", testGatewaysMove}, {"GatewayKeys", testGatewayKeys}, {"GatewayNames", testGatewayNames}, {"GatewayBounds", testGatewayBounds}, {"PolicyRevision", testPolicyRevision},
	{"AuditEvidence", testAuditEvidence},
	{"AuditKeys", testAuditKeys},
	{"AuditEvents", testAuditEvents}, {"IfMatch", testIfMatch}, {"Apply", testApply}, {"ApplyAtOnce", testApplyAtOnce}, {"ApplyFault", testApplyFault},
	{"GovernanceRevision", testGovernanceRevision},
	{"Lists", testLists}, {"Places", testPlaces}, {"PlacesOfTraces", testPlacesOfTraces}, {"Closed", testClosed},
	{"EngineClock", testEngineClock}, {"FineTimes", testFineTimes}, {"NamesBeyondASCII", testNamesBeyondASCII},
	{"EveryMethod", testEveryMethod}, {"Faults", testFaults}, {"FaultsNowAndThen", testFaultsNowAndThen},
	{"Restored", testRestored}, {"HandlesRace", testHandlesRace}, {"HandlesIdempotency", testHandlesIdempotency}, {"HandlesLeases", testHandlesLeases},
	{"HandlesStreams", testHandlesStreams}, {"HandlesKeys", testHandlesKeys}, {"HandlesClose", testHandlesClose},
}

// Run runs the suite. open must open an empty store with a clock of its own, and close
// it when its test ends.
func Run(t *testing.T, open func(t *testing.T) Opened) {
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.run(t, open(t))
		})
	}
	t.Run("Model", func(t *testing.T) { t.Parallel(); testModel(t, open) })
}

// Tenant has the records and the traces of one tenant.
type Tenant struct {
	store.Tenant
	store.TenantTraces
}

// NewTenant makes a tenant with an API key, both named after name.
func NewTenant(t testing.TB, o Opened, name string) Tenant {
	t.Helper()
	info, key, err := o.Records.CreateTenant(context.Background(), store.TenantCreate{Name: name,
		Key: &store.KeyCreate{Name: "first", Scope: store.ScopeAPI, Prefix: "svc_api_abcd", Digest: store.DigestKey("secret of " + name)}})
	if err != nil || key == nil {
		t.Fatalf("create tenant: %v", err)
	}
	return Tenant{o.Records.Tenant(info.ID), o.Traces.TracesOf(info.ID)}
}

// must returns v and ends the test on an error.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

// wantKind checks the kind of an error, and the field that it names where one is given.
func wantKind(t testing.TB, err error, kind store.Kind, field string) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("error %v, want kind %q", err, kind)
	}
	if field != "" && e.Fields[field] == "" {
		t.Fatalf("error %v has fields %v, want %q", err, e.Fields, field)
	}
}

func newAgent(t testing.TB, tn Tenant, name string) store.Agent {
	t.Helper()
	return must(tn.CreateAgent(context.Background(), store.AgentCreate{Name: name, Environment: "production"}))(t)
}

func ingest(t testing.TB, tn Tenant, want store.IngestResult, batch ...store.Trace) {
	t.Helper()
	got := must(tn.Ingest(context.Background(), store.Batch{Traces: batch}))(t)
	if want.Accepted == len(batch) {
		want = store.IngestResult{}
		for i := range batch {
			want.Accept(&batch[i])
		}
	} else { // the caller checks which of them were accepted
		got.Blocked, got.Failed = 0, 0
	}
	if got != want {
		t.Fatalf("ingest %+v, want %+v", got, want)
	}
}
