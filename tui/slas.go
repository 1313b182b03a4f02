package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// slasPage shows SLA targets with measured values, and below them the
// violations.
type slasPage struct {
	tablePage[api.SLATarget]
	missed loader[[]api.SLAViolation]
}

func newSLAsPage(s *shared, title string) *slasPage {
	t := &slasPage{}
	t.missed.every = 30 * time.Second
	t.missed.fetch = func(ctx context.Context) ([]api.SLAViolation, error) {
		all, err := s.plane.ListViolations(ctx, client.ViolationQuery{Period: "7d"})
		return all.Data, err
	}
	p := s.styles
	text := func(get func(api.SLATarget) string) func(api.SLATarget, int) (string, style) {
		return func(r api.SLATarget, _ int) (string, style) { return get(r), p.plain }
	}
	against := func(status string, current float64, target *float64, show func(float64) string) (string, style) {
		return p.word(display.Against(status, current, target, show))
	}
	columns := []column[api.SLATarget]{
		{title: "STATE", min: 10, priority: 95, cell: func(r api.SLATarget, _ int) (string, style) { return p.word(display.SLAState(r.Status)) }},
		{title: "NAME", min: 14, max: 40, priority: 100, cell: text(func(r api.SLATarget) string { return clean(r.Name) })},
		{title: "AGENT", min: 12, max: 30, priority: 50, cell: text(func(r api.SLATarget) string { return clean(r.AgentName) })},
		{title: "OVER", min: 4, priority: 60, cell: text(func(r api.SLATarget) string { return clean(r.EvaluationPeriod) })},
		{title: "P99 / TARGET", min: 17, right: true, priority: 90, cell: func(r api.SLATarget, _ int) (string, style) {
			return against(r.Status, r.CurrentP99Ms, r.P99LatencyMs, display.Millis)
		}},
		{title: "ERRORS / TARGET", min: 15, right: true, priority: 85, cell: func(r api.SLATarget, _ int) (string, style) {
			return against(r.Status, r.CurrentErrorRate, r.ErrorRatePercent, display.Percent)
		}},
		{title: "LATENCY USED", min: 12, max: 40, priority: 30, cell: func(r api.SLATarget, w int) (string, style) {
			return usedUp(p, r.CurrentP99Ms, r.P99LatencyMs, w)
		}},
		{title: "ERRORS USED", min: 12, max: 40, priority: 20, cell: func(r api.SLATarget, w int) (string, style) {
			return usedUp(p, r.CurrentErrorRate, r.ErrorRatePercent, w)
		}},
	}
	opened := func(r api.SLATarget) []field {
		state, style := p.word(display.SLAState(r.Status))
		latency, latencyStyle := against(r.Status, r.CurrentP99Ms, r.P99LatencyMs, display.Millis)
		errors, errorsStyle := against(r.Status, r.CurrentErrorRate, r.ErrorRatePercent, display.Percent)
		return []field{
			{name: "Target", value: clean(r.Name), wide: true},
			{name: "Agent", value: clean(r.AgentName)},
			{name: "State", value: state + ", over " + clean(r.EvaluationPeriod), style: style},
			{name: "P99", value: latency, style: latencyStyle},
			{name: "Errors", value: errors, style: errorsStyle},
			{name: "Id", value: clean(r.ID), wide: true},
		}
	}
	t.init(s, title, t, table[api.SLATarget]{
		noun:  "targets",
		empty: [2]string{"No SLA targets yet", "For example: svc slas create NAME --agent-id ID --p99-ms 2000 --evaluation-period 24h"},
		id:    func(r api.SLATarget) string { return r.ID },
		fetch: func(ctx context.Context) (listed[api.SLATarget], error) {
			all, err := s.plane.ListSLAs(ctx)
			return listed[api.SLATarget]{all.Data, all.Total}, err
		},
		every:      15 * time.Second,
		columns:    columns,
		opened:     opened,
		traces:     func(r api.SLATarget) string { return "agent:" + quoted(clean(r.AgentName)) },
		tracesHint: "its agent's traces",
	})
	return t
}

// usedUp draws how much of a target is used up.
func usedUp(p *styles, current float64, target *float64, w int) (string, style) {
	switch {
	case target == nil:
		return "-", p.dim
	case *target <= 0:
		return track(map[bool]float64{true: 1}[current > 0], w), p.level(display.Measured(current, 0))
	}
	return track(current/(*target), w), p.level(display.Measured(current, *target))
}

func (t *slasPage) enter() tea.Cmd { return tea.Batch(t.tablePage.enter(), t.missed.load(t.s)) }
func (t *slasPage) tick() tea.Cmd  { return tea.Batch(t.tablePage.tick(), t.missed.tick(t.s)) }

func (t *slasPage) leave() {
	t.tablePage.leave()
	t.missed.stop()
}

func (t *slasPage) view(w, h int) []string {
	if !t.load.have || len(t.load.data.rows) == 0 || h < 10 {
		return t.tablePage.view(w, h)
	}
	top := min(len(t.load.data.rows)+1, max(4, h*6/10))
	lines := t.tablePage.view(w, top)
	for len(lines) < top {
		lines = append(lines, "")
	}
	lines = append(lines, "")
	return append(lines, t.violations(w, h-len(lines))...)
}

// violations draws the newest violations in h lines.
func (t *slasPage) violations(w, h int) []string {
	p := t.s.styles
	title := " Missed in the last 7 days"
	switch {
	case t.missed.err != nil && !t.missed.have:
		return []string{p.bold.paint(cut(title, w)), p.bad.paint(cut(" "+userMessage(t.missed.err), w))}
	case !t.missed.have:
		return []string{p.bold.paint(cut(title, w))}
	case len(t.missed.data) == 0:
		return []string{p.bold.paint(cut(title, w)), p.dim.paint(cut(" None.", w))}
	}
	lines := []string{p.bold.paint(cut(title+": "+display.Count(int64(len(t.missed.data)))+" (times in UTC)", w))}
	for _, v := range t.missed.data {
		if len(lines) >= h {
			break
		}
		var l line
		l.add(p.dim, " "+v.PeriodStart.UTC().Format("Jan 02 15:04")+" to "+v.PeriodEnd.UTC().Format("Jan 02 15:04")+"  ")
		l.add(p.plain, fit(clean(v.SLAName), min(24, max(10, w/5)), false)+"  ")
		l.add(p.bad, display.Missed(v))
		lines = append(lines, l.fit(w))
	}
	return lines
}
