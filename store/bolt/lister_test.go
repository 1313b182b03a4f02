package bolt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc/store"
	"svc/store/storetest/memory"
)

// TestPagesAnywhereInTheList compares pages at random offsets and after random positions
// with those of the memory store: of traces in the order of time, late ones, and many with
// equal times, before and after retention, in two tenants.
func TestPagesAnywhereInTheList(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := openTemp(t, Options{Now: clock.Now, NoSync: true, facetsLater: true})
	plain := memory.Open(memory.Options{Now: clock.Now})
	t.Cleanup(func() { plain.Close() })
	for tenantNo, name := range []string{"t", "u"} {
		for _, records := range []store.Records{s, plain} {
			if _, _, err := records.CreateTenant(ctx, store.TenantCreate{ID: name, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		tn, want := s.tenant(name), plain.TracesOf(name)
		r := rand.New(rand.NewPCG(1, uint64(tenantNo)))
		base, stored := clockStart.Add(-20*time.Hour), 0
		ingest := func(at func(i int) time.Time) {
			t.Helper()
			batch := store.Batch{}
			for i := range 430 {
				tr := store.Trace{ID: fmt.Sprint(name, stored), AgentName: fmt.Sprint("agent", r.IntN(3)), Status: store.TraceSuccess,
					SessionID: fmt.Sprint("session", r.IntN(90)), ToolName: []string{"", "a", "b"}[r.IntN(3)],
					RequestID: fmt.Sprint("request", stored), Duration: time.Duration(r.IntN(3000)) * 500 * time.Microsecond,
					Environment:   []string{"prod", "test"}[r.IntN(2)],
					ModelProvider: []string{"", "p"}[r.IntN(2)], ModelName: fmt.Sprint("m", r.IntN(2)), InjectionScore: float64(r.IntN(11)) / 10,
					Cost: store.NanoUSD(r.IntN(1000)), CreatedAt: at(i)}
				if r.IntN(10) == 0 {
					tr.Status = store.TraceError
				}
				if r.IntN(20) == 0 {
					tr.PIIDetected = []string{"EMAIL", fmt.Sprint("PII", r.IntN(stored+1))}
				}
				stored++
				batch.Traces = append(batch.Traces, tr)
			}
			for _, traces := range []store.TenantTraces{tn, want} {
				if res, err := traces.Ingest(ctx, batch); err != nil || res.Accepted != len(batch.Traces) {
					t.Fatalf("%+v, %v", res, err)
				}
			}
		}
		ordered := func(i int) time.Time { base = base.Add(time.Second); return base }
		ingest(ordered)
		ingest(ordered)
		ingest(func(i int) time.Time { return base.Add(-time.Duration(r.IntN(1000)) * time.Second) }) // late
		ingest(func(i int) time.Time { return base })                                                 // at once
		ingest(ordered)
		ingest(func(i int) time.Time { // a backlog together with current traces
			if i%2 == 0 {
				return base.Add(-time.Duration(1200-i) * time.Second)
			}
			return ordered(i)
		})

		compare := func(f store.TraceFilter, p store.Page) {
			t.Helper()
			list, total, err := want.ListTraces(ctx, f, p)
			if err != nil {
				t.Fatal(err)
			}
			var shown []string
			for _, tr := range list {
				shown = append(shown, tr.ID)
			}
			for _, few := range []int{1, 300, fewKeys} {
				var got []string
				var counted int
				err = tn.view(ctx, func(d data) error {
					c := d.filter(&f)
					l := newLister(ctx, d, &c, p)
					l.few = few
					keys, n, err := l.page()
					for _, k := range keys {
						tr, _, err := decodeRecord(d.in(inTraces).Get(bytes8(k.seq)), false)
						if err != nil {
							return err
						}
						got = append(got, tr.ID)
					}
					counted = n
					return err
				})
				if err != nil || counted != total || !slices.Equal(got, shown) {
					t.Fatalf("%+v of %+v: %d of %d, %v; want %d of %d\n%v\n%v", p, f, len(got), counted, err, len(shown), total, got, shown)
				}
			}
		}
		pages := func() {
			t.Helper()
			_, left, err := want.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []store.Page{{}, {Limit: 50}, {Limit: 50, Offset: left - 50}, {Limit: 50, Offset: left - 1}, {Limit: 50, Offset: left}, {Offset: left / 2}, {Limit: 1, Offset: 1 << 60}} {
				compare(store.TraceFilter{}, p)
			}
			for range 25 {
				f, p := store.TraceFilter{}, store.Page{Limit: 1 + r.IntN(60), Offset: r.IntN(left)}
				switch r.IntN(12) {
				case 0:
					f.Status = store.TraceSuccess
				case 1:
					f.Environment = "prod"
				case 2:
					f.Start = base.Add(-time.Duration(r.IntN(1800)) * time.Second)
				case 3:
					f.End = base.Add(-time.Duration(r.IntN(1800)) * time.Second)
				case 4:
					f.SessionID = "session2"
				case 7:
					f.ToolName, f.AgentName = "a", "agent1"
				case 8:
					f.PII = []string{"EMAIL", "PII7", "PHONE"}[r.IntN(3)]
				case 9:
					f.MinDuration = time.Duration(r.IntN(3000)) * 500 * time.Microsecond
				case 10:
					f.RequestID = fmt.Sprint("request", r.IntN(stored))
				case 5:
					low, high := store.NanoUSD(r.IntN(500)), store.NanoUSD(500+r.IntN(500))
					f.MinCost, f.MaxCost = &low, &high
				case 6:
					score := float64(r.IntN(10)) / 10
					f.MinInjectionScore, f.ModelName = &score, "m1"
				}
				if r.IntN(3) == 0 {
					some, _, err := want.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1, Offset: r.IntN(left)})
					if err != nil {
						t.Fatal(err)
					}
					p.After, p.Offset = store.Place{ID: some[0].ID, At: some[0].CreatedAt}, r.IntN(3)*r.IntN(left)
				}
				compare(f, p)
			}
		}
		pages()
		for _, blocks := range []int{7, 1000} {
			if left, err := s.facetMore(blocks); err != nil || !left {
				t.Fatal(left, err)
			}
			pages()
		}
		for _, back := range []time.Duration{1500, 500} {
			for _, traces := range []store.TenantTraces{tn, want} {
				for more := true; more; {
					res, err := traces.Expire(ctx, store.ExpireBounds{Traces: base.Add(-back * time.Second)})
					if err != nil {
						t.Fatal(err)
					}
					more = res.More
				}
			}
			pages()
		}
	}
}
