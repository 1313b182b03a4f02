package server

import (
	"svc/store"
	"svc/store/api"
)

// route is one endpoint: its name, the keys that may call it, its rate window,
// and its handler.
type route struct {
	method, path string
	keys         []store.KeyScope // the key scopes that may call it
	team         []string         // a key that is limited to a team needs one of these; none: team limits do not apply
	unlimited    bool             // no team scope covers the route: a key of scope api must not be limited to a team
	window       windowKind
	query        []string // the parameters of its query string
	unpaged      bool     // a list without paging: limit and offset are checked and ignored
	idempotent   bool     // takes an Idempotency-Key
	maxBody      int64    // the largest body; 0: api.MaxBody
	public       bool     // needs no API key; the handler authenticates the request itself
	handle       func(*Server, *call) error
}

// windowKind is the rate window that a route counts in.
type windowKind int

const (
	apiWindow      windowKind = iota // requests of the tenant
	ingestWindow                     // ingest requests of the tenant
	addressWindow                    // requests of the client's address
	approvalWindow                   // requests of the calling key about approvals
	reportWindow                     // reports of an instance of a gateway; its handler counts in it
)

// The keys that may call a route (control-plane specification, API keys, 3;
// design: which key may do what).
var (
	admins  = []store.KeyScope{store.ScopeAPI}
	readers = []store.KeyScope{store.ScopeAPI, store.ScopeAgent}
	anyKey  = []store.KeyScope{store.ScopeAPI, store.ScopeAgent, store.ScopeIngest}
	ingests = []store.KeyScope{store.ScopeAPI, store.ScopeIngest}
	// gateways leaves out the keys of persons: who decides does not ask.
	gateways = []store.KeyScope{store.ScopeIngest}
)

// routes lists every endpoint of the API.
func routes() []route {
	return []route{
		{method: "GET", path: "/api/teams", keys: admins, team: []string{"teams:read"}, query: []string{"limit", "offset", "after"}, handle: teams.list},
		{method: "POST", path: "/api/teams", keys: admins, team: []string{"teams:write"}, idempotent: true, handle: teams.post},
		{method: "GET", path: "/api/teams/{id}", keys: admins, team: []string{"teams:read"}, handle: teams.get},
		{method: "PUT", path: "/api/teams/{id}", keys: admins, team: []string{"teams:write"}, handle: teams.put},
		{method: "DELETE", path: "/api/teams/{id}", keys: admins, team: []string{"teams:write"}, handle: teams.delete},
		{method: "PUT", path: "/api/teams/{id}/scopes", keys: admins, team: []string{"teams:write"}, handle: (*Server).replaceTeamScopes},
		{method: "GET", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:read"}, unpaged: true, handle: (*Server).listMembers},
		{method: "POST", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:write"}, idempotent: true, handle: (*Server).addMember},
		{method: "DELETE", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:write"}, handle: (*Server).removeMember},

		{method: "GET", path: "/api/agents", keys: readers, team: []string{"agents:read"}, query: []string{"limit", "offset", "after", "environment", "teamId"}, handle: agents.list},
		{method: "POST", path: "/api/agents", keys: admins, team: []string{"agents:write"}, idempotent: true, handle: agents.post},
		{method: "GET", path: "/api/agents/{id}", keys: readers, team: []string{"agents:read"}, handle: agents.get},
		{method: "PUT", path: "/api/agents/{id}", keys: admins, team: []string{"agents:write"}, handle: agents.put},
		{method: "DELETE", path: "/api/agents/{id}", keys: admins, team: []string{"agents:write"}, handle: agents.delete},
		{method: "GET", path: "/api/agents/{id}/tools", keys: readers, team: []string{"agents:read"}, query: []string{"limit", "offset"}, handle: (*Server).listTools},
		{method: "GET", path: "/api/agents/{id}/history", keys: readers, team: []string{"agents:read"}, query: []string{"limit", "offset"}, handle: (*Server).listHistory},

		{method: "GET", path: "/api/costs/breakdown", keys: admins, team: []string{"costs:read"}, query: []string{"period", "groupBy", "agentId"}, handle: (*Server).breakdown},
		{method: "GET", path: "/api/costs/budgets", keys: admins, team: []string{"costs:read"}, unpaged: true, handle: budgets.list},
		{method: "POST", path: "/api/costs/budgets", keys: admins, team: []string{"costs:write"}, idempotent: true, handle: budgets.post},
		{method: "GET", path: "/api/costs/budgets/{id}", keys: admins, team: []string{"costs:read"}, handle: budgets.get},
		{method: "PUT", path: "/api/costs/budgets/{id}", keys: admins, team: []string{"costs:write"}, handle: budgets.put},
		{method: "DELETE", path: "/api/costs/budgets/{id}", keys: admins, team: []string{"costs:write"}, handle: budgets.delete},
		{method: "GET", path: "/api/costs/sla", keys: admins, team: []string{"costs:read"}, unpaged: true, handle: slas.list},
		{method: "POST", path: "/api/costs/sla", keys: admins, team: []string{"costs:write"}, idempotent: true, handle: slas.post},
		{method: "GET", path: "/api/costs/sla/{id}", keys: admins, team: []string{"costs:read"}, handle: slas.get},
		{method: "PUT", path: "/api/costs/sla/{id}", keys: admins, team: []string{"costs:write"}, handle: slas.put},
		{method: "DELETE", path: "/api/costs/sla/{id}", keys: admins, team: []string{"costs:write"}, handle: slas.delete},
		{method: "GET", path: "/api/costs/sla/violations", keys: admins, team: []string{"costs:read", "compliance:read"}, query: []string{"period", "slaId", "limit", "after"}, unpaged: true, handle: (*Server).listViolations},

		{method: "GET", path: "/api/policies", keys: admins, team: []string{"policies:read"}, query: []string{"limit", "offset", "after", "phase", "enabled"}, handle: policies.list},
		{method: "POST", path: "/api/policies", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: policies.post},
		{method: "GET", path: "/api/policies/{id}", keys: admins, team: []string{"policies:read"}, handle: policies.get},
		{method: "PUT", path: "/api/policies/{id}", keys: admins, team: []string{"policies:write"}, handle: policies.put},
		{method: "DELETE", path: "/api/policies/{id}", keys: admins, team: []string{"policies:write"}, handle: policies.delete},
		{method: "GET", path: "/api/policies/templates", keys: admins, team: []string{"policies:read"}, unpaged: true, handle: (*Server).listTemplates},
		{method: "POST", path: "/api/policies/templates/apply", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: (*Server).applyTemplate},

		{method: "GET", path: "/api/approvals", keys: admins, team: []string{"policies:read"}, query: []string{"limit", "offset", "after", "status"}, handle: (*Server).listApprovals},
		{method: "POST", path: "/api/approvals", keys: gateways, window: approvalWindow, maxBody: api.MaxApprovalBody, handle: (*Server).requestApproval},
		{method: "GET", path: "/api/approvals/{id}", keys: admins, team: []string{"policies:read"}, handle: (*Server).getApproval},
		{method: "POST", path: "/api/approvals/{id}/claim", keys: gateways, window: approvalWindow, handle: (*Server).claimApproval},
		{method: "POST", path: "/api/approvals/{id}/release", keys: gateways, window: approvalWindow, handle: (*Server).releaseApproval},
		{method: "POST", path: "/api/approvals/{id}/decision", keys: admins, team: []string{"policies:write"}, handle: (*Server).decideApproval},
		{method: "GET", path: "/api/webhooks", keys: admins, team: []string{"policies:read"}, query: []string{"limit", "offset", "after"}, handle: webhooks.list},
		{method: "POST", path: "/api/webhooks", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: webhooks.post},
		{method: "GET", path: "/api/webhooks/{id}", keys: admins, team: []string{"policies:read"}, handle: webhooks.get},
		{method: "PUT", path: "/api/webhooks/{id}", keys: admins, team: []string{"policies:write"}, handle: webhooks.put},
		{method: "DELETE", path: "/api/webhooks/{id}", keys: admins, team: []string{"policies:write"}, handle: webhooks.delete},
		{method: "POST", path: "/api/webhooks/{id}/rotateSecret", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: (*Server).rotateWebhookSecret},
		{method: "POST", path: "/api/webhooks/{id}/test", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: (*Server).testWebhook},
		{method: "GET", path: "/api/webhooks/{id}/deliveries", keys: admins, team: []string{"policies:read"}, query: []string{"limit", "offset", "after", "state"}, handle: (*Server).listDeliveries},
		{method: "POST", path: "/api/webhooks/{id}/redeliver", keys: admins, team: []string{"policies:write"}, idempotent: true, handle: (*Server).redeliver},

		{method: "GET", path: "/api/gateways", keys: admins, team: []string{"traces:read"}, unpaged: true, query: []string{"all"}, handle: (*Server).listGateways},
		{method: "GET", path: "/api/gateways/{name}", keys: admins, team: []string{"traces:read"}, handle: (*Server).getGateway},
		{method: "PUT", path: "/api/gateways/{name}", keys: gateways, window: reportWindow, maxBody: api.MaxGatewayReport, handle: (*Server).reportGateway},
		{method: "DELETE", path: "/api/gateways/{name}", keys: admins, team: []string{"policies:write"}, handle: (*Server).forgetGateway},

		{method: "GET", path: "/api/apply", keys: admins, team: []string{"teams:read", "agents:read", "policies:read", "costs:read"}, query: []string{"kind"}, handle: (*Server).exportDocuments},
		{method: "POST", path: "/api/apply", keys: admins, team: []string{"teams:write", "agents:write", "policies:write", "costs:write"}, idempotent: true, maxBody: api.MaxApplyBody, handle: (*Server).apply},

		{method: "GET", path: "/api/keys", keys: admins, team: []string{"keys:read"}, query: []string{"limit", "offset", "after", "scope"}, handle: (*Server).listKeys},
		{method: "POST", path: "/api/keys", keys: admins, team: []string{"keys:write"}, idempotent: true, handle: (*Server).createKey},
		{method: "GET", path: "/api/keys/{id}", keys: admins, team: []string{"keys:read"}, handle: (*Server).getKey},
		{method: "DELETE", path: "/api/keys/{id}", keys: admins, team: []string{"keys:write"}, handle: (*Server).deleteKey},

		{method: "GET", path: "/api/traces", keys: readers, team: []string{"traces:read"}, query: []string{"limit", "offset", "after", "agentId", "status", "environment", "startDate", "endDate", "minCostUsd", "maxCostUsd", "minInjectionScore", "sessionId", "agentName", "modelName", "toolName", "ruleId", "policyId", "pii", "minDurationMs", "principal", "client", "requestId"}, handle: (*Server).listTraces},
		{method: "POST", path: "/api/traces", keys: ingests, unlimited: true, window: ingestWindow, handle: (*Server).ingestTraces},
		{method: "GET", path: "/api/traces/export", keys: readers, team: []string{"traces:read"}, query: []string{"format", "agentId", "status", "environment", "startDate", "endDate", "minCostUsd", "maxCostUsd", "minInjectionScore", "sessionId", "agentName", "modelName", "toolName", "ruleId", "policyId", "pii", "minDurationMs", "principal", "client", "requestId"}, handle: (*Server).exportTraces},
		{method: "GET", path: "/api/traces/{id}", keys: readers, team: []string{"traces:read"}, handle: (*Server).getTrace},
		{method: "GET", path: "/api/traces/stats", keys: readers, team: []string{"traces:read"}, query: []string{"period", "startDate", "endDate", "parts", "agentId", "groupBy"}, handle: (*Server).traceStats},
		{method: "GET", path: streamPath, keys: readers, team: []string{"traces:read"}, query: []string{"agentId", "status", "environment", "startDate", "endDate", "minCostUsd", "maxCostUsd", "minInjectionScore", "sessionId", "agentName", "modelName", "toolName", "ruleId", "policyId", "pii", "minDurationMs", "principal", "client", "requestId"}, handle: (*Server).streamTraces},
		{method: "POST", path: "/api/otlp/v1/traces", keys: ingests, unlimited: true, window: ingestWindow, handle: (*Server).ingestOTLP},
		{method: "GET", path: "/api/governance", keys: ingests, team: []string{"policies:read"}, window: ingestWindow, query: []string{"wait", "gateway"}, handle: (*Server).governance},
		{method: "POST", path: "/api/audit/heads", keys: ingests, unlimited: true, window: ingestWindow, handle: (*Server).reportAuditHead},
		{method: "POST", path: "/api/audit/heads/accept", keys: admins, unlimited: true, idempotent: true, handle: (*Server).acceptAuditKey},
		{method: "GET", path: "/api/audit/heads", keys: admins, team: []string{"audit:read"}, unpaged: true, handle: (*Server).listAuditHeads},
		{method: "GET", path: "/api/audit/events", keys: admins, team: []string{"audit:read"}, query: []string{"limit", "after", "actor", "object", "objectId", "since", "until"}, handle: (*Server).listAuditEvents},
		{method: "GET", path: "/api/whoami", keys: anyKey, handle: (*Server).whoami},
		{method: "GET", path: "/api/openapi.json", keys: admins, handle: (*Server).openAPI},

		{method: "POST", path: "/api/auth/webhook", window: addressWindow, public: true, handle: (*Server).receiveIdentityEvent},
	}
}
