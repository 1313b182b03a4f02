package store

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"
)

// Types of events that webhooks get messages about.
const (
	EventApprovalRequested = "approval.requested"
	EventApprovalDecided   = "approval.decided"
	EventApprovalExpired   = "approval.expired"
	EventBudgetThreshold   = "budget.threshold"
	EventBudgetExceeded    = "budget.exceeded"
	EventSLABreached       = "sla.breached"
	EventSLARecovered      = "sla.recovered"
	EventPolicyFired       = "policy.fired"
	EventToolChanged       = "tool.changed"
	EventAgentCreated      = "agent.created"
	EventGatewaySilent     = "gateway.silent"
	EventGatewayBack       = "gateway.back"
	EventWebhookTest       = "webhook.test"
)

// Subject is what an event is about. Messages about one subject are delivered in order.
type Subject struct{ Kind, ID, Name string }

// Event is something that happened in a tenant. ID and CreatedAt are set when it is queued.
// Names come from clients: whoever shows them escapes them.
type Event struct {
	ID        string
	Type      string
	CreatedAt time.Time
	Subject   Subject
	// Data are the members for the receiver: plain values, and never texts or arguments of
	// messages.
	Data map[string]any `json:",omitempty"`
	// AgentID, Environment and TeamID are what webhooks are limited to. The environment and
	// the team of an event with an AgentID are those of the agent, unless they are set.
	AgentID, Environment, TeamID string `json:",omitempty"`
	// AgentName finds the agent of an event without an AgentID when the event is queued.
	AgentName string `json:"-"`
}

// ApprovalEvent returns an event of one of the types of approvals. agentID is that of the agent, if
// it is known.
func ApprovalEvent(typ, agentID string, a *Approval) Event {
	tool := a.Tool
	if a.Method == "resources/read" { // a URI, which is what the call is about
		tool = shortURI(tool)
	}
	rules, policies := []string{}, []string{}
	for _, r := range a.Reasons {
		if r.RuleID != "" {
			rules = append(rules, r.RuleID)
		} else {
			policies = append(policies, r.PolicyID)
		}
	}
	data := map[string]any{"status": a.Status, "tool": tool, "method": a.Method, "agentName": a.AgentName, "environment": a.Environment,
		"principal": ShortPrincipal(a.Principal), "selfCheck": a.SelfCheck(), "client": a.Client, "upstream": a.Upstream, "gateway": a.Gateway,
		"ruleIds": rules, "policyIds": policies, "requestId": a.RequestID}
	if !a.Until.IsZero() {
		data["expiresAt"] = a.Until.UTC().Format(time.RFC3339)
	}
	if n := len(a.Decisions); n > 0 {
		data["decision"], data["decidedBy"] = a.Decisions[n-1].Decision, ShortPrincipal(a.Decisions[n-1].UserID)
	}
	return Event{Type: typ, Subject: Subject{"approval", a.ID, tool}, Data: data, AgentID: agentID, Environment: a.Environment}
}

// ShortPrincipal shortens a principal that looks like an e-mail address to the first character of
// its local part and the domain: oauth:a…@example.com.
func ShortPrincipal(p string) string {
	at := strings.LastIndexByte(p, '@')
	if at < 0 {
		return p
	}
	from := strings.IndexByte(p[:at], ':') + 1
	_, size := utf8.DecodeRuneInString(p[from:at])
	return p[:from+size] + "…" + p[at:]
}

// shortURI shortens a URI to its scheme: file:….
func shortURI(uri string) string {
	scheme, _, ok := strings.Cut(uri, ":")
	if !ok {
		return "…"
	}
	return scheme + ":…"
}

// BudgetEvent returns the event of a budget whose spend has reached a percentage of its limit; 100
// means that it is exceeded.
func BudgetEvent(b *Budget, percent int, spent NanoUSD, resetAt time.Time) Event {
	typ := EventBudgetThreshold
	if percent >= 100 {
		typ = EventBudgetExceeded
	}
	return Event{Type: typ, Subject: Subject{"budget", b.ID, b.Name}, AgentID: b.AgentID, Environment: b.Environment, TeamID: b.TeamID, Data: map[string]any{"percent": percent,
		"scope": string(cmp.Or(b.Scope, AgentBudget)), "agentName": b.AgentName, "environment": b.Environment, "teamName": b.TeamName, "period": string(b.Period), "limitUsd": b.Limit.USD(), "currentUsd": spent.USD(), "resetAt": resetAt.UTC().Format(time.RFC3339)}}
}

// SLAEvent returns the event of a target that is missed, or met again.
func SLAEvent(typ string, t *SLATarget, p99Ms, errorRate float64) Event {
	return Event{Type: typ, Subject: Subject{"slaTarget", t.ID, t.Name}, AgentID: t.AgentID, Data: map[string]any{"agentName": t.AgentName,
		"evaluationPeriod": t.EvaluationPeriod, "p99LatencyMs": value(t.P99LatencyMs), "errorRatePercent": value(t.ErrorRatePercent),
		"currentP99Ms": p99Ms, "currentErrorRate": errorRate}}
}

// PolicyFiredEvent returns the event of a policy that fired in a number of requests since the last
// such event.
func PolicyFiredEvent(p *Policy, count int64) Event {
	return Event{Type: EventPolicyFired, Subject: Subject{"policy", p.ID, p.Name}, AgentName: p.On,
		Data: map[string]any{"count": count, "phase": p.Phase, "action": p.Action, "on": p.On}}
}

// ToolChangedEvent returns the event of a call that a gateway refused because the definition of its
// tool is not the approved one. The agent is given by its id or its name.
func ToolChangedEvent(tool, agentID, agentName, environment, requestID string) Event {
	return Event{Type: EventToolChanged, Subject: Subject{"tool", tool, tool}, AgentID: agentID, AgentName: agentName, Environment: environment,
		Data: map[string]any{"agentName": agentName, "requestId": requestID}}
}

// GatewayEvent returns the event of a gateway of which nothing is heard any more, or is heard again. seenAt is
// its last report, and instances the number of its processes that have not stopped.
func GatewayEvent(typ, gateway string, seenAt time.Time, instances int) Event {
	return Event{Type: typ, Subject: Subject{"gateway", gateway, gateway},
		Data: map[string]any{"seenAt": seenAt.UTC().Format(time.RFC3339), "instances": instances}}
}

// AgentCreatedEvent returns the event of a new agent.
func AgentCreatedEvent(a *Agent) Event {
	return Event{Type: EventAgentCreated, Subject: Subject{"agent", a.ID, a.Name}, AgentID: a.ID, Environment: a.Environment,
		Data: map[string]any{"environment": a.Environment, "autoRegistered": a.AutoRegistered}}
}
