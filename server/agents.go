package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

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
	page, filter := q.cursorPage(agentsList, api.DefaultLimit), store.AgentFilter{Environment: q.text("environment")}
	if err := q.err(); err != nil {
		return err
	}
	agents, total, err := c.tenant.ListAgents(c.Context(), filter, page.withOneMore())
	if err != nil {
		return err
	}
	agents, next := cutPage(page, agents, func(a *store.Agent) store.Place { return store.Place{ID: a.ID} })
	return nextPage(c, each(agents, wireAgentItem), total, page, next)
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
	c.etag(a.Object())
	return c.data(http.StatusOK, wireAgent(a))
}

// createAgent serves POST /api/agents. A configuration that comes with it is
// the agent's first deployment, by the user of the calling key.
func (s *Server) createAgent(c *call) error {
	var in api.AgentCreate
	if err := c.decode(&in); err != nil {
		return err
	}
	if err := c.uniqueAgent("", &in.Name); err != nil {
		return err
	}
	return create(c, func(ctx context.Context) (store.Agent, error) {
		return c.tenant.CreateAgent(ctx, store.AgentCreate{
			Name: in.Name, Description: in.Description,
			ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment,
			ConfigYAML: in.ConfigYAML, DeployedBy: c.key.CreatedBy,
		})
	}, func(a store.Agent) error {
		return c.data(http.StatusCreated, api.AgentCreated{
			ID: a.ID, Name: a.Name,
			ModelProvider: a.ModelProvider, ModelName: a.ModelName, Environment: a.Environment,
			CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
		})
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
	if _, err := c.decodeChange(&in, agentEcho, func() (any, error) {
		a, err := c.tenant.GetAgent(c.Context(), id)
		return wireAgent(a), err
	}); err != nil {
		return err
	}
	if err := c.uniqueAgent(id, in.Name); err != nil {
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
	c.etag(a.Object())
	return c.data(http.StatusOK, wireAgent(a))
}

// deleteAgent serves DELETE /api/agents/:id. Traces, budgets and SLA targets
// keep the agent's id and name; the answer warns of what still refers to it.
func (s *Server) deleteAgent(c *call) error {
	id, err := c.pathID("agent")
	if err != nil {
		return err
	}
	warnings, err := c.referencesTo(id)
	if err != nil {
		return err
	}
	if err := c.tenant.DeleteAgent(c.Context(), id); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, api.Success{Success: true, Warnings: warnings})
}

// referencesTo names the policies, budgets and SLA targets that are left behind
// when an agent is deleted.
func (c *call) referencesTo(id string) (warnings []string, err error) {
	agent, err := c.tenant.GetAgent(c.Context(), id)
	if err != nil {
		return nil, err
	}
	names := []string{agent.Name}
	aliases, err := c.tenant.ListAgentAliases(c.Context())
	if err != nil {
		return nil, err
	}
	for _, a := range aliases {
		if a.AgentID == id {
			names = append(names, a.Alias)
		}
	}
	policies, _, err := c.tenant.ListPolicies(c.Context(), store.PolicyFilter{}, store.Page{})
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if slices.Contains(names, p.On) {
			warnings = append(warnings, fmt.Sprintf("policy %q is for agent %q and matches nothing until an agent has that name again", p.Name, p.On))
		}
	}
	budgets, err := c.tenant.ListBudgets(c.Context())
	if err != nil {
		return nil, err
	}
	for _, b := range budgets {
		if b.AgentID == id {
			warnings = append(warnings, fmt.Sprintf("budget %q stays with the deleted agent and counts no more spending", b.Name))
		}
	}
	slas, err := c.tenant.ListSLAs(c.Context())
	if err != nil {
		return nil, err
	}
	for _, t := range slas {
		if t.AgentID == id {
			warnings = append(warnings, fmt.Sprintf("SLA target %q stays with the deleted agent and sees no more traces", t.Name))
		}
	}
	return boundWarnings(warnings), nil
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
	if _, err := c.tenant.GetAgent(c.Context(), id); err != nil {
		return err
	}
	tools, total, err := c.traces.ListTools(c.Context(), id, page)
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
