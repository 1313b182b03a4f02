package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Policy is a governance rule of the control plane.
type Policy struct {
	ID                string
	Name              string // unique in the tenant
	Phase             string // "request", "response"
	On                string // agent name, "*" for all
	Condition         PolicyCondition
	Action            string // "block", "redact", "warn"
	RedactionStrategy string
	// Message tells the client why the policy blocked.
	Message   string `json:",omitempty"`
	Enabled   bool
	Set       string `json:",omitempty"` // of the documents that declare it; empty: none
	CreatedAt time.Time
	UpdatedAt time.Time
}

// PolicyCondition says when a policy fires. Which fields matter depends on Type.
type PolicyCondition struct {
	Type      string
	Threshold *float64
	Entities  []string
	ToolName  string // glob
	// Arguments is the condition on arguments of tool_arguments, as JSON.
	Arguments json.RawMessage `json:",omitempty"`
}

// MaxPolicies is how many policies a tenant has at most: gateways refuse a bundle
// of more as a whole, and would go on with an old one.
const MaxPolicies = 10_000

// PolicyCreate asks for a policy.
type PolicyCreate struct {
	Name              string
	Phase             string
	On                string // "*" when empty
	Condition         PolicyCondition
	Action            string
	RedactionStrategy string
	Message           string
	Enabled           bool
}

// PolicyUpdate changes what is not nil.
type PolicyUpdate struct {
	Name              *string
	Phase             *string
	On                *string
	Condition         *PolicyCondition
	Action            *string
	RedactionStrategy *string
	Message           *string
	Enabled           *bool
}

// PolicyFilter narrows a list of policies; zero fields do not.
type PolicyFilter struct {
	Phase   string
	Enabled *bool
}

// Policies is the governance policies of a tenant.
type Policies interface {
	ListPolicies(ctx context.Context, f PolicyFilter, page Page) ([]Policy, int, error)
	// GetPolicy returns NotFound for an unknown id.
	GetPolicy(ctx context.Context, id string) (Policy, error)
	// CreatePolicies makes all of them or none, in order. A name that is taken, or
	// given twice, is a Conflict that names it; more than MaxPolicies are Invalid.
	CreatePolicies(ctx context.Context, in ...PolicyCreate) ([]Policy, error)
	// UpdatePolicy returns NotFound, or Conflict for a taken name. check, when not
	// nil, sees the policy as it would become, in the same transaction; its error is
	// returned as it is and nothing is changed.
	UpdatePolicy(ctx context.Context, id string, up PolicyUpdate, check func(Policy) error) (Policy, error)
	// DeletePolicy returns NotFound for an unknown id.
	DeletePolicy(ctx context.Context, id string) error
}

// Make is the policy that is asked for.
func (in PolicyCreate) Make(id string, now time.Time) Policy {
	return Policy{ID: id, Name: in.Name, Phase: in.Phase, On: cmp.Or(in.On, "*"), Condition: in.Condition.Clone(), Action: in.Action,
		RedactionStrategy: in.RedactionStrategy, Message: in.Message, Enabled: in.Enabled, CreatedAt: now, UpdatedAt: now}
}

// Apply makes the change.
func (up PolicyUpdate) Apply(p *Policy, now time.Time) {
	set(&p.Name, up.Name)
	set(&p.Phase, up.Phase)
	set(&p.On, up.On)
	set(&p.Action, up.Action)
	set(&p.RedactionStrategy, up.RedactionStrategy)
	set(&p.Message, up.Message)
	set(&p.Enabled, up.Enabled)
	if up.Condition != nil {
		p.Condition = up.Condition.Clone()
	}
	p.UpdatedAt = now
}

// Clone is a copy that shares nothing.
func (k PolicyCondition) Clone() PolicyCondition {
	k.Threshold, k.Entities, k.Arguments = copied(k.Threshold), slices.Clone(k.Entities), slices.Clone(k.Arguments)
	return k
}

// Object is the policy for records of its changes.
func (p *Policy) Object() *Object {
	condition := map[string]any{"type": p.Condition.Type, "threshold": value(p.Condition.Threshold),
		"entities": append([]string{}, p.Condition.Entities...), "toolName": p.Condition.ToolName}
	if p.Condition.Arguments != nil { // absent from policies of other types, whose records stay as they were
		condition["arguments"] = p.Condition.Arguments
	}
	fields := map[string]any{"name": p.Name, "phase": p.Phase, "on": p.On, "condition": condition,
		"action": p.Action, "redactionStrategy": p.RedactionStrategy, "enabled": p.Enabled}
	if p.Message != "" { // likewise
		fields["message"] = p.Message
	}
	return newObject("policy", p.ID, p.Name, p.Set, fields)
}
