package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/store/api"
)

// restorable is a control plane whose clock advances by ten minutes with each batch, and whose
// store can be restored.
type restorable struct {
	*fakePlane
	store api.IngestStore
	seen  map[string]int // how often each trace was posted
}

func newRestorable(r *rig) *restorable {
	p := &restorable{fakePlane: r.plane, seen: map[string]int{}}
	p.store.Now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return p
}

func (p *restorable) PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error) {
	p.fakePlane.bodies = map[string]string{} // the boundaries of a batch may differ the second time
	res, err := p.fakePlane.PostTraceBatch(ctx, id, body)
	if err != nil {
		return res, err
	}
	var b api.TraceBatch
	if err := json.Unmarshal(body, &b); err != nil {
		return res, err
	}
	for _, t := range b.Traces {
		p.seen[t.ID]++
	}
	p.store.Now = p.store.Now.Add(10 * time.Minute)
	answer := p.store
	res.Store = &answer
	return res, nil
}

// backup returns the traces that are stored, and restore puts them back.
func (p *restorable) backup() map[string]api.TraceInput {
	kept := map[string]api.TraceInput{}
	for id, t := range p.traces {
		kept[id] = t
	}
	return kept
}

func (p *restorable) restore(kept map[string]api.TraceInput, made time.Time) {
	p.traces = kept
	before := p.store.Restored
	p.store = api.IngestStore{Now: p.store.Now, Restored: p.store.Now, Before: before, Backup: made}
}

// report reports all lines and ends, with changed options.
func (r *rig) report(sink Sink, change func(*ReporterOptions)) *Reporter {
	r.t.Helper()
	o := ReporterOptions{
		Reason: reasonOf, AuditPath: r.audit.Path, StateDir: r.dir, Sink: sink, Status: statusOf, Reported: r.log.SetReported,
		Poll: 2 * time.Millisecond, MaxPause: 20 * time.Millisecond, FlushTimeout: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	rep, err := NewReporter(r.cfg, o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rep.Run(ctx); err != nil {
		r.t.Fatal(err)
	}
	return rep
}

// calls writes the calls with the numbers from one up to another.
func (r *rig) calls(from, to int) {
	r.t.Helper()
	for i := from; i < to; i++ {
		r.write(call(id(i)))
	}
}

// TestAfterARestoreOnlyWhatTheBackupMayLackIsReportedAgain: after a store was restored, the
// gateway reports again what came after the backup; what was stored well before the backup is
// not sent again. A process that is killed after it went back continues there.
func TestAfterARestoreOnlyWhatTheBackupMayLackIsReportedAgain(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed meanwhile=%v", killed), func(t *testing.T) {
			r := newRig(t)
			r.cfg.Traces.BatchSize = 10
			r.openLog()
			p := newRestorable(r)
			r.calls(0, 20) // two batches
			r.report(p, nil)
			kept, made := p.backup(), p.store.Now.Add(time.Second)
			r.calls(20, 40)
			r.report(p, nil)
			p.restore(kept, made)
			r.calls(40, 50)
			if killed {
				down := p.posts + 1
				p.fail = func(post int) error {
					if post > down {
						return errors.New("killed")
					}
					return nil
				}
				r.report(p, func(o *ReporterOptions) { o.FlushTimeout = 50 * time.Millisecond })
				p.fail = nil
				if p.count() != 30 {
					t.Fatalf("%d traces after one batch, want 30", p.count())
				}
			}
			rep := r.report(p, nil)
			if p.count() != 50 {
				t.Errorf("%d traces of 50", p.count())
			}
			if p.seen[id(5)] != 1 || p.seen[id(25)] != 2 {
				t.Errorf("one stored before the backup was posted %d times, want 1; one after it %d times, want 2", p.seen[id(5)], p.seen[id(25)])
			}
			if s := rep.Stats(); s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
			posts := p.posts
			r.report(p, nil)
			r.calls(50, 51)
			r.report(p, nil)
			if p.posts != posts+1 || p.count() != 51 {
				t.Errorf("%d posts for one more call, %d traces", p.posts-posts, p.count())
			}
		})
	}
}

// TestARestoreOfAnUnknownBackupReportsEverything: when the backup is not one of the store that the
// gateway knows, or its time is not known, all that the audit files have is reported.
func TestARestoreOfAnUnknownBackupReportsEverything(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*api.IngestStore)
	}{
		{"of another store", func(s *api.IngestStore) { s.Before = s.Restored.Add(-time.Hour) }},
		{"without its time", func(s *api.IngestStore) { s.Backup = time.Time{} }},
		{"older than what is known", func(s *api.IngestStore) { s.Backup = s.Backup.Add(-time.Hour) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			r.openLog()
			p := newRestorable(r)
			r.calls(0, 10)
			r.report(p, nil)
			p.restore(map[string]api.TraceInput{}, p.store.Now)
			row.change(&p.store)
			r.calls(10, 11)
			r.report(p, nil)
			if p.count() != 11 {
				t.Errorf("%d traces of 11", p.count())
			}
		})
	}
}

// TestAnIdentityThatKeepsChangingDoesNotKeepTheGatewayBusy: a control plane whose every answer
// names another restore, and two control planes with different stores.
func TestAnIdentityThatKeepsChangingDoesNotKeepTheGatewayBusy(t *testing.T) {
	for _, row := range []struct {
		name     string
		restored func(post int, now time.Time) time.Time
	}{
		{"a later one each time", func(_ int, now time.Time) time.Time { return now }},
		{"two in turn", func(post int, _ time.Time) time.Time { return time.Unix(int64(1000+post%2), 0) }},
		{"an earlier one each time", func(post int, _ time.Time) time.Time { return time.Unix(int64(1000-post), 0) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			r.openLog()
			p := newRestorable(r)
			for i := range 20 {
				r.calls(i, i+1)
				p.store.Before, p.store.Restored = p.store.Restored, row.restored(i, p.store.Now)
				r.report(p, nil)
			}
			if p.count() != 20 || p.posts > 30 {
				t.Errorf("%d traces of 20, %d posts", p.count(), p.posts)
			}
		})
	}
}

// A second restore within the hour waits, and the log says so and what helps.
func TestASecondRestoreThatWaitsIsLogged(t *testing.T) {
	r := newRig(t)
	r.openLog()
	p := newRestorable(r)
	r.calls(0, 5)
	r.report(p, nil)
	var logs bytes.Buffer
	for n := range 2 {
		p.restore(map[string]api.TraceInput{}, time.Time{})
		r.calls(5+n, 6+n)
		r.report(p, func(o *ReporterOptions) { o.Logger = slog.New(slog.NewTextHandler(&logs, nil)) })
	}
	if n := strings.Count(logs.String(), "restored into the store of the control plane again"); n != 1 || !strings.Contains(logs.String(), "--report-from") {
		t.Errorf("logged %d times: %s", n, logs.String())
	}
}

// TestReportFromATime: an operator names the time since which requests are reported again. It
// never leaves out requests that were not reported yet, and a kill does not undo it.
func TestReportFromATime(t *testing.T) {
	const all, from = 6000, 4321
	r := newRig(t)
	r.audit.MaxSizeMB = 1
	begin := call("").Time
	var second atomic.Int64
	r.now = func() time.Time { return begin.Add(time.Duration(second.Load()) * time.Second) }
	r.openLog()
	p := newRestorable(r)
	long := strings.Repeat("x", 200)
	for i := range all {
		rec := call(id(i))
		second.Store(int64(i))
		rec.Time = r.now()
		rec.Session, rec.Upstream, rec.TraceID = long, long, long
		r.write(rec)
	}
	if files, err := ListRotated(r.audit.Path); err != nil || len(files) < 2 {
		t.Fatalf("%d rotated files, %v", len(files), err)
	}
	r.report(p, nil)
	p.traces = map[string]api.TraceInput{}
	down := p.posts
	p.fail = func(post int) error {
		if post > down+1 {
			return errors.New("killed")
		}
		return nil
	}
	r.report(p, func(o *ReporterOptions) {
		o.From, o.FlushTimeout = begin.Add(from*time.Second), 50*time.Millisecond
	})
	p.fail = nil
	r.report(p, nil)
	if _, earlier := p.get(id(from - 1)); earlier || p.count() != all-from {
		t.Errorf("%d traces since the time, want %d; an earlier one: %v", p.count(), all-from, earlier)
	}

	r.calls(all, all+1)
	r.report(p, func(o *ReporterOptions) { o.From = begin.Add(1000 * time.Hour) })
	if p.count() != all-from+1 {
		t.Error("a time in the future leaves out a request")
	}
	r.report(p, func(o *ReporterOptions) { o.From = time.Unix(0, 0) })
	if p.count() != all+1 {
		t.Errorf("%d traces since 1970, want %d", p.count(), all+1)
	}
}

// TestStreamsOfBeforeABackupEndAsTheyDid: a stream that was open at the backup and was killed after
// it has its error trace again, and one that is still open has none.
func TestStreamsOfBeforeABackupEndAsTheyDid(t *testing.T) {
	r := newRig(t)
	r.openLog()
	p := newRestorable(r)
	r.write(opening(id(1)), call(id(2)))
	r.report(p, nil)
	kept, made := p.backup(), p.store.Now.Add(time.Second)
	copyAndReopen(t, r) // killed
	r.write(opening(id(3)), call(id(4)))
	r.report(p, nil)
	p.restore(kept, made)
	r.write(call(id(5)))
	r.report(p, nil)
	if got, ok := p.get(id(1)); !ok || got.Status != "error" {
		t.Errorf("the killed stream: %+v, %v", got, ok)
	}
	if _, ok := p.get(id(3)); ok || p.count() != 4 {
		t.Errorf("%d traces, want 4; the open stream: %v", p.count(), ok)
	}
	r.write(call(id(3)))
	r.report(p, nil)
	if got, ok := p.get(id(3)); !ok || got.Status != "success" {
		t.Errorf("the stream that ended: %+v, %v", got, ok)
	}
}

// TestPositionsOfAYearAreBounded: what is remembered of a store does not grow, and covers both the
// beginning and the newest hour.
func TestPositionsOfAYearAreBounded(t *testing.T) {
	var s storeSeen
	at := time.Unix(0, 0)
	for i := range 365 * 24 * 60 {
		s.mark(at, Position{Seq: uint64(i + 1)})
		at = at.Add(time.Minute)
	}
	if len(s.Marks) > maxMarks || s.Marks[0].Position.Seq != 1 || at.Sub(s.Marks[len(s.Marks)-20].At) > time.Hour {
		t.Errorf("%d marks from %+v", len(s.Marks), s.Marks[0])
	}
	for i := 1; i < len(s.Marks); i++ {
		if !s.Marks[i].At.After(s.Marks[i-1].At) {
			t.Errorf("mark %d is not later than the one before", i)
		}
	}
	name := filepath.Join(t.TempDir(), "state.json")
	if err := saveState(name, savedState{Path: "a", Store: &s}, (&syncer{}).Sync); err != nil {
		t.Fatal(err)
	}
	if got, err := loadState(name); err != nil || len(got.Store.Marks) != len(s.Marks) {
		t.Errorf("%+v, %v", got, err)
	}
}
