package store

import (
	"context"
	"time"
)

// Resource is a resource that can be declared: a *Team, *Agent, *Policy, *Budget or
// *SLATarget.
type Resource interface{ Object() *Object }

// Contents is everything of a tenant that can be declared, oldest first, at one moment.
type Contents struct {
	Teams    []Team
	Agents   []Agent // with their configuration
	Aliases  []AgentAlias
	Policies []Policy
	Budgets  []Budget
	SLAs     []SLATarget
}

// Change is a change of one resource. Before is nil for one that is made, After for one
// that is deleted; otherwise both are of one type and have the same id.
type Change struct {
	Before, After Resource
	// FormerNames are names that mean the agent from now on, beside its own and those
	// that it has had. None of them is the name of an agent.
	FormerNames []string
	DeployedBy  string // who deploys the configuration of an agent where it changes
}

// Objects are both sides for records of changes.
func (c *Change) Objects() (before, after *Object) {
	if c.Before != nil {
		before = c.Before.Object()
	}
	if c.After != nil {
		after = c.After.Object()
		if len(c.FormerNames) > 0 {
			after.Also = []string{"formerNames"}
		}
	}
	return before, after
}

// Fields names the fields that change, in order.
func (c *Change) Fields() []string { return changedFields(c.Objects()) }

// Planner has what a plan needs beside the contents.
type Planner struct {
	Now   time.Time
	NewID func(prefix string) string
}

// Declared is what a tenant declares, read and changed as a whole.
type Declared interface {
	// Contents returns everything at one moment.
	Contents(ctx context.Context) (Contents, error)
	// Apply asks plan which changes to make, in the transaction that makes them: in
	// their order, all or none, each with its event. plan checks everything (names that
	// are taken, agents that are referred to, numbers of resources): an error of it is
	// returned as it is and nothing is changed. It may run several times, must be quick,
	// and must not use the store. The names of resources do not change.
	Apply(ctx context.Context, plan func(Contents, Planner) ([]Change, error)) ([]Change, error)
}

// resourceOf is the resource of a side of a change as its type, nil where it has none.
func resourceOf[T any](r Resource) *T {
	v, _ := any(r).(*T)
	return v
}

// SidesOf returns the two sides of a change as pointers to their type; ok is false for
// a resource of another type. Backends use it.
func SidesOf[T any](c Change) (before, after *T, ok bool) {
	if c.Before != nil {
		before = resourceOf[T](c.Before)
	}
	if c.After != nil {
		after = resourceOf[T](c.After)
	}
	return before, after, before != nil || after != nil
}

// newObject is an object for records of its changes; one of a set shows which.
func newObject(kind, id, name, set string, fields map[string]any) *Object {
	if set != "" {
		fields["set"] = set
	}
	return &Object{Kind: kind, ID: id, Name: name, Fields: fields}
}
