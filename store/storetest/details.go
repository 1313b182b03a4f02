package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc/store"
)

// testTraceDetails compares the filters on the fields about a trace's decision with
// TraceFilter.Match, alone and in pairs, in lists and in streams.
func testTraceDetails(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	base := o.Clock.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	pick := func(i int, of ...string) string { return of[i%len(of)] }
	var all []store.Trace
	for i := range 240 {
		tr := store.Trace{ID: fmt.Sprintf("0123456789abcdef%016x", i), AgentName: pick(i, "one", "two"), Status: store.TraceSuccess,
			SessionID: pick(i, "", "s-1", "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e0f"), ModelProvider: pick(i, "a", "b", ""),
			ModelName: pick(i, "claude", "gpt", "", "claude"), ToolName: pick(i, "", "search", "searching"),
			Principal: pick(i, "alice", "", "bob", "al"), ClientName: pick(i, "", "claude-code", "al"), Duration: time.Duration(i%9) * time.Millisecond, CreatedAt: base.Add(time.Duration(i) * time.Second)}
		if i%6 == 2 {
			tr.ClientVersion = "al" // ClientVersion is not part of the name filter
		}
		switch i % 5 {
		case 0:
			tr.Status, tr.Blocked, tr.RuleID, tr.Reason = store.TraceError, true, pick(i, "no-shell", "no"), "policy_denied"
		case 1:
			tr.Status, tr.ErrorKind, tr.Reason = store.TraceError, "upstream_timeout", "upstream_timeout"
		case 2:
			tr.RequestID = tr.ID
		case 3:
			tr.PIIDetected, tr.RequestID = []string{"IBAN", pick(i, "EMAIL", "NAME")}, fmt.Sprint("request ", i%7)
			tr.PoliciesFired = []store.PolicyFired{{ID: "pol_0", Name: "pol_2"}, {ID: pick(i/5, "pol_1", "pol_2")}}
		}
		all = append(all, tr)
	}
	ingest(t, tn, store.IngestResult{Accepted: len(all)}, all...)
	stored := first(tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}))
	if len(stored) != len(all) || stored[len(all)-3].RequestID != all[2].ID || stored[len(all)-2].ErrorKind != "upstream_timeout" {
		t.Fatalf("%d traces, %+v", len(stored), stored[len(all)-3:])
	}
	parts := map[string]func(*store.TraceFilter){
		"blocked":         func(f *store.TraceFilter) { f.Status = store.TraceBlocked },
		"failed":          func(f *store.TraceFilter) { f.Status = store.TraceFailed },
		"session":         func(f *store.TraceFilter) { f.SessionID = "s-1" },
		"session, a UUID": func(f *store.TraceFilter) { f.SessionID = "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e0f" },
		"agent":           func(f *store.TraceFilter) { f.AgentName = "two" },
		"model":           func(f *store.TraceFilter) { f.ModelName = "claude" },
		"tool":            func(f *store.TraceFilter) { f.ToolName = "search" },
		"rule":            func(f *store.TraceFilter) { f.RuleID = "no" },
		"policy":          func(f *store.TraceFilter) { f.PolicyID = "pol_2" },
		"PII":             func(f *store.TraceFilter) { f.PII = "EMAIL" },
		"principal":       func(f *store.TraceFilter) { f.Principal = "al" },
		"client":          func(f *store.TraceFilter) { f.Client = "al" },
		"request":         func(f *store.TraceFilter) { f.RequestID = "request 3" },
		"request, the id": func(f *store.TraceFilter) { f.RequestID = all[7].ID },
		"duration":        func(f *store.TraceFilter) { f.MinDuration = 4 * time.Millisecond },
		"start":           func(f *store.TraceFilter) { f.Start = base.Add(70 * time.Second) },
	}
	for a, one := range parts {
		for b, two := range parts {
			var f store.TraceFilter
			one(&f)
			two(&f)
			var want []string
			for i := range stored {
				if f.Match(&stored[i]) {
					want = append(want, stored[i].ID)
				}
			}
			if a == b && len(want) == 0 {
				t.Fatalf("%s: nothing is asked for", a)
			}
			got, n, err := tn.ListTraces(ctx, f, store.Page{Limit: 20})
			page := want[:min(20, len(want))]
			if err != nil || n != len(want) || !slices.Equal(ids(got, func(x store.Trace) string { return x.ID }), page) {
				t.Fatalf("%s and %s: %d of %d, want %d, %v", a, b, len(got), n, len(want), err)
			}
			if a != b || len(want) == 0 {
				continue
			}
			slices.Reverse(want) // of one commit, in the order of the batch
			if got := streamed(t, tn, f, len(want)); !slices.Equal(got, want) {
				t.Fatalf("%s: streamed %d, want %d", a, len(got), len(want))
			}
		}
	}
	for name, f := range map[string]store.TraceFilter{"agent": {AgentName: "nobody"}, "model": {ModelName: "none"}, "tool": {ToolName: "searc"},
		"policy's name": {PolicyID: "p"}, "status": {Status: "neither"}, "reason in place of a rule": {RuleID: "policy_denied"},
		"client, a caller": {Client: "alice"}, "caller, a client": {Principal: "claude-code"}} {
		if list, n, err := tn.ListTraces(ctx, f, store.Page{}); list == nil || len(list)+n != 0 || err != nil {
			t.Errorf("unknown %s: %d, %v", name, n, err)
		}
	}
}

// streamed reads n traces of a filtered stream from the beginning.
func streamed(t testing.TB, tn store.TenantTraces, f store.TraceFilter, n int) (got []string) {
	st := must(tn.StreamTraces(ctx, store.StreamOptions{After: store.CursorStart, Filter: f}))(t)
	defer st.Close()
	for len(got) < n {
		got = append(got, ids(must(st.Next(ctx))(t), func(e store.TraceEvent) string { return e.Trace.ID })...)
	}
	return got
}
