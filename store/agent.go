package store

import (
	"context"
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
	CreatedAt      time.Time
	UpdatedAt      time.Time
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

// AgentTool is a tool that traces of an agent named.
type AgentTool struct {
	ID           string
	AgentID      string
	ToolName     string
	CallCount    int64
	LastCalledAt time.Time // newest createdAt of a trace that named it
}

// Deployment is one version of an agent's configuration.
type Deployment struct {
	ID         string
	AgentID    string
	ConfigYAML string
	DeployedBy string
	DeployedAt time.Time
}

// Agents is the agents of a tenant, the tools seen in their traces and the
// history of their configuration.
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
	// DeleteAgent removes an agent, its tools and its history. Traces, statistics,
	// budgets and SLA targets keep its id and its last name. NotFound: no such agent.
	DeleteAgent(ctx context.Context, id string) error

	// ListAgentAliases returns the former names of agents that still mean them, by alias.
	ListAgentAliases(ctx context.Context) ([]AgentAlias, error)

	// ListTools returns the tools of an agent, newest first by when they were first
	// seen. NotFound: no such agent.
	ListTools(ctx context.Context, agentID string, page Page) ([]AgentTool, int, error)
	// ListDeployments returns the history of an agent, newest first. NotFound: no
	// such agent.
	ListDeployments(ctx context.Context, agentID string, page Page) ([]Deployment, int, error)
}
