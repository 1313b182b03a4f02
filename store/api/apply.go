package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Kinds of documents, in the order in which they are applied.
const (
	KindTeam      = "Team"
	KindAgent     = "Agent"
	KindPolicy    = "Policy"
	KindBudget    = "Budget"
	KindSLATarget = "SLATarget"
	KindWebhook   = "Webhook"
)

// DocumentKinds are the kinds of documents.
var DocumentKinds = []string{KindTeam, KindAgent, KindPolicy, KindBudget, KindSLATarget, KindWebhook}

const (
	// MaxDocuments is the largest number of documents in one POST /api/apply.
	MaxDocuments = 1000
	// MaxApplyBody is the largest body of POST /api/apply in bytes.
	MaxApplyBody = 8 << 20
	// MaxFormerNames bounds the former names of one agent.
	MaxFormerNames = 16
)

// The values of AppliedChange.Change.
const (
	ChangeCreate = "create"
	ChangeUpdate = "update"
	ChangeDelete = "delete"
	ChangeNone   = "none"
)

// Document declares one resource, with everything that a client can set. Members that a
// spec omits have the defaults of a new resource.
type Document struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Documents is the response to GET /api/apply. Posted to /api/apply, it makes another
// tenant declare the same. Warnings name what documents cannot express.
type Documents struct {
	Documents []Document `json:"documents"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// Apply is the body of POST /api/apply.
type Apply struct {
	Documents Bounded[Document, docBound] `json:"documents"`
	// Set is the name of the documents as a whole. The resources that they declare
	// carry it.
	Set string `json:"set,omitempty"`
	// Prune deletes the resources that carry Set and are in none of the documents.
	// Without PruneLimit, at most a third of a kind is deleted.
	Prune      bool `json:"prune,omitempty"`
	PruneLimit *int `json:"pruneLimit,omitempty"`
	// Adopt takes over existing resources that do not carry Set.
	Adopt  bool `json:"adopt,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field. Specs are checked
// separately, see [NewSpec].
func (b *Apply) Validate() map[string]string {
	var c check
	if b.Documents == nil {
		c.add("documents", required)
	}
	if len(b.Documents) > MaxDocuments {
		c.add("documents", "must have at most %d entries", MaxDocuments)
	}
	if b.Set != "" && !ValidID(b.Set) {
		c.add("set", "must be 1 to %d characters of A-Z, a-z, 0-9, _ and -", MaxID)
	}
	if b.Set == "" {
		if b.Prune {
			c.add("prune", "needs set: only resources of the set are deleted")
		}
		if b.Adopt {
			c.add("adopt", "needs set: adopted resources become part of the set")
		}
	}
	if b.PruneLimit != nil {
		switch {
		case !b.Prune:
			c.add("pruneLimit", "is only allowed with prune")
		case *b.PruneLimit < 0:
			c.add("pruneLimit", "must be an integer of at least 0")
		}
	}
	if len(b.Documents) == 0 && b.Documents != nil {
		if b.Prune {
			c.add("prune", "is rejected without documents: all resources of the set would be deleted")
		} else {
			c.add("documents", "must have at least one entry")
		}
	}
	return c.details()
}

// AppliedChange is the change of one document, or of a pruned resource.
type AppliedChange struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"` // absent for a resource that a dry run would create
	Change string `json:"change"`
	// Fields are the names of the fields that change, in order; empty unless Change is
	// update.
	Fields []string `json:"fields"`
}

// Applied is the response to POST /api/apply: a change for each document, in their
// order, then the changes of pruned resources. Applied is false for a dry run.
type Applied struct {
	Data     []AppliedChange `json:"data"`
	Applied  bool            `json:"applied"`
	Warnings []string        `json:"warnings,omitempty"`
}

// Spec is the spec of a document.
type Spec interface {
	// Validate returns what is wrong with the spec of a document with a name, keyed by
	// field; the key "name" is for the name of the document, which is normalized.
	Validate(name *string) map[string]string
}

// NewSpec returns an empty spec of a kind, nil for an unknown kind.
func NewSpec(kind string) Spec {
	switch kind {
	case KindTeam:
		return &TeamSpec{}
	case KindAgent:
		return &AgentSpec{}
	case KindPolicy:
		return &PolicySpec{}
	case KindBudget:
		return &BudgetSpec{}
	case KindSLATarget:
		return &SLASpec{}
	case KindWebhook:
		return &WebhookSpec{}
	}
	return nil
}

// TeamSpec is the spec of a Team.
type TeamSpec struct {
	Description string                      `json:"description,omitempty"`
	Scopes      Bounded[string, scopeBound] `json:"scopes,omitempty"`
}

// Validate checks the spec like a new team and its scopes.
func (s *TeamSpec) Validate(name *string) map[string]string {
	team := TeamCreate{Name: *name, Description: s.Description}
	wrong := team.Validate()
	*name = team.Name
	return joined(wrong, (&TeamScopesReplace{Scopes: append([]string{}, s.Scopes...)}).Validate())
}

// AgentSpec is the spec of an Agent. Team is the name of its team. FormerNames are added to the former names of the
// agent; others are kept.
type AgentSpec struct {
	Description   string                       `json:"description,omitempty"`
	ModelProvider string                       `json:"modelProvider,omitempty"`
	ModelName     string                       `json:"modelName,omitempty"`
	Environment   string                       `json:"environment,omitempty"`
	Team          string                       `json:"team,omitempty"`
	ConfigYAML    string                       `json:"configYaml,omitempty"`
	FormerNames   Bounded[string, formerBound] `json:"formerNames,omitempty"`
}

// Validate checks the spec like a new agent.
func (s *AgentSpec) Validate(name *string) map[string]string {
	agent := AgentCreate{Name: *name, Description: s.Description, ModelProvider: s.ModelProvider, ModelName: s.ModelName,
		Environment: s.Environment, ConfigYAML: s.ConfigYAML}
	c := check{found: agent.Validate()}
	*name = agent.Name
	c.text("team", s.Team, MaxName)
	if len(s.FormerNames) > MaxFormerNames {
		c.add("formerNames", "must have at most %d entries", MaxFormerNames)
		return c.details()
	}
	for i, former := range s.FormerNames {
		field := indexed("formerNames", i)
		c.line(field, former)
		switch {
		case former == AllAgents:
			c.add(field, "must not be %q", AllAgents)
		case NormalizeName(former) == *name:
			c.add(field, "is the agent's name")
		}
	}
	return c.details()
}

// Matchers returns those of the condition.
func (s *PolicySpec) Matchers() json.RawMessage { return s.Condition.Matchers() }

// PolicySpec is the spec of a Policy.
type PolicySpec struct {
	Phase             string     `json:"phase"`
	On                string     `json:"on,omitempty"`
	Condition         *Condition `json:"condition"`
	Action            string     `json:"action"`
	RedactionStrategy string     `json:"redactionStrategy,omitempty"`
	Message           string     `json:"message,omitempty"`
	Approval          *Approval  `json:"approval,omitempty"`
	Enabled           *bool      `json:"enabled,omitempty"`
}

// Validate checks the spec like a new policy.
func (s *PolicySpec) Validate(name *string) map[string]string {
	policy := PolicyCreate{Name: *name, Phase: s.Phase, On: s.On, Condition: s.Condition, Action: s.Action,
		RedactionStrategy: s.RedactionStrategy, Message: s.Message, Approval: s.Approval, Enabled: s.Enabled}
	wrong := policy.Validate()
	*name = policy.Name
	return wrong
}

// BudgetSpec is the spec of a Budget. Agent and Team are the names of its agent and of its team.
type BudgetSpec struct {
	Scope       string   `json:"scope,omitempty"`
	Agent       string   `json:"agent,omitempty"`
	Environment string   `json:"environment,omitempty"`
	Team        string   `json:"team,omitempty"`
	Period      string   `json:"period"`
	LimitUSD    *float64 `json:"limitUsd"`
	WarnAt      WarnAt   `json:"warnAt,omitempty"`
}

// Validate checks the spec like a new budget.
func (s *BudgetSpec) Validate(name *string) map[string]string {
	budget := BudgetCreate{Name: *name, Scope: s.Scope, AgentID: anyID(s.Agent), Environment: s.Environment, Period: s.Period, LimitUSD: s.LimitUSD, WarnAt: s.WarnAt}
	wrong := budget.Validate()
	*name = budget.Name
	return aboutAgent(wrong)
}

// SLASpec is the spec of an SLATarget. Agent is the name of its agent.
type SLASpec struct {
	Agent            string   `json:"agent"`
	P99LatencyMs     *float64 `json:"p99LatencyMs,omitempty"`
	ErrorRatePercent *float64 `json:"errorRatePercent,omitempty"`
	EvaluationPeriod string   `json:"evaluationPeriod"`
}

// Validate checks the spec like a new SLA target.
func (s *SLASpec) Validate(name *string) map[string]string {
	target := SLACreate{Name: *name, AgentID: anyID(s.Agent), P99LatencyMs: s.P99LatencyMs, ErrorRatePercent: s.ErrorRatePercent,
		EvaluationPeriod: s.EvaluationPeriod}
	wrong := target.Validate()
	*name = target.Name
	return aboutAgent(wrong)
}

// WebhookSpec is the spec of a Webhook. Agent is the name of its agent. The URL of an exported spec is the
// [WebhookVariable] of its name, because the URL itself is a secret.
type WebhookSpec struct {
	URL         string                      `json:"url"`
	Events      Bounded[string, eventBound] `json:"events"`
	Format      string                      `json:"format,omitempty"`
	Environment string                      `json:"environment,omitempty"`
	Agent       string                      `json:"agent,omitempty"`
	Enabled     *bool                       `json:"enabled,omitempty"`
}

// Validate checks the spec like a new webhook.
func (s *WebhookSpec) Validate(name *string) map[string]string {
	hook := WebhookCreate{Name: *name, URL: s.URL, Events: s.Events, Format: s.Format, Environment: s.Environment, AgentID: anyID(s.Agent), Enabled: s.Enabled}
	wrong := hook.Validate()
	*name = hook.Name
	if strings.Contains(s.URL, "${") {
		wrong = joined(map[string]string{"url": "is a reference to a variable of the environment: 'svc apply' replaces it, the API does not"}, nil)
	}
	return wrong
}

// WebhookVariable returns the reference to the environment variable that stands for the URL of a
// webhook in documents, such as ${SVC_WEBHOOK_ON_CALL_URL}.
func WebhookVariable(name string) string {
	upper := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	return "${SVC_WEBHOOK_" + upper + "_URL}"
}

// anyID is a placeholder for the id of an agent that a document refers to by name.
// Whether the agent exists is not checked here.
func anyID(name string) string {
	if name == "" {
		return ""
	}
	return "agt"
}

// aboutAgent moves an error about agentId to the field agent of a document.
func aboutAgent(wrong map[string]string) map[string]string {
	if problem, ok := wrong["agentId"]; ok {
		delete(wrong, "agentId")
		wrong["agent"] = problem
	}
	return wrong
}

func joined(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
