//go:build unix

package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/storetest"
	"svc/store/storetest/memory"
)

var ctx = context.Background()

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// rig is a store on a real engine, with records in memory.
type rig struct {
	*Store
	records *memory.Store
	clock   *storetest.Ticking
}

func newRig(t testing.TB, url string) rig {
	c := storetest.NewClock()
	records := memory.Open(memory.Options{Now: c.Now})
	return rig{open(t, url, records, Options{Now: c.Now, MergeEvery: -1, Timeout: time.Minute}), records, c}
}

func (r rig) tenant(t testing.TB, name string) *tenant {
	t.Helper()
	info, _, err := r.records.CreateTenant(ctx, store.TenantCreate{Name: name, Key: &store.KeyCreate{Name: "k", Digest: store.DigestKey(name)}})
	if err != nil {
		t.Fatal(err)
	}
	return &tenant{r.Store, info.ID}
}

// batch returns traces of several agents, models and days.
func (r rig) batch(prefix string, n int) store.Batch {
	var b store.Batch
	for i := range n {
		tr := store.Trace{ID: fmt.Sprint(prefix, i), AgentName: fmt.Sprint("agent ", i%3), Status: store.TraceSuccess, Environment: []string{"", "prod"}[i%2],
			ModelProvider: "p", ModelName: fmt.Sprint("m", i%2), ToolName: fmt.Sprint("tool ", i%2), Cost: store.NanoUSD(i), InputTokens: int64(i),
			Duration: time.Duration(i*i) * time.Microsecond, CreatedAt: r.clock.Now().Add(-time.Duration(i*i%(3*24*60)) * time.Minute)}
		if i%5 == 0 {
			tr.Status, tr.Blocked = store.TraceError, true
			tr.PoliciesFired = []store.PolicyFired{{ID: "pol_1"}, {ID: "pol_1"}, {ID: "pol_2"}}
		}
		b.Traces = append(b.Traces, tr)
	}
	return b
}

// answers holds all statistics of a tenant.
func (r rig) answers(t testing.TB, tn *tenant) (all []any) {
	t.Helper()
	now := r.clock.Now().Truncate(time.Hour).Add(time.Hour) // the same window in each call
	agents, _, err := r.records.Tenant(tn.id).ListAgents(ctx, store.AgentFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, window := range []time.Duration{time.Hour, 26 * time.Hour, 10 * 24 * time.Hour} {
		for _, by := range []store.GroupBy{store.GroupNone, store.GroupByAgent, store.GroupByModel, store.GroupByEnvironment} {
			for _, agent := range []string{"", agents[0].ID} {
				all = append(all, must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-window), To: now, GroupBy: by, AgentID: agent}))(t))
			}
		}
	}
	for _, a := range agents {
		tools, total, err := tn.ListTools(ctx, a.ID, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tools, total, must(tn.Spend(ctx, []store.SpendQuery{{Payer: store.Payer{AgentID: a.ID}, From: now.Add(-30 * time.Hour), To: now}, {Payer: store.Payer{AgentID: a.ID}, From: now.Add(-time.Hour), To: now}}))(t))
	}
	return append(all, must(tn.PolicyFires(ctx, []string{"pol_1", "pol_2", "pol_3"}))(t))
}

// TestTwice: traces that were written twice, as after a lost response to the first attempt,
// are shown and counted once.
func TestTwice(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	sh := r.shards[0]
	const n = 200
	b := r.batch("x", n)
	must(tn.Ingest(ctx, b))(t)
	want := r.answers(t, tn)
	list, _, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if err != nil || len(list) != n {
		t.Fatal(len(list), err)
	}
	columns := make([]string, 0, len(traceTarget.types))
	for _, c := range traceTarget.types {
		if c.Name == "seq" {
			columns = append(columns, "seq + 1000")
		} else {
			columns = append(columns, c.Name)
		}
	}
	if err := sh.exec(ctx, traceTarget.statement+" SELECT "+strings.Join(columns, ", ")+" FROM traces"); err != nil {
		t.Fatal(err)
	}
	var rows uint64
	if err := sh.row(ctx, "SELECT count() FROM traces", &rows); err != nil || rows != 2*n {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
		t.Errorf("statistics count traces twice: %s", diff)
	}
	if got, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); err != nil || total != n || cmp.Diff(list, got) != "" {
		t.Errorf("%d of %d traces, %v", len(got), total, err)
	}
	var paged []store.Trace
	for page := (store.Page{Limit: 23}); ; {
		part, _, _, err := tn.ListUncounted(ctx, store.TraceFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		if paged = append(paged, part...); len(part) == 0 || len(paged) > 2*n {
			break
		}
		last := part[len(part)-1]
		page.After = store.Place{ID: last.ID, At: last.CreatedAt}
	}
	if diff := cmp.Diff(list, paged); diff != "" {
		t.Errorf("pages: %s", diff)
	}
	// There are more duplicate rows than a page reads in excess.
	if got, total, _, err := tn.ListUncounted(ctx, store.TraceFilter{}, store.Page{Limit: 120, Offset: 3}); err != nil || total != n || cmp.Diff(list[3:123], got) != "" {
		t.Errorf("a long page: %d of %d traces, %v", len(got), total, err)
	}
	st := must(tn.StreamTraces(ctx, store.StreamOptions{After: store.CursorStart, Batch: n}))(t)
	defer st.Close()
	if events := must(st.Next(ctx))(t); len(events) != n {
		t.Errorf("%d events of %d traces", len(events), n)
	}
	must(tn.merge(ctx, sh, sh.clock()+int64(time.Minute)))(t)
	if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
		t.Errorf("merged statistics count traces twice: %s", diff)
	}
	// Duplicate rows of traces that were merged just before.
	for i, c := range columns {
		if c == "seq + 1000" {
			columns[i] = fmt.Sprint("seq + ", int64(20*time.Second))
		}
	}
	must(tn.Ingest(ctx, r.batch("y", 7)))(t)
	want = r.answers(t, tn)
	if err := sh.exec(ctx, traceTarget.statement+" SELECT "+strings.Join(columns, ", ")+" FROM traces WHERE id LIKE 'x%'"); err != nil {
		t.Fatal(err)
	}
	must(tn.merge(ctx, sh, sh.clock()+int64(time.Minute)))(t)
	if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
		t.Errorf("statistics count traces twice that were merged before: %s", diff)
	}
}

// TestShards: tenants stay on the shard that was chosen for them, also after a shard is
// added.
func TestShards(t *testing.T) {
	one, two := clickhousetest.Start(t), clickhousetest.Start(t)
	for _, s := range []*clickhousetest.Server{one, two} {
		s.Name(t, "shards")
	}
	alone := newRig(t, clickhousetest.URL("shards", one))
	var tenants []*tenant
	for i := range 8 {
		tn := alone.tenant(t, fmt.Sprint("old ", i))
		must(tn.Ingest(ctx, alone.batch("x", 5)))(t)
		tenants = append(tenants, tn)
	}
	both := rig{open(t, clickhousetest.URL("shards", one, two), alone.records, Options{Now: alone.clock.Now, MergeEvery: -1, Timeout: time.Minute}), alone.records, alone.clock}
	for i := range 8 {
		tn := both.tenant(t, fmt.Sprint("new ", i))
		must(tn.Ingest(ctx, both.batch("x", 5)))(t)
		tenants = append(tenants, tn)
	}
	var counts [2]uint64
	for i, sh := range both.shards {
		if err := sh.row(ctx, "SELECT count() FROM traces", &counts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if counts[0] < 40 || counts[1] == 0 || counts[0]+counts[1] != 80 {
		t.Errorf("the shards have %v traces", counts)
	}
	for i, tn := range tenants {
		seen := &tenant{both.Store, tn.id}
		if list, total, err := seen.ListTraces(ctx, store.TraceFilter{}, store.Page{}); err != nil || total != 5 || len(list) != 5 {
			t.Errorf("tenant %d: %d of %d, %v", i, len(list), total, err)
		}
		if got := must(seen.Ingest(ctx, both.batch("x", 5)))(t); got.Duplicates != 5 {
			t.Errorf("tenant %d: sent again: %+v", i, got)
		}
	}
	// One shard is unavailable: calls for its tenants fail, and others succeed, including
	// those of tenants that a process has not served before.
	unused := open(t, clickhousetest.URL("shards", one, two), alone.records, Options{Now: alone.clock.Now, MergeEvery: -1, Timeout: time.Minute})
	follow := func(sh *shard) (*tenant, store.TraceStream) {
		for _, tn := range tenants {
			if home := must(both.home(ctx, tn.id))(t); home == sh {
				st := must((&tenant{unused, tn.id}).StreamTraces(ctx, store.StreamOptions{}))(t)
				t.Cleanup(st.Close)
				return &tenant{both.Store, tn.id}, st
			}
		}
		t.Fatalf("no tenant on %s", sh.name)
		return nil, nil
	}
	first, stream := follow(both.shards[0])
	follow(both.shards[1])
	two.Signal(syscall.SIGSTOP)
	must(first.Ingest(ctx, both.batch("while the other one is frozen", 1)))(t)
	soon, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	if events, err := stream.Next(soon); err != nil || len(events) != 1 {
		t.Errorf("%d events of a tenant whose shard is there, %v", len(events), err)
	}
	two.Kill()
	for what, s := range map[string]*Store{"a process that has served all": both.Store, "a process that has served none": unused} {
		var served, refused int
		for _, tn := range tenants {
			_, _, err := (&tenant{s, tn.id}).ListTraces(ctx, store.TraceFilter{}, store.Page{})
			switch {
			case err == nil:
				served++
			case errors.Is(err, store.ErrUnavailable):
				refused++
			default:
				t.Error(err)
			}
		}
		if served != int(counts[0]/5) || refused != int(counts[1]/5) {
			t.Errorf("%s: without a shard %d tenants are served and %d are not, %v traces are on the shards", what, served, refused, counts)
		}
	}
}

// TestAway: while the engine is killed or frozen, calls fail with ErrUnavailable within a
// short time. Afterwards they succeed, and all acknowledged traces are stored.
func TestAway(t *testing.T) {
	server := clickhousetest.Start(t)
	c := storetest.NewClock()
	records := memory.Open(memory.Options{Now: c.Now})
	r := rig{open(t, server.Database(t), records, Options{Now: c.Now, MergeEvery: -1, Timeout: time.Second}), records, c}
	tn := r.tenant(t, "t")
	stored := 0
	patient := func(what string) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for late := time.After(2 * time.Minute); ; {
			if _, err := tn.Ingest(ctx, r.batch(what, 3)); err == nil {
				break
			} else if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("%s: %v", what, err)
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s: not served again", what)
			}
		}
		stored += 3
	}
	patient("before")
	for what, fail := range map[string]struct{ begin, end func() }{
		"killed": {server.Kill, server.StartAgain},
		"frozen": {func() { server.Signal(syscall.SIGSTOP) }, func() { server.Signal(syscall.SIGCONT) }},
	} {
		fail.begin()
		began := time.Now()
		for _, call := range []func() error{
			func() error { _, err := tn.Ingest(ctx, r.batch("lost "+what, 3)); return err },
			func() error { _, _, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); return err },
			func() error { _, err := tn.Stats(ctx, store.StatsQuery{From: c.Now(), To: c.Now()}); return err },
			func() error { return r.Ready(ctx) },
		} {
			if err := call(); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("while the engine is %s: %v", what, err)
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: noticed after %v", what, took)
		}
		fail.end()
		patient(what)
		patient("lost " + what) // sent again, whatever the outcome of the first attempt
	}
	if _, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); err != nil || total != stored {
		t.Errorf("%d traces, want %d, %v", total, stored, err)
	}
	if err := r.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
}

// killsVariable is the environment variable with the number of kills in
// TestKilledWhileWriting; default 3.
const killsVariable = "SVC_TEST_KILLS"

// TestKilledWhileWriting: an engine that is killed while it writes a batch must not have the
// id of a trace without the trace, its statistics and its session. After the batch is sent
// again, everything is stored.
func TestKilledWhileWriting(t *testing.T) {
	kills := 3
	if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = n
	}
	server := clickhousetest.Start(t)
	url := server.Database(t)
	c := storetest.NewClock()
	records := memory.Open(memory.Options{Now: c.Now})
	var tn *tenant
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	took := 100 * time.Millisecond // traces of a batch
	for kill := range kills + 1 {
		r := rig{open(t, url, records, Options{Now: c.Now, MergeEvery: -1, Timeout: time.Minute}), records, c}
		if tn == nil {
			tn = r.tenant(t, "t")
		}
		tn = &tenant{r.Store, tn.id}
		sh := r.shards[0]
		batch := func(n int) store.Batch {
			b := r.batch(fmt.Sprint("batch ", n, " "), 1000)
			for i := range b.Traces {
				b.Traces[i].SessionID = fmt.Sprint("session ", i/5)
			}
			return b
		}
		if kill > 0 {
			for _, table := range []string{"traces", "feed"} {
				var n uint64
				if err := sh.row(ctx, "SELECT count() FROM ids WHERE id NOT IN (SELECT id FROM "+table+")", &n); err != nil || n > 0 {
					t.Fatalf("seed %d, kill %d: %d ids of traces that are not in %s, %v", seed, kill, n, table, err)
				}
			}
			var n uint64
			if err := sh.row(ctx, "SELECT count() FROM (SELECT DISTINCT session FROM traces WHERE id IN (SELECT id FROM ids)) WHERE session NOT IN (SELECT session FROM sessions)", &n); err != nil || n > 0 {
				t.Fatalf("seed %d, kill %d: %d sessions are missing, %v", seed, kill, n, err)
			}
			must(tn.Ingest(ctx, batch(kill)))(t) // sent again
		}
		began := time.Now()
		must(tn.Ingest(ctx, batch(-kill)))(t)
		if took = time.Since(began); kill == kills {
			break
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(random.Int64N(int64(took))), func() { server.Kill(); close(killed) })
		_, _ = tn.Ingest(ctx, batch(kill+1)) // the batch may be stored or not
		<-killed
		_ = r.Close()
		server.StartAgain()
	}
	want := 1000 * (2*kills + 1)
	if list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); err != nil || len(list) != want || total != want {
		t.Errorf("seed %d: %d of %d traces, want %d, %v", seed, len(list), total, want, err)
	}
	now := c.Now()
	if stats, err := tn.Stats(ctx, store.StatsQuery{From: now.AddDate(0, 0, -10), To: now.Add(time.Hour)}); err != nil || stats.Summary.Traces != int64(want) {
		t.Errorf("seed %d: statistics have %d traces, want %d, %v", seed, stats.Summary.Traces, want, err)
	}
}

// TestDeepPages: pages far down the list agree with the whole list, and totals of a filter
// are lower bounds if not every trace was checked.
func TestDeepPages(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	const n = 3 * skipBySorting
	for i := range n / 1000 {
		must(tn.Ingest(ctx, r.batch(fmt.Sprint(i, " "), 1000)))(t)
	}
	list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if err != nil || total != n || len(list) != n {
		t.Fatal(len(list), total, err)
	}
	for _, offset := range []int{skipBySorting - 1, skipBySorting + 1, n / 2, n - 20, n - 1, n, n + 1} {
		got, _, _, err := tn.ListUncounted(ctx, store.TraceFilter{}, store.Page{Limit: 30, Offset: offset})
		if want := list[min(offset, n):min(offset+30, n)]; err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("offset %d: %d traces, want %d, %v", offset, len(got), len(want), err)
		}
	}
}

// TestPagesOfTwice: when a page leaves out traces that an earlier page has, it continues
// with the next trace of the same window.
func TestPagesOfTwice(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	sh := r.shards[0]
	b, newest := r.batch("x", 100), r.clock.Now()
	for i := range b.Traces {
		b.Traces[i].CreatedAt = newest.Add(-time.Duration(i) * time.Second)
		if i >= 80 {
			b.Traces[i].CreatedAt = b.Traces[i].CreatedAt.Add(-30 * time.Hour)
		}
	}
	must(tn.Ingest(ctx, b))(t)
	columns := make([]string, len(traceTarget.types))
	for i, c := range traceTarget.types {
		if columns[i] = c.Name; c.Name == "seq" {
			columns[i] = "seq + 1000"
		}
	}
	if err := sh.exec(ctx, traceTarget.statement+" SELECT "+strings.Join(columns, ", ")+" FROM traces"); err != nil {
		t.Fatal(err)
	}
	list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if err != nil || total != 100 || len(list) != 100 {
		t.Fatal(len(list), total, err)
	}
	var paged []store.Trace
	for page := (store.Page{Limit: 23}); len(paged) <= 100; {
		part, _, _, err := tn.ListUncounted(ctx, store.TraceFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		paged = append(paged, part...)
		last := part[len(part)-1]
		page.After = store.Place{At: last.CreatedAt, ID: last.ID}
	}
	if diff := cmp.Diff(list, paged); diff != "" {
		t.Errorf("pages: %s", diff)
	}
}
