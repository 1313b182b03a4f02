package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// lookBacks maps the periods of query strings and SLA targets to durations. A window of
// that length ends now.
var lookBacks = map[string]time.Duration{
	"1h":  time.Hour,
	"1d":  24 * time.Hour,
	"24h": 24 * time.Hour,
	"7d":  7 * 24 * time.Hour,
	"30d": 30 * 24 * time.Hour,
	"90d": 90 * 24 * time.Hour,
}

// upTo returns the exclusive end of a window that includes now.
func upTo(now time.Time) time.Time { return now.Add(time.Nanosecond) }

// breakdown serves GET /api/costs/breakdown. The members of the response are at top level,
// without data.
func (s *Server) breakdown(c *call) error {
	q := c.query()
	period := q.enum("period", api.DefaultBreakdownPeriod, api.BreakdownPeriods)
	group := q.enum("groupBy", api.DefaultGroupBy, api.GroupBys)
	agentID := q.text("agentId")
	if err := q.err(); err != nil {
		return err
	}
	stats, err := c.traces.Stats(c.Context(), store.StatsQuery{
		From: c.now.Add(-lookBacks[period]), To: upTo(c.now), AgentID: agentID, GroupBy: store.GroupBy(group),
	})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, api.CostBreakdown{
		Period: period, GroupBy: group, TotalCostUSD: stats.Summary.Cost.USD(),
		Data: each(stats.Groups, func(g store.StatsGroup) api.CostEntry {
			return api.CostEntry{
				GroupKey:     groupKey(store.GroupBy(group), g),
				TotalCostUSD: g.Cost.USD(), InputTokens: g.InputTokens, OutputTokens: g.OutputTokens,
				TraceCount: g.Traces, AvgCostPerTrace: g.AvgCostUSD(),
			}
		}),
	})
}

// groupKey names a group by the fields of its dimensions and no others.
func groupKey(by store.GroupBy, g store.StatsGroup) api.GroupKey {
	switch by {
	case store.GroupByAgent:
		return api.GroupKey{AgentID: &g.AgentID, AgentName: &g.AgentName}
	case store.GroupByModel:
		return api.GroupKey{ModelProvider: &g.ModelProvider, ModelName: &g.ModelName}
	case store.GroupByEnvironment:
		return api.GroupKey{Environment: &g.Environment}
	case store.GroupByTool:
		return api.GroupKey{ToolName: &g.ToolName}
	case store.GroupByRule:
		return api.GroupKey{RuleID: &g.RuleID}
	case store.GroupByClient:
		return api.GroupKey{ClientName: &g.ClientName}
	}
	return api.GroupKey{}
}

func wireBudget(b store.Budget, spent store.NanoUSD, now time.Time) api.Budget {
	_, to := b.Period.Window(now)
	out := api.Budget{
		ID: b.ID, Name: b.Name, Scope: string(cmp.Or(b.Scope, store.AgentBudget)), Period: string(b.Period), LimitUSD: b.Limit.USD(),
		WarnAt: b.WarnAt, CurrentUSD: spent.USD(), PercentUsed: percent(spent, b.Limit), ResetAt: to,
	}
	switch {
	case b.AgentID != "":
		out.AgentID, out.AgentName = &b.AgentID, &b.AgentName
	case b.Environment != "":
		out.Environment = &b.Environment
	case b.TeamID != "":
		out.TeamID, out.TeamName = &b.TeamID, &b.TeamName
	}
	return out
}

// percent returns spent per limit in percent, to six decimals; 100 for a limit of zero.
func percent(spent, limit store.NanoUSD) float64 {
	if limit <= 0 {
		return 100
	}
	return math.Round(100*float64(spent)/float64(limit)*1e6) / 1e6
}

// budgets are the budgets of a tenant. Their list has no pages, and POST answers with the
// budget itself, without data.
var budgets = &kind[store.Budget, api.BudgetCreate, api.BudgetUpdate]{
	noun: "budget",
	echo: echo{fixed: []string{"id", "agentName", "teamName"}, measured: []string{"currentUsd", "percentUsed", "resetAt"},
		nullable: []string{"agentId", "environment", "teamId"},
		instead:  map[string]string{"agentName": "agentId names the agent", "teamName": "teamId names the team"}},
	find: func(c *call, _ *query) func(store.Page) ([]store.Budget, int, error) {
		return func(store.Page) ([]store.Budget, int, error) {
			all, err := c.tenant.ListBudgets(c.Context())
			return all, len(all), err
		}
	},
	read: func(c *call, id string) (store.Budget, error) { return c.tenant.GetBudget(c.Context(), id) },
	wire: func(c *call, b store.Budget) any { return wireBudget(b, 0, c.now) },
	measured: func(c *call, budgets []store.Budget) ([]any, error) { // spending in the period that contains now
		spent, err := background.Spent(c.Context(), c.traces, c.now, budgets)
		if err != nil {
			return nil, err
		}
		out := make([]any, len(budgets))
		for i, b := range budgets {
			out[i] = wireBudget(b, spent[i], c.now)
		}
		return out, nil
	},
	newName:   func(in *api.BudgetCreate) *string { return &in.Name },
	newNameOf: func(in *api.BudgetUpdate) *string { return in.Name },
	create: func(c *call, in *api.BudgetCreate) error {
		limit, err := limitUSD(*in.LimitUSD)
		if err != nil {
			return err
		}
		period, payer := store.BudgetPeriod(in.Period), store.Payer{Scope: store.BudgetScope(in.Scope), AgentID: in.AgentID, Environment: in.Environment, TeamID: in.TeamID}
		if err := payer.Check(); err != nil {
			return err
		}
		spent, err := background.Spent(c.Context(), c.traces, c.now, []store.Budget{{Payer: payer, Period: period}})
		if err != nil {
			return err
		}
		return create(c, func(ctx context.Context) (store.Budget, error) {
			return c.tenant.CreateBudget(ctx, store.BudgetCreate{Name: in.Name, Payer: payer, Period: period, Limit: limit, WarnAt: in.WarnAt})
		}, func(b store.Budget) error { return c.writeJSON(http.StatusCreated, wireBudget(b, spent[0], c.now)) })
	},
	update: func(c *call, id string, in *api.BudgetUpdate, was before[store.Budget]) (b store.Budget, _ []string, err error) {
		up := store.BudgetUpdate{Name: in.Name, Scope: (*store.BudgetScope)(in.Scope), AgentID: in.AgentID, Environment: in.Environment, TeamID: in.TeamID,
			WarnAt: (*[]int)(in.WarnAt)}
		none := ""
		for _, name := range was.removed {
			*map[string]**string{"agentId": &up.AgentID, "environment": &up.Environment, "teamId": &up.TeamID}[name] = &none
		}
		if in.Period != nil {
			p := store.BudgetPeriod(*in.Period)
			up.Period = &p
		}
		if in.LimitUSD != nil {
			limit, err := limitUSD(*in.LimitUSD)
			if err != nil {
				return b, nil, err
			}
			up.Limit = &limit
		}
		b, err = c.tenant.UpdateBudget(c.Context(), id, up)
		return b, nil, err
	},
	remove: func(c *call, id string) ([]string, error) { return nil, c.tenant.DeleteBudget(c.Context(), id) },
}

// limitUSD converts the limit of a budget to the stored unit. A limit below one
// nano-dollar is rejected, because it would be stored as zero.
func limitUSD(usd float64) (store.NanoUSD, error) {
	n, ok := store.DollarsToNano(usd)
	if !ok || n == 0 {
		return 0, invalidField("limitUsd", "%s", limitProblem())
	}
	return n, nil
}

func limitProblem() string {
	return fmt.Sprintf("must be at least 0.000000001 and at most %d", api.MaxLimitUSD)
}
