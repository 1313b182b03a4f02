package policy

import (
	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
)

// Reasons of denials because of an argument that a rule cannot evaluate (data.reason).
const (
	// ReasonArgumentType: an argument is ambiguous or has another type than the rule's
	// matcher requires, and the action of the rule is neither allow without approval nor deny.
	ReasonArgumentType = "argument_type"
	// ReasonArgumentLimit: the arguments exceed the limits of the evaluation.
	ReasonArgumentLimit = "argument_limit"
)

// meetsArguments reports whether a rule with conditions on arguments matches a message
// that meets the other conditions. Only requests with arguments match. A missing argument,
// and an argument of another type, is matched by deny; an argument of another type is also
// matched by the actions other than allow and deny, and decidedBy then denies the request. A rule
// with approval also matches a missing argument, so that omitting it does not avoid the person.
func (s *Set) meetsArguments(r *Rule, q *Request) bool {
	if q.Direction != ClientToServer || q.Method != mcp.MethodToolsCall && q.Method != mcp.MethodPromptsGet {
		return false
	}
	if q.AnyArguments {
		if q.asking == nil {
			q.asking = r
		}
		return r.Action != Deny
	}
	outcome := r.arguments.Decide(s.valuesOf(q))
	matches := false
	switch outcome {
	case arguments.Holds, arguments.TooMuch:
		matches = true
	case arguments.WrongType:
		matches = !r.permits()
	case arguments.Missing:
		matches = r.Action == Deny || r.Approval != nil
	}
	if matches {
		// The search continues only with rules before this one, so the last match decides,
		// unless a rule without conditions on arguments does.
		q.outcome = outcome
	}
	return matches
}

// AsksForArguments returns the first rule whose conditions on arguments the decision about
// a request depends on, nil when it depends on none. It is for a request whose arguments
// are unknown.
func (s *Set) AsksForArguments(q Request) *Rule {
	q.AnyArguments, q.asking = true, nil
	s.decide(&q)
	return q.asking
}

// valuesOf returns the values of the arguments of a request, which are parsed once.
func (s *Set) valuesOf(q *Request) *arguments.Values {
	if q.values == nil {
		q.values = s.arguments.Read(q.Body, q.Arguments)
	}
	return q.values
}

// release returns the parsed arguments to their pool.
func (q *Request) release() {
	if q.values != nil {
		q.values.Release()
		q.values, q.readArguments = nil, true
	}
}

// decidedBy returns the decision of the rule that a search has found.
func decidedBy(r *Rule, q *Request) Decision {
	d := Decision{Action: r.Action, RuleID: r.ID, Rule: r}
	switch {
	case r.claims != nil && q.Claims.Unreadable != 0 && r.claims.met(q.Claims) == unknown:
		d.Action, d.Reason = Deny, ReasonClaimsUnreadable
	case r.arguments == nil || q.AnyArguments:
	case q.outcome == arguments.TooMuch:
		d.Action, d.Reason = Deny, ReasonArgumentLimit
	case q.outcome == arguments.WrongType && r.Action != Deny:
		d.Action, d.Reason = Deny, ReasonArgumentType
	}
	return d
}

// missesArguments describes the condition on arguments that a message does not meet; "" if
// the rule matches.
func (s *Set) missesArguments(r *Rule, q *Request) string {
	switch {
	case r.arguments == nil:
		return ""
	case q.Method != mcp.MethodToolsCall && q.Method != mcp.MethodPromptsGet:
		return "arguments are those of tools/call and prompts/get"
	case s.meetsArguments(r, q):
		return ""
	case q.AnyArguments:
		return "a deny rule with conditions on arguments denies some of these calls alone"
	}
	return r.arguments.Explain(s.valuesOf(q))
}
