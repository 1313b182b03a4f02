package ui

import (
	"cmp"
	"slices"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// agentsData is what the list of agents shows.
type agentsData struct {
	Environment, Team, Period string // the filters
	Periods                   []string
	Teams                     []api.Team // nil: the key may not see teams
	Stats                     bool       // the key may see traces
	Rows                      []agentRow
	Total                     int
	Pages                     pager
}

// agentRow is an agent with its statistics, nil without traces.
type agentRow struct {
	api.AgentItem
	TeamName string
	Stats    *api.StatsGroup
}

// teams returns the teams of the tenant and the names by their ids, nothing if the key may not see them.
func (v *visit) teams() (list []api.Team, names map[string]string, err error) {
	names = map[string]string{}
	if !v.may("GET", "/api/teams") {
		return nil, names, nil
	}
	page, err := v.api.ListTeams(v.Context(), client.Page{Limit: api.MaxLimit})
	for _, t := range page.Data {
		names[t.ID] = t.Name
	}
	return page.Data, names, err
}

func listAgents(v *visit) error {
	q := v.URL.Query()
	d := agentsData{Environment: q.Get("environment"), Team: q.Get("teamId"), Period: q.Get("period"), Periods: api.StatsPeriods, Stats: v.may("GET", "/api/traces/stats")}
	if !slices.Contains(d.Periods, d.Period) {
		d.Period = api.DefaultStatsPeriod
	}
	teams, names, err := v.teams()
	if err != nil {
		return err
	}
	d.Teams = teams
	page, err := v.api.ListAgents(v.Context(), client.AgentQuery{Page: client.Page{Limit: listed, After: q.Get("after")}, Environment: d.Environment, TeamID: d.Team})
	if err != nil {
		return err
	}
	of := map[string]*api.StatsGroup{}
	if d.Stats {
		stats, err := v.api.TraceStats(v.Context(), client.StatsQuery{Period: d.Period, GroupBy: "agent"})
		if err != nil {
			return err
		}
		for i, g := range stats.Groups {
			if g.AgentID != nil {
				of[*g.AgentID] = &stats.Groups[i]
			}
		}
	}
	for _, a := range page.Data {
		d.Rows = append(d.Rows, agentRow{a, cmp.Or(names[a.TeamID], a.TeamID), of[a.ID]})
	}
	d.Total, d.Pages = page.Total, v.pager(page.Next)
	return v.show("agents", d)
}

// agentData is what the page of an agent shows.
type agentData struct {
	api.Agent
	TeamName string
	Traces   bool // the key may see traces
	Stats    []agentPeriod
	Tools    []api.AgentTool
	Most     int64 // calls of the tool that was called most
	Total    int   // tools
	History  []api.Deployment
	Changes  int
	Budgets  []budgetRow // of the agent; nil also if the key may not see budgets
	Costs    bool
}

// agentPeriod has the statistics of an agent in a period.
type agentPeriod struct {
	Name, Query string
	api.StatsSummary
}

func showAgent(v *visit) error {
	id := v.PathValue("id")
	agent, err := v.api.GetAgent(v.Context(), id)
	if err != nil {
		return err
	}
	_, names, err := v.teams()
	if err != nil {
		return err
	}
	d := agentData{Agent: agent, TeamName: cmp.Or(names[agent.TeamID], agent.TeamID), Traces: v.may("GET", "/api/traces/stats"), Costs: v.may("GET", "/api/costs/budgets")}
	if d.Traces {
		for _, p := range agentPeriods(v) {
			stats, err := v.api.TraceStats(v.Context(), p.StatsQuery)
			if err != nil {
				return err
			}
			d.Stats = append(d.Stats, agentPeriod{p.name, p.query, stats.Summary})
		}
	}
	tools, err := v.api.ListAgentTools(v.Context(), id, client.Page{Limit: api.MaxLimit})
	if err != nil {
		return err
	}
	slices.SortFunc(tools.Data, func(a, b api.AgentTool) int {
		return cmp.Or(cmp.Compare(b.CallCount, a.CallCount), cmp.Compare(a.ToolName, b.ToolName))
	})
	d.Tools, d.Total = tools.Data[:min(len(tools.Data), listed)], tools.Total
	history, err := v.api.ListAgentHistory(v.Context(), id, client.Page{Limit: 10})
	if err != nil {
		return err
	}
	d.History, d.Changes = history.Data, history.Total
	if d.Costs {
		list, err := v.api.ListBudgets(v.Context())
		if err != nil {
			return err
		}
		for _, b := range list.Data {
			if b.AgentID != nil && *b.AgentID == id {
				d.Budgets = append(d.Budgets, budgetRow{b, ""})
			}
		}
	}
	return v.show("agent", d)
}

// statsPeriod is a period of statistics, with the query that selects its traces.
type statsPeriod struct {
	client.StatsQuery
	name, query string
}

func agentPeriods(v *visit) []statsPeriod {
	id := v.PathValue("id")
	of := func(name, period string, lasts time.Duration) statsPeriod {
		return statsPeriod{client.StatsQuery{Period: period, AgentID: id}, name, query("agentId", id, "startDate", v.now.Add(-lasts).UTC().Format(time.RFC3339))}
	}
	return []statsPeriod{of("24 hours", "24h", 24*time.Hour), of("7 days", "7d", 7*24*time.Hour)}
}
