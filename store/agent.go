package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Agent is a registered AI agent.
type Agent struct {
	ID             string
	Name           string // unique in the tenant
	Description    string
	ModelProvider  string
	ModelName      string
	Environment    string
	TeamID         string `json:",omitempty"` // team that the agent belongs to; empty: none
	ConfigYAML     string // empty in list items
	AutoRegistered bool   // registered by a trace that named it
	Set            string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// ToolID is the id of a tool of an agent, in every engine alike. It depends only on
// properties of a tool that never change.
func ToolID(agent, tool string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + tool))
	return PrefixTool + hex.EncodeToString(sum[:13])
}

// AgentCreate is the input of CreateAgent. A ConfigYAML becomes the first deployment
// record, by DeployedBy (a user id).
type AgentCreate struct {
	Name          string
	Description   string
	ModelProvider string
	ModelName     string
	Environment   string
	TeamID        string
	ConfigYAML    string
	DeployedBy    string
}

// AgentUpdate is a partial update; nil fields keep their value. A ConfigYAML that differs
// from the current one appends a deployment record by DeployedBy.
type AgentUpdate struct {
	Name          *string
	Description   *string
	ModelProvider *string
	ModelName     *string
	Environment   *string
	TeamID        *string // empty: no team
	ConfigYAML    *string
	DeployedBy    string
}

// AgentAlias is a former name of an agent that still resolves to the agent.
type AgentAlias struct {
	Alias     string
	AgentID   string
	AgentName string // the current name
}

// AgentFilter restricts a list of agents. Empty fields match everything.
type AgentFilter struct {
	Environment string
	TeamID      string
}

// Deployment is one version of an agent's configuration.
type Deployment struct {
	ID         string
	AgentID    string
	ConfigYAML string
	DeployedBy string
	DeployedAt time.Time
}

// Agents manages the agents of a tenant and the history of their configuration.
type Agents interface {
	ListAgents(ctx context.Context, f AgentFilter, page Page) ([]Agent, int, error)
	// GetAgent returns NotFound for an unknown id.
	GetAgent(ctx context.Context, id string) (Agent, error)
	// CreateAgent returns Conflict when the name is taken, Invalid ("teamId") for an unknown
	// team.
	CreateAgent(ctx context.Context, in AgentCreate) (Agent, error)
	// UpdateAgent returns NotFound, and otherwise the errors of CreateAgent. After an agent is
	// renamed, traces with its old name still belong to it, until another agent is
	// created with or renamed to that name. An agent keeps its 16 newest former names.
	UpdateAgent(ctx context.Context, id string, up AgentUpdate) (Agent, error)
	// DeleteAgent removes an agent and its history. Traces, statistics, budgets and SLA
	// targets keep its id and its last name. It returns NotFound for an unknown id.
	DeleteAgent(ctx context.Context, id string) error

	// ListAgentAliases returns the former names that still resolve to an agent, sorted by
	// name.
	ListAgentAliases(ctx context.Context) ([]AgentAlias, error)

	// ListDeployments returns the history of an agent, newest first. It returns NotFound
	// for an unknown id.
	ListDeployments(ctx context.Context, agentID string, page Page) ([]Deployment, int, error)
}

// NamedAgent is the reference to an agent in a trace: the fields of [Trace], with the
// model and the environment that the agent gets if it is registered.
type NamedAgent struct {
	ID       string
	Name     string
	NameSent string

	ModelProvider, ModelName, Environment string
}

// ResolvedAgent is the agent that a [NamedAgent] resolved to.
type ResolvedAgent struct {
	ID      string // empty for an agent that is known by name only
	Name    string // the agent's current name
	TeamID  string // empty: none
	Unknown bool   // AgentID was given and is not the id of an agent
}

// AgentDirectory is what a store of traces needs from the records when they are in
// another engine. The records decide which agents exist.
type AgentDirectory interface {
	// ResolveAgents resolves the references of traces by the rules of
	// [TenantTraces.Ingest]: an unknown agent is registered, up to the backend's bound;
	// beyond the bound it is known by name only. When concurrent calls name the same new
	// agent, one of them registers it. When one reference is Unknown, nothing is
	// registered.
	ResolveAgents(ctx context.Context, named []NamedAgent) ([]ResolvedAgent, error)
	// AgentNames returns the current names of agents, and the last names of deleted
	// agents. Unknown ids are left out.
	AgentNames(ctx context.Context, ids []string) (map[string]string, error)
}

// Make returns the new agent, without its configuration.
func (in AgentCreate) Make(id string, now time.Time) Agent {
	return Agent{ID: id, Name: in.Name, Description: in.Description, ModelProvider: in.ModelProvider, ModelName: in.ModelName,
		Environment: in.Environment, TeamID: in.TeamID, CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update, except for the configuration.
func (up AgentUpdate) Apply(a *Agent, now time.Time) {
	set(&a.Name, up.Name)
	set(&a.Description, up.Description)
	set(&a.ModelProvider, up.ModelProvider)
	set(&a.ModelName, up.ModelName)
	set(&a.Environment, up.Environment)
	set(&a.TeamID, up.TeamID)
	a.UpdatedAt = now
}

// Object is the agent as audit events record it.
func (a *Agent) Object() *Object {
	fields := map[string]any{"name": a.Name, "description": a.Description, "modelProvider": a.ModelProvider,
		"modelName": a.ModelName, "environment": a.Environment, "configYaml": a.ConfigYAML}
	if a.TeamID != "" {
		fields["teamId"] = a.TeamID
	}
	return newObject("agent", a.ID, a.Name, a.Set, fields)
}
