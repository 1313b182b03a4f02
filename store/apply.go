package store

import (
	"context"
	"time"
)

// Resource is a resource that can be declared: a *Team, *Agent, *Policy, *Budget,
// *SLATarget or *Webhook.
type Resource interface{ Object() *Object }

// Contents is a consistent snapshot of everything that can be declared in a tenant,
// oldest first.
type Contents struct {
	Teams    []Team
	Agents   []Agent // with their configuration
	Aliases  []AgentAlias
	Policies []Policy
	Budgets  []Budget
	SLAs     []SLATarget
	Webhooks []Webhook
}

// Change is a change of one resource. Before is nil for a creation, After for a
// deletion; otherwise both are of one type and have the same id.
type Change struct {
	Before, After Resource
	// FormerNames are additional names that resolve to the agent from now on. None of
	// them is the current name of an agent.
	FormerNames []string
	DeployedBy  string // user who deploys the configuration of an agent when it changes
}

// Objects returns both sides as audit events record them.
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

// Fields returns the names of the fields that change, in order.
func (c *Change) Fields() []string { return changedFields(c.Objects()) }

// Planner is the input of a plan besides the contents.
type Planner struct {
	Now   time.Time
	NewID func(prefix string) string
}

// Declared reads and changes the declared resources of a tenant as a whole.
type Declared interface {
	// Contents returns a consistent snapshot.
	Contents(ctx context.Context) (Contents, error)
	// Apply calls plan and makes the changes that it returns, in one transaction: in
	// their order, all or none, each with its audit event. plan must check everything
	// (taken names, references to agents, limits on numbers of resources): its error is
	// returned unchanged and nothing is changed. plan may run several times, must be
	// fast, and must not use the store. The names of resources do not change.
	Apply(ctx context.Context, plan func(Contents, Planner) ([]Change, error)) ([]Change, error)
}

// resourceOf returns a side of a change as its type, nil when the side is nil.
func resourceOf[T any](r Resource) *T {
	v, _ := any(r).(*T)
	return v
}

// SidesOf returns the two sides of a change as pointers to their type; ok is false for a
// resource of another type. It is for backends.
func SidesOf[T any](c Change) (before, after *T, ok bool) {
	if c.Before != nil {
		before = resourceOf[T](c.Before)
	}
	if c.After != nil {
		after = resourceOf[T](c.After)
	}
	return before, after, before != nil || after != nil
}

// newObject returns an object for audit events; items of a set are selected by which.
func newObject(kind, id, name, set string, fields map[string]any) *Object {
	if set != "" {
		fields["set"] = set
	}
	return &Object{Kind: kind, ID: id, Name: name, Fields: fields}
}
