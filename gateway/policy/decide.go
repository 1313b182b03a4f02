package policy

import (
	"slices"

	"svc/gateway/mcp"
)

// Direction is the way a message goes.
type Direction uint8

// The directions. Any is for rules only: it matches both.
const (
	ClientToServer Direction = iota
	ServerToClient
	Any
)

// String returns the direction as it is written in the configuration.
func (d Direction) String() string {
	switch d {
	case ClientToServer:
		return clientToServer
	case ServerToClient:
		return serverToClient
	}
	return "any"
}

// Action is what a rule does to the messages it matches.
type Action uint8

// The actions.
const (
	Allow Action = iota
	Deny
	Redact
	RateLimit
	StripApp
	Guardrail

	// ActionCount is the number of actions, for tables with an entry for each.
	ActionCount
)

// actionNames are the actions as they are written in the configuration.
var actionNames = [ActionCount]string{
	Allow: "allow", Deny: "deny", Redact: "redact", RateLimit: "rate_limit", StripApp: "strip_app", Guardrail: "guardrail",
}

// ActionNames returns the actions as they are written in the configuration.
func ActionNames() []string { return slices.Clone(actionNames[:]) }

// String returns the action as it is written in the configuration.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// DefaultDenyID is the rule id of a denial by the default action.
const DefaultDenyID = "default_deny"

// Claims is a verified OAuth identity, as far as rules see it.
type Claims struct {
	Subject string
	Groups  []string
	Scopes  []string
}

// Request is what a rule can see of a message.
type Request struct {
	Direction Direction
	// Method is empty for answers.
	Method string
	// Tool is the tool name of a tools/call, and HasTool says that it has one.
	Tool    string
	HasTool bool
	// ResultType is that of an answer. It counts from server to client only.
	ResultType string
	// Claims is nil for callers without a verified OAuth identity.
	Claims *Claims
}

// RequestOf returns what rules see of a message.
func RequestOf(m *mcp.Message, d Direction, claims *Claims) Request {
	q := Request{Direction: d, Method: m.Method, ResultType: m.ResultType, Claims: claims}
	if d == ClientToServer && m.Method == mcp.MethodToolsCall {
		q.Tool, q.HasTool = m.Name, m.HasName
	}
	return q
}

// Decision is what to do with a message, and why.
type Decision struct {
	Action Action
	// RuleID is the id of the rule, [DefaultDenyID], or empty when the message
	// passes because no rule matched.
	RuleID string
	// Rule is the rule that matched, nil for the default.
	Rule *Rule
	// Default tells that no rule matched.
	Default bool
}

// Decide returns what the first matching rule says, or the default. It is safe
// for concurrent use, does not allocate, and keeps nothing of q.
//
// The default never judges messages of a server, and answers of a client carry
// no method and pass. Denying by default, the discovery allowlist passes
// ([mcp.Discovery]); with default_action left out only tool calls are denied.
func (s *Set) Decide(q *Request) Decision {
	if r := s.find(q); r != nil {
		return Decision{Action: r.Action, RuleID: r.ID, Rule: r}
	}
	if q.Direction == ClientToServer && s.denies(q.Method) {
		return Decision{Action: Deny, RuleID: DefaultDenyID, Default: true}
	}
	return Decision{Action: Allow, Default: true}
}

// denies reports whether the default denies a method.
func (s *Set) denies(method string) bool {
	switch s.fallback {
	case fallbackDeny:
		return method != "" && !mcp.Discovery(method)
	case fallbackToolCalls:
		return method == mcp.MethodToolsCall
	}
	return false
}
