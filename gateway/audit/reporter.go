package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"svc/store/api"
)

// Sink stores traces. It returns nil only when all of them are stored permanently, now or
// before. Only one goroutine at a time uses it.
type Sink interface {
	// PostTraceBatch posts the JSON of an api.TraceBatch, with an id that is the same
	// whenever the same batch is sent again. After an error it may still read the body.
	PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error)
}

// ReporterOptions are the parameters of a [Reporter] that are not part of its configuration.
type ReporterOptions struct {
	// AuditPath is the audit file to follow.
	AuditPath string
	// StateDir contains the saved position and the quarantine.
	StateDir string
	// Sink stores the traces.
	Sink Sink
	// Status returns the HTTP status of an error of the sink, or 0 when the control plane
	// did not respond, and its Retry-After.
	Status func(err error) (status int, retryAfter time.Duration)
	// Reason is the reason in the trace of a refused request.
	Reason Reason
	// ListenEnded reports whether a stream that was opened to listen ended as such streams do.
	ListenEnded func(*Record) bool
	// Shutdown is the error_kind of streams that ended with their process.
	Shutdown string
	// Reported is called with the last reported line, so that rotation can delete files;
	// may be nil.
	Reported func(seq uint64)
	// Logger logs outages and recoveries; nil discards them.
	Logger *slog.Logger
	// Poll is the polling interval while no lines arrive; 100 ms when zero. While lines
	// arrive the interval is shorter.
	Poll time.Duration
	// FlushTimeout bounds the work of Run after its context has ended; 5 s when zero.
	FlushTimeout time.Duration
	// MaxPause bounds the backoff during an outage; 30 s when zero.
	MaxPause time.Duration
	// SaveEvery is the minimum time between two saves of the position; 1 s when zero.
	// After a crash, traces are sent again and recognized by their ids. Each save waits
	// for the disk, and on a machine with one processor requests may be delayed by it.
	SaveEvery time.Duration
	// From is a time: requests since then that were reported before are reported again. Zero
	// reports each once.
	From time.Time
}

// Limit of one batch, in addition to the configured number of traces. A trace is less
// than twice as long as its line, and the control plane accepts 8 MiB.
const maxBatchBytes = 3 << 20

const (
	// lead is the time that the first trace after a quiet period waits for others.
	lead = 50 * time.Millisecond
	// turn is the number of lines that are read without a pause. It bounds the time that
	// a runnable request waits.
	turn = 16
	// busyPoll is the polling interval while lines arrive. The scheduler does not poll
	// the network while lines are read, so each read must be short: at 2,000 requests per
	// second it finds 50 lines, not 200. The interval must not be shorter, because each
	// wake-up also wakes the runtime's monitor thread.
	busyPoll = 25 * time.Millisecond
)

// Stats are the counters of a [Reporter].
type Stats struct {
	// Posted counts traces that the control plane stored.
	Posted uint64
	// Duplicates counts traces that the control plane already had.
	Duplicates uint64
	// Failures counts requests that failed and were retried.
	Failures uint64
	// Quarantined counts traces that were refused as invalid and quarantined.
	Quarantined uint64
	// Dropped counts audit lines that were deleted before they could be reported, and
	// refused traces that could not be quarantined.
	Dropped uint64
	// Seq is the number of the last audit line that was processed.
	Seq uint64
	// Failing is the reason why the control plane accepts no traces at present; empty
	// when it accepts them.
	Failing string
}

// Reporter follows an audit file and posts its requests as traces.
type Reporter struct {
	cfg    ControlPlaneConfig
	opts   ReporterOptions
	mapper mapper
	reader *Reader
	open   *openStreams
	store  *storeSeen // nil before the first answer of the control plane
	path   string     // audit file that is read
	name   string     // of its state file
	origin string     // of batches: this gateway and its audit file
	quar   quarantine
	disk   syncer
	follow nextFiles

	saved   Position
	savedAt time.Time
	posted  time.Time // when the last batch was sent

	stats struct {
		posted, duplicates, failures, quarantined, dropped, seq atomic.Uint64
		failing                                                 atomic.Pointer[string]
	}
}

// NewReporter returns a reporter that continues at the saved position, which another process may
// have saved. It opens only the state file.
func NewReporter(cfg ControlPlaneConfig, opts ReporterOptions) (*Reporter, error) {
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
		cfg: cfg, opts: opts, mapper: mapper{cfg, opts.Reason, opts.ListenEnded}, open: newOpenStreams(),
		quar: quarantine{name: filepath.Join(opts.StateDir, "report-quarantine.jsonl")},
	}
	if err := r.begin(opts.AuditPath); err != nil || opts.From.IsZero() {
		return r, err
	}
	return r, r.reportFrom(opts.From)
}

// begin continues an audit file at its saved position.
func (r *Reporter) begin(path string) error {
	name, err := stateName(r.opts.StateDir, path)
	if err != nil {
		return fmt.Errorf("find the audit file: %w", err)
	}
	s, err := loadState(name)
	if err != nil {
		// Every trace has its id, so that starting over takes time but duplicates nothing.
		r.opts.Logger.Warn("the saved position cannot be read; the audit files are reported from their beginning",
			"file", name, "error", err)
	}
	for _, o := range s.Open {
		r.open.begin(o.Trace, o.From)
	}
	r.store = s.Store
	if r.origin, err = originOf(r.cfg.Gateway, path); err != nil {
		return fmt.Errorf("name the origin of batches: %w", err)
	}
	r.path, r.name = path, name
	r.reader = NewReader(path, s.Position)
	r.saved = s.Position
	r.done(s.Position)
	return nil
}

// nextFiles are the audit files to read after the current one, in the order in which audit.path
// named them. It is safe for concurrent use.
type nextFiles struct {
	mu    sync.Mutex
	paths []string
}

func (n *nextFiles) add(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths = append(n.paths, path)
}

func (n *nextFiles) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.paths) > 0
}

// take removes the first file; empty if there is none.
func (n *nextFiles) take() (path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.paths) > 0 {
		path, n.paths = n.paths[0], n.paths[1:]
	}
	return path
}

// Follow switches the reporter to another audit file after it has reported all of the
// current one, and of those that were passed before: audit.path was changed, and the old file gets
// no more lines. Open streams stay open. It is safe for concurrent use.
func (r *Reporter) Follow(path string) { r.follow.add(path) }

// moveOn switches to the next file that was passed to Follow, if there is one.
func (r *Reporter) moveOn() bool {
	next := r.follow.take()
	if next == "" || next == r.path {
		return false
	}
	open := r.open
	r.open = newOpenStreams()
	r.save(r.saved)
	for _, t := range open.list() {
		r.open.begin(t, Position{}) // its line is in the old file
	}
	if err := r.reader.Close(); err != nil {
		r.opts.Logger.Warn("the previous audit file was not closed properly", "error", err)
	}
	if err := r.begin(next); err != nil {
		r.opts.Logger.Error("the new audit file is not reported", "path", next, "error", err)
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

// Run reports until ctx ends, and then the lines that the file contains at that time,
// within FlushTimeout. Close the audit log before ctx ends, so that all lines are in the
// file; the next Run reports remaining lines. The error is that of saving the state at
// the end; other errors are retried and logged.
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
			if r.answered(&b) {
				b = newBatch(r.saved, b)
				continue
			}
			if r.posted.Sub(r.savedAt) >= r.opts.SaveEvery {
				r.save(b.after)
			}
			b = newBatch(b.after, b)
			continue
		} else if b.len() == 0 && b.after != r.saved && now.Sub(r.savedAt) >= r.opts.SaveEvery {
			r.save(b.after)
		}
		if end && b.len() == 0 && r.follow.any() {
			// Read once more: lines written before the call of Follow are in the old
			// file.
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

// flush posts the remaining traces, within FlushTimeout.
func (r *Reporter) flush(b batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.opts.FlushTimeout)
	defer cancel()
	for {
		end := false
		if !b.lent { // a batch that was sent is sent again with the same boundaries
			end = r.read(&b)
		}
		if b.len() > 0 && !r.post(ctx, &b) {
			r.opts.Logger.Warn("the last requests could not be reported to the control plane; they are reported after the next start")
			return nil
		}
		if r.answered(&b) {
			b = newBatch(r.saved, b)
			continue
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

// save saves the position of the last stored trace, and the open streams there. After a
// failure the next start sends some traces again.
func (r *Reporter) save(p Position) {
	if err := r.trySave(p); err != nil {
		r.opts.Logger.Warn("the position of the reporter cannot be saved", "error", err)
	}
}

func (r *Reporter) trySave(p Position) error {
	r.savedAt = time.Now()
	if err := saveState(r.name, savedState{Path: r.path, Position: p, Open: r.open.save(), Store: r.store}, r.disk.Sync); err != nil {
		return fmt.Errorf("save the position of the reporter: %w", err)
	}
	r.saved = p
	r.done(p)
	return nil
}

func (r *Reporter) done(p Position) {
	r.stats.seq.Store(p.Seq)
	// Sequence numbers of a file that is about to be left have no meaning for the log,
	// which already writes another file.
	if r.opts.Reported != nil && !r.follow.any() {
		r.opts.Reported(p.Seq)
	}
}
