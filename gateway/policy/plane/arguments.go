package plane

import (
	"errors"

	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
)

// Errors of calls that a policy with a condition on arguments denies because it cannot evaluate
// them.
var (
	// ErrArgumentType: an argument is of another type than its matcher takes, or ambiguous,
	// and the policy redacts or asks for approval.
	ErrArgumentType = errors.New("an argument is of another type than the matcher of a policy takes")
	// ErrArgumentLimit: the arguments exceed the bounds of the evaluation.
	ErrArgumentLimit = errors.New("the arguments are beyond the bounds of what is examined")
)

// argumentValues are the values of the arguments of one message, for the policies of all agents
// and for those of its own agent; each set is read when the first policy needs it.
type argumentValues [2]struct {
	plan   *arguments.Plan
	values *arguments.Values
}

// of returns the values for a policy.
func (a *argumentValues) of(p *Policy, m *mcp.Message) *arguments.Values {
	for i := range a {
		if a[i].values == nil {
			a[i].plan, a[i].values = p.plan, p.plan.Read(m.Body, m.Spans.Arguments)
		}
		if a[i].plan == p.plan {
			return a[i].values
		}
	}
	panic("govern: the policies of one agent have more than two plans")
}

// release returns the values to their pools.
func (a *argumentValues) release() {
	for i := range a {
		if a[i].values != nil {
			a[i].values.Release()
		}
	}
}

// meetsArguments reports whether a policy with a condition on arguments matches a tools/call of
// its tool. block and warn match as a deny rule does: also when an argument is missing or cannot
// be evaluated. redact matches as a redact rule does, and a call that it cannot evaluate is
// denied, with the error in the verdict; a policy with approval denies such a call too. warn denies
// nothing.
func (p *Policy) meetsArguments(a *argumentValues, m *mcp.Message, v *Verdict) bool {
	v.ByArguments = true
	switch p.arguments.Decide(a.of(p, m)) {
	case arguments.Holds:
		return true
	case arguments.Missing:
		return p.Action != Redact
	case arguments.WrongType:
		if p.Action == Redact || p.Approval != nil {
			v.Err = ErrArgumentType
		}
		return true
	case arguments.TooMuch:
		if p.Action == Redact || p.Approval != nil {
			v.Err = ErrArgumentLimit
		}
		return true
	}
	return false
}
