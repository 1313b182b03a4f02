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
	// Message is shown to the client when the policy blocks.
	Message string `json:",omitempty"`
	// Approval makes a policy that blocks requests let those pass that a person grants.
	Approval  *PolicyApproval `json:",omitempty"`
	Enabled   bool
	Set       string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt time.Time
	UpdatedAt time.Time
	// Revision is that of the tenant's policies after the last change of this one while it was enabled. It is
	// no part of what the policy is: not of its digest, events or documents.
	Revision int64 `json:",omitempty"`
}

// PolicyApproval says how a person decides about a call, with the members of the REST API as
// they were sent; empty ones have their defaults.
type PolicyApproval struct {
	ValidFor string `json:",omitempty"`
	Expires  string `json:",omitempty"`
	NotSelf  string `json:",omitempty"`
	Show     string `json:",omitempty"`
	Note     string `json:",omitempty"`
}

// PolicyCondition defines when a policy matches. Which fields are used depends on
// Type.
type PolicyCondition struct {
	Type      string
	Threshold *float64
	Entities  []string
	ToolName  string // glob
	// Arguments is the condition of tool_arguments on the arguments of a call, as
	// JSON.
	Arguments json.RawMessage `json:",omitempty"`
	// LabelsAll and LabelsAny are the labels of data_flow.
	LabelsAll []string `json:",omitempty"`
	LabelsAny []string `json:",omitempty"`
}

// MaxPolicies bounds the policies of a tenant: gateways reject a larger bundle as a
// whole, and would keep enforcing an outdated one.
const MaxPolicies = 10_000

// PolicyCreate is the input of CreatePolicies.
type PolicyCreate struct {
	Name              string
	Phase             string
	On                string // "*" when empty
	Condition         PolicyCondition
	Action            string
	RedactionStrategy string
	Message           string
	Approval          *PolicyApproval
	Enabled           bool
}

// PolicyUpdate is a partial update; nil fields keep their value.
type PolicyUpdate struct {
	Name              *string
	Phase             *string
	On                *string
	Condition         *PolicyCondition
	Action            *string
	RedactionStrategy *string
	Message           *string
	Approval          *PolicyApproval
	NoApproval        bool // removes Approval
	Enabled           *bool
}

// PolicyFilter restricts a list of policies. Zero fields match everything.
type PolicyFilter struct {
	Phase   string
	Enabled *bool
}

// Policies manages the governance policies of a tenant.
type Policies interface {
	ListPolicies(ctx context.Context, f PolicyFilter, page Page) ([]Policy, int, error)
	// GetPolicy returns NotFound for an unknown id.
	GetPolicy(ctx context.Context, id string) (Policy, error)
	// CreatePolicies creates all of them or none, in order. A name that is taken, or
	// given twice, is a Conflict that names it; exceeding MaxPolicies is Invalid.
	CreatePolicies(ctx context.Context, in ...PolicyCreate) ([]Policy, error)
	// UpdatePolicy returns NotFound, or Conflict when the name is taken. check, when
	// not nil, gets the updated policy in the same transaction; its error is
	// returned unchanged and nothing is changed.
	UpdatePolicy(ctx context.Context, id string, up PolicyUpdate, check func(Policy) error) (Policy, error)
	// DeletePolicy returns NotFound for an unknown id.
	DeletePolicy(ctx context.Context, id string) error
}

// Make returns the new policy.
func (in PolicyCreate) Make(id string, now time.Time) Policy {
	return Policy{ID: id, Name: in.Name, Phase: in.Phase, On: cmp.Or(in.On, "*"), Condition: in.Condition.Clone(), Action: in.Action,
		RedactionStrategy: in.RedactionStrategy, Message: in.Message, Approval: copied(in.Approval), Enabled: in.Enabled, CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
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
	if up.Approval != nil || up.NoApproval {
		p.Approval = copied(up.Approval)
	}
	p.UpdatedAt = now
}

// Clone returns a copy that shares no memory with the policy.
func (k PolicyCondition) Clone() PolicyCondition {
	k.Threshold, k.Entities, k.Arguments = copied(k.Threshold), slices.Clone(k.Entities), slices.Clone(k.Arguments)
	k.LabelsAll, k.LabelsAny = slices.Clone(k.LabelsAll), slices.Clone(k.LabelsAny)
	return k
}

// Object is the policy as audit events record it.
func (p *Policy) Object() *Object {
	condition := map[string]any{"type": p.Condition.Type, "threshold": value(p.Condition.Threshold),
		"entities": append([]string{}, p.Condition.Entities...), "toolName": p.Condition.ToolName}
	if p.Condition.Arguments != nil { // only where set, so that digests made before the field existed stay valid
		condition["arguments"] = p.Condition.Arguments
	}
	if len(p.Condition.LabelsAll)+len(p.Condition.LabelsAny) > 0 {
		condition["labelsAll"], condition["labelsAny"] = p.Condition.LabelsAll, p.Condition.LabelsAny
	}
	fields := map[string]any{"name": p.Name, "phase": p.Phase, "on": p.On, "condition": condition,
		"action": p.Action, "redactionStrategy": p.RedactionStrategy, "enabled": p.Enabled}
	if p.Message != "" { // only where set, as arguments
		fields["message"] = p.Message
	}
	if a := p.Approval; a != nil {
		fields["approval"] = map[string]any{"validFor": a.ValidFor, "expires": a.Expires, "notSelf": a.NotSelf, "show": a.Show, "note": a.Note}
	}
	return newObject("policy", p.ID, p.Name, p.Set, fields)
}
