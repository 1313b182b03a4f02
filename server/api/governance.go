package api

import "time"

// Governance is the bundle that gateways enforce: the answer of
// GET /api/governance, whose members are at top level, without data. It changes, and with it its
// ETag, when an enabled policy does or when a budget is exceeded or reset, not
// with every trace.
type Governance struct {
	// Policies are the enabled policies, oldest first: the order they apply in.
	Policies []GovernancePolicy `json:"policies"`
	// Budgets are the tenant's budgets with their present state.
	Budgets []BudgetState `json:"budgets"`
	// Aliases are the former names of agents that still mean them. What the
	// bundle says of either name holds for both.
	Aliases []AgentAlias `json:"aliases,omitempty"`
	// HashKey is the tenant's key for the redaction strategy hash: 32 bytes,
	// standard base64.
	HashKey string `json:"hashKey"`
}

// AgentAlias is a former name of an agent that still means it.
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
	CreatedAt         time.Time `json:"createdAt"`
}

// BudgetState says whether an agent has spent what a budget allows. A gateway
// holds Exceeded for over once ResetAt has passed.
type BudgetState struct {
	ID        string    `json:"id"`
	AgentID   string    `json:"agentId"`
	AgentName string    `json:"agentName"`
	Period    string    `json:"period"`
	Exceeded  bool      `json:"exceeded"`
	ResetAt   time.Time `json:"resetAt"`
}
