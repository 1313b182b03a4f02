package api

import "time"

// AgentItem is an agent in lists: without its configuration. TeamID is empty for an agent of no
// team.
type AgentItem struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	Description   string    `json:"description"`
	ModelProvider string    `json:"modelProvider"`
	ModelName     string    `json:"modelName"`
	Environment   string    `json:"environment"`
	TeamID        string    `json:"teamId"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
}

// Agent is an agent in the responses to a single read and to an update.
type Agent struct {
	AgentItem
	ConfigYAML string `json:"configYaml"`
}

// AgentCreated is the response to the creation of an agent: without
// description and configuration.
type AgentCreated struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	ModelProvider string    `json:"modelProvider"`
	ModelName     string    `json:"modelName"`
	Environment   string    `json:"environment"`
	TeamID        string    `json:"teamId"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
}

// AgentTool is a tool that an agent has called.
type AgentTool struct {
	ID           string    `json:"id"`
	AgentID      string    `json:"agentId"`
	ToolName     string    `json:"toolName"`
	CallCount    int64     `json:"callCount"`
	LastCalledAt time.Time `json:"lastCalledAt"`
}

// Deployment is one version of an agent's configuration.
type Deployment struct {
	ID         string    `json:"id"`
	AgentID    string    `json:"agentId"`
	ConfigYAML string    `json:"configYaml"`
	DeployedBy string    `json:"deployedBy"`
	DeployedAt time.Time `json:"deployedAt"`
}

// AgentCreate is the body of POST /api/agents. ConfigYAML, when given, is the
// agent's first deployment.
type AgentCreate struct {
	Name          string `json:"name"`
	ModelProvider string `json:"modelProvider,omitempty"`
	ModelName     string `json:"modelName,omitempty"`
	Environment   string `json:"environment,omitempty"`
	TeamID        string `json:"teamId,omitempty"`
	Description   string `json:"description,omitempty"`
	ConfigYAML    string `json:"configYaml,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *AgentCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, agentID)
	if b.Name == AllAgents {
		c.add("name", "must not be %q: a policy's on uses it for all agents", AllAgents)
	}
	c.text("modelProvider", b.ModelProvider, MaxName)
	c.text("modelName", b.ModelName, MaxName)
	c.text("environment", b.Environment, MaxName)
	c.id("teamId", b.TeamID)
	c.prose("description", b.Description, MaxDescription)
	c.prose("configYaml", b.ConfigYAML, MaxConfigYAML)
	return c.details()
}

// AgentUpdate is the body of PUT /api/agents/:id. Absent fields are not
// changed. An empty TeamID takes the agent out of its team. A ConfigYAML that differs from the stored one appends a
// deployment.
type AgentUpdate struct {
	Name          *string `json:"name,omitempty"`
	ModelProvider *string `json:"modelProvider,omitempty"`
	ModelName     *string `json:"modelName,omitempty"`
	Environment   *string `json:"environment,omitempty"`
	TeamID        *string `json:"teamId,omitempty"`
	Description   *string `json:"description,omitempty"`
	ConfigYAML    *string `json:"configYaml,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *AgentUpdate) Validate() map[string]string {
	var c check
	if c.optionalName("name", b.Name, agentID); b.Name != nil && *b.Name == AllAgents {
		c.add("name", "must not be %q: a policy's on uses it for all agents", AllAgents)
	}
	for _, f := range []struct {
		name  string
		value *string
	}{{"modelProvider", b.ModelProvider}, {"modelName", b.ModelName}, {"environment", b.Environment}} {
		if f.value != nil {
			c.text(f.name, *f.value, MaxName)
		}
	}
	if b.TeamID != nil {
		c.id("teamId", *b.TeamID)
	}
	if b.Description != nil {
		c.prose("description", *b.Description, MaxDescription)
	}
	if b.ConfigYAML != nil {
		c.prose("configYaml", *b.ConfigYAML, MaxConfigYAML)
	}
	return c.details()
}
