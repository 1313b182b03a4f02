package tui

import (
	"context"
	"strings"
	"time"

	"svc/server/display"
	"svc/store/api"
)

// budgetsTable shows budgets as bars.
func budgetsTable(s *shared) table[api.Budget] {
	p := s.styles
	text := func(get func(api.Budget) string) func(api.Budget, int) (string, style) {
		return func(r api.Budget, _ int) (string, style) { return get(r), p.plain }
	}
	columns := []column[api.Budget]{
		{title: "STATE", min: 9, priority: 90, cell: func(r api.Budget, _ int) (string, style) {
			return p.word(display.BudgetState(r.PercentUsed))
		}},
		{title: "NAME", min: 14, max: 40, priority: 100, cell: text(func(r api.Budget) string { return clean(r.Name) })},
		{title: "SCOPE", min: 11, priority: 35, cell: text(func(r api.Budget) string { return clean(r.Scope) })},
		{title: "FOR", min: 12, max: 36, priority: 50, cell: text(func(r api.Budget) string { return clean(r.Payer()) })},
		{title: "PERIOD", min: 7, priority: 40, cell: text(func(r api.Budget) string { return clean(r.Period) })},
		{title: "SPENT", min: 9, right: true, priority: 80, cell: text(func(r api.Budget) string { return display.USD(r.CurrentUSD) })},
		{title: "LIMIT", min: 9, right: true, priority: 60, cell: text(func(r api.Budget) string { return display.Price(r.LimitUSD) })},
		{title: "USED", min: 7, right: true, priority: 85, cell: func(r api.Budget, _ int) (string, style) {
			_, style := p.word(display.BudgetState(r.PercentUsed))
			return display.Percent(r.PercentUsed), style
		}},
		{title: "", min: 10, max: 70, priority: 70, cell: func(r api.Budget, w int) (string, style) {
			_, style := p.word(display.BudgetState(r.PercentUsed))
			return track(r.PercentUsed/100, w), style
		}},
		{title: "RESETS IN", min: 11, priority: 30, cell: text(func(r api.Budget) string { return display.Span(r.ResetAt.Sub(s.now())) })},
	}
	detail := func(r api.Budget) []field {
		_, style := p.word(display.BudgetState(r.PercentUsed))
		return []field{
			{name: "Budget", value: clean(r.Name), wide: true},
			{name: "Scope", value: strings.TrimSpace(clean(r.Scope + " " + r.Payer()))},
			{name: "Spent", value: display.USD(r.CurrentUSD) + " of " + display.Price(r.LimitUSD) + " " + clean(r.Period), style: style},
			{name: "Resets", value: "in " + display.Span(r.ResetAt.Sub(s.now())) + ", " + minute(r.ResetAt), wide: true},
			{name: "Id", value: clean(r.ID), wide: true},
		}
	}
	return table[api.Budget]{
		noun:  "budgets",
		empty: [2]string{"No budgets yet", "For example: svc costs budgets create NAME --agent-id ID --period daily --limit-usd 5"},
		id:    func(r api.Budget) string { return r.ID },
		fetch: func(ctx context.Context) (listed[api.Budget], error) {
			all, err := s.plane.ListBudgets(ctx)
			return listed[api.Budget]{all.Data, all.Total}, err
		},
		every:   10 * time.Second,
		columns: columns,
		detail:  detail,
		traces: func(r api.Budget) string {
			switch {
			case r.AgentName != nil:
				return "agent:" + quoted(clean(*r.AgentName))
			case r.Environment != nil:
				return "env:" + quoted(clean(*r.Environment))
			}
			return "" // no filter selects the traces of a team
		},
		tracesHint: "its traces",
	}
}

// track draws a bar whose empty part is visible too.
func track(share float64, w int) string {
	filled := []rune(bar(share, w))
	for i, r := range filled {
		if r == ' ' {
			filled[i] = '·'
		}
	}
	return string(filled)
}
