package client

import (
	"context"

	"svc/store/api"
)

// AgentQuery filters GET /api/agents; zero fields do not filter.
type AgentQuery struct {
	Page
	Environment string
	TeamID      string
}

// ListAgents calls GET /api/agents.
func (c *Client) ListAgents(ctx context.Context, q AgentQuery) (api.Page[api.AgentItem], error) {
	return bare[api.Page[api.AgentItem]](ctx, c, "GET", path("agents"), q.query().set("environment", q.Environment).set("teamId", q.TeamID), nil)
}

// CreateAgent calls POST /api/agents.
func (c *Client) CreateAgent(ctx context.Context, in api.AgentCreate, opts ...CallOption) (api.AgentCreated, error) {
	return single[api.AgentCreated](ctx, c, "POST", path("agents"), in, attempt(opts)...)
}

// GetAgent calls GET /api/agents/:id.
func (c *Client) GetAgent(ctx context.Context, id string) (api.Agent, error) {
	return single[api.Agent](ctx, c, "GET", path("agents", id), nil)
}

// UpdateAgent calls PUT /api/agents/:id.
func (c *Client) UpdateAgent(ctx context.Context, id string, in api.AgentUpdate) (api.Agent, error) {
	return single[api.Agent](ctx, c, "PUT", path("agents", id), in)
}

// DeleteAgent calls DELETE /api/agents/:id. The warnings name the resources
// that still refer to the agent.
func (c *Client) DeleteAgent(ctx context.Context, id string) (warnings []string, err error) {
	done, err := bare[api.Success](ctx, c, "DELETE", path("agents", id), nil, nil)
	return done.Warnings, err
}

// ListAgentTools calls GET /api/agents/:id/tools.
func (c *Client) ListAgentTools(ctx context.Context, id string, p Page) (api.Page[api.AgentTool], error) {
	return bare[api.Page[api.AgentTool]](ctx, c, "GET", path("agents", id, "tools"), p.query(), nil)
}

// ListAgentHistory calls GET /api/agents/:id/history.
func (c *Client) ListAgentHistory(ctx context.Context, id string, p Page) (api.Page[api.Deployment], error) {
	return bare[api.Page[api.Deployment]](ctx, c, "GET", path("agents", id, "history"), p.query(), nil)
}
