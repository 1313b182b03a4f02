package ui

import (
	"cmp"
	"math"
	"slices"
	"time"

	"svc/server/client"
	"svc/server/display"
	"svc/store"
	"svc/store/api"
)

// period is a time that the overview shows, in parts of one unit.
type period struct {
	Name, Title string // for addresses, and for people
	unit        time.Duration
	parts       int
}

var periods = []period{
	{"1h", "1 h", 2 * time.Minute, 30}, {"24h", "24 h", time.Hour, 24}, {"yesterday", "Yesterday", time.Hour, 24},
	{"7d", "7 d", 6 * time.Hour, 28}, {"30d", "30 d", 24 * time.Hour, 30},
}

// window returns the bounds of a period. They are bounds of a unit, which the statistics have ready.
func (p period) window(now time.Time) (from, to time.Time) {
	if to = now.UTC().Truncate(p.unit).Add(p.unit); p.Name == "yesterday" {
		to = now.UTC().Truncate(24 * time.Hour)
	}
	return to.Add(-time.Duration(p.parts) * p.unit), to
}

// period returns the period of the query, 24 hours by default.
func (v *visit) period() period {
	if i := slices.IndexFunc(periods, func(p period) bool { return p.Name == v.URL.Query().Get("period") }); i >= 0 {
		return periods[i]
	}
	return periods[1]
}

// tracesOf returns the path of the traces of a window, with more filters.
func tracesOf(from, to time.Time, filter ...string) string {
	return "/traces" + query(append(filter, "startDate", from.Format(time.RFC3339Nano), "endDate", to.Add(-1).Format(time.RFC3339Nano))...)
}

// Bounds of the rows of tables.
const (
	topRows   = 5
	groupRows = 100
)

// sorts are the orders of groups, by what they are called in the URL.
var sorts = map[string]func(api.StatsGroup) float64{
	"cost":    func(g api.StatsGroup) float64 { return g.TotalCostUSD },
	"calls":   func(g api.StatsGroup) float64 { return float64(g.TraceCount) },
	"blocked": func(g api.StatsGroup) float64 { return float64(g.BlockedCount) },
	"failed":  func(g api.StatsGroup) float64 { return float64(g.FailedCount) },
	"p95":     func(g api.StatsGroup) float64 { return g.P95DurationMs },
}

// nouns are the headings of groups.
var nouns = map[string]string{"agent": "Agents", "model": "Models", "environment": "Environments", "tool": "Tools", "rule": "Rules", "client": "Clients"}

type overviewView struct {
	Periods, Groups, Sorts []link
	From, To               time.Time
	NotSeen                []string // what the key may not see
	Traces                 bool     // the key may see traces
	Empty                  bool     // the store has no traces at all
	Figures                []figure
	Charts                 []chart
	Tops                   []top
	GroupBy                string
	Now                    standing
}

// figure is a number of the period, with a link to its traces.
type figure struct {
	Name  string
	Value display.Word
	Path  string
}

// top is the groups of a dimension, the first by an order.
type top struct {
	Title, By, Sort string
	From, To        time.Time // tools, rules and clients are counted by whole hours
	Other           bool      // these are not the bounds of the period
	Rows            []topRow
	More            int     // groups that are left out
	Whole           float64 // that the bars are shares of
}

type topRow struct {
	api.StatsGroup
	Name, Path string
	Value      float64
}

// standing is what needs somebody now.
type standing struct {
	Approvals     int
	Gateways      int
	Silent        []string        // names of gateways, the first ones
	Others        []display.Check // gateways that do not enforce the newest policies
	More          int             // silent and other gateways that are left out
	Enforcing, Of int             // running instances that enforce the newest policies, and all
}

// overview shows the calls of a period.
func overview(v *visit) error {
	at, q := v.period(), v.URL.Query()
	by, sort := q.Get("groupBy"), q.Get("sort")
	if !slices.Contains(api.GroupBys, by) {
		by = ""
	}
	if sorts[sort] == nil {
		sort = ""
	}
	o := &overviewView{GroupBy: by, Traces: v.may("GET", "/api/traces")}
	o.From, o.To = at.window(v.now)
	here := func(period, by, sort string) string {
		return "/" + query("period", period, "groupBy", by, "sort", sort)
	}
	for _, p := range periods {
		o.Periods = append(o.Periods, link{here(p.Name, by, sort), p.Title, p == at})
	}
	for _, g := range append([]string{""}, api.GroupBys...) {
		o.Groups = append(o.Groups, link{here(at.Name, g, sort), cmp.Or(nouns[g], "Highest of each"), g == by})
	}
	for _, s := range []string{"cost", "calls", "blocked", "failed", "p95"} {
		o.Sorts = append(o.Sorts, link{here(at.Name, by, s), s, s == sort})
	}
	if err := o.standing(v); err != nil {
		return err
	}
	if !v.may("GET", "/api/traces/stats") {
		o.NotSeen = append(o.NotSeen, "calls and their cost")
		return v.show("overview", o)
	}
	if err := o.read(v, at, by, sort); err != nil {
		return err
	}
	return v.show("overview", o)
}

// read reads the statistics.
func (o *overviewView) read(v *visit, at period, by, sort string) error {
	ask := func(by string, parts int) (api.TraceStats, error) {
		return v.api.TraceStats(v.Context(), client.StatsQuery{Start: o.From, End: o.To.Add(-1), Parts: parts, GroupBy: by})
	}
	stats, err := ask(cmp.Or(by, "agent"), at.parts)
	if err != nil {
		return err
	}
	if stats.Summary.TotalTraces == 0 && o.Traces {
		page, err := v.api.ListTraces(v.Context(), client.TraceQuery{Page: client.Page{Limit: 1}})
		if err != nil {
			return err
		}
		o.Empty = page.Total == 0
	}
	o.Figures = o.figures(stats.Summary)
	if stats.Summary.TotalTraces == 0 {
		return nil
	}
	o.Charts = charts(stats.Parts, v.now)
	if by != "" {
		o.Tops = []top{o.top(stats, by, cmp.Or(sort, "cost"), groupRows)}
		return nil
	}
	o.Tops = []top{o.top(stats, "agent", cmp.Or(sort, "cost"), topRows)}
	for _, t := range [][2]string{{"tool", "calls"}, {"rule", "blocked"}} {
		if stats, err = ask(t[0], 0); err != nil {
			return err
		}
		o.Tops = append(o.Tops, o.top(stats, t[0], cmp.Or(sort, t[1]), topRows))
	}
	return nil
}

// traces returns the path of the traces of a window; empty: the key may not see them.
func (o *overviewView) traces(from, to time.Time, pairs ...string) string {
	if !o.Traces {
		return ""
	}
	return tracesOf(from, to, pairs...)
}

func (o *overviewView) figures(s api.StatsSummary) []figure {
	plain := func(text string) display.Word { return display.Word{Text: text} }
	some := func(n int64, l display.Level) display.Word {
		if n == 0 {
			l = display.Plain
		}
		return display.Word{Text: display.Count(n), Level: l}
	}
	return []figure{
		{"Calls", plain(display.Count(s.TotalTraces)), o.traces(o.From, o.To)},
		{"Blocked", some(s.BlockedCount, display.Block), o.traces(o.From, o.To, "status", "blocked")},
		{"Failed", some(s.FailedCount, display.Bad), o.traces(o.From, o.To, "status", "failed")},
		{"Error rate", display.ErrorRate(s.ErrorRatePercent), o.traces(o.From, o.To, "status", "error")},
		{"Cost", plain(display.USD(s.TotalCostUSD)), ""},
		{"Latency p50", plain(display.Millis(s.P50DurationMs)), ""},
		{"p95", plain(display.Millis(s.P95DurationMs)), ""},
		{"p99", plain(display.Millis(s.P99DurationMs)), ""},
	}
}

func charts(parts []api.StatsPart, now time.Time) []chart {
	var times []part
	for _, p := range parts {
		times = append(times, part{p.From, p.To, now.After(p.From) && now.Before(p.To)})
	}
	values := func(name, class string, of func(*api.StatsPart) float64) series {
		s := series{Name: name, Class: class}
		for i := range parts {
			s.Values = append(s.Values, of(&parts[i]))
		}
		return s
	}
	// perCall are values that parts without calls do not have.
	perCall := func(name, class string, of func(*api.StatsPart) float64) series {
		return values(name, class, func(p *api.StatsPart) float64 {
			if p.TotalTraces == 0 {
				return math.NaN()
			}
			return of(p)
		})
	}
	share := func(n int64, p *api.StatsPart) float64 { return 100 * float64(n) / float64(p.TotalTraces) }
	return []chart{
		{Title: "Calls", Parts: times, format: display.Short, whole: true, Series: []series{
			values("succeeded", "s1", func(p *api.StatsPart) float64 { return float64(p.SuccessCount) }),
			values("blocked", "s2", func(p *api.StatsPart) float64 { return float64(p.BlockedCount) }),
			values("failed", "s3", func(p *api.StatsPart) float64 { return float64(p.FailedCount) })}},
		{Title: "Blocked and failed, of all calls", Parts: times, format: display.Percent, Lines: true, Series: []series{
			perCall("blocked", "s2", func(p *api.StatsPart) float64 { return share(p.BlockedCount, p) }),
			perCall("failed", "s3", func(p *api.StatsPart) float64 { return share(p.FailedCount, p) })}},
		{Title: "Latency", Parts: times, format: display.Millis, Lines: true, Series: []series{
			perCall("p50", "s1", func(p *api.StatsPart) float64 { return p.P50DurationMs }),
			perCall("p95", "s4", func(p *api.StatsPart) float64 { return p.P95DurationMs }),
			perCall("p99", "s2", func(p *api.StatsPart) float64 { return p.P99DurationMs })}},
		{Title: "Cost", Parts: times, format: display.USD, Series: []series{
			values("cost", "s5", func(p *api.StatsPart) float64 { return p.TotalCostUSD })}},
	}
}

// top returns the first groups by an order. Calls without a tool, or that no rule decided, are no group of a short list.
func (o *overviewView) top(stats api.TraceStats, by, sort string, most int) top {
	of := sorts[sort]
	t := top{Title: nouns[by], By: by, Sort: sort, From: stats.From, To: stats.To, Other: !stats.From.Equal(o.From) || !stats.To.Equal(o.To)}
	for _, g := range stats.Groups {
		r := topRow{StatsGroup: g, Name: display.Group(g.GroupKey), Value: of(g)}
		if r.Name == "" && most == topRows {
			continue
		}
		t.Whole = max(t.Whole, r.Value)
		if name, value := filterOf(g.GroupKey); value != "" {
			r.Path = o.traces(stats.From, stats.To, name, value)
		}
		t.Rows = append(t.Rows, r)
	}
	slices.SortStableFunc(t.Rows, func(a, b topRow) int { return cmp.Compare(b.Value, a.Value) })
	t.Rows, t.More = first(t.Rows, most)
	return t
}

// filterOf returns the filter of traces that selects those of a group; empty: there is none.
func filterOf(k api.GroupKey) (name, value string) {
	for _, f := range []struct {
		name  string
		value *string
	}{{"agentId", k.AgentID}, {"agentName", k.AgentName}, {"modelName", k.ModelName}, {"environment", k.Environment},
		{"toolName", k.ToolName}, {"ruleId", k.RuleID}, {"client", k.ClientName}} {
		if f.value != nil && *f.value != "" {
			if *f.value == store.OtherName && (k.ToolName != nil || k.RuleID != nil || k.ClientName != nil) {
				return "", "" // names beyond the bound of a month
			}
			return f.name, *f.value
		}
	}
	return "", ""
}

// standing reads what needs somebody now.
func (o *overviewView) standing(v *visit) error {
	if v.may("GET", "/api/approvals") {
		page, err := v.api.ListApprovals(v.Context(), client.ApprovalQuery{Page: client.Page{Limit: 1}, Status: api.ApprovalPending})
		if err != nil {
			return err
		}
		o.Now.Approvals = page.Total
	} else {
		o.NotSeen = append(o.NotSeen, "approvals")
	}
	if !v.may("GET", "/api/gateways") {
		o.NotSeen = append(o.NotSeen, "gateways")
		return nil
	}
	list, err := v.api.ListGateways(v.Context(), false)
	if err != nil {
		return err
	}
	o.Now.Gateways = len(list.Data)
	for _, g := range list.Data {
		if g.State == api.GatewaySilent {
			o.Now.Silent = append(o.Now.Silent, g.Name)
		}
	}
	o.Now.Enforcing, o.Now.Of, o.Now.Others = display.NewestPolicies(list.Data)
	o.Now.More = max(len(o.Now.Silent)-topRows, 0) + max(len(o.Now.Others)-topRows, 0)
	o.Now.Silent, o.Now.Others = o.Now.Silent[:min(len(o.Now.Silent), topRows)], o.Now.Others[:min(len(o.Now.Others), topRows)]
	return nil
}
