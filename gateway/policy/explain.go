package policy

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/match"
)

// Condition is the condition of a rule's when that a message did not meet.
type Condition string

// The conditions, in the order in which they are checked.
const (
	ConditionDirection  Condition = "direction"
	ConditionMethod     Condition = "method"
	ConditionTool       Condition = "tool"
	ConditionResultType Condition = "result_type"
	ConditionUpstream   Condition = "upstream"
	ConditionRestores   Condition = "restores"
	ConditionLabels     Condition = "labels"
	ConditionURI        Condition = "uri_prefix"
	ConditionClaims     Condition = "claims"
	ConditionArguments  Condition = "arguments"
)

// Step is the result of one rule in the evaluation of a message.
type Step struct {
	Rule    *Rule
	Matched bool
	// Action is what a rule that matched does with the message, or would do in mode observe.
	// It is Deny, whatever the action of the rule, where the rule cannot evaluate the message.
	Action Action
	// Failed is the first condition that was not met, and Reason describes it. For a rule
	// that matched, Failed is empty, and Reason says what the rule found missing or could not
	// evaluate; it is empty where all conditions hold.
	Failed Condition
	Reason string
}

// Explain returns the decision of [Set.Decide] and its steps: one step for each rule up
// to the deciding rule, which is the last step, or for all rules when the default
// applies. A rule in mode observe may match and decides nothing. Explain evaluates the
// rules one after the other, as the specification describes it; its cost is linear in the
// number of rules, so it is used by commands, not by requests.
func (s *Set) Explain(q *Request) (Decision, []Step) {
	defer q.release()
	var steps []Step
	for _, r := range s.rules {
		failed, reason := r.misses(q)
		if failed == "" {
			if reason = s.missesArguments(r, q); reason != "" {
				failed = ConditionArguments
			}
		}
		if failed != "" {
			steps = append(steps, Step{Rule: r, Failed: failed, Reason: reason})
			continue
		}
		d := decidedBy(r, q)
		steps = append(steps, Step{Rule: r, Matched: true, Action: d.Action, Reason: s.matchedFor(r, q, d)})
		if r.Observe {
			continue
		}
		d.ByArguments = q.values != nil
		return d, steps
	}
	if q.Direction == ClientToServer && s.denies(q.Method) {
		return Decision{Action: Deny, RuleID: DefaultDenyID, Default: true}, steps
	}
	return Decision{Action: Allow, Default: true}, steps
}

// matchedFor describes why a rule matched a message that does not meet all of its conditions:
// a condition that cannot be evaluated does not let the message pass. "" if all are met.
func (s *Set) matchedFor(r *Rule, q *Request, d Decision) string {
	switch {
	case d.Reason == ReasonClaimsUnreadable:
		return "claims of the token cannot be read, and the rule may apply to the caller"
	case r.uri != nil && r.uri.match(q) == match.Unclear:
		return "the URI has no single plain form, and a rule that denies or asks for approval matches then"
	case r.arguments == nil || q.AnyArguments || q.outcome == arguments.Holds:
		return ""
	case d.Reason != "":
		return r.arguments.Explain(s.valuesOf(q)) + ", and the call is denied then"
	}
	if r.Approval != nil {
		return r.arguments.Explain(s.valuesOf(q)) + ", and a rule with approval matches then"
	}
	return r.arguments.Explain(s.valuesOf(q)) + ", and a deny rule matches then"
}

// Fallback describes the decision of the default action for a message that no rule
// matched.
func (s *Set) Fallback(q *Request) string {
	switch {
	case q.Direction != ClientToServer:
		return "default_action does not apply to messages of servers"
	case q.Method == "":
		return "responses of a client have no method and pass"
	case s.fallback == fallbackAllow:
		return "default_action is allow"
	case s.fallback == fallbackDeny && s.denies(q.Method):
		return "default_action is deny"
	case s.fallback == fallbackDeny:
		return "default_action is deny, and " + q.Method + " is on the discovery list that passes"
	case s.denies(q.Method):
		return "default_action is not set, and then tool calls are denied"
	}
	return "default_action is not set, and then only tool calls are denied"
}

// Misses describes the first condition of the rule that a message does not meet; "" when
// the rule matches. Other rules and conditions on arguments are not considered.
func (r *Rule) Misses(q *Request) (Condition, string) { return r.misses(q) }

// Direction returns the direction of the messages that the rule applies to.
func (r *Rule) Direction() Direction { return r.direction }

// misses implements Misses. It checks the same conditions as the index and meets.
func (r *Rule) misses(q *Request) (Condition, string) {
	if r.direction != Any && r.direction != q.Direction {
		return ConditionDirection, fmt.Sprintf("direction is %s, the rule is for %s", q.Direction, r.direction)
	}
	if r.method != "" && r.method != q.Method {
		if q.Method == "" {
			return ConditionMethod, "a response has no method, the rule is for " + r.method
		}
		return ConditionMethod, fmt.Sprintf("method is %s, the rule is for %s", q.Method, r.method)
	}
	if r.Approval != nil && !Approvable(q.Method) {
		return ConditionMethod, fmt.Sprintf("method is %s, a rule with approval is for %s", q.Method, strings.Join(approvable, ", "))
	}
	if r.tool.Kind != match.Every {
		if why := r.missesTool(q); why != "" {
			return ConditionTool, why
		}
	}
	if r.inputRequired && q.ResultType != mcp.ResultInputRequired {
		return ConditionResultType, fmt.Sprintf("result type is %q, the rule is for %s", q.ResultType, mcp.ResultInputRequired)
	}
	if r.upstreams != nil && !slices.Contains(r.upstreams, q.Upstream) {
		if q.Upstream == "" {
			return ConditionUpstream, "the upstream is not known, the rule is for " + match.Brief(r.upstreams)
		}
		return ConditionUpstream, fmt.Sprintf("upstream %q is not in %s", q.Upstream, match.Brief(r.upstreams))
	}
	if r.restores != nil && !r.restoresAny(q) {
		return ConditionRestores, "no value of " + match.Brief(r.restores) + " was put back in place of a token"
	}
	if r.labels != nil {
		if why := r.labels.misses(q.Labels); why != "" {
			return ConditionLabels, why
		}
	}
	if r.uri != nil && !r.meetsURI(q) {
		return ConditionURI, r.missesURI(q)
	}
	if r.claims != nil {
		if why := r.claims.misses(q.Claims); why != "" && !r.claims.match(q.Claims, r.permits()) {
			if r.claims.met(q.Claims) == unknown {
				why = "claims of the token cannot be read, and an allow rule needs to know them: " + why
			}
			return ConditionClaims, why
		}
	}
	return "", ""
}

// missesTool describes why the tool of a message does not match the rule.
func (r *Rule) missesTool(q *Request) string {
	switch {
	case q.Direction != ClientToServer:
		return r.toolKey + " matches tools/call of clients only"
	case q.Method != mcp.MethodToolsCall:
		return fmt.Sprintf("%s matches tools/call only, the method is %q", r.toolKey, q.Method)
	case !q.HasTool:
		return "the call has no tool name"
	}
	if r.tool.Match(q.Tool) {
		return ""
	}
	return fmt.Sprintf("tool %q is not matched by %s %s", q.Tool, r.toolKey, r.toolText)
}

// misses describes the condition on the identity that a caller does not meet, "" when all
// are met.
func (r *claimRule) misses(c *Claims) string {
	if c == nil {
		return "the rule has claims, and the caller has no verified OAuth identity"
	}
	for _, g := range r.groups {
		if !slices.Contains(c.Groups, g) {
			return fmt.Sprintf("the caller is not in the group %q, and groups requires all of its groups", g)
		}
	}
	switch {
	case len(r.groupsIn.list) > 0 && !r.groupsIn.hasAny(c.Groups):
		return "the caller is in no group of groups_in " + match.Brief(r.groupsIn.list)
	case len(r.scopesIn.list) > 0 && !r.scopesIn.hasAny(c.Scopes):
		return "the caller holds no scope of scopes_in " + match.Brief(r.scopesIn.list)
	case len(r.subjectIn.list) > 0 && !r.subjectIn.has(c.Subject):
		return fmt.Sprintf("the subject %q is not in subject_in %s", c.Subject, match.Brief(r.subjectIn.list))
	}
	return ""
}
