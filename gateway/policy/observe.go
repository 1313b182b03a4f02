package policy

import (
	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// enforced returns the enforced rules and stores the others in observers. The rules keep
// their index, so that the order of the whole list decides.
func (s *Set) enforced() []*Rule {
	var enforced []*Rule
	for _, r := range s.rules {
		if r.Observe {
			s.observers = append(s.observers, r)
		} else {
			enforced = append(enforced, r)
		}
	}
	return enforced
}

// Observed returns the rules in mode observe that match a message and precede the rule
// that decided it. The first of them would have decided, had it been enforced. For a Set
// without such rules the result is nil, at no cost. It is safe for concurrent use.
func (s *Set) Observed(q *Request, d Decision) []Observed {
	defer q.release()
	if len(s.observers) == 0 {
		return nil
	}
	var found []Observed
	for _, r := range s.observers {
		if d.Rule != nil && r.Index > d.Rule.Index {
			break
		}
		if r.matches(q) && (r.arguments == nil || s.meetsArguments(r, q)) {
			would := decidedBy(r, q)
			found = append(found, Observed{Rule: r, Action: would.Action, Reason: would.Reason})
		}
	}
	return found
}

// Observed is what a rule in mode observe would have done.
type Observed struct {
	*Rule
	// Action is the action of the rule, or deny when the rule could not have evaluated an
	// argument; Reason is then the reason of the denial.
	Action Action
	Reason string
}

// matches reports whether the rule matches a message. It checks all conditions but those
// on arguments.
func (r *Rule) matches(q *Request) bool {
	if r.direction != Any && r.direction != q.Direction {
		return false
	}
	if r.tool.Kind != match.Every &&
		(!q.HasTool || q.Direction != ClientToServer || q.Method != mcp.MethodToolsCall || !r.tool.IsPattern() && !r.tool.Match(q.Tool)) {
		return false
	}
	return r.meets(q)
}
