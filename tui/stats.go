package tui

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// statsPage shows charts of the traces that arrived over the stream, and below
// them the statistics of a longer period from the control plane.
type statsPage struct {
	s      *shared
	name   string
	traces *tracesPage
	period string
	since  time.Time // the time of the filter of the traces, in place of a period; zero for none
	until  time.Time
	by     string
	stats  loader[api.TraceStats]
	groups list[api.StatsGroup]
	top    int // the line of the page at which the groups begin
}

func newStatsPage(s *shared, title string, traces *tracesPage) *statsPage {
	t := &statsPage{s: s, name: title, traces: traces, period: "24h", by: "agent"}
	t.stats.every = 10 * time.Second
	t.stats.fetch = t.ask()
	t.groups.columns = t.columns()
	t.groups.set(0, nil)
	return t
}

// ask returns the query for the current period and grouping.
func (t *statsPage) ask() func(context.Context) (api.TraceStats, error) {
	q := client.StatsQuery{Period: t.period, GroupBy: t.by}
	if !t.since.IsZero() {
		q.Period, q.Start, q.End = "", t.since, t.until
	}
	return func(ctx context.Context) (api.TraceStats, error) { return t.s.plane.TraceStats(ctx, q) }
}

// between describes the time of the filter of the traces.
func (t *statsPage) between() string {
	if t.until.IsZero() {
		return "since " + minute(t.since)
	}
	return minute(t.since) + " to " + minute(t.until)
}

func (t *statsPage) columns() []column[api.StatsGroup] {
	p := t.s.styles
	figure := func(title string, w, priority int, get func(api.StatsGroup) string) column[api.StatsGroup] {
		return column[api.StatsGroup]{title: title, min: w, right: true, priority: priority,
			cell: func(g api.StatsGroup, _ int) (string, style) { return get(g), p.plain }}
	}
	return []column[api.StatsGroup]{
		{title: "GROUP", min: 14, max: 44, priority: 100, cell: func(g api.StatsGroup, _ int) (string, style) {
			return display.OrDash(clean(display.Group(g.GroupKey))), p.plain
		}},
		figure("TRACES", 10, 90, func(g api.StatsGroup) string { return display.Count(g.TraceCount) }),
		{title: "ERRORS", min: 8, right: true, priority: 80, cell: func(g api.StatsGroup, _ int) (string, style) {
			return p.word(display.ErrorRate(g.ErrorRatePercent))
		}},
		figure("AVG", 9, 50, func(g api.StatsGroup) string { return display.Millis(g.AvgDurationMs) }),
		figure("P50", 9, 40, func(g api.StatsGroup) string { return display.Millis(g.P50DurationMs) }),
		figure("P95", 9, 60, func(g api.StatsGroup) string { return display.Millis(g.P95DurationMs) }),
		figure("P99", 9, 45, func(g api.StatsGroup) string { return display.Millis(g.P99DurationMs) }),
		figure("COST", 10, 70, func(g api.StatsGroup) string { return display.USD(g.TotalCostUSD) }),
		{title: "SHARE OF TRACES", min: 15, max: 60, priority: 30, cell: func(g api.StatsGroup, w int) (string, style) {
			return bar(float64(g.TraceCount)/float64(max(1, t.current().Summary.TotalTraces)), w), p.accent
		}},
	}
}

// current returns the displayed statistics: those of the control plane, or
// without one those of the traces in memory.
func (t *statsPage) current() *api.TraceStats { return &t.stats.data }

func (t *statsPage) title() string { return t.name }

func (t *statsPage) enter() tea.Cmd {
	if t.s.plane == nil {
		t.sumUp()
		return nil
	}
	if f := &t.traces.filter; !f.since.Equal(t.since) || !f.until.Equal(t.until) {
		t.since, t.until, t.stats.have = f.since, f.until, false
		t.stats.fetch = t.ask()
	}
	return t.stats.load(t.s)
}

func (t *statsPage) leave() { t.stats.stop() }

func (t *statsPage) tick() tea.Cmd {
	if t.s.plane == nil {
		t.sumUp()
		return nil
	}
	return t.stats.tick(t.s)
}

// sumUp computes statistics of the traces in memory.
func (t *statsPage) sumUp() {
	t.stats.data, t.stats.have = sumUp(t.traces.history), true
}

func (t *statsPage) key(k tea.KeyMsg) tea.Cmd {
	next := func(all []string, now string) string { return all[(slices.Index(all, now)+1)%len(all)] }
	switch k.String() {
	case "w":
		if t.since.IsZero() {
			t.period = next(api.StatsPeriods, t.period)
		}
		t.since = time.Time{} // from the time of the traces to a period
	case "b":
		t.by = next(api.GroupBys, t.by)
	case "r":
	case "enter", "t":
		g, _ := t.groups.selected()
		for name, value := range map[string]*string{"agent:": g.AgentName, "tool:": g.ToolName, "rule:": g.RuleID, "client:": g.ClientName} {
			if value != nil && *value != "" {
				return t.s.show(name + quoted(clean(*value)))
			}
		}
		return nil
	default:
		t.groups.key(k.String())
		return nil
	}
	if t.s.plane == nil {
		return nil
	}
	t.stats.fetch, t.stats.have = t.ask(), false
	return t.stats.load(t.s)
}

func (t *statsPage) click(_, y int) tea.Cmd    { t.groups.click(y - t.top); return nil }
func (t *statsPage) wheel(by int)              { t.groups.move(by) }
func (t *statsPage) footer(int) (string, bool) { return "", false }

func (t *statsPage) hints() []hint {
	if t.s.plane == nil {
		return []hint{{"enter", "its traces"}, {"tab", "next"}, {"↑↓", "move"}}
	}
	return []hint{{"w", "period"}, {"b", "group by"}, {"enter", "its traces"}, {"r", "refresh"}, {"tab", "next"}, {"↑↓", "move"}}
}

func (t *statsPage) status(w int) string {
	p := t.s.styles
	var l line
	if t.s.plane == nil {
		l.add(p.dim, fmt.Sprintf(" Of the last %s", display.Plural(t.traces.history.len(), "trace", "traces")))
		return l.fit(w)
	}
	l.add(p.dim, " Period ")
	for _, period := range api.StatsPeriods {
		on := period == t.period && t.since.IsZero()
		l.add(t.chosen(on), t.mark(period, on))
	}
	if !t.since.IsZero() {
		l.add(t.chosen(true), t.mark(t.between(), true))
	}
	l.add(p.dim, "  by ")
	for _, by := range api.GroupBys {
		if w < 100 && by != t.by {
			continue // no room for all of them
		}
		l.add(t.chosen(by == t.by), t.mark(by, by == t.by))
	}
	if text, style := t.stats.state(t.s); text != "" {
		l.add(style, "  "+text)
	}
	return l.fit(w)
}

func (t *statsPage) chosen(on bool) style {
	if on {
		return t.s.styles.tab
	}
	return t.s.styles.dim
}

func (t *statsPage) mark(s string, on bool) string {
	if on && t.s.styles.tab.on == "" {
		return "[" + s + "]"
	}
	return " " + s + " "
}

func (t *statsPage) view(w, h int) []string {
	high := 1
	switch {
	case h >= 44:
		high = 5
	case h >= 34:
		high = 3
	case h >= 27:
		high = 2
	}
	lines := t.charts(w, high)
	lines = append(lines, "")
	if h >= 17 || t.stats.have {
		lines = append(lines, t.summary(w)...)
		lines = append(lines, "")
	}
	t.top = len(lines)
	stats := t.current()
	t.groups.columns[0].title = strings.ToUpper(t.by)
	t.groups.set(len(stats.Groups), func(i int) api.StatsGroup { return stats.Groups[i] })
	if h > len(lines) && t.groups.n > 0 {
		lines = append(lines, t.groups.view(t.s.styles, w, h-len(lines))...)
	}
	return lines[:min(len(lines), h)]
}

// charts draws the four rows of bars, as far as there is room.
func (t *statsPage) charts(w, high int) []string {
	const names, figures = 11, 24
	p := t.s.styles
	n := max(8, min(w-names-figures, bucketCount-1))
	if w < names+figures+12 { // no room for the highest value
		n = max(8, w-names-12)
	}
	rate, errors, latency, cost := t.traces.series.charts(t.s.now(), n)
	ago := time.Duration(n) * bucketTime
	lines := []string{p.bold.paint(cut(fmt.Sprintf(" From the stream: the last %s, %s a bar", display.Span(ago), display.Span(bucketTime)), w))}
	errorStyle := p.good
	if errors.top > 0 {
		errorStyle = p.bad
	}
	for _, row := range []struct {
		name  string
		c     chart
		style style
		show  func(float64) string
	}{
		{"Traces/s", rate, p.accent, display.Short},
		{"Errors/s", errors, errorStyle, display.Short},
		{"p95 latency", latency, p.warn, display.Millis},
		{"Cost/minute", cost, p.block, display.USD},
	} {
		now := "-"
		if !math.IsNaN(row.c.lastMinute) {
			now = row.show(row.c.lastMinute)
		}
		for i, bars := range row.c.draw(high) {
			var l line
			switch {
			case i == high-1:
				l.add(p.plain, " "+fit(row.name, names, false)+" ")
			default:
				l.add(p.plain, blanks(names+2))
			}
			l.add(row.style, bars)
			if i == high-1 {
				l.add(p.plain, " "+fit(now, 8, true))
				l.add(p.dim, " max "+row.show(row.c.top))
			}
			lines = append(lines, l.fit(w))
		}
	}
	return lines
}

// summary draws the totals of the period.
func (t *statsPage) summary(w int) []string {
	p, sum := t.s.styles, t.current().Summary
	title := " Last " + t.period + ", from the control plane"
	if !t.since.IsZero() {
		title = " " + t.between() + ", from the control plane"
	}
	if t.s.plane == nil {
		title = " All that is remembered"
	}
	lines := []string{p.bold.paint(cut(title, w))}
	if t.stats.err != nil && !t.stats.have {
		return append(lines, p.bad.paint(cut(" "+userMessage(t.stats.err), w)))
	}
	if !t.stats.have {
		return lines
	}
	fields := []field{
		{name: "Traces", value: display.Count(sum.TotalTraces)},
		{name: "Errors", value: display.Count(sum.BlockedCount) + " blocked, " + display.Count(sum.FailedCount) + " failed (" + display.Percent(sum.ErrorRatePercent) + ")", style: p.level(display.ErrorRate(sum.ErrorRatePercent).Level)},
		{name: "Cost", value: display.USD(sum.TotalCostUSD)},
		{name: "Tokens", value: display.Short(float64(sum.TotalInputTokens)) + " in, " + display.Short(float64(sum.TotalOutputTokens)) + " out"},
		{name: "Latency", value: "avg " + display.Millis(sum.AvgDurationMs) + ", p50 " + display.Millis(sum.P50DurationMs)},
		{name: "", value: "p95 " + display.Millis(sum.P95DurationMs) + ", p99 " + display.Millis(sum.P99DurationMs)},
	}
	return append(lines, drawFields(p, fields, w)...)
}
