package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/store/api"
)

func TestTracesAreReportedOnceAcrossRestarts(t *testing.T) {
	r := newRig(t)
	r.openLog()
	for round := range 5 {
		stop := r.start(r.reporter())
		for i := range 40 {
			r.write(call(id(round*40 + i)))
		}
		if round%2 == 0 {
			until(t, "the traces", func() bool { return r.plane.count() >= round*40+40 })
		}
		stop()
	}
	if got := r.plane.count(); got != 200 {
		t.Errorf("%d traces, want 200", got)
	}
	if s := r.drain().Stats(); s.Posted != 0 || s.Duplicates != 0 {
		t.Errorf("a reporter with nothing to do posted: %+v", s)
	}
}

func TestOutageLosesNothing(t *testing.T) {
	for _, row := range []struct {
		name    string
		err     error
		failing string
	}{
		{"no answer", errors.New("connection refused"), "does not respond"},
		{"server error", statusError(500), "status 500"},
		{"key revoked: 401", statusError(401), "refuses the ingest key"},
		{"key of another scope: 403", statusError(403), "refuses the ingest key"},
		{"rate limited", statusError(429), "limits the rate"},
		{"wrong URL", statusError(404), "status 404"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			ok := false
			r.plane.fail = func(int) error {
				if ok {
					return nil
				}
				return row.err
			}
			r.openLog()
			rep := r.reporter()
			r.start(rep)
			r.write(call(id(1)), call(id(2)))
			until(t, "two failures", func() bool { return rep.Stats().Failures >= 2 })
			// The checkpoint at the beginning of the file has no trace: the reporter may be
			// past it.
			if s := rep.Stats(); !strings.Contains(s.Failing, row.failing) || s.Seq > 1 {
				t.Errorf("stats %+v, want failing %q and nothing acknowledged", s, row.failing)
			}
			r.plane.mu.Lock()
			ok = true
			r.plane.mu.Unlock()
			until(t, "the traces", func() bool { return r.plane.count() == 2 })
			until(t, "the state", func() bool { return rep.Stats().Seq == 3 && rep.Stats().Failing == "" })
		})
	}
}

// TestABatchThatIsSentAgainKeepsItsID: the id and the traces of a batch are the same at every
// attempt, including that of the flush, and no two batches share an id (the fake control plane
// fails such a request).
func TestABatchThatIsSentAgainKeepsItsID(t *testing.T) {
	r := newRig(t)
	r.plane.fail = func(int) error { return statusError(503) }
	r.openLog()
	rep := r.reporter()
	stop := r.start(rep)
	r.write(call(id(1)), call(id(2)))
	until(t, "two failures", func() bool { return rep.Stats().Failures >= 2 })
	r.plane.mu.Lock()
	failed := len(r.plane.ids)
	r.plane.fail = func(post int) error {
		if post <= failed {
			return statusError(503)
		}
		return nil
	}
	r.plane.mu.Unlock()
	r.write(call(id(3))) // must not join the batch that was sent
	stop()
	if n := r.plane.count(); n != 3 {
		t.Errorf("%d traces, want 3", n)
	}
	first := r.plane.ids[0]
	for i, id := range r.plane.ids {
		if (id == first) != (i < len(r.plane.ids)-1) || id == "" {
			t.Errorf("post %d has the id %q of %q", i, id, r.plane.ids)
		}
	}
	if len(r.plane.bodies) != 2 {
		t.Errorf("%d batches, want 2: %q", len(r.plane.bodies), r.plane.ids)
	}
}

func TestRefusedBatchIsBisectedAndTheBadOneSetAside(t *testing.T) {
	r := newRig(t)
	r.openLog()
	for i := range 300 {
		rec := call(id(i))
		if i == 7 || i == 211 {
			rec.Tool = "poison"
		}
		r.write(rec)
	}
	r.plane.bad = func(t *api.TraceInput) bool { return t.ToolName == "poison" }
	rep := r.drain()
	if got := r.plane.count(); got != 298 {
		t.Errorf("%d traces, want 298", got)
	}
	if s := rep.Stats(); s.Quarantined != 2 || s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "report-quarantine.jsonl"))
	if err != nil || !strings.Contains(string(b), id(7)) || !strings.Contains(string(b), id(211)) || strings.Count(string(b), "\n") != 2 {
		t.Errorf("quarantine %q, %v", b, err)
	}
	if s := r.drain().Stats(); s.Quarantined != 0 || s.Posted != 0 {
		t.Errorf("set aside again: %+v", s)
	}
}

func TestStreamThatWasKilledBecomesOneErrorTrace(t *testing.T) {
	r := newRig(t)
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return start.Add(90 * time.Second) }
	r.openLog()
	listening := opening(id(4))
	listening.Spans = append(listening.Spans, Span{Stage: StageListening})
	r.write(opening(id(1)), opening(id(2)), call(id(3)), call(id(2)), listening)
	// The reporter of the killed process has read the opening lines.
	rep := r.reporter()
	stop := r.start(rep)
	until(t, "the ended ones", func() bool { return r.plane.count() == 2 })
	until(t, "the state", func() bool { return rep.Stats().Seq == 6 })
	stop()
	if _, ok := r.plane.get(id(1)); ok {
		t.Fatal("the open stream was reported before its end")
	}
	// The log as a killed process leaves it: opened again without a stop line.
	copyAndReopen(t, r)
	r.drain()
	got, ok := r.plane.get(id(1))
	if !ok || got.Status != "error" || got.Blocked || got.DurationMs != 90_000 || got.ErrorKind != "shutdown" {
		t.Errorf("trace of the killed stream: %+v, %v", got, ok)
	}
	// Nobody waited for an answer of a stream that was opened to listen.
	if got, ok := r.plane.get(id(4)); !ok || got.Status != "success" || got.DurationMs != 1.5 || got.ErrorKind != "shutdown" || len(got.Spans) != 2 || got.Spans[1].DurationMs != 90_000-1.5 {
		t.Errorf("trace of the killed stream that listens: %+v, %v", got, ok)
	}
	if got, _ := r.plane.get(id(2)); got.Status != "success" {
		t.Errorf("the stream that ended has status %s", got.Status)
	}
	if r.plane.count() != 4 {
		t.Errorf("%d traces, want 4", r.plane.count())
	}
}

// copyAndReopen gives the rig the log of a killed process: the current file without a stop
// line.
func copyAndReopen(t *testing.T, r *rig) {
	t.Helper()
	b, err := os.ReadFile(r.audit.Path)
	if err != nil {
		t.Fatal(err)
	}
	r.closeLog()
	if err := os.WriteFile(r.audit.Path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.openLog()
}

func TestStreamThatEndsAfterARestartOfTheReporterIsNoError(t *testing.T) {
	r := newRig(t)
	r.openLog()
	r.write(opening(id(1)), call(id(9)))
	r.drain()
	r.write(call(id(1)))
	r.drain()
	if got, ok := r.plane.get(id(1)); !ok || got.Status != "success" {
		t.Errorf("%+v, %v", got, ok)
	}
}

func TestStateOfAnyKindIsSurvived(t *testing.T) {
	for _, row := range []struct{ name, content string }{
		{"empty", ""}, {"not JSON", "hello"}, {"zeros", "\x00\x00\x00"}, {"null", "null"},
		{"cut short", `{"version":1,"path":"x","position":{"file":1`},
		{"another version", `{"version":9,"path":"x","position":{"file":1,"offset":10,"seq":1}}`},
		{"a position that does not exist", `{"version":1,"path":"x","position":{"file":1,"offset":99999999,"seq":4}}`},
		{"a position inside a line", `{"version":1,"path":"x","position":{"file":1,"offset":17,"seq":2}}`},
		{"a file that does not exist", `{"version":1,"path":"x","position":{"file":7777,"offset":0,"seq":7776}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			r.openLog()
			for i := range 10 {
				r.write(call(id(i)))
			}
			name, err := stateName(r.dir, r.audit.Path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r.drain()
			// A position inside the log is used up to its sequence number.
			if got := r.plane.count(); got < 7 {
				t.Errorf("%d traces of 10", got)
			}
			r.write(call(id(77)))
			r.drain()
			if _, ok := r.plane.get(id(77)); !ok {
				t.Error("the next trace is not reported")
			}
		})
	}
}

func TestRotationSparesWhatIsNotReported(t *testing.T) {
	r := newRig(t)
	r.audit.MaxSizeMB, r.audit.MaxBackups = 1, 1
	r.openLog()
	long := strings.Repeat("x", 200)
	for i := range 8000 {
		rec := call(id(i))
		rec.Session, rec.Upstream, rec.TraceID = long, long, long
		r.write(rec)
	}
	files, err := ListRotated(r.audit.Path)
	if err != nil || len(files) < 4 {
		t.Fatalf("%d rotated files, %v: they were deleted", len(files), err)
	}
	rep := r.drain()
	if got, s := r.plane.count(), rep.Stats(); got != 8000 || s.Dropped != 0 {
		t.Errorf("%d traces, %d dropped; want 8000, 0", got, s.Dropped)
	}
}

func TestBacklogPastItsBoundIsDroppedAndCounted(t *testing.T) {
	r := newRig(t)
	r.audit.MaxSizeMB, r.audit.MaxBackups = 1, 1
	r.cfg.Traces.MaxBacklog = 2000
	r.openLog()
	r.log.SetReported(0)
	long := strings.Repeat("x", 200)
	for i := range 10_000 {
		rec := call(id(i))
		rec.Session, rec.Upstream, rec.TraceID = long, long, long
		r.write(rec)
	}
	until(t, "the old files to go", func() bool {
		files, err := ListRotated(r.audit.Path)
		return err == nil && len(files) <= 3
	})
	rep := r.reporter()
	rep.saved = Position{File: 1, Seq: 1}
	rep.reader = NewReader(r.audit.Path, rep.saved)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rep.Run(ctx); err != nil {
		t.Fatal(err)
	}
	s := rep.Stats()
	if s.Dropped == 0 || r.plane.count() == 0 {
		t.Errorf("%d dropped, %d reported", s.Dropped, r.plane.count())
	}
	// Each line is reported, dropped, or written by the log itself.
	if sum := s.Dropped + uint64(r.plane.count()); sum < 10_000 || sum > 10_030 {
		t.Errorf("%d dropped + %d reported = %d of 10000", s.Dropped, r.plane.count(), sum)
	}
}

func TestFlushAtTheEndIsBounded(t *testing.T) {
	r := newRig(t)
	r.openLog()
	r.write(call(id(1)))
	r.plane.fail = func(int) error { return errors.New("down") }
	rep := r.reporter()
	rep.opts.FlushTimeout = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	began := time.Now()
	if err := rep.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %s", d)
	}
	r.plane.fail = nil
	r.drain()
	if r.plane.count() != 1 {
		t.Error("the trace is lost")
	}
}

func TestAnotherAuditPathIsFollowed(t *testing.T) {
	for _, idle := range []bool{true, false} {
		t.Run(fmt.Sprintf("while it runs=%v", idle), func(t *testing.T) {
			r := newRig(t)
			r.openLog()
			rep := r.reporter()
			stop := r.start(rep)
			r.write(call(id(1)), opening(id(2)))
			until(t, "the first", func() bool { return r.plane.count() == 1 })
			if !idle {
				stop()
				rep = r.reporter()
			}
			r.write(call(id(3)))
			r.audit.Path = filepath.Join(t.TempDir(), "other.jsonl")
			if err := r.log.Reconfigure(r.audit); err != nil {
				t.Fatal(err)
			}
			rep.Follow(r.audit.Path)
			r.write(call(id(2)), call(id(4)))
			if idle {
				until(t, "all of both files", func() bool { return r.plane.count() == 4 })
				until(t, "the state", func() bool { return rep.Stats().Seq == 8 })
				stop()
			} else {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				if err := rep.Run(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got, _ := r.plane.get(id(2)); got.Status != "success" || r.plane.count() != 4 {
				t.Errorf("%d traces, the stream that went along: %+v", r.plane.count(), got)
			}
			posts := r.plane.posts
			r.drain()
			if r.plane.posts != posts {
				t.Error("a restart posts again")
			}
		})
	}
}

// While the control plane does not answer, audit.path can change more than once: the lines of every
// file are reported.
func TestEachOfSeveralAuditPathsIsFollowed(t *testing.T) {
	r := newRig(t)
	r.openLog()
	var down atomic.Bool
	down.Store(true)
	r.plane.fail = func(int) error {
		if down.Load() {
			return errors.New("down")
		}
		return nil
	}
	rep := r.reporter()
	rep.opts.MaxPause = 10 * time.Millisecond
	stop := r.start(rep)
	for i := range 4 {
		r.write(call(id(i)))
		r.audit.Path = filepath.Join(t.TempDir(), "other.jsonl")
		if err := r.log.Reconfigure(r.audit); err != nil {
			t.Fatal(err)
		}
		rep.Follow(r.audit.Path)
	}
	r.write(call(id(4)))
	down.Store(false)
	until(t, "the lines of all five files", func() bool { return r.plane.count() == 5 })
	stop()
}

// BenchmarkReport measures the cost of one request for the reporter, without the control
// plane.
func BenchmarkReport(b *testing.B) {
	r := newRig(b)
	r.openLog()
	for i := range 20_000 {
		rec := call(id(i))
		rec.Agent, rec.Environment, rec.Session = "ci", "production", "01934b5c-0000-7000-8000-000000000000"
		r.write(rec)
	}
	o := ReporterOptions{Reason: reasonOf, AuditPath: r.audit.Path, StateDir: b.TempDir(), Sink: nullPlane{}, Status: statusOf}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		o.StateDir = b.TempDir()
		rep, err := NewReporter(r.cfg, o)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := rep.Run(ctx); err != nil {
			b.Fatal(err)
		}
		if rep.Stats().Posted != 20_000 {
			b.Fatalf("%+v", rep.Stats())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/trace")
}

// nullPlane accepts everything.
type nullPlane struct{}

func (nullPlane) PostTraceBatch(_ context.Context, _ string, body []byte) (api.IngestResult, error) {
	return api.IngestResult{Accepted: bytes.Count(body, []byte(`{"id":`))}, nil
}

// Each save waits for the disk: under load the position is saved at intervals, not with each
// batch, and at the end of the run.
func TestPositionIsSavedOnceInAWhile(t *testing.T) {
	r := newRig(t)
	r.openLog()
	rep := r.reporter()
	rep.opts.SaveEvery = time.Hour
	stop := r.start(rep)
	for i := range 3 {
		r.write(call(id(i)))
		until(t, "the trace", func() bool { return r.plane.count() == i+1 })
	}
	if s, err := loadState(rep.name); err != nil || s.Position.Seq != 0 || rep.Stats().Seq != 0 {
		t.Errorf("saved at %+v (%v), told %d; want neither before the hour is over", s.Position, err, rep.Stats().Seq)
	}
	stop()
	if s, err := loadState(rep.name); err != nil || s.Position.Seq != 4 { // after the start line
		t.Errorf("saved at %+v (%v) at the end, want 4", s.Position, err)
	}
}

// slowReader is a control plane that does not respond at first, and whose client continues to
// read the body for a while after it gave up.
type slowReader struct {
	*fakePlane
	asked chan struct{}
	read  chan string
}

func (s *slowReader) PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error) {
	select {
	case <-s.asked:
		return s.fakePlane.PostTraceBatch(ctx, id, body)
	default:
	}
	close(s.asked)
	<-ctx.Done()
	go func() {
		time.Sleep(100 * time.Millisecond)
		s.read <- string(body)
	}()
	return api.IngestResult{}, ctx.Err()
}

// The end of the process ends a request, and traces that came meanwhile are sent with the
// next: the body of the first is unchanged.
func TestBodyOfAFailedRequestStaysAsItIs(t *testing.T) {
	for _, more := range []int{0, 1} {
		r := newRig(t)
		r.openLog()
		r.write(call(id(1)))
		rep := r.reporter()
		sink := &slowReader{fakePlane: r.plane, asked: make(chan struct{}), read: make(chan string, 1)}
		rep.opts.Sink = sink
		stop := r.start(rep)
		<-sink.asked
		for i := range more {
			r.write(call(id(2 + i)))
		}
		stop()
		var b api.TraceBatch
		if body := <-sink.read; json.Unmarshal([]byte(body), &b) != nil || len(b.Traces) != 1 {
			t.Errorf("the body became %s", body)
		}
		if got := r.plane.count(); got != 1+more {
			t.Errorf("%d traces were stored, want %d", got, 1+more)
		}
	}
}
