package policy

import (
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/flow"
)

// Direction is the direction of a message.
type Direction uint8

// The directions. Any is used by rules only and matches both.
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

// Action is the action of a rule.
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

// Claims is the part of a verified OAuth identity that rules use.
type Claims struct {
	Subject string
	Groups  []string
	Scopes  []string
	// Unreadable has the claims that may have other values than these. A rule that depends on one
	// fails closed: allow does not match, deny does, and a rule with another action denies.
	Unreadable Unreadable
}

// ReasonClaimsUnreadable is the reason of a denial because a rule has conditions on claims of the
// caller that cannot be read (data.reason).
const ReasonClaimsUnreadable = "claims_unreadable"

// Request is the part of a message that rules match on.
type Request struct {
	Direction Direction
	// Method is empty for responses.
	Method string
	// Tool is the tool name of a tools/call; HasTool is set when there is one.
	Tool    string
	HasTool bool
	// ResultType is the resultType of a response; rules use it only in messages from
	// server to client.
	ResultType string
	// Upstream is the upstream that the message is routed to, or comes from; empty for
	// none. It is needed only if [Set.UsesUpstream] is true.
	Upstream string
	// Restored are the entities of the values that were put back in place of tokens.
	Restored []string
	// Labels are the labels that the caller has, in bits of the names that the rules were compiled with.
	Labels flow.Labels
	// URI is the URI that a client asks for with one of [mcp.URIMethods]; empty for none, and for a URI that
	// is not a string.
	URI string
	// Template is set for a hypothetical request of a list: URI is a URI template, and stands for some URI
	// that it expands to.
	Template bool
	// Claims is nil for callers without a verified OAuth identity.
	Claims *Claims
	// Body and Arguments are the scanned message and the span of its arguments; zero for
	// none. They are read only if a rule has conditions on arguments.
	Body      []byte
	Arguments mcp.Span
	// AnyArguments is set for a hypothetical request, such as a call of a tool in a list:
	// rules with conditions on arguments match, except deny rules.
	AnyArguments bool

	// values are the parsed arguments, once a rule needed them.
	values *arguments.Values
	// outcome is the result of the conditions on arguments of the rule that matched last.
	outcome arguments.Outcome
	// readArguments is set when values were parsed and released.
	readArguments bool
	// asking is the first rule that needed arguments while they were unknown.
	asking *Rule
}

// RequestOf returns the parts of a message that rules match on. An error with which a server
// asks the user to visit addresses is a question: it matches as elicitation/create, and as a
// result of type input_required.
func RequestOf(m *mcp.Message, d Direction, claims *Claims) Request {
	q := Request{Direction: d, Method: m.Method, ResultType: m.ResultType, Claims: claims}
	if d == ClientToServer && m.Method == mcp.MethodToolsCall {
		q.Tool, q.HasTool = m.Name, m.HasName
	}
	if d == ClientToServer {
		q.Body, q.Arguments = m.Body, m.Spans.Arguments
		if slices.Contains(mcp.URIMethods, m.Method) {
			q.URI = m.URI
		}
	} else if m.IsError && m.ErrorCode == mcp.CodeURLElicitation {
		q.Method, q.ResultType = mcp.MethodElicit, mcp.ResultInputRequired
	}
	return q
}

// Decision is the action for a message, and the rule that decided it.
type Decision struct {
	Action Action
	// RuleID is the id of the rule, [DefaultDenyID], or empty when the message is allowed
	// because no rule matched.
	RuleID string
	// Rule is the rule that matched, nil for the default.
	Rule *Rule
	// Default is set when no rule matched.
	Default bool
	// Reason is set for a denial because of something that the rule cannot evaluate:
	// [ReasonArgumentType], [ReasonArgumentLimit] or [ReasonClaimsUnreadable].
	Reason string
	// ByArguments is set when the arguments of the message were evaluated, so that other
	// arguments may lead to another decision.
	ByArguments bool
}

// Approval returns the approval that the message needs to pass, nil for none.
func (d *Decision) Approval() *Approval {
	if d.Rule == nil || d.Action != Allow {
		return nil
	}
	return d.Rule.Approval
}

// Decide returns the decision of the first matching rule, or of the default action. It is
// safe for concurrent use, does not allocate, and retains nothing of q.
//
// The default action never applies to messages of a server; responses of a client have no
// method and are allowed. With default_action: deny the discovery allowlist is allowed
// ([mcp.Discovery]); with default_action absent only tool calls are denied.
func (s *Set) Decide(q *Request) Decision {
	defer q.release()
	return s.decide(q)
}

// decide implements Decide; the parsed arguments stay with the request.
func (s *Set) decide(q *Request) (d Decision) {
	switch r := s.find(q); {
	case r != nil:
		d = decidedBy(r, q)
	case q.Direction == ClientToServer && s.denies(q.Method):
		d = Decision{Action: Deny, RuleID: DefaultDenyID, Default: true}
	default:
		d = Decision{Action: Allow, Default: true}
	}
	d.ByArguments = q.values != nil
	return d
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
