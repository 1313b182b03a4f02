package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc/store"
)

// placedList is a list of records that is read page by page.
type placedList struct {
	name string
	get  func(store.Page) (ids []string, total int, err error)
	add  func(i int)
	gone func(id string) error // nil: items of the list are not removed
}

func placedLists(t testing.TB, tn Tenant) []placedList {
	agent := newAgent(t, tn, "an agent")
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	return []placedList{
		{"teams", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListTeams(ctx, p)
			return ids(l, func(x store.Team) string { return x.ID }), n, err
		}, func(i int) { must(tn.CreateTeam(ctx, store.TeamCreate{Name: fmt.Sprint("team ", i)}))(t) },
			func(id string) error { return tn.DeleteTeam(ctx, id) }},
		{"agents", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListAgents(ctx, store.AgentFilter{Environment: "placed"}, p)
			return ids(l, func(x store.Agent) string { return x.ID }), n, err
		}, func(i int) {
			must(tn.CreateAgent(ctx, store.AgentCreate{Name: fmt.Sprint("agent ", i), Environment: "placed"}))(t)
		}, func(id string) error { return tn.DeleteAgent(ctx, id) }},
		{"policies", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListPolicies(ctx, store.PolicyFilter{}, p)
			return ids(l, func(x store.Policy) string { return x.ID }), n, err
		}, func(i int) { must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: fmt.Sprint("policy ", i)}))(t) },
			func(id string) error { return tn.DeletePolicy(ctx, id) }},
		{"keys", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListKeys(ctx, store.KeyFilter{Scope: store.ScopeIngest}, p)
			return ids(l, func(x store.Key) string { return x.ID }), n, err
		}, func(i int) {
			must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: store.DigestKey(fmt.Sprint("placed ", i)), CreatedBy: store.DefaultAdminID}))(t)
		}, func(id string) error { return tn.DeleteKey(ctx, id) }},
		{"violations", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListViolations(ctx, store.ViolationFilter{SLAID: sla.ID}, p)
			return ids(l, func(x store.SLAViolation) string { return x.ID }), n, err
		}, func(i int) {
			must(tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency", PeriodStart: time.Unix(int64(i), 0), PeriodEnd: time.Unix(int64(i+1), 0)}))(t)
		}, nil},
	}
}

// testPlaces reads lists page by page while items are added at the head and shown
// items are removed: the original items are shown once, in order.
func testPlaces(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	for _, l := range placedLists(t, tn) {
		added := 0
		for range 7 {
			l.add(added)
			added++
		}
		want, total, err := l.get(store.Page{})
		if err != nil || total != 7 || len(want) != 7 {
			t.Fatalf("%s: %v of %d, %v", l.name, want, total, err)
		}
		var got []string
		removed := 0
		for page := (store.Page{Limit: 2}); ; page.After = (store.Place{ID: got[len(got)-1]}) {
			list, total, err := l.get(page)
			if err != nil || total != added-removed || list == nil {
				t.Errorf("%s behind %v: %v of %d, %v, want %d", l.name, page.After, list, total, err, added-removed)
			}
			if got = append(got, list...); len(list) < 2 {
				break
			}
			l.add(added)
			l.add(added + 1)
			added += 2
			if l.gone != nil && len(got) == 4 {
				if err := l.gone(list[1]); err != nil { // the next page starts after it
					t.Fatal(err)
				}
				removed++
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: pages %v, want %v", l.name, got, want)
		}
		// Offset counts from After.
		if list, _, err := l.get(store.Page{Limit: 2, Offset: 1, After: store.Place{ID: want[3]}}); err != nil || !slices.Equal(list, want[5:7]) && l.gone == nil {
			t.Errorf("%s: an offset behind a place: %v, %v", l.name, list, err)
		}
	}
}

// testPlacesOfTraces reads traces page by page, many with equal times, while newer and
// older ones are ingested: the original traces, and new ones after the position, are
// shown once, in order.
func testPlacesOfTraces(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	base := o.Clock.Now().Add(-time.Hour).UTC()
	trace := func(id string, age time.Duration) store.Trace {
		return store.Trace{ID: id, AgentName: "a", Status: store.TraceSuccess, CreatedAt: base.Add(-age)}
	}
	const n = 250 // more than a block of any backend holds
	var batch []store.Trace
	for i := range n { // ids are in list order: at equal times the newest commit comes first
		batch = append(batch, trace(fmt.Sprint("old ", n-1-i), time.Duration((n-1-i)/40)*time.Second))
	}
	ingest(t, tn, store.IngestResult{Accepted: n}, batch...)
	stored, late := n, []string{}
	var got []string
	for page := (store.Page{Limit: 7}); ; {
		list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, page)
		if err != nil || total != stored || list == nil {
			t.Fatalf("behind %v: %d of %d, %v, want %d", page.After, len(list), total, err, stored)
		}
		for _, tr := range list {
			got = append(got, tr.ID)
		}
		if len(list) < page.Limit {
			break
		}
		last := list[len(list)-1]
		page.After = store.Place{ID: last.ID, At: last.CreatedAt}
		i := len(got)
		ingest(t, tn, store.IngestResult{Accepted: 3}, trace(fmt.Sprint("newer ", i), -time.Minute),
			trace(fmt.Sprint("same time ", i), base.Sub(last.CreatedAt)), trace(fmt.Sprint("late ", i), time.Hour))
		stored += 3
		late = append([]string{fmt.Sprint("late ", i)}, late...)
	}
	var shown []string
	for _, id := range got {
		if len(id) > 4 && id[:4] == "old " {
			shown = append(shown, id)
		}
	}
	for i := range n {
		if i >= len(shown) || shown[i] != fmt.Sprint("old ", i) {
			t.Fatalf("item %d of %v", i, shown)
		}
	}
	if rest := got[n:]; len(shown) != n || len(rest) == 0 || !slices.Equal(rest, slices.Compact(slices.Clone(rest))) || rest[len(rest)-1] != late[len(late)-1] {
		t.Errorf("%d shown, then %v; late came %v", len(shown), rest, late)
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}

	// After the oldest trace the list is empty, and a filter does not change the
	// position.
	oldest := first(tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}))
	end := oldest[len(oldest)-1]
	if list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 5, After: store.Place{ID: end.ID, At: end.CreatedAt}}); len(list) != 0 || list == nil || total != stored || err != nil {
		t.Errorf("behind the oldest: %v of %d, %v", list, total, err)
	}
	for name, f := range map[string]store.TraceFilter{"status": {Status: store.TraceSuccess}, "start": {Start: base.Add(-2 * time.Hour)}, "agent": {AgentID: end.AgentID}} {
		list, total, err := tn.ListTraces(ctx, f, store.Page{Limit: 2, After: store.Place{ID: "old 100", At: base.Add(-2 * time.Second)}})
		if err != nil || total != stored || len(list) != 2 || list[0].ID != "old 101" || list[1].ID != "old 102" {
			t.Errorf("%s: %d of %d, %v: %+v", name, len(list), total, err, list)
		}
	}
	// The trace at the position is removed, and all that are as old or older.
	for {
		res := must(tn.Expire(ctx, store.ExpireBounds{Traces: base.Add(-3 * time.Second)}))(t)
		if !res.More {
			break
		}
	}
	list, _, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 5, After: store.Place{ID: "old 170", At: base.Add(-4 * time.Second)}})
	if err != nil || len(list) != 0 {
		t.Errorf("behind a removed trace: %+v, %v", list, err)
	}
}
