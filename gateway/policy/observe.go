package policy

import (
	"slices"
	"strings"

	"svc/gateway/mcp"
)

// enforced returns the rules that are enforced, and keeps the others as
// observers. The rules keep their numbers, so that the index decides by the order
// of all.
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

// Observed returns the rules in mode observe that match a message and come before
// the rule that decided on it: what would have happened, had they been enforced.
// The first of them is the one that would have decided. It is nil for most sets,
// and then costs nothing. It is safe for concurrent use.
func (s *Set) Observed(q *Request, d Decision) []*Rule {
	if len(s.observers) == 0 {
		return nil
	}
	var found []*Rule
	for _, r := range s.observers {
		if d.Rule != nil && r.Index > d.Rule.Index {
			break
		}
		if r.matches(q) {
			found = append(found, r)
		}
	}
	return found
}

// Observers reports whether any rule observes.
func (s *Set) Observers() bool { return len(s.observers) > 0 }

// matches reports whether the rule matches a message, looking at all of its
// conditions.
func (r *Rule) matches(q *Request) bool {
	if r.direction != Any && r.direction != q.Direction {
		return false
	}
	if r.tool.kind != toolAny {
		if !q.HasTool || q.Direction != ClientToServer || q.Method != mcp.MethodToolsCall {
			return false
		}
		switch r.tool.kind {
		case toolNames:
			if !slices.Contains(r.tool.names, q.Tool) {
				return false
			}
		case toolPrefix:
			if !strings.HasPrefix(q.Tool, r.tool.prefix) {
				return false
			}
		}
	}
	return r.meets(q)
}
