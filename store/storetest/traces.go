package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
)

// fullTrace returns a trace with every field set.
func fullTrace(id, agent string, at time.Time) store.Trace {
	return store.Trace{
		ID: id, AgentName: agent, Status: store.TraceError, Blocked: true, Environment: "production",
		SessionID: "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e0f", ModelProvider: "anthropic", ModelName: "claude", ToolName: "search",
		RequestID: "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e10", Principal: "alice", ClientName: "claude-code", ClientVersion: "2.1.0", RuleID: "deny-shell", Reason: "policy_denied", ErrorKind: "redact_invalid",
		Approval: store.TraceApproval{Status: "granted", ID: "apr_1", By: "bob@example.com"},
		Labels:   []string{"private", "untrusted"}, Sets: []string{"suspicious"},
		InputTokens: 1200, OutputTokens: 34, CacheReadTokens: 1000, CacheCreationTokens: 200, Cost: 1_234_567, Duration: 1500 * time.Millisecond, InjectionScore: 0.123456789,
		PIIDetected: []string{"EMAIL", "IBAN"}, PoliciesFired: []store.PolicyFired{{ID: "pol_1", Name: "p", Action: "block"}},
		CreatedAt: at.UTC(), QualityScores: []store.QualityScore{{Scorer: "relevance", Score: -0.5}},
		Spans: []store.Span{{Stage: "policy_eval", Duration: 12 * time.Microsecond}, {Stage: "my own stage", Duration: time.Second}},
	}
}

func testIngest(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	now := o.Clock.Now()
	ingest(t, tn, store.IngestResult{})
	batch := []store.Trace{
		fullTrace("018f3c5e-7b1a-7c3d-9e2f-000000000001", "a", now),
		fullTrace("0123456789abcdef0123456789abcdef", "a", now),
		fullTrace("any text will do", "a", now),
		fullTrace("any text will do", "a", now),
	}
	before := slices.Clone(batch)
	ingest(t, tn, store.IngestResult{Accepted: 3, Duplicates: 1}, batch...)
	ingest(t, tn, store.IngestResult{Duplicates: 4}, batch...)
	if diff := cmp.Diff(before, batch); diff != "" {
		t.Errorf("the caller's batch was changed: %s", diff)
	}
	if _, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); total != 3 || err != nil {
		t.Errorf("%d traces, %v", total, err)
	}
	agents, _, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	if len(agents) != 1 || agents[0].Name != "a" || agents[0].ModelName != "claude" || !agents[0].AutoRegistered {
		t.Fatalf("agents %+v", agents)
	}
	tools, _, _ := tn.ListTools(ctx, agents[0].ID, store.Page{})
	if len(tools) != 1 || tools[0].CallCount != 3 || tools[0].ToolName != "search" || !tools[0].LastCalledAt.Equal(now.UTC()) || tools[0].AgentID != agents[0].ID {
		t.Errorf("tools %+v", tools)
	}
	// No id, no time, or a time in the future.
	ahead := o.Clock.Now().Add(time.Hour)
	ingest(t, tn, store.IngestResult{Accepted: 2}, store.Trace{AgentID: agents[0].ID, AgentName: "ignored", Status: store.TraceSuccess},
		store.Trace{ID: "ahead", AgentName: "a", Status: store.TraceSuccess, CreatedAt: ahead})
	list, _, _ := tn.ListTraces(ctx, store.TraceFilter{Status: store.TraceSuccess}, store.Page{})
	if len(list) != 2 || list[0].ID != "ahead" || list[0].CreatedAt.After(o.Clock.Now().Add(store.MaxAhead)) || !list[0].CreatedAt.Before(ahead) {
		t.Errorf("a time ahead is bounded: %+v", list)
	}
	if got := list[1]; !strings.HasPrefix(got.ID, store.PrefixTrace) || got.AgentName != "a" || now.Sub(got.CreatedAt).Abs() > time.Minute {
		t.Errorf("defaults: %+v", got)
	}
	// Several tools in one trace.
	many := store.Trace{ID: "tools", AgentName: "several", Status: store.TraceSuccess, ToolName: "x", ToolCalls: []store.ToolCalls{{Tool: "x", Calls: 2}, {Tool: "y", Calls: 1}}}
	ingest(t, tn, store.IngestResult{Accepted: 1}, many)
	ingest(t, tn, store.IngestResult{Duplicates: 1}, many)
	agents, _, _ = tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	called := map[string]int64{}
	for _, a := range agents {
		if a.Name == "several" {
			for _, tool := range first(tn.ListTools(ctx, a.ID, store.Page{})) {
				called[tool.ToolName] = int64(tool.CallCount)
			}
		}
	}
	if diff := cmp.Diff(map[string]int64{"x": 2, "y": 1}, called); diff != "" {
		t.Error(diff)
	}
}

func first[T any](list T, _ int, _ error) T { return list }

func testIngestRefusals(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	long := strings.Repeat("x", store.MaxTraceString+1)
	for field, change := range map[string]func(*store.Trace){
		"agentName":           func(tr *store.Trace) { tr.AgentName = "" },
		"agentId":             func(tr *store.Trace) { tr.AgentID = "agt_unknown" },
		"status":              func(tr *store.Trace) { tr.Status = "ok" },
		"id":                  func(tr *store.Trace) { tr.ID = strings.Repeat("x", store.MaxTraceID+1) },
		"sessionId":           func(tr *store.Trace) { tr.SessionID = long },
		"environment":         func(tr *store.Trace) { tr.Environment = "a\x00b" },
		"inputTokens":         func(tr *store.Trace) { tr.InputTokens = -1 },
		"outputTokens":        func(tr *store.Trace) { tr.OutputTokens = store.MaxTraceTokens + 1 },
		"cacheReadTokens":     func(tr *store.Trace) { tr.CacheReadTokens = tr.InputTokens + 1 },
		"cacheCreationTokens": func(tr *store.Trace) { tr.CacheCreationTokens = 201 },
		"requestId":           func(tr *store.Trace) { tr.RequestID = long },
		"principal":           func(tr *store.Trace) { tr.Principal = "a\x00b" },
		"client.name":         func(tr *store.Trace) { tr.ClientName = "a\x00b" },
		"client.version":      func(tr *store.Trace) { tr.ClientVersion = strings.Repeat("9", store.MaxTraceString+1) },
		"ruleId":              func(tr *store.Trace) { tr.RuleID = long },
		"reason":              func(tr *store.Trace) { tr.Reason = long },
		"errorKind":           func(tr *store.Trace) { tr.ErrorKind = long },
		"approval.status":     func(tr *store.Trace) { tr.Approval.Status = long },
		"approval.id":         func(tr *store.Trace) { tr.Approval.ID = "a\x00b" },
		"approval.by":         func(tr *store.Trace) { tr.Approval.By = long },
		"labels":              func(tr *store.Trace) { tr.Labels = make([]string, store.MaxTraceList+1) },
		"sets":                func(tr *store.Trace) { tr.Sets = []string{"a\x00b"} },
		"costUsd":             func(tr *store.Trace) { tr.Cost = -1 },
		"durationMs":          func(tr *store.Trace) { tr.Duration = -1 },
		"injectionScore":      func(tr *store.Trace) { tr.InjectionScore = math.NaN() },
		"createdAt":           func(tr *store.Trace) { tr.CreatedAt = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC) },
		"piiDetected":         func(tr *store.Trace) { tr.PIIDetected = make([]string, store.MaxTraceList+1) },
		"policiesFired":       func(tr *store.Trace) { tr.PoliciesFired = []store.PolicyFired{{Name: long}} },
		"qualityScores":       func(tr *store.Trace) { tr.QualityScores = []store.QualityScore{{Score: math.Inf(1)}} },
		"spans":               func(tr *store.Trace) { tr.Spans = []store.Span{{Duration: -1}} },
	} {
		bad := fullTrace("bad", "a", o.Clock.Now())
		change(&bad)
		_, err := tn.Ingest(ctx, store.Batch{Traces: []store.Trace{fullTrace("good", "a", o.Clock.Now()), bad}})
		wantKind(t, err, store.Invalid, "traces[1]."+field)
	}
	_, err := tn.Ingest(ctx, store.Batch{Traces: make([]store.Trace, store.MaxIngestBatch+1)})
	wantKind(t, err, store.Invalid, "traces")
	if _, total, _ := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); total != 0 {
		t.Errorf("%d traces of refused batches were stored", total)
	}
	if _, total, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}); total != 0 {
		t.Errorf("%d agents of refused batches were registered", total)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := tn.Ingest(ended, store.Batch{Traces: []store.Trace{fullTrace("x", "a", o.Clock.Now())}}); !errors.Is(err, context.Canceled) {
		t.Errorf("ingest with an ended context: %v", err)
	}
}

func testAutoRegistration(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	newAgent(t, tn, "made by hand")
	one := func(name string) store.Trace {
		tr := store.Trace{ID: name + o.Clock.Now().String(), AgentName: name, Status: store.TraceSuccess, Cost: 1, ToolName: "tool"}
		ingest(t, tn, store.IngestResult{Accepted: 1}, tr)
		return must(tn.GetTrace(ctx, tr.ID))(t)
	}
	one("made by hand")
	for i := range o.MaxAutoAgents {
		if tr := one(fmt.Sprintf("auto %d", i)); tr.AgentID == "" {
			t.Fatalf("agent %d was not registered", i)
		}
	}
	over := one("over")
	if over.AgentID != "" || over.AgentName != "over" {
		t.Errorf("beyond the bound: %+v", over)
	}
	if _, total, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}); total != o.MaxAutoAgents+1 {
		t.Errorf("%d agents, want %d", total, o.MaxAutoAgents+1)
	}
	now := o.Clock.Now()
	groups := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour), GroupBy: store.GroupByAgent}))(t).Groups
	if len(groups) != o.MaxAutoAgents+2 || !slices.ContainsFunc(groups, func(g store.StatsGroup) bool { return g.AgentID == "" && g.AgentName == "over" }) {
		t.Errorf("groups %+v", groups)
	}
	// An agent that is created later gets its id from then on; a deletion makes room
	// for another one.
	a := newAgent(t, tn, "over")
	if tr := one("over"); tr.AgentID != a.ID {
		t.Errorf("trace of a registered agent: %+v", tr)
	}
	first := one("auto 0")
	if err := tn.DeleteAgent(ctx, first.AgentID); err != nil {
		t.Fatal(err)
	}
	if tr := one("auto 0"); tr.AgentID == "" || tr.AgentID == first.AgentID {
		t.Errorf("after a deletion: %+v", tr)
	}
	_, err := tn.Ingest(ctx, store.Batch{Traces: []store.Trace{{AgentID: first.AgentID, Status: store.TraceSuccess}}})
	wantKind(t, err, store.Invalid, "traces[0].agentId")
	name := "renamed"
	must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{Name: &name}))(t)
	if tr := one(name); tr.AgentID != a.ID || tr.AgentName != name {
		t.Errorf("after a change of name: %+v", tr)
	}
	if tr := one("over"); tr.AgentID != a.ID || tr.AgentName != name {
		t.Errorf("the old name does not mean the agent: %+v", tr)
	}
}

func testGetTrace(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	want := fullTrace("018f3c5e-7b1a-7c3d-9e2f-00000000000a", "a", o.Clock.Now())
	empty := store.Trace{ID: "e", AgentName: "a", Status: store.TraceSuccess, CreatedAt: o.Clock.Now().UTC()}
	ingest(t, tn, store.IngestResult{Accepted: 2}, want, empty)
	got := must(tn.GetTrace(ctx, want.ID))(t)
	agents, _, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	want.AgentID, empty.AgentID = agents[0].ID, agents[0].ID
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was stored differs: %s", diff)
	}
	if diff := cmp.Diff(empty, must(tn.GetTrace(ctx, "e"))(t)); diff != "" {
		t.Errorf("an empty trace differs: %s", diff)
	}
	list, _, _ := tn.ListTraces(ctx, store.TraceFilter{Environment: "production"}, store.Page{})
	want.Spans, want.QualityScores = nil, nil
	if diff := cmp.Diff([]store.Trace{want}, list); diff != "" {
		t.Errorf("the list item differs: %s", diff)
	}
	_, err := tn.GetTrace(ctx, "unknown")
	wantKind(t, err, store.NotFound, "")
	_, err = tn.GetTrace(ctx, "")
	wantKind(t, err, store.NotFound, "")
}

// testListTraces compares every combination of a few filters with TraceFilter.Match.
func testListTraces(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	base := o.Clock.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	var all []store.Trace
	for i := range 350 {
		tr := store.Trace{ID: fmt.Sprintf("t%03d", i), AgentName: fmt.Sprintf("agent %d", i%3), Status: store.TraceSuccess,
			Environment: []string{"production", "staging", ""}[i%5%3], Cost: store.NanoUSD(i % 7 * 100),
			InjectionScore: float64(i%11) / 10, CreatedAt: base.Add(time.Duration(i*37%350) * time.Second)}
		if i%4 == 0 {
			tr.Status = store.TraceError
		}
		if i%50 == 0 {
			tr.CreatedAt = base // at equal times the later commit comes first
		}
		all = append(all, tr)
	}
	for from := 0; from < len(all); from += 90 {
		part := all[from:min(from+90, len(all))]
		ingest(t, tn, store.IngestResult{Accepted: len(part)}, part...)
	}
	agents, _, _ := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	for i := range all {
		for _, a := range agents {
			if a.Name == all[i].AgentName {
				all[i].AgentID = a.ID
			}
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b store.Trace) int { return b.CreatedAt.Compare(a.CreatedAt) })

	cost, score := store.NanoUSD(200), 0.5
	most := store.NanoUSD(400)
	parts := []func(*store.TraceFilter){
		func(f *store.TraceFilter) { f.AgentID = agents[1].ID },
		func(f *store.TraceFilter) { f.Status = store.TraceError },
		func(f *store.TraceFilter) { f.Environment = "staging" },
		func(f *store.TraceFilter) { f.Start = base.Add(60 * time.Second) },
		func(f *store.TraceFilter) { f.End = base.Add(250 * time.Second) },
		func(f *store.TraceFilter) { f.MinCost = &cost },
		func(f *store.TraceFilter) { f.MaxCost = &most },
		func(f *store.TraceFilter) { f.MinInjectionScore = &score },
	}
	for mask := range 1 << len(parts) {
		var f store.TraceFilter
		for i, part := range parts {
			if mask&(1<<i) != 0 {
				part(&f)
			}
		}
		var want []string
		for i := range all {
			if f.Match(&all[i]) {
				want = append(want, all[i].ID)
			}
		}
		for _, page := range []store.Page{{}, {Limit: 10}, {Limit: 7, Offset: 20}} {
			from, to := page.Bounds(len(want))
			got, total, err := tn.ListTraces(ctx, f, page)
			if err != nil || total != len(want) || !slices.Equal(ids(got, func(x store.Trace) string { return x.ID }), want[from:to]) {
				t.Fatalf("filter %b page %+v: %d of %d, want %d of %d, %v", mask, page, len(got), total, to-from, len(want), err)
			}
		}
	}
	for name, f := range map[string]store.TraceFilter{
		"unknown agent": {AgentID: "agt_unknown"}, "unknown environment": {Environment: "nowhere"},
		"nothing in it": {Start: base.Add(time.Hour), End: base.Add(2 * time.Hour)},
	} {
		if list, total, err := tn.ListTraces(ctx, f, store.Page{Limit: 5}); list == nil || len(list)+total != 0 || err != nil {
			t.Errorf("%s: %v, %d, %v", name, list, total, err)
		}
	}
	far := store.TraceFilter{Start: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), End: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if _, total, err := tn.ListTraces(ctx, far, store.Page{Limit: 5}); total != len(all) || err != nil {
		t.Errorf("from the first to the last year: %d, %v", total, err)
	}
}

func testStreams(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	one := func(id string, status store.TraceStatus) store.Trace {
		return store.Trace{ID: id, AgentName: "a", Status: status, CreatedAt: o.Clock.Now().Add(-time.Hour)}
	}
	ingest(t, tn, store.IngestResult{Accepted: 1}, one("before", store.TraceSuccess))
	live := must(tn.StreamTraces(ctx, store.StreamOptions{}))(t)
	errs := must(tn.StreamTraces(ctx, store.StreamOptions{Filter: store.TraceFilter{Status: store.TraceError}}))(t)

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := live.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nothing has come, and Next says %v", err)
	}
	waiting := make(chan []store.TraceEvent, 1)
	go func() { events, _ := errs.Next(ctx); waiting <- events }()
	ingest(t, tn, store.IngestResult{Accepted: 2}, one("1", store.TraceSuccess), one("2", store.TraceSuccess))
	ingest(t, tn, store.IngestResult{Accepted: 1, Duplicates: 1}, one("1", store.TraceError), one("3", store.TraceError))
	if events := <-waiting; len(events) != 1 || events[0].Trace.ID != "3" {
		t.Errorf("filtered stream: %+v", events)
	}
	events := must(live.Next(ctx))(t)
	if got := ids(events, func(e store.TraceEvent) string { return e.Trace.ID }); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Fatalf("stream gave %v", got)
	}
	// Resume after each event: no gap and no duplicate, whatever the times are.
	for i, e := range events[:2] {
		st := must(tn.StreamTraces(ctx, store.StreamOptions{After: e.Cursor, Batch: 1}))(t)
		for j := i + 1; j < 3; j++ {
			if got := must(st.Next(ctx))(t); len(got) != 1 || got[0].Trace.ID != events[j].Trace.ID || st.Cursor() != got[0].Cursor {
				t.Errorf("resumed after %d: %+v", i, got)
			}
		}
		st.Close()
	}
	all := must(tn.StreamTraces(ctx, store.StreamOptions{After: store.CursorStart, MaxLag: 1}))(t) // commits before the stream was opened do not count
	if got := must(all.Next(ctx))(t); len(got) != 4 {
		t.Errorf("from the beginning: %d events", len(got))
	}
	// A cursor of another tenant with more commits simulates a cursor of another
	// store.
	far := NewTenant(t, o, "far")
	for i := range 50 {
		ingest(t, far, store.IngestResult{Accepted: 1}, one(fmt.Sprint(i), store.TraceSuccess))
	}
	end := must(far.StreamTraces(ctx, store.StreamOptions{}))(t)
	ahead := must(tn.StreamTraces(ctx, store.StreamOptions{After: end.Cursor()}))(t)
	for _, bad := range []store.Cursor{"?", "no cursor", "-1", store.Cursor(strings.Repeat("9", 300))} {
		wantKind(t, second(tn.StreamTraces(ctx, store.StreamOptions{After: bad})), store.Invalid, "after")
	}
	slow := must(tn.StreamTraces(ctx, store.StreamOptions{MaxLag: 2}))(t)
	for i := range 3 {
		ingest(t, tn, store.IngestResult{Accepted: 1}, one(fmt.Sprintf("late %d", i), store.TraceSuccess))
	}
	if got := must(ahead.Next(ctx))(t); len(got) != 3 {
		t.Errorf("from a cursor of the future: %d events", len(got))
	}
	if _, err := slow.Next(ctx); err != store.ErrTooSlow {
		t.Errorf("slow reader got %v", err)
	}
	for _, st := range []store.TraceStream{live, errs, all, ahead, slow, end} {
		st.Close()
	}
}
