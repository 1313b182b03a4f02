package tui

import (
	"cmp"
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// agentRow is an agent with its statistics of the last 24 hours.
type agentRow struct {
	api.AgentItem
	stats *api.StatsGroup // nil without traces
}

func (r agentRow) traces() int64 {
	if r.stats == nil {
		return 0
	}
	return r.stats.TraceCount
}

// agentsTable shows agents with their statistics.
func agentsTable(s *shared) table[agentRow] {
	p := s.styles
	text := func(get func(agentRow) string) func(agentRow, int) (string, style) {
		return func(r agentRow, _ int) (string, style) { return get(r), p.plain }
	}
	figure := func(get func(*api.StatsGroup) (string, style)) func(agentRow, int) (string, style) {
		return func(r agentRow, _ int) (string, style) {
			if r.stats == nil {
				return "-", p.dim
			}
			return get(r.stats)
		}
	}
	plain := func(get func(*api.StatsGroup) string) func(agentRow, int) (string, style) {
		return figure(func(g *api.StatsGroup) (string, style) { return get(g), p.plain })
	}
	columns := []column[agentRow]{
		{title: "NAME", min: 18, max: 44, priority: 100, cell: text(func(r agentRow) string { return clean(r.Name) })},
		{title: "ENVIRONMENT", min: 11, max: 20, priority: 50, cell: text(func(r agentRow) string { return display.OrDash(clean(r.Environment)) })},
		{title: "MODEL", min: 16, max: 44, priority: 40, cell: text(func(r agentRow) string { return display.OrDash(clean(display.Model(r.ModelProvider, r.ModelName))) })},
		{title: "TRACES 24H", min: 10, right: true, priority: 90, cell: plain(func(g *api.StatsGroup) string { return display.Count(g.TraceCount) })},
		{title: "ERRORS", min: 8, right: true, priority: 80, cell: figure(func(g *api.StatsGroup) (string, style) {
			return p.word(display.ErrorRate(g.ErrorRatePercent))
		})},
		{title: "P95", min: 9, right: true, priority: 60, cell: plain(func(g *api.StatsGroup) string { return display.Millis(g.P95DurationMs) })},
		{title: "COST", min: 9, right: true, priority: 70, cell: plain(func(g *api.StatsGroup) string { return display.USD(g.TotalCostUSD) })},
		{title: "DESCRIPTION", min: 24, max: 70, priority: 20, cell: text(func(r agentRow) string { return clean(r.Description) })},
	}
	return table[agentRow]{
		noun:       "agents",
		empty:      [2]string{"No agents yet", "Traces register theirs by name, and so does: svc agents create NAME"},
		id:         func(r agentRow) string { return r.ID },
		fetch:      func(ctx context.Context) (listed[agentRow], error) { return fetchAgents(ctx, s.plane) },
		every:      15 * time.Second,
		columns:    columns,
		open:       func(r agentRow) page { return newAgentPage(s, r) },
		traces:     func(r agentRow) string { return "agent:" + quoted(clean(r.Name)) },
		tracesHint: "its traces",
	}
}

// fetchAgents loads the agents and their statistics: two requests.
func fetchAgents(ctx context.Context, plane Plane) (listed[agentRow], error) {
	page, err := plane.ListAgents(ctx, client.AgentQuery{Page: client.Page{Limit: api.MaxLimit}})
	if err != nil {
		return listed[agentRow]{}, err
	}
	stats, err := plane.TraceStats(ctx, client.StatsQuery{Period: "24h", GroupBy: "agent"})
	if err != nil {
		return listed[agentRow]{}, err
	}
	of := make(map[string]*api.StatsGroup, len(stats.Groups))
	for i, g := range stats.Groups {
		if g.AgentID != nil {
			of[*g.AgentID] = &stats.Groups[i]
		}
	}
	rows := make([]agentRow, len(page.Data))
	for i, item := range page.Data {
		rows[i] = agentRow{item, of[item.ID]}
	}
	slices.SortStableFunc(rows, func(a, b agentRow) int {
		return cmp.Or(cmp.Compare(b.traces(), a.traces()), cmp.Compare(a.Name, b.Name))
	})
	return listed[agentRow]{rows, page.Total}, nil
}

// agentPage shows one agent with the tools that it has called.
type agentPage struct {
	tablePage[api.AgentTool]
	agent agentRow
	above int // number of lines above the list, as last drawn
}

func newAgentPage(s *shared, r agentRow) *agentPage {
	a := &agentPage{agent: r}
	fetch := func(ctx context.Context) (listed[api.AgentTool], error) {
		page, err := s.plane.ListAgentTools(ctx, r.ID, client.Page{Limit: api.MaxLimit})
		slices.SortFunc(page.Data, func(a, b api.AgentTool) int {
			return cmp.Or(cmp.Compare(b.CallCount, a.CallCount), cmp.Compare(a.ToolName, b.ToolName))
		})
		return listed[api.AgentTool]{page.Data, page.Total}, err
	}
	p := s.styles
	columns := []column[api.AgentTool]{
		{title: "TOOL", min: 18, max: 60, priority: 100, cell: func(t api.AgentTool, _ int) (string, style) { return clean(t.ToolName), p.plain }},
		{title: "CALLS", min: 10, right: true, priority: 90, cell: func(t api.AgentTool, _ int) (string, style) { return display.Count(t.CallCount), p.plain }},
		{title: "LAST CALLED", min: 20, priority: 80, cell: func(t api.AgentTool, _ int) (string, style) {
			return t.LastCalledAt.UTC().Format("2006-01-02 15:04:05Z"), p.dim
		}},
		{title: "SHARE OF CALLS", min: 14, max: 60, priority: 50, cell: func(t api.AgentTool, w int) (string, style) {
			most := int64(1)
			for _, other := range a.load.data.rows {
				most = max(most, other.CallCount)
			}
			return bar(float64(t.CallCount)/float64(most), w), p.accent
		}},
	}
	a.init(s, "Tools", a, table[api.AgentTool]{
		noun:    "tools",
		empty:   [2]string{"No tools seen yet", "They appear when traces of this agent name them."},
		id:      func(t api.AgentTool) string { return t.ToolName },
		fetch:   fetch,
		every:   15 * time.Second,
		columns: columns,
	})
	return a
}

func (a *agentPage) key(k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "t":
		return a.s.show("agent:" + quoted(clean(a.agent.Name)))
	case "y":
		a.s.copyText("id", a.agent.ID)
	case "backspace":
		a.s.back()
	default:
		return a.tablePage.key(k)
	}
	return nil
}

func (a *agentPage) click(_, y int) tea.Cmd {
	a.press(y - a.above)
	return nil
}

func (a *agentPage) fields(w int) []string {
	r := a.agent
	fields := []field{
		{name: "Environment", value: display.OrDash(clean(r.Environment))},
		{name: "Model", value: display.OrDash(clean(display.Model(r.ModelProvider, r.ModelName)))},
		{name: "Created", value: minute(r.CreatedAt)},
		{name: "Updated", value: minute(r.UpdatedAt)},
		{name: "Id", value: clean(r.ID), wide: true},
	}
	if r.Description != "" {
		fields = append(fields, field{name: "Description", value: clean(r.Description), wide: true})
	}
	return drawFields(a.s.styles, fields, w)
}

func (a *agentPage) status(w int) string {
	p := a.s.styles
	var l line
	l.add(p.bold, " Agent ")
	l.add(p.accent, clean(a.agent.Name))
	if text, style := a.load.state(a.s); text != "" {
		l.add(style, " · "+text)
	}
	return l.fit(w)
}

func (a *agentPage) view(w, h int) []string {
	lines := append(a.fields(w), "")
	a.above = len(lines)
	if h <= len(lines) {
		return lines[:h]
	}
	return append(lines, a.tablePage.view(w, h-len(lines))...)
}

func (a *agentPage) hints() []hint {
	return []hint{{"esc", "back"}, {"t", "its traces"}, {"y", "copy id"}, {"r", "refresh"}, {"↑↓", "move"}}
}
