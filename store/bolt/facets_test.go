package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/move"
)

// TestFacets compares the facets of a block with the traces themselves: few and many
// values, short and long ones, one and several per trace.
func TestFacets(t *testing.T) {
	for _, distinct := range []int{1, 3, facetMaxValues, facetMaxValues + 1, 80} {
		for _, long := range []int{1, 1000} {
			r := rand.New(rand.NewPCG(1, uint64(distinct)))
			value := func(kind string) string {
				if n := r.IntN(distinct + 1); n > 0 {
					return fmt.Sprintf("%s %0*d", kind, long, n)
				}
				return ""
			}
			traces := make([]store.Trace, blockCap)
			m := newFacetMaker(len(traces))
			for i := range traces {
				tr := store.Trace{ID: fmt.Sprint(i), SessionID: value("session"), ToolName: value("tool"), RuleID: value("rule"), Principal: value("principal"),
					ClientName: value("client"), RequestID: value("request"), PIIDetected: []string{value("PII"), value("PII")},
					PoliciesFired: []store.PolicyFired{{ID: value("policy")}, {ID: value("policy")}},
					Duration:      time.Duration(r.IntN(100)) * 100 * time.Microsecond}
				rec := appendRecord(nil, &tr)
				seal(rec, refs{name: uint32(i%distinct + 1)})
				if err := m.add(i, rec); err != nil {
					t.Fatal(err)
				}
				traces[i] = tr
			}
			f, err := asFacets(m.encode(nil))
			if err != nil {
				t.Fatal(err)
			}
			ask := func(q inRecord, match func(i int) bool) {
				t.Helper()
				q.asked = q.facetsAsked()
				in, sure, err := q.matchFacets(f)
				if err != nil {
					t.Fatal(err)
				}
				for i := range traces {
					if want := match(i); want && !in.has(i) || sure && want != in.has(i) {
						t.Errorf("%d values of %d bytes: %+v: trace %d is in: %v, want %v, sure: %v", distinct, long, q.exact, i, in.has(i), want, sure)
					}
				}
				if distinct <= facetMaxValues && long == 1 && !sure && q.minDuration == 0 {
					t.Errorf("%+v: facets are not sure", q.exact)
				}
			}
			for n := range distinct + 2 {
				v := func(kind string) string { return fmt.Sprintf("%s %0*d", kind, long, n) }
				for _, q := range []store.TraceFilter{{SessionID: v("session")}, {ToolName: v("tool")}, {RuleID: v("rule")}, {PolicyID: v("policy")},
					{PII: v("PII")}, {Principal: v("principal")}, {Client: v("client")}, {RequestID: v("request")},
					{ToolName: v("tool"), PII: v("PII"), Principal: v("principal")}} {
					ask(inRecord{exact: q}, func(i int) bool { return q.Match(&traces[i]) })
				}
				if n > 0 {
					ask(inRecord{name: uint32(n)}, func(i int) bool { return i%distinct+1 == n })
				}
			}
			for _, d := range []time.Duration{time.Millisecond, 2500 * time.Microsecond, 9 * time.Millisecond, time.Hour} {
				ask(inRecord{minDuration: d}, func(i int) bool { return traces[i].Duration >= d })
			}
		}
	}
}

// FuzzFacets decodes arbitrary bytes as facets.
func FuzzFacets(f *testing.F) {
	m := newFacetMaker(3)
	m.put(0, facetTool, "a")
	m.put(1, facetPII, "b")
	f.Add(m.encode(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		fs, err := asFacets(raw)
		if err != nil {
			return
		}
		c := inRecord{exact: store.TraceFilter{ToolName: "a", PII: "b"}, minDuration: time.Second}
		c.asked = c.facetsAsked()
		_, _, _ = c.matchFacets(fs)
	})
}

// TestFacetsAreBuiltAtTheStart: blocks without facets, of a process that was killed, get
// them when the file is opened, they are removed with their blocks, and Check compares them with the
// traces.
func TestFacetsAreBuiltAtTheStart(t *testing.T) {
	path, clock := filepath.Join(t.TempDir(), "svc.db"), newClock()
	open := func(o Options) *tenant {
		t.Helper()
		o.Now, o.NoSync = clock.Now, true
		s, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		return s.tenant("t")
	}
	tn := open(Options{facetsLater: true})
	if _, _, err := tn.s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{}
	for i := range 3*blockCap + 7 {
		batch.Traces = append(batch.Traces, store.Trace{ID: fmt.Sprint(i), AgentName: "a", Status: store.TraceSuccess, SessionID: fmt.Sprint("session", i/2),
			PIIDetected: []string{"EMAIL"}, CreatedAt: clockStart.Add(time.Duration(i) * time.Second)})
	}
	clock.Advance(time.Hour)
	if _, err := tn.Ingest(ctx, batch); err != nil {
		t.Fatal(err)
	}
	if err := tn.s.Close(); err != nil {
		t.Fatal(err)
	}
	blocks := func(want int) {
		t.Helper()
		err := tn.view(ctx, func(d data) error {
			if n := d.in(inTraceFacets).Stats().KeyN; n != want {
				t.Errorf("%d blocks have facets, want %d", n, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	tn = open(Options{})
	tn.s.Close() // waits for the first step of facetBuilder
	tn = open(Options{facetsLater: true})
	blocks(3)
	for _, f := range []store.TraceFilter{{SessionID: "session20"}, {SessionID: "session152"}} {
		if list, total, err := tn.ListTraces(ctx, f, store.Page{Limit: 5}); err != nil || total != 2 || len(list) != 2 || list[0].SessionID != f.SessionID {
			t.Errorf("%s: %d of %d, %v", f.SessionID, len(list), total, err)
		}
	}
	if res, err := tn.Expire(ctx, store.ExpireBounds{Traces: clockStart.Add(150 * time.Second)}); err != nil || res.Traces != 150 {
		t.Fatal(res, err)
	}
	blocks(2)
	tn.s.Close()
	if _, err := Check(ctx, path, nil); err != nil {
		t.Error(err)
	}
	tn = open(Options{facetsLater: true})
	err := tn.s.db.Update(func(tx *bbolt.Tx) error {
		b := (data{tx.Bucket(bucketData).Bucket([]byte("t"))}).in(inTraceFacets)
		k, v := b.Cursor().Last()
		return b.Put(bytes.Clone(k), bytes.ReplaceAll(v, []byte("EMAIL"), []byte("PHONE")))
	})
	if err := errors.Join(err, tn.s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, path, nil); err == nil || !strings.Contains(err.Error(), errFacets.Error()) {
		t.Errorf("facets of other traces: %v", err)
	}
}

// TestFacetsOfGaps: blocks that an import completed before they were full get facets, and so
// do the blocks after them.
func TestFacetsOfGaps(t *testing.T) {
	path, clock := filepath.Join(t.TempDir(), "svc.db"), newClock()
	s, err := Open(path, Options{Now: clock.Now, NoSync: true, facetsLater: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	var list []move.Trace
	for i := range 400 {
		list = append(list, move.Trace{Number: int64(i + 1 + i/30*(maxGap+1)), Trace: store.Trace{ID: fmt.Sprint(i), AgentName: "a",
			Status: store.TraceSuccess, SessionID: fmt.Sprint("session", i/2), CreatedAt: clockStart.Add(time.Duration(i) * time.Second)}})
	}
	err = s.commit(func(tx *bbolt.Tx) error {
		w := &filler{data: data{tx.Bucket(bucketData).Bucket([]byte("t"))}, tx: tx, tenant: "t", dict: map[dictEntry]uint32{}}
		if err := w.addTraces(list); err != nil {
			return err
		}
		if err := w.setCounter(stateSeq, uint64(list[len(list)-1].Number)+5); err != nil {
			return err
		}
		return endBlocks(w.data)
	})
	if err != nil {
		t.Fatal(err)
	}
	for left := true; left; {
		if left, err = s.facetMore(3); err != nil {
			t.Fatal(err)
		}
	}
	tn := s.tenant("t")
	err = tn.view(ctx, func(d data) error {
		blocks, facets := d.in(inTraceBlocks).Stats().KeyN, d.in(inTraceFacets).Stats().KeyN
		if blocks < 10 || facets != blocks-1 {
			t.Errorf("%d of %d blocks have facets", facets, blocks)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	f := store.TraceFilter{SessionID: "session20"}
	if list, total, err := tn.ListTraces(ctx, f, store.Page{Limit: 5}); err != nil || total != 2 || len(list) != 2 || list[0].SessionID != f.SessionID {
		t.Errorf("%d of %d, %v", len(list), total, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, path, nil); err != nil {
		t.Error(err)
	}
}
