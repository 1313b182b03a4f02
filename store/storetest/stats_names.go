package storetest

import (
	"fmt"
	"testing"
	"time"

	"svc/store"
)

// testStatsOfNames compares the groups of traces by tool, rule and client with the traces.
func testStatsOfNames(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	o.Clock.Advance(60 * 24 * time.Hour)
	now := o.Clock.Now().UTC().Truncate(time.Minute)
	dimensions := map[store.GroupBy]func(*store.Trace) string{
		store.GroupByTool: func(tr *store.Trace) string {
			if tr.Reason == "no_route" && tr.ToolName != "" {
				return "other"
			}
			return tr.ToolName
		},
		store.GroupByRule:   func(tr *store.Trace) string { return tr.RuleID },
		store.GroupByClient: func(tr *store.Trace) string { return tr.ClientName },
	}
	var all []store.Trace
	for i := range 300 {
		tr := store.Trace{ID: fmt.Sprint(i), AgentName: fmt.Sprint("agent ", i%3), Status: store.TraceSuccess, Cost: store.NanoUSD(i), Duration: time.Duration(i%17) * time.Millisecond,
			ToolName: []string{"search", "", "delete", "другой"}[i%4], RuleID: []string{"", "allow", "search"}[i%3], ClientName: []string{"claude-code", ""}[i%2],
			CreatedAt: now.Add(-time.Duration(i*i) * 29 * time.Second)} // over thirty days, most of them today
		if i%10 == 6 {
			tr.Status, tr.Reason, tr.ToolName = store.TraceError, "no_route", fmt.Sprint("invented ", i)
		}
		all = append(all, tr)
	}
	ingest(t, tn, store.IngestResult{Accepted: 200}, all[:200]...)
	ingest(t, tn, store.IngestResult{Accepted: 100, Duplicates: 200}, all...)
	compare := func(q store.StatsQuery) {
		s := must(tn.Stats(ctx, q))(t)
		if from, to := q.From.Truncate(time.Hour), q.To.Add(time.Hour-1).Truncate(time.Hour); !s.From.Equal(from) || !s.To.Equal(to) {
			t.Errorf("%v by %s: from %v to %v, want whole hours, %v to %v", q.To.Sub(q.From), q.GroupBy, s.From, s.To, from, to)
		}
		in := map[string][]store.Trace{}
		for _, tr := range all {
			if !tr.CreatedAt.Before(s.From) && tr.CreatedAt.Before(s.To) {
				name := dimensions[q.GroupBy](&tr)
				in[name] = append(in[name], tr)
			}
		}
		if len(s.Groups) != len(in) || s.Summary.Traces < 5 {
			t.Errorf("%v by %s: %d groups, want %d; %+v", q.To.Sub(q.From), q.GroupBy, len(s.Groups), len(in), s.Summary)
		}
		for _, g := range s.Groups {
			if d := differ(g.Totals, recount(in[nameOf(g)])); d != "" {
				t.Errorf("%v by %s, group %q: %s", q.To.Sub(q.From), q.GroupBy, nameOf(g), d)
			}
		}
	}
	for by := range dimensions {
		for _, window := range []time.Duration{20 * time.Minute, 26 * time.Hour, 31 * 24 * time.Hour} {
			compare(store.StatsQuery{From: now.Add(-window), To: now.Add(time.Minute), GroupBy: by})
		}
		_, err := tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now, AgentID: "agt_1", GroupBy: by})
		wantKind(t, err, store.Invalid, "groupBy")
	}
	for more := true; more; {
		more = must(tn.Expire(ctx, store.ExpireBounds{Minutes: now.Add(-2 * time.Hour), Budget: time.Second}))(t).More
	}
	for by := range dimensions { // the hours are left
		compare(store.StatsQuery{From: now.Add(-26 * time.Hour), To: now.Add(time.Minute), GroupBy: by})
	}
}

// nameOf returns the name of a group by tool, rule or client.
func nameOf(g store.StatsGroup) string { return g.ToolName + g.RuleID + g.ClientName }

// testBoundOfNames sends more names than a month counts: the first ones keep their groups, all
// others are one, and another month and another dimension have their own.
func testBoundOfNames(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	o.Clock.Advance(40 * 24 * time.Hour)
	now := o.Clock.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 12, 0, 0, 0, time.UTC)
	n := 0
	send := func(at time.Time, from, to int) {
		var batch []store.Trace
		for i := from; i < to; i++ {
			n++
			batch = append(batch, store.Trace{ID: fmt.Sprint(n), AgentName: "a", Status: store.TraceSuccess, CreatedAt: at.Add(-time.Duration(i%7) * time.Minute),
				ToolName: fmt.Sprintf("tool %04d", 9999-i), RuleID: fmt.Sprint("rule ", i%2), ClientName: fmt.Sprint("client ", i)})
		}
		ingest(t, tn, store.IngestResult{Accepted: len(batch)}, batch...)
	}
	groups := func(by store.GroupBy, from, to time.Time) map[string]int64 {
		got := map[string]int64{}
		for _, g := range must(tn.Stats(ctx, store.StatsQuery{From: from, To: to, GroupBy: by}))(t).Groups {
			got[nameOf(g)] = g.Traces
		}
		return got
	}
	want := func(by store.GroupBy, from, to time.Time, names int, others int64, known, unknown string) {
		t.Helper()
		got := groups(by, from, to)
		if len(got) != names || got["other"] != others || known != "" && got[known] == 0 || got[unknown] != 0 {
			t.Errorf("by %s: %d groups, want %d; %d others, want %d; %d of %q, %d of %q", by, len(got), names, got["other"], others, got[known], known, got[unknown], unknown)
		}
	}
	day := func(at time.Time) (time.Time, time.Time) { return at.Add(-time.Hour), at.Add(time.Hour) }
	from, to := day(month)
	send(month, 0, 600)
	send(month, 600, 1200)
	want(store.GroupByTool, from, to, store.MaxNames+1, 200, "tool 9000", "tool 8999")
	want(store.GroupByClient, from, to, store.MaxNames+1, 200, "client 999", "client 1000")
	want(store.GroupByRule, from, to, 2, 0, "rule 1", "")
	later := month.Add(24 * time.Hour)
	send(later, 990, 1010) // ten of the thousand, and ten others
	want(store.GroupByTool, later.Add(-time.Hour), later.Add(time.Hour), 11, 10, "tool 9009", "tool 8999")
	before := month.Add(-48 * time.Hour) // has its own thousand
	send(before, 995, 1005)
	want(store.GroupByTool, before.Add(-time.Hour), before.Add(time.Hour), 10, 0, "tool 8999", "")
	for i := range 40 { // more batches than engines leave unmerged
		send(month.Add(48*time.Hour), 2000+i, 2001+i)
	}
	want(store.GroupByTool, month.Add(-72*time.Hour), month.Add(72*time.Hour), store.MaxNames+1+5, 200+10+40, "tool 9000", "tool 7999")
}
