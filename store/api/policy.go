package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// AllAgents is the value of a policy's On that means every agent.
const AllAgents = "*"

// Allowed values of a policy's fields.
var (
	// Phases are the messages that a policy applies to: requests or responses.
	Phases = []string{"request", "response"}
	// Actions are what a policy does when its condition holds.
	Actions = []string{"block", "redact", "warn"}
	// ConditionTypes are the conditions a policy may have.
	ConditionTypes = []string{"injection_score", "pii_detected", "tool_name", "tool_arguments", "data_flow", "budget_exceeded", "always"}
	// RedactionStrategies are the ways to redact a match.
	RedactionStrategies = []string{"mask", "remove", "hash", "replace", "token"}
)

// Entities are the entities that the detectors of gateways find.
var Entities = []string{"EMAIL", "PHONE", "CREDIT_CARD", "IBAN", "SSN", "NHS_NUMBER", "NIF", "CPF", "IP_ADDRESS", "API_KEY", "PRIVATE_KEY", "JWT"}

// EntitySynonyms are alternative names of entities that detectors accept.
var EntitySynonyms = []string{
	"EMAIL_ADDRESS", "PHONE_NUMBER", "CARD", "CREDIT_CARD_NUMBER", "IBAN_CODE", "US_SSN", "UK_NHS", "ES_NIF", "ES_NIE", "NIE", "DNI", "BR_CPF", "IP", "IPV4", "IPV6", "SECRET", "TOKEN",
}

// Types of conditions that the code refers to.
const (
	conditionToolName      = "tool_name"
	conditionToolArguments = "tool_arguments"
	conditionDataFlow      = "data_flow"
)

// Condition is the condition under which a policy fires. Threshold is for
// injection_score, Entities for pii_detected (empty means any entity), ToolName, a glob,
// for tool_name, tool_arguments and, where the policy is not for every message, data_flow, Arguments for tool_arguments: a JSON object that
// maps JSON Pointers into the arguments of a call to matchers.
type Condition struct {
	Type      string                       `json:"type"`
	Threshold *float64                     `json:"threshold,omitempty"`
	Entities  Bounded[string, entityBound] `json:"entities,omitzero"`
	ToolName  string                       `json:"toolName,omitempty"`
	Arguments json.RawMessage              `json:"arguments,omitempty"`
	// LabelsAll and LabelsAny, for data_flow, are names of labels that the gateways declare: the caller
	// must have all of the first, and one of the second.
	LabelsAll Bounded[string, labelBound] `json:"labelsAll,omitzero"`
	LabelsAny Bounded[string, labelBound] `json:"labelsAny,omitzero"`
}

// Labels describes the labels of a data_flow condition in words, as in "private and untrusted".
func (k *Condition) Labels() string {
	text := strings.Join(k.LabelsAll, " and ")
	if len(k.LabelsAny) == 0 {
		return text
	}
	if text != "" {
		text += ", and "
	}
	return text + "any of " + strings.Join(k.LabelsAny, ", ")
}

// Policy is a governance rule of the control plane. RedactionStrategy is absent unless
// Action is redact. Message is the reason that the client gets when the policy blocks. Approval
// makes a policy that blocks requests let those pass that a person grants.
type Policy struct {
	ID                string    `json:"id"`
	Name              string    `json:"name"`
	Phase             string    `json:"phase"`
	On                string    `json:"on"`
	Condition         Condition `json:"condition"`
	Action            string    `json:"action"`
	RedactionStrategy string    `json:"redactionStrategy,omitempty"`
	Message           string    `json:"message,omitempty"`
	Approval          *Approval `json:"approval,omitempty"`
	Enabled           bool      `json:"enabled"`
	// EnforcedBy is absent for a policy that is disabled, and for keys without the scope traces:read. It is
	// ignored in a PUT.
	EnforcedBy *EnforcedBy `json:"enforcedBy,omitempty"`
	FireCount  int64       `json:"fireCount"`
	CreatedAt  time.Time   `json:"createdAt"`
	UpdatedAt  time.Time   `json:"updatedAt"`
	// Warnings are the warnings of the response to a creation or an update. They are not
	// a member of the policy; server/client fills them.
	Warnings []string `json:"-"`
	// ETag identifies the state of a policy that was read on its own; server/client fills it.
	ETag string `json:"-"`
}

// PolicyCreate is the body of POST /api/policies. On defaults to AllAgents,
// Enabled to true.
type PolicyCreate struct {
	Name              string     `json:"name"`
	Phase             string     `json:"phase"`
	On                string     `json:"on,omitempty"`
	Condition         *Condition `json:"condition"`
	Action            string     `json:"action"`
	RedactionStrategy string     `json:"redactionStrategy,omitempty"`
	Message           string     `json:"message,omitempty"`
	Approval          *Approval  `json:"approval,omitempty"`
	Enabled           *bool      `json:"enabled,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field. It also checks the
// result of an update, because a changed policy must meet the rules for a new one.
func (b *PolicyCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, policyID)
	c.requiredEnum("phase", b.Phase, Phases)
	c.text("on", b.On, MaxName)
	if b.Condition == nil {
		c.add("condition", required)
	} else {
		c.condition(b.Condition)
	}
	c.requiredEnum("action", b.Action, Actions)
	c.enum("redactionStrategy", b.RedactionStrategy, RedactionStrategies)
	c.message("message", b.Message)
	if b.Approval != nil {
		b.Approval.validate(&c)
		if b.Action != "block" || b.Phase != "request" {
			c.add("approval", "is only for the action block in the phase request")
		}
	}
	if b.Action == "redact" && b.RedactionStrategy == "" {
		c.add("redactionStrategy", "is required when action is redact")
	}
	if b.Action == "redact" && b.RedactionStrategy == "token" && b.Phase == "request" {
		c.add("redactionStrategy", "token is only for the phase response: a tool cannot read tokens")
	}
	if b.Condition != nil && b.Condition.Type == conditionToolArguments && b.Phase == "response" {
		c.add("phase", "must be request for tool_arguments: responses have no arguments")
	}
	if b.Condition != nil && b.Condition.Type == conditionDataFlow && b.Phase == "response" {
		c.add("phase", "must be request for data_flow: labels restrict what is sent")
	}
	return c.details()
}

// Matchers returns the matchers of a condition on arguments, for a condition that is complete and
// within its bounds; else nil.
func (k *Condition) Matchers() json.RawMessage {
	if k == nil || k.Type != conditionToolArguments || len(k.Arguments) > MaxArguments {
		return nil
	}
	return k.Arguments
}

// Matchers returns those of the condition.
func (b *PolicyCreate) Matchers() json.RawMessage { return b.Condition.Matchers() }

// Matchers returns those of the condition.
func (b *PolicyUpdate) Matchers() json.RawMessage { return b.Condition.Matchers() }

// condition checks that a condition has the fields of its type and no others.
func (c *check) condition(k *Condition) {
	c.requiredEnum("condition.type", k.Type, ConditionTypes)
	switch {
	case k.Type == "injection_score" && k.Threshold == nil:
		c.add("condition.threshold", "is required for injection_score")
	case k.Type == "injection_score":
		c.number("condition.threshold", *k.Threshold, 0, 1)
	case k.Threshold != nil:
		c.add("condition.threshold", "is only allowed for injection_score")
	}
	switch {
	case k.Type == conditionToolName || k.Type == conditionToolArguments:
		c.line("condition.toolName", k.ToolName)
	case k.ToolName == "":
	case k.Type == conditionDataFlow:
		c.line("condition.toolName", k.ToolName)
	default:
		c.add("condition.toolName", "is only allowed for tool_name, tool_arguments and data_flow")
	}
	c.labels(k)
	if k.Type == conditionToolArguments {
		c.arguments(k.Arguments)
	} else if k.Arguments != nil {
		c.add("condition.arguments", "is only allowed for tool_arguments")
	}
	if len(k.Entities) > 0 && k.Type != "pii_detected" {
		c.add("condition.entities", "is only allowed for pii_detected")
		return
	}
	if len(k.Entities) > MaxEntities {
		c.add("condition.entities", "must have at most %d entries", MaxEntities)
		return
	}
	for i, e := range k.Entities {
		if !ValidID(e) {
			c.add(fmt.Sprintf("condition.entities[%d]", i), "must be an entity name such as EMAIL")
		}
	}
}

// labels checks the labels of a condition.
func (c *check) labels(k *Condition) {
	for _, l := range []struct {
		field string
		names []string
	}{{"condition.labelsAll", k.LabelsAll}, {"condition.labelsAny", k.LabelsAny}} {
		if len(l.names) > 0 && k.Type != conditionDataFlow {
			c.add(l.field, "is only allowed for data_flow")
			continue
		}
		c.labelNames(l.field, l.names)
	}
	if k.Type == conditionDataFlow && len(k.LabelsAll)+len(k.LabelsAny) == 0 {
		c.add("condition.labelsAny", "is required for data_flow, or labelsAll")
	}
}

// arguments checks the size of a condition on arguments; the server checks its matchers.
func (c *check) arguments(raw json.RawMessage) {
	switch {
	case raw == nil:
		c.add("condition.arguments", "is required for tool_arguments")
	case len(raw) > MaxArguments:
		c.add("condition.arguments", "must have at most %d bytes", MaxArguments)
	}
}

// PolicyUpdate is the body of PUT /api/policies/:id. Absent fields are not changed.
type PolicyUpdate struct {
	NoApproval        bool       `json:"-"` // sends null for Approval, which removes it
	IfMatch           string     `json:"-"` // the ETag of the policy that is changed; empty: of any state
	Name              *string    `json:"name,omitempty"`
	Phase             *string    `json:"phase,omitempty"`
	On                *string    `json:"on,omitempty"`
	Condition         *Condition `json:"condition,omitempty"`
	Action            *string    `json:"action,omitempty"`
	RedactionStrategy *string    `json:"redactionStrategy,omitempty"`
	Message           *string    `json:"message,omitempty"`
	Approval          *Approval  `json:"approval,omitempty"`
	Enabled           *bool      `json:"enabled,omitempty"`
	// EnforcedBy is ignored: GET returns it.
	EnforcedBy *EnforcedBy `json:"enforcedBy,omitempty"`
}

// MarshalJSON returns the fields that are given.
func (b PolicyUpdate) MarshalJSON() ([]byte, error) {
	type fields PolicyUpdate
	if !b.NoApproval {
		return json.Marshal(fields(b))
	}
	return json.Marshal(struct {
		fields
		Approval *Approval `json:"approval"`
	}{fields: fields(b)})
}

// Validate returns what is wrong with the given fields, keyed by field. Whether they fit
// the fields that are not changed is checked by PolicyCreate.Validate on the result.
func (b *PolicyUpdate) Validate() map[string]string {
	var c check
	c.optionalName("name", b.Name, policyID)
	if b.Phase != nil {
		c.requiredEnum("phase", *b.Phase, Phases)
	}
	if b.On != nil {
		c.line("on", *b.On)
	}
	if b.Condition != nil {
		c.condition(b.Condition)
	}
	if b.Action != nil {
		c.requiredEnum("action", *b.Action, Actions)
	}
	if b.RedactionStrategy != nil {
		c.enum("redactionStrategy", *b.RedactionStrategy, RedactionStrategies)
	}
	if b.Message != nil {
		c.message("message", *b.Message)
	}
	if b.Approval != nil {
		b.Approval.validate(&c)
	}
	return c.details()
}

// PolicyTemplate is a named set of policies that can be applied at once.
type PolicyTemplate struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	PolicyCount int    `json:"policyCount"`
}

// TemplateApply is the body of POST /api/policies/templates/apply. AgentName
// defaults to AllAgents, Enabled to true.
type TemplateApply struct {
	Template  string `json:"template"`
	AgentName string `json:"agentName,omitempty"`
	Enabled   *bool  `json:"enabled,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *TemplateApply) Validate() map[string]string {
	var c check
	c.requiredID("template", b.Template)
	c.text("agentName", b.AgentName, MaxName)
	return c.details()
}

// TemplateApplied is the response to POST /api/policies/templates/apply, which is at top
// level.
type TemplateApplied struct {
	Created  int         `json:"created"`
	Policies []PolicyRef `json:"policies"`
	// Warnings give the reasons why policies currently match nothing.
	Warnings []string `json:"warnings,omitempty"`
}

// PolicyRef identifies a policy.
type PolicyRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}
