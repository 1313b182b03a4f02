package background

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/store"
	"svc/store/bolt"
)

var epoch = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// rig is a store with a tenant, one agent and a clock.
type rig struct {
	t      *testing.T
	clock  *clock
	path   string
	store  *bolt.Store
	tenant store.Tenant
	stored store.TenantTraces
	agent  string
	serial int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{t: epoch}, path: filepath.Join(t.TempDir(), "svc.db")}
	r.open()
	t.Cleanup(func() { r.store.Close() })
	if _, _, err := r.store.CreateTenant(context.Background(), store.TenantCreate{ID: "one", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	r.tenant = r.store.Tenant("one")
	a, err := r.tenant.CreateAgent(context.Background(), store.AgentCreate{Name: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	r.agent = a.ID
	return r
}

func (r *rig) open() {
	r.t.Helper()
	st, err := bolt.Open(r.path, bolt.Options{Now: r.clock.Now, NoSync: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, r.tenant, r.stored = st, st.Tenant("one"), st.TracesOf("one")
}

// restart opens the same file in a new process.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func (r *rig) options() EvaluatorOptions {
	return EvaluatorOptions{Records: r.store, Traces: r.store, Now: r.clock.Now}
}

// traces stores n traces that began at the given time.
func (r *rig) traces(n int, at time.Time, took time.Duration, status store.TraceStatus, blocked bool) {
	r.t.Helper()
	batch := make([]store.Trace, n)
	for i := range batch {
		r.serial++
		batch[i] = store.Trace{ID: fmt.Sprintf("t-%06d", r.serial), AgentID: r.agent, Status: status, Blocked: blocked, Duration: took, CreatedAt: at}
	}
	if _, err := r.stored.Ingest(context.Background(), store.Batch{Traces: batch}); err != nil {
		r.t.Fatal(err)
	}
}

func ptr(f float64) *float64 { return &f }

func (r *rig) sla(period string, p99, rate *float64) store.SLATarget {
	r.t.Helper()
	s, err := r.tenant.CreateSLA(context.Background(), store.SLACreate{Name: "s", AgentID: r.agent, P99LatencyMs: p99, ErrorRatePercent: rate, EvaluationPeriod: period})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) violations() []store.SLAViolation {
	r.t.Helper()
	v, _, err := r.tenant.ListViolations(context.Background(), store.ViolationFilter{}, store.Page{})
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) step(e *Evaluator) {
	r.t.Helper()
	if err := e.step(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// status: no_data, healthy, at_risk (within 10 % of a target), breached.
func TestMeasure(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct {
		name           string
		p99, rate      *float64
		totals         store.Totals
		want           string
		latency, error bool
	}{
		{"no traces", ptr(100), ptr(1), store.Totals{}, stateNoData, false, false},
		{"far below", ptr(100), ptr(10), store.Totals{Traces: 100, Errors: 1, P99: 50 * ms}, stateHealthy, false, false},
		{"just below the margin", ptr(100), nil, store.Totals{Traces: 1, P99: 89 * ms}, stateHealthy, false, false},
		{"at the margin", ptr(100), nil, store.Totals{Traces: 1, P99: 90 * ms}, stateAtRisk, false, false},
		{"at the target", ptr(100), nil, store.Totals{Traces: 1, P99: 100 * ms}, stateAtRisk, false, false},
		{"above the target", ptr(100), nil, store.Totals{Traces: 1, P99: 101 * ms, P99Low: 101 * ms}, stateBreached, true, false},
		{"above the target by less than is known", ptr(100), nil, store.Totals{Traces: 1, P99: 101 * ms, P99Low: 100 * ms}, stateAtRisk, false, false},
		{"above the target by the least", ptr(100), nil, store.Totals{Traces: 1, P99: 101 * ms, P99Low: 100*ms + 1}, stateBreached, true, false},
		{"error rate at risk", nil, ptr(10), store.Totals{Traces: 100, Errors: 9}, stateAtRisk, false, false},
		{"error rate at the target", nil, ptr(10), store.Totals{Traces: 100, Errors: 10}, stateAtRisk, false, false},
		{"error rate above", nil, ptr(10), store.Totals{Traces: 100, Errors: 11}, stateBreached, false, true},
		{"both above", ptr(1), ptr(1), store.Totals{Traces: 100, Errors: 11, P99: 5 * ms, P99Low: 5 * ms}, stateBreached, true, true},
		{"one at risk, one above", ptr(100), ptr(1), store.Totals{Traces: 100, Errors: 11, P99: 95 * ms}, stateBreached, false, true},
		{"no errors allowed, none made", nil, ptr(0), store.Totals{Traces: 100}, stateHealthy, false, false},
		{"no errors allowed, one made", nil, ptr(0), store.Totals{Traces: 100, Errors: 1}, stateBreached, false, true},
		{"blocked requests are no failures", nil, ptr(1), store.Totals{Traces: 100, Errors: 50, Blocked: 50}, stateHealthy, false, false},
		{"blocked ones are not counted as served", nil, ptr(50), store.Totals{Traces: 100, Errors: 96, Blocked: 90}, stateBreached, false, true},
		{"all blocked", nil, ptr(1), store.Totals{Traces: 9, Errors: 9, Blocked: 9}, stateHealthy, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Measure(&store.SLATarget{P99LatencyMs: test.p99, ErrorRatePercent: test.rate}, &test.totals)
			if got.Status != test.want || got.Latency != test.latency || got.Errors != test.error {
				t.Errorf("got %+v, want %s %v %v", got, test.want, test.latency, test.error)
			}
		})
	}
}

// Traces that take exactly as long as a target allows meet it, in the status and for
// the evaluator; the p99 is their duration.
func TestATargetThatIsMetIsNotBreached(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 17 * time.Millisecond, 999 * time.Millisecond, time.Second, 9999 * time.Millisecond, 29*time.Hour + 1} {
		for _, slowest := range []time.Duration{d, 3 * d} { // 1 of 200 may take longer
			r := newRig(t)
			r.sla("1h", ptr(float64(d)/float64(time.Millisecond)), nil)
			r.traces(199, epoch.Add(-time.Minute), d, store.TraceSuccess, false)
			r.traces(1, epoch.Add(-2*time.Minute), slowest, store.TraceSuccess, false)
			r.step(NewEvaluator(r.options()))
			if got := r.violations(); len(got) != 0 {
				t.Errorf("%v, slowest %v: %+v", d, slowest, got)
			}
		}
	}
	r := newRig(t)
	r.sla("1h", ptr(1000), nil)
	r.traces(100, epoch.Add(-time.Minute), 1020*time.Millisecond, store.TraceSuccess, false)
	r.step(NewEvaluator(r.options()))
	if got := r.violations(); len(got) != 1 || *got[0].ActualP99Ms != 1020 {
		t.Errorf("a target that is missed: %+v", got)
	}
}

// A missed target has one violation of each type and period, however often it is
// evaluated, by several evaluators and after a restart.
func TestEvaluatorWritesOneViolationPerPeriod(t *testing.T) {
	r := newRig(t)
	target := r.sla("1h", ptr(100), ptr(10))
	r.traces(10, epoch.Add(-time.Minute), 500*time.Millisecond, store.TraceError, false)
	e := NewEvaluator(r.options())
	for range 20 {
		r.step(e)
		r.clock.advance(time.Minute)
	}
	r.restart()
	for range 20 {
		r.step(NewEvaluator(r.options())) // a process that crashed did not release its lease
		r.clock.advance(3 * time.Minute)
	}
	got := r.violations()
	if len(got) != 2 {
		t.Fatalf("got %d violations: %+v", len(got), got)
	}
	types := map[string]store.SLAViolation{}
	for _, v := range got {
		types[v.Type] = v
		if v.SLAID != target.ID || v.SLAName != "s" || v.AgentName != "planner" {
			t.Errorf("violation of %s %s %s", v.SLAID, v.SLAName, v.AgentName)
		}
		if v.PeriodStart.After(epoch.Add(-59*time.Minute)) || v.PeriodEnd.Before(epoch) || v.PeriodEnd.Sub(v.PeriodStart) > time.Hour || v.PeriodEnd.After(v.CreatedAt) {
			t.Errorf("period is %v to %v", v.PeriodStart, v.PeriodEnd)
		}
		if *v.TargetP99Ms != 100 || *v.TargetErrorRate != 10 || *v.ActualErrorRate != 100 || *v.ActualP99Ms < 495 || *v.ActualP99Ms > 505 {
			t.Errorf("figures are %v %v %v %v", *v.TargetP99Ms, *v.ActualP99Ms, *v.TargetErrorRate, *v.ActualErrorRate)
		}
	}
	if len(types) != 2 {
		t.Errorf("types are %v", types)
	}
}

// The next violation of a type is of a period that begins after the last one ended: a
// lasting breach has one violation per period.
func TestEvaluatorLastingBreach(t *testing.T) {
	r := newRig(t)
	r.sla("1h", ptr(100), nil)
	e := NewEvaluator(r.options())
	for range 5 * 60 {
		r.traces(1, r.clock.Now(), time.Second, store.TraceSuccess, false)
		r.step(e)
		r.clock.advance(time.Minute)
	}
	got := r.violations()
	if len(got) < 4 || len(got) > 5 {
		t.Fatalf("five hours of breach gave %d violations", len(got))
	}
	for i := range got {
		for j := range got[:i] {
			if got[i].PeriodStart.Before(got[j].PeriodEnd) && got[j].PeriodStart.Before(got[i].PeriodEnd) {
				t.Errorf("%v-%v and %v-%v overlap", got[i].PeriodStart, got[i].PeriodEnd, got[j].PeriodStart, got[j].PeriodEnd)
			}
		}
	}
}

func TestEvaluatorLeavesHealthyTargetsAlone(t *testing.T) {
	r := newRig(t)
	r.sla("24h", ptr(100), ptr(10))
	e := NewEvaluator(r.options())
	r.step(e) // no data
	r.traces(100, epoch.Add(-time.Hour), 95*time.Millisecond, store.TraceSuccess, false)
	r.traces(50, epoch.Add(-time.Hour), time.Millisecond, store.TraceError, true)
	r.step(e) // at risk; blocked requests are not failures
	if got := r.violations(); len(got) != 0 {
		t.Errorf("violations are %+v", got)
	}
}

// Periods in which no evaluator ran are evaluated later.
func TestEvaluatorCatchesUp(t *testing.T) {
	r := newRig(t)
	r.sla("1h", ptr(100), nil)
	r.step(NewEvaluator(r.options()))
	r.clock.advance(10 * time.Minute)
	r.traces(5, r.clock.Now(), time.Second, store.TraceSuccess, false)
	r.clock.advance(30 * time.Hour) // no evaluator runs; the breach is over
	r.restart()
	for range 3 {
		r.step(NewEvaluator(r.options()))
		r.clock.advance(5 * time.Minute)
	}
	if got := r.violations(); len(got) != 1 || got[0].PeriodEnd.After(epoch.Add(3*time.Hour)) {
		t.Errorf("violations are %+v", got)
	}
}

// Of several processes the holder of the lease works.
func TestLeaseIsHeldByOne(t *testing.T) {
	r := newRig(t)
	r.sla("1h", ptr(100), nil)
	r.traces(5, epoch.Add(-time.Minute), time.Second, store.TraceSuccess, false)
	a, b := NewEvaluator(r.options()), NewEvaluator(r.options())
	worked := map[string]int{}
	for name, e := range map[string]*Evaluator{"a": a, "b": b} {
		pass := e.pass
		e.pass = func(ctx context.Context) error { worked[name]++; return pass(ctx) }
	}
	for range 5 {
		r.step(a)
		r.step(b)
		r.clock.advance(time.Minute)
	}
	if worked["a"] != 5 || worked["b"] != 0 {
		t.Errorf("passes: %v", worked)
	}
	r.clock.advance(time.Hour) // a has stopped
	r.step(b)
	if worked["b"] != 1 {
		t.Error("the lease outlived its holder")
	}
}

// A deleted target, a deleted agent and another tenant cause no errors.
func TestEvaluatorSurvivesDeletions(t *testing.T) {
	r := newRig(t)
	target := r.sla("1h", ptr(100), nil)
	r.traces(5, epoch.Add(-time.Minute), time.Second, store.TraceSuccess, false)
	if err := r.tenant.DeleteAgent(context.Background(), r.agent); err != nil {
		t.Fatal(err)
	}
	e := NewEvaluator(r.options())
	r.step(e)
	if got := r.violations(); len(got) != 1 || got[0].AgentName != "planner" {
		t.Errorf("violations are %+v", got)
	}
	if err := r.tenant.DeleteSLA(context.Background(), target.ID); err != nil {
		t.Fatal(err)
	}
	r.step(e)
	if got := r.violations(); len(got) != 1 {
		t.Errorf("the violations of a deleted target are %+v", got)
	}
}

// Retention removes old traces; their statistics are kept, and a late duplicate of a
// removed trace is not counted again.
func TestRetention(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	r.traces(1000, epoch.AddDate(0, 0, -40), time.Millisecond, store.TraceSuccess, false)
	r.traces(1000, epoch.AddDate(0, 0, -39), time.Millisecond, store.TraceSuccess, false)
	r.traces(1000, epoch.AddDate(0, 0, -39), time.Millisecond, store.TraceSuccess, false)
	r.traces(10, epoch, time.Millisecond, store.TraceSuccess, false)
	keeper := NewRetention(r.options(), 30*24*time.Hour)
	for range 3 {
		if err := keeper.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, total, err := r.stored.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); err != nil || total != 10 {
		t.Errorf("%d traces are left, %v", total, err)
	}
	stats, err := r.stored.Stats(ctx, store.StatsQuery{From: epoch.AddDate(0, 0, -60), To: epoch.Add(time.Hour)})
	if err != nil || stats.Summary.Traces != 3010 {
		t.Errorf("statistics know of %d traces, %v", stats.Summary.Traces, err)
	}
	late, err := r.stored.Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: "t-000001", AgentID: r.agent, Status: store.TraceSuccess, CreatedAt: epoch.AddDate(0, 0, -40)}}})
	if err != nil || late.Expired != 1 {
		t.Errorf("a late trace: %+v, %v", late, err)
	}
}

func TestRetentionDefault(t *testing.T) {
	r := newRig(t)
	r.traces(1, epoch.AddDate(0, 0, -91), time.Millisecond, store.TraceSuccess, false)
	r.traces(1, epoch.AddDate(0, 0, -89), time.Millisecond, store.TraceSuccess, false)
	if err := NewRetention(r.options(), 0).step(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, total, err := r.stored.ListTraces(context.Background(), store.TraceFilter{}, store.Page{}); err != nil || total != 2 {
		t.Errorf("for ever: %d traces are left, %v", total, err)
	}
	r.clock.advance(time.Hour)
	if err := NewRetention(r.options(), defaultTraceRetention).step(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, total, err := r.stored.ListTraces(context.Background(), store.TraceFilter{}, store.Page{}); err != nil || total != 1 {
		t.Errorf("%d traces are left, %v", total, err)
	}
}

// leases is a store without tenants that counts calls.
type leases struct {
	Records
	mu                         sync.Mutex
	acquired, released, passes int
	fail                       bool
}

func (l *leases) AcquireLease(context.Context, string, string, time.Duration) (store.Lease, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acquired++
	if l.fail {
		return store.Lease{}, false, errors.New("disk on fire")
	}
	return store.Lease{Name: "work"}, true, nil
}

func (l *leases) ReleaseLease(ctx context.Context, _ store.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released++
	return ctx.Err()
}
func (l *leases) Watermark(context.Context, string) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes++
	return time.Time{}, nil
}
func (l *leases) SetWatermark(context.Context, string, time.Time) error   { return nil }
func (l *leases) ListTenants(context.Context) ([]store.TenantInfo, error) { return nil, nil }

// Run works at once and at each interval, renews its lease in between, continues after
// a failure, and releases the lease when its context ends.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { NewEvaluator(EvaluatorOptions{Records: l}).Run(ctx) })
		synctest.Wait()
		check := func(passes, acquired, released int) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.passes != passes || l.acquired != acquired || l.released != released {
				t.Errorf("%d passes, acquired %d, released %d; want %d, %d, %d", l.passes, l.acquired, l.released, passes, acquired, released)
			}
		}
		check(1, 1, 0)
		<-time.After(3*time.Minute + time.Second)
		check(4, 19, 0)
		l.mu.Lock()
		l.fail = true
		l.mu.Unlock()
		<-time.After(2 * time.Minute)
		check(4, 31, 0)
		l.mu.Lock()
		l.fail = false
		l.mu.Unlock()
		<-time.After(time.Minute)
		check(5, 37, 0)
		cancel()
		work.Wait()
		check(5, 37, 1)
	})
}

// step makes one pass if it gets the lease.
func (w *worker) step(ctx context.Context) error {
	if mine, err := w.acquire(ctx); err != nil || !mine {
		return err
	}
	return w.work(ctx)
}
