package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// counted is what a tenant has counted from its traces.
type counted struct {
	Listed, Traces int
	Calls, Fires   int64
	Cost           store.NanoUSD
}

func count(t testing.TB, o Opened, tn Tenant, agent, policy string) (c counted) {
	t.Helper()
	c.Listed = total(tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}))
	at := o.Clock.Now()
	sum := must(tn.Stats(ctx, store.StatsQuery{From: at.Add(-time.Hour), To: at.Add(time.Hour)}))(t).Summary
	c.Traces, c.Cost = int(sum.Traces), sum.Cost
	for _, tool := range first(tn.ListTools(ctx, agent, store.Page{})) {
		c.Calls += tool.CallCount
	}
	c.Fires = must(tn.PolicyFires(ctx, []string{policy}))(t)[policy]
	return c
}

// testBatches sends batches again: after a success, after a fault, concurrently, and
// at another handle. A batch is counted once, whatever the attempts.
func testBatches(t testing.TB, a Opened) {
	_, one, two := onBoth(t, a)
	tenants := []Tenant{one, two}
	agent := newAgent(t, one, "agent")
	policy := must(one.CreatePolicies(ctx, store.PolicyCreate{Name: "p"}))(t)[0]
	batch := func(id string, ids ...string) store.Batch {
		b := store.Batch{ID: id}
		for _, trace := range ids {
			b.Traces = append(b.Traces, store.Trace{ID: trace, AgentID: agent.ID, Status: store.TraceSuccess, ToolName: "x", Cost: 3,
				PoliciesFired: []store.PolicyFired{{ID: policy.ID, Name: "p", Action: "warn"}}})
		}
		return b
	}
	want := counted{}
	check := func(what string, stored int) {
		t.Helper()
		want.Listed, want.Traces = want.Listed+stored, want.Traces+stored
		want.Calls, want.Fires, want.Cost = want.Calls+int64(stored), want.Fires+int64(stored), want.Cost+3*store.NanoUSD(stored)
		for i, tn := range tenants {
			if got := count(t, a, tn, agent.ID, policy.ID); got != want {
				t.Errorf("%s, at handle %d: %+v, want %+v", what, i, got, want)
			}
		}
	}
	send := func(b store.Batch) {
		t.Helper()
		if a.Fail != nil {
			a.Fail(func() error { return errFault })
			if _, err := one.Ingest(ctx, b); !errors.Is(err, errFault) {
				t.Errorf("ingest while writes fail: %v", err)
			}
			a.Fail(nil)
		}
		race(4, func(i int) {
			if _, err := tenants[i%2].Ingest(ctx, b); err != nil {
				t.Error(err)
			}
		})
	}
	send(batch("gateway/audit 0-100", "1", "2", "3"))
	check("a batch with an id", 3)
	send(batch("", "4", "5"))
	check("a batch without an id", 2)
	send(batch("gateway/audit 100-200", "6"))
	check("the batch behind it", 1)

	// Two reporters that use the same id by accident lose nothing.
	send(batch("gateway/audit 0-100", "7", "8"))
	check("another batch with a known id", 2)

	// Traces without ids are distinguished by their positions in a batch with an id.
	nameless := batch("nameless", "", "")
	send(nameless)
	check("traces without ids", 2)
	other := NewTenant(t, a, "another tenant")
	nameless.Traces[0].AgentID, nameless.Traces[0].AgentName = "", "own"
	ingest(t, other, store.IngestResult{Accepted: 1}, nameless.Traces[:1]...)
	if got := must(other.Ingest(ctx, store.Batch{ID: "nameless", Traces: nameless.Traces[:1]}))(t); got.Accepted != 1 {
		t.Errorf("a batch id that another tenant knows: %+v", got)
	}
	check("batches of another tenant", 0)

	for _, bad := range []string{strings.Repeat("x", store.MaxBatchID+1), "a\x00b"} {
		_, err := one.Ingest(ctx, batch(bad, "bad"))
		wantKind(t, err, store.Invalid, "batch")
	}
	ingest(t, one, store.IngestResult{Accepted: 1}, batch("", "9").Traces...)
	check("refused batches", 1)
	if got := must(one.Ingest(ctx, batch(strings.Repeat("x", store.MaxBatchID), "longest id")))(t); got.Accepted != 1 {
		t.Errorf("the longest id: %+v", got)
	}
}
