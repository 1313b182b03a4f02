package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"svc/store/api"
)

// statusError is an error of the fake control plane with an HTTP status.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered %d", int(e)) }

func statusOf(err error) (int, time.Duration) {
	var e statusError
	if errors.As(err, &e) {
		return int(e), 0
	}
	return 0, 0
}

// fakePlane is a control plane in memory: idempotent by id, all or nothing.
type fakePlane struct {
	mu     sync.Mutex
	traces map[string]api.TraceInput
	order  []string
	posts  int
	ids    []string                   // of the batches, in the order in which they were posted
	bodies map[string]string          // by batch id
	bad    func(*api.TraceInput) bool // refused with 400
	fail   func(post int) error       // fails whole requests
}

func newPlane() *fakePlane {
	return &fakePlane{traces: map[string]api.TraceInput{}, bodies: map[string]string{}}
}

func (p *fakePlane) PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error) {
	var b api.TraceBatch
	if err := json.Unmarshal(body, &b); err != nil {
		return api.IngestResult{}, fmt.Errorf("%w: %v", statusError(400), err)
	}
	traces := b.Traces
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts++
	p.ids = append(p.ids, id)
	if known, ok := p.bodies[id]; id == "" || ok && known != string(body) {
		return api.IngestResult{}, fmt.Errorf("%w: batch id %q names several batches", statusError(500), id)
	}
	p.bodies[id] = string(body)
	if err := ctx.Err(); err != nil {
		return api.IngestResult{}, err
	}
	if p.fail != nil {
		if err := p.fail(p.posts); err != nil {
			return api.IngestResult{}, err
		}
	}
	if d := (&api.TraceBatch{Traces: traces}).Validate(); d != nil {
		return api.IngestResult{}, fmt.Errorf("%w: %v", statusError(400), d)
	}
	for i := range traces {
		if p.bad != nil && p.bad(&traces[i]) {
			return api.IngestResult{}, statusError(400)
		}
	}
	var res api.IngestResult
	for _, t := range traces {
		if _, known := p.traces[t.ID]; known {
			res.Duplicates++
			continue
		}
		res.Accepted++
		p.traces[t.ID] = t
		p.order = append(p.order, t.ID)
	}
	return res, nil
}

func (p *fakePlane) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.traces)
}

func (p *fakePlane) get(id string) (api.TraceInput, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.traces[id]
	return t, ok
}

// rig is an audit log and a reporter over it.
type rig struct {
	t     testing.TB
	dir   string
	cfg   ControlPlaneConfig
	audit Config
	log   *Log
	plane *fakePlane
	now   func() time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), plane: newPlane(), now: time.Now}
	r.cfg.SetDefaults()
	r.cfg.Traces.FlushInterval = 10 * time.Millisecond
	r.audit.SetDefaults()
	r.audit.Path = filepath.Join(r.dir, "audit.jsonl")
	r.audit.Fsync = fsyncNever
	return r
}

func (r *rig) openLog() {
	r.t.Helper()
	l, err := Open(r.audit, Options{Now: r.now, MaxBacklog: uint64(r.cfg.Traces.MaxBacklog)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.log = l
	r.t.Cleanup(r.closeLog)
}

func (r *rig) closeLog() {
	r.t.Helper()
	if err := r.log.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) write(recs ...*Record) {
	r.t.Helper()
	for _, rec := range recs {
		if err := r.log.Write(context.Background(), rec); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) reporter() *Reporter {
	r.t.Helper()
	o := ReporterOptions{
		Reason: reasonOf, ListenEnded: closed, Shutdown: "shutdown",
		AuditPath: r.audit.Path, StateDir: r.dir, Sink: r.plane, Status: statusOf,
		Poll: 2 * time.Millisecond, MaxPause: 20 * time.Millisecond, FlushTimeout: time.Minute, SaveEvery: 2 * time.Millisecond,
	}
	if r.log != nil {
		o.Reported = r.log.SetReported
	}
	rep, err := NewReporter(r.cfg, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// start runs a reporter; the returned function stops it.
func (r *rig) start(rep *Reporter) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rep.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.t.Error(err)
			}
		})
	}
	r.t.Cleanup(stop)
	return stop
}

// drain reports all lines of the file and ends.
func (r *rig) drain() *Reporter {
	r.t.Helper()
	rep := r.reporter()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rep.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}

func call(id string) *Record {
	return &Record{
		Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), RequestID: id, Action: "allow",
		RPC: RPCRequest, Method: "tools/call", Tool: "read_file", Principal: "ci", PrincipalKind: "key",
		Status: 200, Duration: 1500 * time.Microsecond,
		Spans: []Span{{Stage: "provider", Duration: time.Millisecond}},
	}
}

func opening(id string) *Record {
	rec := call(id)
	rec.Kind = KindOpen
	return rec
}

func id(i int) string { return fmt.Sprintf("01934b5c-0000-7000-8000-%012d", i) }
