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
	ConfigYAML     string // empty in list items
	AutoRegistered bool   // made by a trace that named it
	Set            string `json:",omitempty"` // of the documents that declare it; empty: none
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// ToolID is the id of a tool of an agent, in every engine alike. It is made of what never
// changes of a tool.
func ToolID(agent, tool string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + tool))
	return PrefixTool + hex.EncodeToString(sum[:13])
}

// AgentCreate asks for an agent. A ConfigYAML is its first deployment record, by
// DeployedBy (a user id).
type AgentCreate struct {
	Name          string
	Description   string
	ModelProvider string
	ModelName     string
	Environment   string
	ConfigYAML    string
	DeployedBy    string
}

// AgentUpdate changes what is not nil. A ConfigYAML that differs from the present
// one appends a deployment record by DeployedBy.
type AgentUpdate struct {
	Name          *string
	Description   *string
	ModelProvider *string
	ModelName     *string
	Environment   *string
	ConfigYAML    *string
	DeployedBy    string
}

// AgentAlias is a former name of an agent that still means it.
type AgentAlias struct {
	Alias     string
	AgentID   string
	AgentName string // the present one
}

// AgentFilter narrows a list of agents; empty fields do not.
type AgentFilter struct {
	Environment string
}

// Deployment is one version of an agent's configuration.
type Deployment struct {
	ID         string
	AgentID    string
	ConfigYAML string
	DeployedBy string
	DeployedAt time.Time
}

// Agents is the agents of a tenant and the history of their configuration.
type Agents interface {
	ListAgents(ctx context.Context, f AgentFilter, page Page) ([]Agent, int, error)
	// GetAgent returns NotFound for an unknown id.
	GetAgent(ctx context.Context, id string) (Agent, error)
	// CreateAgent returns Conflict for a taken name.
	CreateAgent(ctx context.Context, in AgentCreate) (Agent, error)
	// UpdateAgent returns NotFound, or Conflict for a taken name. After a change of
	// name traces that give the old one still are of the agent, until an agent is
	// made with that name or takes it; of many former names the newest 16 count.
	UpdateAgent(ctx context.Context, id string, up AgentUpdate) (Agent, error)
	// DeleteAgent removes an agent and its history. Traces, statistics, budgets and
	// SLA targets keep its id and its last name. NotFound: no such agent.
	DeleteAgent(ctx context.Context, id string) error

	// ListAgentAliases returns the former names of agents that still mean them, by alias.
	ListAgentAliases(ctx context.Context) ([]AgentAlias, error)

	// ListDeployments returns the history of an agent, newest first. NotFound: no
	// such agent.
	ListDeployments(ctx context.Context, agentID string, page Page) ([]Deployment, int, error)
}

// NamedAgent is what a trace says of its agent: as in [Trace], with the model and
// the environment that the agent gets when it is registered.
type NamedAgent struct {
	ID       string
	Name     string
	NameSent string

	ModelProvider, ModelName, Environment string
}

// ResolvedAgent is the agent that was meant.
type ResolvedAgent struct {
	ID      string // empty for an agent that is known by name alone
	Name    string // the agent's own
	Unknown bool   // an ID was given that is not an agent's
}

// AgentDirectory is what a store of traces needs of the records where it is not
// the same engine: which agents exist is their matter.
type AgentDirectory interface {
	// ResolveAgents finds what traces name, by the rules of [TenantTraces.Ingest]: what
	// is not known is registered, up to the backend's bound, and beyond it known by
	// name alone. Of concurrent calls that name the same agent one registers it. Where
	// one is Unknown nothing is registered.
	ResolveAgents(ctx context.Context, named []NamedAgent) ([]ResolvedAgent, error)
	// AgentNames returns the present names of agents, the last ones of deleted agents.
	// Ids that no agent ever had are left out.
	AgentNames(ctx context.Context, ids []string) (map[string]string, error)
}

// Make is the agent that is asked for, without its configuration.
func (in AgentCreate) Make(id string, now time.Time) Agent {
	return Agent{ID: id, Name: in.Name, Description: in.Description, ModelProvider: in.ModelProvider, ModelName: in.ModelName,
		Environment: in.Environment, CreatedAt: now, UpdatedAt: now}
}

// Apply makes the change, but for the configuration.
func (up AgentUpdate) Apply(a *Agent, now time.Time) {
	set(&a.Name, up.Name)
	set(&a.Description, up.Description)
	set(&a.ModelProvider, up.ModelProvider)
	set(&a.ModelName, up.ModelName)
	set(&a.Environment, up.Environment)
	a.UpdatedAt = now
}

// Object is the agent for records of its changes.
func (a *Agent) Object() *Object {
	return newObject("agent", a.ID, a.Name, a.Set, map[string]any{"name": a.Name, "description": a.Description, "modelProvider": a.ModelProvider,
		"modelName": a.ModelName, "environment": a.Environment, "configYaml": a.ConfigYAML})
}
