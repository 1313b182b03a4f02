package api

import "time"

// Governance is the bundle that gateways enforce: the response to GET /api/governance, whose
// members are at top level, without data. The bundle and its ETag change when an enabled policy
// changes or when a budget is exceeded or reset, not with every trace.
type Governance struct {
	// Revision is that of the tenant's policies, which grows with each change of one. A gateway reports it.
	Revision int64 `json:"revision,omitempty"`
	// Policies are the enabled policies, oldest first: the order in which they apply.
	Policies []GovernancePolicy `json:"policies"`
	// Budgets are the tenant's budgets with their current state.
	Budgets []BudgetState `json:"budgets"`
	// Teams are the agents of the teams that have budgets.
	Teams []TeamAgents `json:"teams,omitempty"`
	// Aliases are the former names of agents that are still valid. Policies and budgets for
	// either name apply to both.
	Aliases []AgentAlias `json:"aliases,omitempty"`
	// HashKey is the tenant's key for the redaction strategy hash: 32 bytes,
	// standard base64.
	HashKey string `json:"hashKey"`
}

// AgentAlias is a former name of an agent that is still valid.
type AgentAlias struct {
	Alias     string `json:"alias"`
	AgentID   string `json:"agentId"`
	AgentName string `json:"agentName"`
}

// GovernancePolicy is an enabled policy as a gateway needs it.
type GovernancePolicy struct {
	ID                string    `json:"id"`
	Name              string    `json:"name"`
	Phase             string    `json:"phase"`
	On                string    `json:"on"`
	Condition         Condition `json:"condition"`
	Action            string    `json:"action"`
	RedactionStrategy string    `json:"redactionStrategy,omitempty"`
	Message           string    `json:"message,omitempty"`
	Approval          *Approval `json:"approval,omitempty"`
	CreatedAt         time.Time `json:"createdAt"`
}

// TeamAgents are the names of the agents of a team.
type TeamAgents struct {
	TeamID     string   `json:"teamId"`
	AgentNames []string `json:"agentNames"`
}

// BudgetState is whether a budget is spent. A gateway ignores Exceeded after ResetAt. Scope is one of
// BudgetScopes; a control plane that has budgets of agents alone omits it.
type BudgetState struct {
	ID          string    `json:"id"`
	Scope       string    `json:"scope,omitempty"`
	AgentID     string    `json:"agentId"`
	AgentName   string    `json:"agentName"`
	Environment string    `json:"environment,omitempty"`
	TeamID      string    `json:"teamId,omitempty"`
	Period      string    `json:"period"`
	Exceeded    bool      `json:"exceeded"`
	ResetAt     time.Time `json:"resetAt"`
}
