package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"svc/store"
	"svc/store/api"
)

func wireAgentItem(a store.Agent) api.AgentItem {
	return api.AgentItem{
		ID: a.ID, Name: a.Name, Description: a.Description,
		ModelProvider: a.ModelProvider, ModelName: a.ModelName, Environment: a.Environment, TeamID: a.TeamID,
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

// agents are the agents of a tenant. The configuration that a new agent is created with
// is its first deployment, recorded for the user of the calling key; an update with a
// different configuration appends a deployment. Traces, budgets and SLA targets keep the
// id and name of a deleted agent; the response to the deletion warns about resources that
// still refer to it.
var agents = &kind[store.Agent, api.AgentCreate, api.AgentUpdate]{
	noun: "agent", cursor: agentsList,
	echo: echo{fixed: []string{"id", "createdAt", "updatedAt"}},
	find: func(c *call, q *query) func(store.Page) ([]store.Agent, int, error) {
		filter := store.AgentFilter{Environment: q.text("environment"), TeamID: q.text("teamId")}
		return func(p store.Page) ([]store.Agent, int, error) { return c.tenant.ListAgents(c.Context(), filter, p) }
	},
	read:      func(c *call, id string) (store.Agent, error) { return c.tenant.GetAgent(c.Context(), id) },
	wire:      func(_ *call, a store.Agent) any { return wireAgent(a) },
	item:      func(a store.Agent) any { return wireAgentItem(a) },
	newName:   func(in *api.AgentCreate) *string { return &in.Name },
	newNameOf: func(in *api.AgentUpdate) *string { return in.Name },
	create: func(c *call, in *api.AgentCreate) error {
		if c.team != nil && in.TeamID != "" && in.TeamID != c.team.ID {
			return errOtherTeam
		}
		return create(c, func(ctx context.Context) (store.Agent, error) {
			return c.tenant.CreateAgent(ctx, store.AgentCreate{
				Name: in.Name, Description: in.Description,
				ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment, TeamID: in.TeamID,
				ConfigYAML: in.ConfigYAML, DeployedBy: c.key.CreatedBy,
			})
		}, func(a store.Agent) error {
			return c.data(http.StatusCreated, api.AgentCreated{
				ID: a.ID, Name: a.Name,
				ModelProvider: a.ModelProvider, ModelName: a.ModelName, Environment: a.Environment, TeamID: a.TeamID,
				CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
			})
		})
	},
	update: func(c *call, id string, in *api.AgentUpdate, _ before[store.Agent]) (store.Agent, []string, error) {
		if c.team != nil && in.TeamID != nil {
			if now, err := c.tenant.GetAgent(c.Context(), id); err != nil || now.TeamID != *in.TeamID {
				return now, nil, cmp.Or(err, errOtherTeam)
			}
		}
		a, err := c.tenant.UpdateAgent(c.Context(), id, store.AgentUpdate{
			Name: in.Name, Description: in.Description,
			ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment, TeamID: in.TeamID,
			ConfigYAML: in.ConfigYAML, DeployedBy: c.key.CreatedBy,
		})
		return a, nil, err
	},
	remove: func(c *call, id string) ([]string, error) {
		warnings, err := c.referencesTo(id)
		if err != nil {
			return nil, err
		}
		return warnings, c.tenant.DeleteAgent(c.Context(), id)
	},
}

// errOtherTeam rejects a change of the team of an agent by a key that is limited to a team: the key
// could decide about calls of the agents of others, or spend from the budget of others.
var errOtherTeam = forbidden("a key that is limited to a team cannot change the team of an agent, and makes agents of its own team or of none")

// referencesTo returns a warning for each policy, budget and SLA target that still refers
// to a deleted agent.
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
			warnings = append(warnings, fmt.Sprintf("budget %q still refers to the deleted agent and counts no more spending", b.Name))
		}
	}
	slas, err := c.tenant.ListSLAs(c.Context())
	if err != nil {
		return nil, err
	}
	for _, t := range slas {
		if t.AgentID == id {
			warnings = append(warnings, fmt.Sprintf("SLA target %q still refers to the deleted agent and gets no more traces", t.Name))
		}
	}
	return boundWarnings(warnings), nil
}

// listTools serves GET /api/agents/:id/tools: the tools that the agent's traces name.
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

// listHistory serves GET /api/agents/:id/history: the agent's deployments, the most
// recent first.
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
