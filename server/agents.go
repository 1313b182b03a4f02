package server

import (
	"net/http"

	"svc/server/api"
	"svc/store"
)

func wireAgentItem(a store.Agent) api.AgentItem {
	return api.AgentItem{
		ID: a.ID, Name: a.Name, Description: a.Description,
		ModelProvider: a.ModelProvider, ModelName: a.ModelName, Environment: a.Environment,
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	}
}

func wireAgent(a store.Agent) api.Agent {
	return api.Agent{AgentItem: wireAgentItem(a), ConfigYAML: a.ConfigYAML}
}

func wireTool(t store.AgentTool) api.AgentTool {
	return api.AgentTool{
		ID: t.ID, AgentID: t.AgentID, ToolName: t.ToolName,
		CallCount: t.CallCount, LastCalledAt: t.LastCalledAt.UTC(),
	}
}

func wireDeployment(d store.Deployment) api.Deployment {
	return api.Deployment{
		ID: d.ID, AgentID: d.AgentID, ConfigYAML: d.ConfigYAML,
		DeployedBy: d.DeployedBy, DeployedAt: d.DeployedAt.UTC(),
	}
}

// listAgents serves GET /api/agents.
func (s *Server) listAgents(c *call) error {
	q := c.query()
	page, filter := q.page(api.DefaultLimit), store.AgentFilter{Environment: q.text("environment")}
	if err := q.err(); err != nil {
		return err
	}
	agents, total, err := c.tenant.ListAgents(c.Context(), filter, page)
	if err != nil {
		return err
	}
	return paged(c, each(agents, wireAgentItem), total, page)
}

// getAgent serves GET /api/agents/:id, configuration included.
func (s *Server) getAgent(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	a, err := c.tenant.GetAgent(c.Context(), id)
	if err != nil {
		return err
	}
	return c.data(http.StatusOK, wireAgent(a))
}

// createAgent serves POST /api/agents. A configuration that comes with it is
// the agent's first deployment, by the user of the calling key.
func (s *Server) createAgent(c *call) error {
	var in api.AgentCreate
	if err := c.decode(&in); err != nil {
		return err
	}
	a, err := c.tenant.CreateAgent(c.Context(), store.AgentCreate{
		Name: in.Name, Description: in.Description,
		ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment,
		ConfigYAML: in.ConfigYAML, DeployedBy: c.key.CreatedBy,
	})
	if err != nil {
		return err
	}
	return c.data(http.StatusCreated, api.AgentCreated{
		ID: a.ID, Name: a.Name,
		ModelProvider: a.ModelProvider, ModelName: a.ModelName, Environment: a.Environment,
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	})
}

// updateAgent serves PUT /api/agents/:id. A configuration that differs from the
// present one appends a deployment.
func (s *Server) updateAgent(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	var in api.AgentUpdate
	if err := c.decode(&in); err != nil {
		return err
	}
	a, err := c.tenant.UpdateAgent(c.Context(), id, store.AgentUpdate{
		Name: in.Name, Description: in.Description,
		ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment,
		ConfigYAML: in.ConfigYAML, DeployedBy: c.key.CreatedBy,
	})
	if err != nil {
		return err
	}
	return c.data(http.StatusOK, wireAgent(a))
}

// deleteAgent serves DELETE /api/agents/:id. Traces, budgets and SLA targets
// keep the agent's id and name.
func (s *Server) deleteAgent(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	if err := c.tenant.DeleteAgent(c.Context(), id); err != nil {
		return err
	}
	return c.deleted()
}

// listTools serves GET /api/agents/:id/tools: what the agent's traces named.
func (s *Server) listTools(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	q := c.query()
	page := q.page(api.DefaultLimit)
	if err := q.err(); err != nil {
		return err
	}
	tools, total, err := c.tenant.ListTools(c.Context(), id, page)
	if err != nil {
		return err
	}
	return paged(c, each(tools, wireTool), total, page)
}

// listHistory serves GET /api/agents/:id/history, the most recent first.
func (s *Server) listHistory(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	q := c.query()
	page := q.page(api.DefaultHistoryLimit)
	if err := q.err(); err != nil {
		return err
	}
	history, total, err := c.tenant.ListDeployments(c.Context(), id, page)
	if err != nil {
		return err
	}
	return paged(c, each(history, wireDeployment), total, page)
}
