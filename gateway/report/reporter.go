package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"svc/gateway/audit"
	"svc/gateway/fsync"
	"svc/server/api"
)

// Sink takes traces. It returns nil only when all of them are stored for good,
// or were before. It is used by one goroutine at a time.
type Sink interface {
	PostTraces(ctx context.Context, traces []api.TraceInput) (api.IngestResult, error)
}

// Options are what a [Reporter] needs beside its configuration.
type Options struct {
	// AuditPath is the audit file that is followed.
	AuditPath string
	// StateDir holds the saved position and the quarantine.
	StateDir string
	// Sink takes the traces.
	Sink Sink
	// Status returns the HTTP status of an error of the sink, or 0 when the
	// control plane gave no answer, and how long it asked to wait.
	Status func(err error) (status int, retryAfter time.Duration)
	// Reported is told how far the reporter has come, so that rotation knows
	// what it may delete; may be nil.
	Reported func(seq uint64)
	// Logger is told of outages and recoveries; discards when nil.
	Logger *slog.Logger
	// Poll is how often the file is looked at while nothing comes; 100 ms when
	// zero.
	Poll time.Duration
	// FlushTimeout bounds what Run still does after its context has ended; 5 s
	// when zero.
	FlushTimeout time.Duration
	// MaxPause bounds the pause between attempts during an outage; 30 s when
	// zero.
	MaxPause time.Duration
	// SaveEvery is how often the position is saved at most while it moves; 1 s
	// when zero. What a crash then repeats is known by its ids; each save waits
	// for the disk, and where there is one processor, so may the requests.
	SaveEvery time.Duration
}

// Bounds on one batch, beside the configured number of traces. A trace is less
// than twice as long as its line, and the control plane takes 8 MiB.
const maxBatchBytes = 3 << 20

const (
	// lead is how long the first trace after a quiet time waits for others.
	lead = 50 * time.Millisecond
	// turn is how many lines are read in one go: a request that becomes ready
	// meanwhile waits no longer than these take.
	turn = 16
)

// Stats counts what a [Reporter] did since it was made.
type Stats struct {
	// Posted counts traces that the control plane stored.
	Posted uint64
	// Duplicates counts traces that it knew before.
	Duplicates uint64
	// Failures counts requests that failed and were tried again.
	Failures uint64
	// Quarantined counts traces that were refused as bad and set aside.
	Quarantined uint64
	// Dropped counts audit lines that were deleted before they could be reported,
	// and bad traces that could not be set aside.
	Dropped uint64
	// Seq is the number of the last audit line that is done with.
	Seq uint64
	// Failing says why the control plane takes nothing at present; empty when it
	// does.
	Failing string
}

// Reporter follows an audit file and posts its requests as traces.
type Reporter struct {
	cfg    Config
	opts   Options
	mapper mapper
	reader *audit.Reader
	open   *openStreams
	path   string // of the audit file that is read
	name   string // of its state file
	quar   quarantine
	disk   fsync.Syncer
	follow atomic.Pointer[string] // of the audit file to read next

	saved   audit.Position
	savedAt time.Time
	posted  time.Time // when the last batch went out

	stats struct {
		posted, duplicates, failures, quarantined, dropped, seq atomic.Uint64
		failing                                                 atomic.Pointer[string]
	}
}

// New returns a reporter that goes on where the one before it, also of another
// process, had come to. It opens the state and nothing else.
func New(cfg Config, opts Options) (*Reporter, error) {
	if opts.Sink == nil || opts.Status == nil || opts.AuditPath == "" {
		return nil, errors.New("a reporter needs a sink, its statuses and an audit file")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Poll = orElse(opts.Poll, 100*time.Millisecond)
	opts.FlushTimeout = orElse(opts.FlushTimeout, 5*time.Second)
	opts.MaxPause = orElse(opts.MaxPause, 30*time.Second)
	opts.SaveEvery = orElse(opts.SaveEvery, time.Second)
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("create state_dir: %w", err)
	}
	r := &Reporter{
		cfg: cfg, opts: opts, mapper: mapper{cfg}, open: newOpenStreams(nil),
		quar: quarantine{name: filepath.Join(opts.StateDir, "report-quarantine.jsonl")},
	}
	return r, r.begin(opts.AuditPath)
}

// begin goes on with an audit file where its saved state says.
func (r *Reporter) begin(path string) error {
	name, err := stateName(r.opts.StateDir, path)
	if err != nil {
		return fmt.Errorf("find the audit file: %w", err)
	}
	s, err := loadState(name)
	if err != nil {
		// Every trace has its id, so beginning again costs time and doubles nothing.
		r.opts.Logger.Warn("the saved position cannot be read; the audit files are reported from their beginning",
			"file", name, "error", err)
	}
	for _, t := range s.Open {
		r.open.begin(t)
	}
	r.path, r.name = path, name
	r.reader = audit.NewReader(path, s.Position)
	r.saved = s.Position
	r.done(s.Position)
	return nil
}

// Follow makes the reporter go on with another audit file once it has reported
// all of the present one: audit.path was changed, and nothing is written to the
// old file any more. Streams that are open go along. It is safe for concurrent
// use.
func (r *Reporter) Follow(path string) { r.follow.Store(&path) }

// moveOn goes on with the file that was named to Follow, if one was.
func (r *Reporter) moveOn() bool {
	next := r.follow.Swap(nil)
	if next == nil || *next == r.path {
		return false
	}
	open := r.open
	r.open = newOpenStreams(nil)
	r.save(r.saved)
	r.open = open
	if err := r.reader.Close(); err != nil {
		r.opts.Logger.Warn("the previous audit file was not closed in order", "error", err)
	}
	if err := r.begin(*next); err != nil {
		r.opts.Logger.Error("the new audit file is not reported", "path", *next, "error", err)
		return false
	}
	return true
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Stats returns the counters; safe for concurrent use.
func (r *Reporter) Stats() Stats {
	s := Stats{
		Posted: r.stats.posted.Load(), Duplicates: r.stats.duplicates.Load(),
		Failures: r.stats.failures.Load(), Quarantined: r.stats.quarantined.Load(),
		Dropped: r.stats.dropped.Load(), Seq: r.stats.seq.Load(),
	}
	if f := r.stats.failing.Load(); f != nil {
		s.Failing = *f
	}
	return s
}

// batch is what one request carries: traces, and the position behind the lines
// they came from.
type batch struct {
	traces []api.TraceInput
	bytes  int
	since  time.Time // when the first trace came
	after  audit.Position
}

// Run reports until ctx ends, then what is in the file at that time, within
// FlushTimeout. Close the audit log before ctx ends, and nothing is left
// behind; what is left behind all the same is reported by the next Run. The
// error is that of the state directory at the very end; everything else is
// retried and logged.
func (r *Reporter) Run(ctx context.Context) error {
	defer r.disk.Close()
	defer func() { _ = r.reader.Close() }()
	tick := time.NewTicker(r.opts.Poll)
	defer tick.Stop()
	b := batch{after: r.saved}
	r.savedAt = time.Now()
	for ctx.Err() == nil {
		end := r.read(&b)
		if now := time.Now(); r.due(&b, now) {
			if !r.post(ctx, b.traces) {
				break
			}
			r.posted = time.Now()
			if r.posted.Sub(r.savedAt) >= r.opts.SaveEvery {
				r.save(b.after)
			}
			b = batch{after: b.after, traces: b.traces[:0]}
			continue
		} else if len(b.traces) == 0 && b.after != r.saved && now.Sub(r.savedAt) >= r.opts.SaveEvery {
			r.save(b.after)
		}
		if end && len(b.traces) == 0 && r.follow.Load() != nil {
			// One more look: what was written before Follow was called is in the file.
			if end = r.read(&b); end && len(b.traces) == 0 {
				if b.after != r.saved {
					r.save(b.after)
				}
				if r.moveOn() {
					b = batch{after: r.saved, traces: b.traces[:0]}
					continue
				}
			}
		}
		if end {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
	return r.flush(b)
}

// due tells whether a batch should go out now.
func (r *Reporter) due(b *batch, now time.Time) bool {
	if len(b.traces) == 0 {
		return false
	}
	return r.isFull(b) || now.Sub(b.since) >= lead && now.Sub(r.posted) >= r.cfg.Traces.FlushInterval
}

func (r *Reporter) isFull(b *batch) bool {
	return len(b.traces) >= r.cfg.Traces.BatchSize || b.bytes >= maxBatchBytes
}

// read adds lines to the batch until it is full, and returns true when it came
// to the end of the file first.
func (r *Reporter) read(b *batch) (end bool) {
	var rec audit.Record
	for n := 1; !r.isFull(b); n++ {
		if n%turn == 0 {
			runtime.Gosched()
		}
		missing := r.reader.Missing()
		l, err := r.reader.Next()
		if n := r.reader.Missing() - missing; n > 0 {
			r.stats.dropped.Add(n)
			r.opts.Logger.Warn("audit lines were deleted before they were reported", "lines", n)
		}
		if err != nil {
			if err != io.EOF {
				r.opts.Logger.Warn("the audit file cannot be read", "error", err)
			}
			return true
		}
		b.after = l.After
		if err := audit.Decode(l.Bytes, &rec); err != nil {
			r.stats.dropped.Add(1)
			r.opts.Logger.Warn("an audit line cannot be read", "seq", l.Seq, "error", err)
			continue
		}
		r.take(b, &rec, len(l.Bytes))
	}
	return false
}

// take adds what one line means to the batch.
func (r *Reporter) take(b *batch, rec *audit.Record, size int) {
	had := len(b.traces)
	switch {
	case rec.Kind == audit.KindCheckpoint:
		if e := rec.Checkpoint.Event; e == audit.EventStart || e == audit.EventStop {
			cut := r.open.cut(rec.Time)
			b.traces = append(b.traces, cut...)
			size *= len(cut)
		}
	case !r.mapper.wanted(rec):
	case rec.Kind == audit.KindOpen:
		if !r.open.begin(r.mapper.trace(rec)) {
			r.opts.Logger.Debug("too many open streams to remember them all", "limit", maxOpen)
		}
	default:
		t := r.mapper.trace(rec)
		r.open.end(t.ID)
		b.traces = append(b.traces, t)
	}
	if len(b.traces) > had {
		if had == 0 {
			b.since = time.Now()
		}
		b.bytes += size
	}
}

// flush posts what is left, within FlushTimeout.
func (r *Reporter) flush(b batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.FlushTimeout)
	defer cancel()
	for {
		end := r.read(&b)
		if len(b.traces) > 0 && !r.post(ctx, b.traces) {
			r.opts.Logger.Warn("the control plane could not be told of the last requests; the next start goes on with them")
			return nil
		}
		if b.after != r.saved && (end || ctx.Err() != nil || time.Since(r.savedAt) >= r.opts.SaveEvery) {
			if err := r.trySave(b.after); err != nil {
				return err
			}
		}
		if end && r.moveOn() {
			b.after = r.saved
		} else if end || ctx.Err() != nil {
			return nil
		}
		b = batch{after: b.after, traces: b.traces[:0]}
	}
}

// save saves the position behind what the control plane has, and the streams
// that are open there. When it fails the next start repeats a little.
func (r *Reporter) save(p audit.Position) {
	if err := r.trySave(p); err != nil {
		r.opts.Logger.Warn("the position of the reporter cannot be saved", "error", err)
	}
}

func (r *Reporter) trySave(p audit.Position) error {
	r.savedAt = time.Now()
	if err := saveState(r.name, state{Path: r.path, Position: p, Open: r.open.list()}, r.disk.Sync); err != nil {
		return fmt.Errorf("save the position of the reporter: %w", err)
	}
	r.saved = p
	r.done(p)
	return nil
}

func (r *Reporter) done(p audit.Position) {
	r.stats.seq.Store(p.Seq)
	// The numbers of a file that is about to be left mean nothing to the log,
	// which writes another one already.
	if r.opts.Reported != nil && r.follow.Load() == nil {
		r.opts.Reported(p.Seq)
	}
}
