package client

import (
	"context"

	"svc/store/api"
)

// BreakdownQuery has the parameters of GET /api/costs/breakdown; zero fields
// mean the server's defaults.
type BreakdownQuery struct {
	Period  string
	GroupBy string
	AgentID string
}

// CostBreakdown calls GET /api/costs/breakdown.
func (c *Client) CostBreakdown(ctx context.Context, q BreakdownQuery) (api.CostBreakdown, error) {
	values := query{}.set("period", q.Period).set("groupBy", q.GroupBy).set("agentId", q.AgentID)
	return bare[api.CostBreakdown](ctx, c, "GET", path("costs", "breakdown"), values, nil)
}

// ListBudgets calls GET /api/costs/budgets: all of them, there is no paging.
func (c *Client) ListBudgets(ctx context.Context) (api.List[api.Budget], error) {
	return bare[api.List[api.Budget]](ctx, c, "GET", path("costs", "budgets"), nil, nil)
}

// CreateBudget calls POST /api/costs/budgets.
func (c *Client) CreateBudget(ctx context.Context, in api.BudgetCreate, opts ...CallOption) (api.Budget, error) {
	return bare[api.Budget](ctx, c, "POST", path("costs", "budgets"), nil, in, attempt(opts)...)
}

// GetBudget calls GET /api/costs/budgets/:id.
func (c *Client) GetBudget(ctx context.Context, id string) (api.Budget, error) {
	return single[api.Budget](ctx, c, "GET", path("costs", "budgets", id), nil)
}

// UpdateBudget calls PUT /api/costs/budgets/:id.
func (c *Client) UpdateBudget(ctx context.Context, id string, in api.BudgetUpdate) (api.Budget, error) {
	return single[api.Budget](ctx, c, "PUT", path("costs", "budgets", id), in)
}

// DeleteBudget calls DELETE /api/costs/budgets/:id.
func (c *Client) DeleteBudget(ctx context.Context, id string) error {
	return c.remove(ctx, path("costs", "budgets", id), nil)
}

// ListSLAs calls GET /api/costs/sla: all of them, there is no paging.
func (c *Client) ListSLAs(ctx context.Context) (api.List[api.SLATarget], error) {
	return bare[api.List[api.SLATarget]](ctx, c, "GET", path("costs", "sla"), nil, nil)
}

// CreateSLA calls POST /api/costs/sla.
func (c *Client) CreateSLA(ctx context.Context, in api.SLACreate, opts ...CallOption) (api.SLATarget, error) {
	return bare[api.SLATarget](ctx, c, "POST", path("costs", "sla"), nil, in, attempt(opts)...)
}

// GetSLA calls GET /api/costs/sla/:id.
func (c *Client) GetSLA(ctx context.Context, id string) (api.SLATarget, error) {
	return single[api.SLATarget](ctx, c, "GET", path("costs", "sla", id), nil)
}

// UpdateSLA calls PUT /api/costs/sla/:id.
func (c *Client) UpdateSLA(ctx context.Context, id string, in api.SLAUpdate) (api.SLATarget, error) {
	return single[api.SLATarget](ctx, c, "PUT", path("costs", "sla", id), in)
}

// DeleteSLA calls DELETE /api/costs/sla/:id.
func (c *Client) DeleteSLA(ctx context.Context, id string) error {
	return c.remove(ctx, path("costs", "sla", id), nil)
}

// ViolationQuery has the parameters of GET /api/costs/sla/violations; zero
// fields mean the server's defaults. Without a limit, the list has all of the period.
type ViolationQuery struct {
	Page
	Period string
	SLAID  string
}

// ListViolations calls GET /api/costs/sla/violations.
func (c *Client) ListViolations(ctx context.Context, q ViolationQuery) (api.List[api.SLAViolation], error) {
	values := q.query().set("period", q.Period).set("slaId", q.SLAID)
	if q.Limit != 0 && q.After == "" {
		values["after"] = []string{""} // of the first page
	}
	return bare[api.List[api.SLAViolation]](ctx, c, "GET", path("costs", "sla", "violations"), values, nil)
}
