package ui

import (
	"cmp"
	"slices"

	"svc/server/client"
	"svc/store/api"
)

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
	teams, names, unread := v.teams()
	page, err := v.api.ListAgents(v.Context(), client.AgentQuery{Page: client.Page{Limit: listed, After: v.asked("after")}, Environment: v.asked("environment"), TeamID: v.asked("teamId")})
	if err := cmp.Or(unread, err); err != nil {
		return err
	}
	of := map[string]*api.StatsGroup{}
	if v.may("GET", "/api/traces/stats") {
		from, to := v.period().window(v.now)
		stats, err := v.api.TraceStats(v.Context(), client.StatsQuery{Start: from, End: to.Add(-1), GroupBy: "agent"})
		if err != nil {
			return err
		}
		for i, g := range stats.Groups {
			if g.AgentID != nil {
				of[*g.AgentID] = &stats.Groups[i]
			}
		}
	}
	var rows []agentRow
	for _, a := range page.Data {
		rows = append(rows, agentRow{a, cmp.Or(names[a.TeamID], a.TeamID), of[a.ID]})
	}
	return v.show("agents", view{"Period": v.period(), "Periods": periods, "Teams": teams, "Rows": rows, "Total": page.Total, "Pages": v.pager(page.Next)})
}

type agentData struct {
	api.Agent
	TeamName string
	Stats    []agentPeriod
	Tools    []api.AgentTool
	Total    int // tools
	History  []api.Deployment
	Changes  int
	Budgets  []api.Budget // of the agent
}

// agentPeriod has the statistics of an agent in a period.
type agentPeriod struct {
	Name, Path string
	api.StatsSummary
}

func showAgent(v *visit) error {
	id := v.PathValue("id")
	agent, noAgent := v.api.GetAgent(v.Context(), id)
	tools, noTools := v.api.ListAgentTools(v.Context(), id, client.Page{Limit: api.MaxLimit})
	history, noHistory := v.api.ListAgentHistory(v.Context(), id, client.Page{Limit: 10})
	_, names, noTeams := v.teams()
	if err := cmp.Or(noAgent, noTools, noHistory, noTeams); err != nil {
		return err
	}
	d := agentData{Agent: agent, TeamName: cmp.Or(names[agent.TeamID], agent.TeamID), History: history.Data, Changes: history.Total, Total: tools.Total}
	if v.may("GET", "/api/traces/stats") {
		for _, p := range periods[1:4] { // 24 hours, yesterday, 7 days
			from, to := p.window(v.now)
			stats, err := v.api.TraceStats(v.Context(), client.StatsQuery{Start: from, End: to.Add(-1), AgentID: id})
			if err != nil {
				return err
			}
			d.Stats = append(d.Stats, agentPeriod{p.Title, tracesOf(from, to, "agentId", id), stats.Summary})
		}
	}
	slices.SortFunc(tools.Data, func(a, b api.AgentTool) int {
		return cmp.Or(cmp.Compare(b.CallCount, a.CallCount), cmp.Compare(a.ToolName, b.ToolName))
	})
	d.Tools, _ = first(tools.Data, listed)
	if v.may("GET", "/api/costs/budgets") {
		list, err := v.api.ListBudgets(v.Context())
		if err != nil {
			return err
		}
		for _, b := range list.Data {
			if b.AgentID != nil && *b.AgentID == id {
				d.Budgets = append(d.Budgets, b)
			}
		}
	}
	return v.show("agent", d)
}
