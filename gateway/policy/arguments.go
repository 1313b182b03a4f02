package policy

import (
	"svc/gateway/arguments"
	"svc/gateway/mcp"
)

// Reasons of denials because of an argument that a rule cannot judge (data.reason).
const (
	// ReasonArgumentType: an argument is of another type than the matcher of a rule takes,
	// or ambiguous, and the action of the rule is neither allow nor deny.
	ReasonArgumentType = "argument_type"
	// ReasonArgumentLimit: the arguments are beyond the bounds of what is examined.
	ReasonArgumentLimit = "argument_limit"
)

// meetsArguments reports whether a rule with conditions on arguments matches a message
// of which the other conditions hold. Only requests with arguments are matched. What is
// missing or of another type is matched by deny; what is of another type also by the
// actions that are neither allow nor deny, and decidedBy then denies it.
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
		matches = r.Action != Allow
	case arguments.Missing:
		matches = r.Action == Deny
	}
	if matches {
		// The search goes on only with rules above this one, so the last that matched is
		// the one that decides, unless a rule without conditions on arguments does.
		q.outcome = outcome
	}
	return matches
}

// AsksForArguments returns the first rule on whose conditions on arguments the decision
// about a request depends, nil where it depends on none. The request is one of which the
// arguments are not known.
func (s *Set) AsksForArguments(q Request) *Rule {
	q.AnyArguments, q.asking = true, nil
	s.decide(&q)
	return q.asking
}

// valuesOf returns the values of the arguments of a request, which are read once.
func (s *Set) valuesOf(q *Request) *arguments.Values {
	if q.values == nil {
		q.values = s.arguments.Read(q.Body, q.Arguments)
	}
	return q.values
}

// release gives back what was read of the arguments.
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
	case r.arguments == nil || q.AnyArguments:
	case q.outcome == arguments.TooMuch:
		d.Action, d.Reason = Deny, ReasonArgumentLimit
	case q.outcome == arguments.WrongType && r.Action != Deny:
		d.Action, d.Reason = Deny, ReasonArgumentType
	}
	return d
}

// missesArguments describes the condition on arguments that a message does not meet; ""
// where the rule matches.
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
