package api

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Kinds of documents, in the order in which they are applied.
const (
	KindTeam      = "Team"
	KindAgent     = "Agent"
	KindPolicy    = "Policy"
	KindBudget    = "Budget"
	KindSLATarget = "SLATarget"
)

// DocumentKinds are the kinds of documents.
var DocumentKinds = []string{KindTeam, KindAgent, KindPolicy, KindBudget, KindSLATarget}

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

// Document declares one resource: all that a client can set of it. What a spec does not
// have is as in a new resource.
type Document struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Documents is the answer of GET /api/apply: what POST /api/apply takes to make another
// tenant declare the same. Warnings name what no document can say.
type Documents struct {
	Documents []Document `json:"documents"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// Apply is the body of POST /api/apply.
type Apply struct {
	Documents []Document `json:"documents"`
	// Set is the name of the documents as a whole: their resources carry it.
	Set string `json:"set,omitempty"`
	// Prune deletes what carries Set and is in none of the documents, within bounds
	// unless PruneLimit gives another one.
	Prune      bool `json:"prune,omitempty"`
	PruneLimit *int `json:"pruneLimit,omitempty"`
	// Adopt takes over resources that exist outside of Set.
	Adopt  bool `json:"adopt,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field. Specs are for
// [NewSpec].
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
			c.add("prune", "needs set: only what carries it is deleted")
		}
		if b.Adopt {
			c.add("adopt", "needs set: what is taken over carries it")
		}
	}
	if b.PruneLimit != nil {
		switch {
		case !b.Prune:
			c.add("pruneLimit", "belongs to prune only")
		case *b.PruneLimit < 0:
			c.add("pruneLimit", "must be an integer from 0")
		}
	}
	if len(b.Documents) == 0 && b.Documents != nil {
		if b.Prune {
			c.add("prune", "is refused without documents: everything of the set would be deleted")
		} else {
			c.add("documents", "must have at least one entry")
		}
	}
	return c.details()
}

// AppliedChange is what became of one document, or of a resource that was pruned.
type AppliedChange struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"` // absent where a dry run would create it
	Change string `json:"change"`
	// Fields are the names of the fields that change, in order; empty unless Change is
	// update.
	Fields []string `json:"fields"`
}

// Applied is the answer of POST /api/apply: a change for each document, in their order,
// and those of pruned resources behind them. Applied is false for a dry run.
type Applied struct {
	Data     []AppliedChange `json:"data"`
	Applied  bool            `json:"applied"`
	Warnings []string        `json:"warnings,omitempty"`
}

// Spec is the spec of a document.
type Spec interface {
	// Validate returns what is wrong with the spec of a document with a name, keyed by
	// field; "name" is about the name, which is normalized.
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
	}
	return nil
}

// TeamSpec is the spec of a Team.
type TeamSpec struct {
	Description string   `json:"description,omitempty"`
	Scopes      []string `json:"scopes,omitempty"`
}

// Validate checks the spec as a new team and its scopes are checked.
func (s *TeamSpec) Validate(name *string) map[string]string {
	team := TeamCreate{Name: *name, Description: s.Description}
	wrong := team.Validate()
	*name = team.Name
	return joined(wrong, (&TeamScopesReplace{Scopes: append([]string{}, s.Scopes...)}).Validate())
}

// AgentSpec is the spec of an Agent. FormerNames are names that mean the agent too;
// those that are not given stay.
type AgentSpec struct {
	Description   string   `json:"description,omitempty"`
	ModelProvider string   `json:"modelProvider,omitempty"`
	ModelName     string   `json:"modelName,omitempty"`
	Environment   string   `json:"environment,omitempty"`
	ConfigYAML    string   `json:"configYaml,omitempty"`
	FormerNames   []string `json:"formerNames,omitempty"`
}

// Validate checks the spec as a new agent is checked.
func (s *AgentSpec) Validate(name *string) map[string]string {
	agent := AgentCreate{Name: *name, Description: s.Description, ModelProvider: s.ModelProvider, ModelName: s.ModelName,
		Environment: s.Environment, ConfigYAML: s.ConfigYAML}
	c := check{found: agent.Validate()}
	*name = agent.Name
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

// PolicySpec is the spec of a Policy.
type PolicySpec struct {
	Phase             string     `json:"phase"`
	On                string     `json:"on,omitempty"`
	Condition         *Condition `json:"condition"`
	Action            string     `json:"action"`
	RedactionStrategy string     `json:"redactionStrategy,omitempty"`
	Message           string     `json:"message,omitempty"`
	Enabled           *bool      `json:"enabled,omitempty"`
}

// Validate checks the spec as a new policy is checked.
func (s *PolicySpec) Validate(name *string) map[string]string {
	policy := PolicyCreate{Name: *name, Phase: s.Phase, On: s.On, Condition: s.Condition, Action: s.Action,
		RedactionStrategy: s.RedactionStrategy, Message: s.Message, Enabled: s.Enabled}
	wrong := policy.Validate()
	*name = policy.Name
	return wrong
}

// BudgetSpec is the spec of a Budget. Agent is the name of its agent.
type BudgetSpec struct {
	Agent    string   `json:"agent"`
	Period   string   `json:"period"`
	LimitUSD *float64 `json:"limitUsd"`
}

// Validate checks the spec as a new budget is checked.
func (s *BudgetSpec) Validate(name *string) map[string]string {
	budget := BudgetCreate{Name: *name, AgentID: anyID(s.Agent), Period: s.Period, LimitUSD: s.LimitUSD}
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

// Validate checks the spec as a new SLA target is checked.
func (s *SLASpec) Validate(name *string) map[string]string {
	target := SLACreate{Name: *name, AgentID: anyID(s.Agent), P99LatencyMs: s.P99LatencyMs, ErrorRatePercent: s.ErrorRatePercent,
		EvaluationPeriod: s.EvaluationPeriod}
	wrong := target.Validate()
	*name = target.Name
	return aboutAgent(wrong)
}

// anyID stands for the id of an agent that is referred to by its name: whether there is
// one is not for the check of a body.
func anyID(name string) string {
	if name == "" {
		return ""
	}
	return "agt"
}

// aboutAgent names the field of a document that refers to an agent.
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
