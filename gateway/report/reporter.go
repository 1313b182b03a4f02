package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"svc/gateway/audit"
	"svc/gateway/fsync"
	"svc/server/api"
)

// Sink takes traces. It returns nil only when all of them are stored for good,
// or were before. It is used by one goroutine at a time.
type Sink interface {
	// PostTraceBatch takes the JSON of an api.TraceBatch, and an id that is the same
	// whenever the same batch is sent again. After an error it may go on reading the
	// body.
	PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error)
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
	// zero. While lines come it is looked at more often.
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
	// turn is how many lines are read in one go: a request that is ready to go on
	// waits no longer than these take.
	turn = 16
	// busyPoll is how often the file is looked at while lines come. The scheduler
	// does not look at the network while lines are read, so that each look must be
	// short: at 2,000 requests a second it finds 50 lines, not 200. But each wakes the
	// runtime's monitor thread, so that they may not come too often.
	busyPoll = 25 * time.Millisecond
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
	origin string // of batches: this gateway and its audit file
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
	if r.origin, err = originOf(r.cfg.Gateway, path); err != nil {
		return fmt.Errorf("name the origin of batches: %w", err)
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

// Run reports until ctx ends, then what is in the file at that time, within
// FlushTimeout. Close the audit log before ctx ends, and nothing is left
// behind; what is left behind all the same is reported by the next Run. The
// error is that of the state directory at the very end; everything else is
// retried and logged.
func (r *Reporter) Run(ctx context.Context) error {
	defer r.disk.Close()
	defer func() { _ = r.reader.Close() }()
	look := time.NewTimer(r.opts.Poll)
	defer look.Stop()
	b := newBatch(r.saved, batch{})
	r.savedAt = time.Now()
	for ctx.Err() == nil {
		before := b.after
		end := r.read(&b)
		quiet := b.after == before
		if now := time.Now(); r.due(&b, now) {
			if !r.post(ctx, &b) {
				break
			}
			r.posted = time.Now()
			if r.posted.Sub(r.savedAt) >= r.opts.SaveEvery {
				r.save(b.after)
			}
			b = newBatch(b.after, b)
			continue
		} else if b.len() == 0 && b.after != r.saved && now.Sub(r.savedAt) >= r.opts.SaveEvery {
			r.save(b.after)
		}
		if end && b.len() == 0 && r.follow.Load() != nil {
			// One more look: what was written before Follow was called is in the file.
			if end = r.read(&b); end && b.len() == 0 {
				if b.after != r.saved {
					r.save(b.after)
				}
				if r.moveOn() {
					b = newBatch(r.saved, b)
					continue
				}
			}
		}
		if end {
			pause := r.opts.Poll
			if !quiet {
				pause = min(pause, busyPoll)
			}
			look.Reset(pause)
			select {
			case <-look.C:
			case <-ctx.Done():
			}
		}
	}
	return r.flush(b)
}

// flush posts what is left, within FlushTimeout.
func (r *Reporter) flush(b batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.FlushTimeout)
	defer cancel()
	for {
		end := false
		if !b.lent { // what was sent is sent again with the same boundaries
			end = r.read(&b)
		}
		if b.len() > 0 && !r.post(ctx, &b) {
			r.opts.Logger.Warn("the control plane could not be told of the last requests; the next start goes on with them")
			return nil
		}
		if b.after != r.saved && (end || ctx.Err() != nil || time.Since(r.savedAt) >= r.opts.SaveEvery) {
			if err := r.trySave(b.after); err != nil {
				return err
			}
		}
		if end && r.moveOn() {
			b = newBatch(r.saved, b)
		} else if end || ctx.Err() != nil {
			return nil
		}
		b = newBatch(b.after, b)
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
