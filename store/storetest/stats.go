package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"svc/store"
)

// recount returns the statistics of traces, computed from the traces themselves.
func recount(traces []store.Trace) store.Totals {
	var sum store.Totals
	durations := make([]time.Duration, 0, len(traces))
	for i := range traces {
		tr := &traces[i]
		sum.Traces++
		if tr.Status == store.TraceError {
			sum.Errors++
		}
		if tr.Blocked {
			sum.Blocked++
		}
		sum.InputTokens += tr.InputTokens
		sum.OutputTokens += tr.OutputTokens
		sum.Cost += tr.Cost
		sum.DurationSum += tr.Duration
		durations = append(durations, tr.Duration)
	}
	slices.Sort(durations)
	rank := func(q float64) time.Duration {
		if len(durations) == 0 {
			return 0
		}
		return durations[max(int(math.Ceil(q*float64(len(durations)))), 1)-1]
	}
	sum.P50, sum.P95, sum.P99 = rank(0.50), rank(0.95), rank(0.99)
	sum.P99Low = sum.P99
	return sum
}

// differ returns how two totals differ; quantiles may differ by one percent.
func differ(got, want store.Totals) string {
	for _, q := range []struct {
		name      string
		got, want *time.Duration
	}{{"p50", &got.P50, &want.P50}, {"p95", &got.P95, &want.P95}, {"p99", &got.P99, &want.P99}} {
		if math.Abs(float64(*q.got-*q.want)) > 0.01*float64(*q.want) {
			return fmt.Sprintf("%s is %v, want %v", q.name, *q.got, *q.want)
		}
		*q.got = *q.want
	}
	if got.P99Low > want.P99 || float64(got.P99Low) < 0.98*float64(want.P99) {
		return fmt.Sprintf("the smallest that p99 can be is %v, p99 is %v", got.P99Low, want.P99)
	}
	got.P99Low = want.P99Low
	if got != want {
		return fmt.Sprintf("%+v, want %+v", got, want)
	}
	return ""
}

// testQuantilesInBounds: no quantile is below the smallest duration or above the
// largest, so that quantiles of equal durations are exact.
func testQuantilesInBounds(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	now := o.Clock.Now()
	for i, d := range []time.Duration{0, 1, time.Microsecond, time.Second, 9999 * time.Millisecond, time.Hour + 1} {
		name := fmt.Sprintf("agent %d", i)
		for batch := range 3 {
			var traces []store.Trace
			for n := range 40 {
				traces = append(traces, store.Trace{ID: fmt.Sprintf("%d-%d-%d", i, batch, n), AgentName: name, Status: store.TraceSuccess,
					Duration: d, CreatedAt: now.Add(-time.Duration(n%7) * time.Minute)})
			}
			ingest(t, tn, store.IngestResult{Accepted: len(traces)}, traces...)
		}
	}
	for _, window := range []time.Duration{time.Hour, 30 * 24 * time.Hour} {
		s := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-window), To: now, GroupBy: store.GroupByAgent}))(t)
		for _, g := range s.Groups {
			want := g.DurationSum / time.Duration(g.Traces)
			for name, got := range map[string]time.Duration{"p50": g.P50, "p95": g.P95, "p99": g.P99, "lowest p99": g.P99Low} {
				if got != want {
					t.Errorf("%v: %s of %d durations of %v is %v", window, name, g.Traces, want, got)
				}
			}
		}
		if s.Summary.P99 > time.Hour+1 {
			t.Errorf("%v: p99 of all is %v", window, s.Summary.P99)
		}
	}
}

func testStats(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	o.Clock.Advance(100 * 24 * time.Hour)
	now := o.Clock.Now()
	if s := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now, GroupBy: store.GroupByModel}))(t); s.Summary != (store.Totals{}) || s.Groups == nil || len(s.Groups) != 0 {
		t.Errorf("statistics of nothing: %+v", s)
	}
	var all []store.Trace
	for i := range 900 {
		tr := store.Trace{ID: fmt.Sprint(i), AgentName: fmt.Sprintf("agent %d", i%4), Status: store.TraceSuccess,
			Environment: fmt.Sprintf("env %d", i%3), ModelProvider: "p", ModelName: fmt.Sprintf("model %d", i%2),
			InputTokens: int64(i), OutputTokens: 1, Cost: store.NanoUSD(i * i), Duration: time.Duration(i*i) * 100 * time.Microsecond,
			CreatedAt: now.Add(-time.Duration(i*i%(95*24*60)) * time.Minute)}
		if i%9 == 0 {
			tr.Status, tr.Blocked = store.TraceError, i%2 == 0
		}
		all = append(all, tr)
	}
	for from := 0; from < len(all); from += 300 {
		ingest(t, tn, store.IngestResult{Accepted: 300}, all[from:from+300]...)
	}
	agents, _, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	idOf := map[string]string{}
	for _, a := range agents {
		idOf[a.Name] = a.ID
	}
	for _, window := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour} {
		for _, by := range []store.GroupBy{store.GroupNone, store.GroupByAgent, store.GroupByModel, store.GroupByEnvironment} {
			for _, name := range []string{"", "agent 2"} {
				s := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-window), To: now, AgentID: idOf[name], GroupBy: by}))(t)
				if s.From.After(now.Add(-window)) || s.To.Before(now) || s.From.Before(now.Add(-window-time.Minute)) {
					t.Errorf("window %v became %v to %v", window, s.From, s.To)
				}
				var inWindow []store.Trace
				groups := map[string][]store.Trace{}
				for _, tr := range all {
					if tr.CreatedAt.Before(s.From) || !tr.CreatedAt.Before(s.To) || name != "" && tr.AgentName != name {
						continue
					}
					inWindow = append(inWindow, tr)
					key := map[store.GroupBy]string{store.GroupByAgent: tr.AgentName, store.GroupByModel: tr.ModelName, store.GroupByEnvironment: tr.Environment}[by]
					groups[key] = append(groups[key], tr)
				}
				if d := differ(s.Summary, recount(inWindow)); d != "" {
					t.Errorf("%v by %q of %q: %s", window, by, name, d)
				}
				if by == store.GroupNone {
					continue
				}
				if len(s.Groups) != len(groups) {
					t.Errorf("%v by %q of %q: %d groups, want %d", window, by, name, len(s.Groups), len(groups))
				}
				for i, g := range s.Groups {
					key := map[store.GroupBy]string{store.GroupByAgent: g.AgentName, store.GroupByModel: g.ModelName, store.GroupByEnvironment: g.Environment}[by]
					if d := differ(g.Totals, recount(groups[key])); d != "" {
						t.Errorf("%v by %q of %q, %s: %s", window, by, name, key, d)
					}
					if by == store.GroupByAgent && g.AgentID != idOf[g.AgentName] {
						t.Errorf("group %+v has another agent's id", g)
					}
					if i > 0 && s.Groups[i-1].Cost < g.Cost {
						t.Errorf("groups are not ordered by cost")
					}
				}
			}
		}
	}
	from, to := store.Monthly.Window(now)
	var want store.NanoUSD
	for _, tr := range all {
		if tr.AgentName == "agent 1" && !tr.CreatedAt.Before(from) && tr.CreatedAt.Before(to) {
			want += tr.Cost
		}
	}
	spent := must(tn.Spend(ctx, []store.SpendQuery{{From: from, To: to}, {Payer: store.Payer{AgentID: idOf["agent 1"]}, From: from, To: to},
		{Payer: store.Payer{AgentID: "agt_unknown"}, From: from, To: to}, {Payer: store.Payer{AgentID: idOf["agent 1"]}, From: to, To: from}}))(t)
	if !slices.Equal(spent, []store.NanoUSD{0, want, 0, 0}) {
		t.Errorf("spend %v, want %v of the second alone", spent, want)
	}
	if spent := must(tn.Spend(ctx, nil))(t); len(spent) != 0 {
		t.Errorf("no question has %d answers", len(spent))
	}
	if s := must(tn.Stats(ctx, store.StatsQuery{From: now, To: now.Add(-time.Hour)}))(t); s.Summary.Traces != 0 {
		t.Errorf("a window that ends before it begins has %d traces", s.Summary.Traces)
	}
	if s := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now, AgentID: "agt_unknown"}))(t); s.Summary.Traces != 0 {
		t.Errorf("an unknown agent has %d traces", s.Summary.Traces)
	}
	_, err := tn.Stats(ctx, store.StatsQuery{GroupBy: "colour"})
	wantKind(t, err, store.Invalid, "groupBy")
}

func testLateArrivals(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	now := o.Clock.Now().UTC()
	yesterday := now.Add(-26 * time.Hour)
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "now", AgentName: "a", Status: store.TraceSuccess, Cost: 1, CreatedAt: now})
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "late", AgentName: "a", Status: store.TraceSuccess, Cost: 10, CreatedAt: yesterday})
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "now 2", AgentName: "a", Status: store.TraceSuccess, Cost: 100, CreatedAt: now})
	list, _, _ := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if got := ids(list, func(x store.Trace) string { return x.ID }); !slices.Equal(got, []string{"now 2", "now", "late"}) {
		t.Errorf("list %v", got)
	}
	page, total, _ := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1, Offset: 2})
	if total != 3 || len(page) != 1 || page[0].ID != "late" {
		t.Errorf("last page %+v of %d", page, total)
	}
	for _, w := range []struct {
		from, to time.Time
		want     store.NanoUSD
	}{{now.Add(-time.Hour), now.Add(time.Minute), 101}, {yesterday.Add(-time.Minute), yesterday.Add(time.Minute), 10}} {
		if s := must(tn.Stats(ctx, store.StatsQuery{From: w.from, To: w.to}))(t); s.Summary.Cost != w.want {
			t.Errorf("cost from %v: %d, want %d", w.from, s.Summary.Cost, w.want)
		}
	}
}

func testRetention(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	start := o.Clock.Now().UTC().Truncate(24 * time.Hour).Add(90 * time.Minute)
	var all []store.Trace
	for i := range 450 {
		all = append(all, store.Trace{ID: fmt.Sprint(i), AgentName: "a", Status: store.TraceSuccess, Cost: 1, Duration: time.Millisecond,
			CreatedAt: start.Add(time.Duration(i) * 10 * time.Minute)})
	}
	o.Clock.Advance(10 * 24 * time.Hour)
	ingest(t, tn, store.IngestResult{Accepted: 450}, all...)
	query := store.StatsQuery{From: start.Add(-time.Hour), To: start.Add(100 * time.Hour), GroupBy: store.GroupByAgent}
	before := must(tn.Stats(ctx, query))(t)

	cutoff := all[250].CreatedAt
	removed := 0
	for more := true; more; {
		res := must(tn.Expire(ctx, store.ExpireBounds{Traces: cutoff}))(t)
		if res.More && res.Traces == 0 {
			t.Fatal("a step of a call removed nothing")
		}
		removed, more = removed+res.Traces, res.More
	}
	list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if removed != 250 || total != 200 || len(list) != 200 || list[199].ID != "250" || err != nil {
		t.Errorf("%d removed, %d left of %d, %v", removed, len(list), total, err)
	}
	if _, total, _ := tn.ListTraces(ctx, store.TraceFilter{End: all[260].CreatedAt}, store.Page{Limit: 3}); total != 11 {
		t.Errorf("filtered total %d after retention, want 11", total)
	}
	_, err = tn.GetTrace(ctx, "249")
	wantKind(t, err, store.NotFound, "")
	must(tn.GetTrace(ctx, "250"))(t)
	if after := must(tn.Stats(ctx, query))(t); after.Summary != before.Summary || len(after.Groups) != 1 {
		t.Errorf("statistics changed with retention: %+v, were %+v", after.Summary, before.Summary)
	}
	// Removed traces that are sent again are not counted again.
	ingest(t, tn, store.IngestResult{Expired: 1, Duplicates: 1}, all[249], all[250])
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "new", AgentName: "a", Status: store.TraceSuccess, CreatedAt: o.Clock.Now()})

	// Without statistics by the minute a window is rounded to whole hours, and
	// agrees with the hours.
	minutes := all[302].CreatedAt
	hour := minutes.Truncate(time.Hour)
	if hour.Equal(minutes) {
		t.Fatal("the bound is to lie inside an hour")
	}
	// The hour of the bound keeps all its minutes.
	within := store.StatsQuery{From: hour, To: hour.Add(50 * time.Minute)}
	whole := must(tn.Stats(ctx, within))(t)
	defer func() {
		if s := must(tn.Stats(ctx, within))(t); s.Summary != whole.Summary || !s.From.Equal(hour) {
			t.Errorf("the hour of the bound: %v, %+v, before %+v", s.From, s.Summary, whole.Summary)
		}
	}()
	for more := true; more; {
		more = must(tn.Expire(ctx, store.ExpireBounds{Minutes: minutes, Budget: time.Second}))(t).More
	}
	odd := store.StatsQuery{From: start.Add(25 * time.Minute), To: start.Add(30*time.Hour + 11*time.Minute)}
	s := must(tn.Stats(ctx, odd))(t)
	var want int64
	for _, tr := range all {
		if !tr.CreatedAt.Before(s.From) && tr.CreatedAt.Before(s.To) {
			want++
		}
	}
	if s.From.Minute() != 0 || s.To.Minute() != 0 || s.Summary.Traces != want {
		t.Errorf("without minutes: %v to %v, %d traces, want %d", s.From, s.To, s.Summary.Traces, want)
	}
	if res := must(tn.Expire(ctx, store.ExpireBounds{Traces: cutoff, Minutes: minutes}))(t); res != (store.Expired{}) {
		t.Errorf("nothing is left to do, and %+v was done", res)
	}
	for more := true; more; {
		more = must(tn.Expire(ctx, store.ExpireBounds{Traces: o.Clock.Now().Add(time.Hour)}))(t).More
	}
	if list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 5}); total != 0 || len(list) != 0 || err != nil {
		t.Errorf("%d of %d left, %v", len(list), total, err)
	}
	res := must(tn.Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: "ahead", AgentName: "a", Status: store.TraceSuccess, CreatedAt: o.Clock.Now().Add(2 * time.Hour)}}}))(t)
	if res.Accepted+res.Expired != 1 {
		t.Errorf("ingest into an emptied store: %+v", res)
	}
}

// testModel compares random batches, retention and queries with a plain list of
// traces.
func testModel(t *testing.T, open func(t *testing.T) Opened) {
	o := open(t)
	o.Clock.Advance(40 * 24 * time.Hour)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		tn := NewTenant(t, o, fmt.Sprintf("model %d", n))
		m := model{tn: tn, clock: o.Clock}
		rt.Repeat(map[string]func(*rapid.T){
			"ingest": m.ingest,
			"trim":   m.trim,
			"list":   m.list,
			"stats":  m.stats,
		})
	})
}

type model struct {
	tn      Tenant
	clock   *Ticking
	all     []modelTrace // all traces ever accepted, in commit order
	horizon time.Time    // retention has removed older traces; zero: none yet
}

type modelTrace struct {
	store.Trace
	live bool
}

func (m *model) has(id string) bool {
	return slices.ContainsFunc(m.all, func(tr modelTrace) bool { return tr.live && tr.ID == id })
}

func (m *model) ingest(t *rapid.T) {
	now := m.clock.Now().UTC()
	batch := make([]store.Trace, rapid.IntRange(1, 12).Draw(t, "size"))
	var want store.IngestResult
	for i := range batch {
		tr := store.Trace{
			ID: fmt.Sprint(rapid.IntRange(0, 300).Draw(t, "id")), AgentName: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "agent"),
			Status:      rapid.SampledFrom([]store.TraceStatus{store.TraceSuccess, store.TraceError}).Draw(t, "status"),
			Environment: rapid.SampledFrom([]string{"", "prod"}).Draw(t, "environment"), ModelName: rapid.SampledFrom([]string{"", "m"}).Draw(t, "model"),
			ToolName: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tool"), ClientName: rapid.SampledFrom([]string{"", "x"}).Draw(t, "client"),
			Cost: store.NanoUSD(rapid.IntRange(0, 50).Draw(t, "cost")), InputTokens: rapid.Int64Range(0, 9).Draw(t, "tokens"),
			Duration:  time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "duration")),
			CreatedAt: now.Add(-time.Duration(rapid.IntRange(0, 20*24*60).Draw(t, "age")) * time.Minute),
		}
		batch[i] = tr
	}
	accepted := []modelTrace{}
	for i, tr := range batch {
		switch {
		case repeated(batch[:i], tr.ID):
			want.Duplicates++
		case tr.CreatedAt.Before(m.horizon):
			want.Expired++
		case m.has(tr.ID):
			want.Duplicates++
		default:
			want.Accept(&tr)
			accepted = append(accepted, modelTrace{tr, true})
		}
	}
	got, err := m.tn.Ingest(ctx, store.Batch{Traces: batch})
	if err != nil || got != want {
		t.Fatalf("ingest %+v, want %+v, %v", got, want, err)
	}
	m.all = append(m.all, accepted...)
}

func repeated(list []store.Trace, id string) bool {
	return slices.ContainsFunc(list, func(tr store.Trace) bool { return tr.ID == id })
}

func (m *model) trim(t *rapid.T) {
	cutoff := m.clock.Now().UTC().Add(-time.Duration(rapid.IntRange(5, 20).Draw(t, "days")) * 24 * time.Hour)
	for more := true; more; {
		res, err := m.tn.Expire(ctx, store.ExpireBounds{Traces: cutoff})
		if err != nil {
			t.Fatal(err)
		}
		if more = res.More; res.Traces > 0 && cutoff.After(m.horizon) {
			m.horizon = cutoff
		}
	}
	for i := range m.all {
		if m.all[i].CreatedAt.Before(cutoff) {
			m.all[i].live = false
		}
	}
}

func (m *model) stored() []store.Trace {
	var list []store.Trace
	for _, tr := range m.all {
		if tr.live {
			list = append(list, tr.Trace)
		}
	}
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b store.Trace) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}

func (m *model) list(t *rapid.T) {
	f := store.TraceFilter{
		Status:      rapid.SampledFrom([]store.TraceStatus{"", store.TraceSuccess, store.TraceError}).Draw(t, "status"),
		Environment: rapid.SampledFrom([]string{"", "prod"}).Draw(t, "environment"),
	}
	if rapid.Bool().Draw(t, "with start") {
		f.Start = m.clock.Now().Add(-time.Duration(rapid.IntRange(0, 20*24).Draw(t, "hours")) * time.Hour)
	}
	page := store.Page{Limit: rapid.IntRange(0, 6).Draw(t, "limit"), Offset: rapid.IntRange(0, 8).Draw(t, "offset")}
	var want []string
	for _, tr := range m.stored() {
		if f.Match(&tr) {
			want = append(want, tr.ID)
		}
	}
	from, to := page.Bounds(len(want))
	got, total, err := m.tn.ListTraces(ctx, f, page)
	if err != nil || total != len(want) || !slices.Equal(ids(got, func(x store.Trace) string { return x.ID }), want[from:to]) {
		t.Fatalf("list %v of %d, want %v of %d, %v", got, total, want[from:to], len(want), err)
	}
}

func (m *model) stats(t *rapid.T) {
	now := m.clock.Now().UTC()
	by := rapid.SampledFrom([]store.GroupBy{store.GroupNone, store.GroupByAgent, store.GroupByModel, store.GroupByEnvironment,
		store.GroupByTool, store.GroupByRule, store.GroupByClient}).Draw(t, "by")
	s, err := m.tn.Stats(ctx, store.StatsQuery{GroupBy: by,
		From: now.Add(-time.Duration(rapid.IntRange(0, 21*24*60).Draw(t, "from")) * time.Minute),
		To:   now.Add(-time.Duration(rapid.IntRange(-10, 21*24*60).Draw(t, "to")) * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	var in []store.Trace
	for _, tr := range m.all {
		if !tr.CreatedAt.Before(s.From) && tr.CreatedAt.Before(s.To) {
			in = append(in, tr.Trace)
		}
	}
	if d := differ(s.Summary, recount(in)); d != "" {
		t.Fatalf("statistics of %v to %v by %q: %s", s.From, s.To, by, d)
	}
	var traces int64
	for _, g := range s.Groups {
		traces += g.Traces
	}
	if by != store.GroupNone && traces != s.Summary.Traces {
		t.Fatalf("groups have %d traces, the summary %d", traces, s.Summary.Traces)
	}
}
