package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/fsync"
)

// ErrClosed is returned once the log was closed.
var ErrClosed = errors.New("the audit log is closed")

// retryAfter is how long [Log.Ready] trusts a failure before it tries again.
const retryAfter = time.Second

// Options are what a log needs beside its configuration.
type Options struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
	// Logger is told of failures and recoveries; discards when nil.
	Logger *slog.Logger
	// MaxBacklog is how many lines that were not yet reported rotation spares
	// beyond max_backups; 0 when nobody reports. See [Log.SetReported].
	MaxBacklog uint64
	// StateDir is where the heads of signed chains are kept, to compare the file
	// with when it is opened again; empty keeps none.
	StateDir string

	// OpenFile opens the audit file; tests replace it to let writes fail or wait.
	OpenFile OpenFunc
}

// Log appends to the audit file. It is safe for concurrent use.
//
// Write returns when its line has reached the file. One goroutine writes at a
// time: the one that brought a line, where it can be spared, or the log's own.
// What came meanwhile is written next, with one system call. No answer waits
// longer than write_timeout.
type Log struct {
	opts     Options
	entries  sync.Pool
	reported atomic.Uint64
	told     atomic.Bool // reported was said
	failure  atomic.Pointer[failure]

	headFailing atomic.Bool   // the last head was not kept
	lost        atomic.Uint64 // lines let pass unwritten
	dropped     atomic.Uint64 // lines that sinks of the past dropped
	sinks       atomic.Pointer[[]*sink]
	disk        fsync.Syncer
	ending      sync.WaitGroup // sinks of the past

	queue  queue
	leader leader

	background background
}

// failure says why lines cannot be written, and since when. While it is pending
// a write has not ended, and another would only wait behind it.
type failure struct {
	err     error
	at      time.Time
	pending bool
}

// Open opens the audit file of a checked configuration for appending. What a
// crash left of an unfinished line is moved to a file of its own, ending in
// .torn; the chain goes on from the last whole line, which may be in a rotated
// file. It errs when another process has the file open for writing, and when
// the file holds something that is not an audit trail. Where checkpoints are
// signed, the end of the chain is compared with the head in the state directory,
// and a difference is noted by a checkpoint.
func Open(cfg Config, opts Options) (*Log, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{opts: opts}
	if opts.OpenFile == nil {
		l.opts.OpenFile = l.openFile
	}
	l.background.prepare()
	l.entries.New = func() any { return newEntry() }
	l.leader = leader{log: l, now: opts.Now}
	if err := l.leader.open(cfg, EventStart); err != nil {
		return nil, err
	}
	l.leader.startSinks()
	l.queue.start(cfg, l.watch)
	go l.run()
	l.background.start(l)
	l.background.configure(cfg)
	return l, nil
}

// Write appends the record and returns when its line has reached the file (and
// the disk, with fsync: always), or after write_timeout. An error means that the
// request must fail; the line is not in the file, unless the file took it after
// the wait ([Checkpoint.Late]). With on_write_error: count it returns nil, and the
// line is counted as lost and reported by the next checkpoint that can be
// written.
//
// The end of ctx does not keep the line from being written: a request whose
// client has left is recorded like any other.
func (l *Log) Write(_ context.Context, r *Record) error { return l.WriteFor(nil, r) }

// WriteFor is [Log.Write] for a request that can be answered while its goroutine
// waits: that goroutine then writes the line itself, which is cheaper.
func (l *Log) WriteFor(caller Caller, r *Record) error {
	e, _ := l.entries.Get().(*entry)
	e.body = r.appendBody(e.body[:0])
	err := l.await(e, item{body: e.body, at: r.Time.Add(r.Duration).UnixNano(), caller: caller})
	if err != nil && l.queue.counts.Load() && !errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Ready tells whether lines can be written: nil, or why not. A gateway that
// refuses traffic it cannot record asks before it contacts an upstream. While
// lines cannot be written it tries again at most once a second, with a
// checkpoint that says so; while a write has not ended it does not wait. With
// on_write_error: count it is always nil.
func (l *Log) Ready() error {
	f := l.failure.Load()
	if f == nil {
		return nil
	}
	if f.pending {
		return f.err
	}
	if now := l.opts.Now(); now.Sub(f.at) >= retryAfter &&
		l.failure.CompareAndSwap(f, &failure{err: f.err, at: now}) {
		if err := l.submit(item{event: EventRecovered}); err == nil {
			return nil
		}
	}
	if f = l.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Lost returns how many lines could not be written and were let pass.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// SetReported tells how far the reporter has come: lines up to seq may be
// deleted by rotation.
func (l *Log) SetReported(seq uint64) {
	l.reported.Store(seq)
	if !l.told.Swap(true) {
		l.background.rotated()
	}
}

// Reopen closes the file and opens its path again, when another program has
// renamed or deleted it. The chain goes on in the new file. While the path names
// the open file nothing changes.
func (l *Log) Reopen() error {
	var err error
	if e := l.submit(item{do: func() error { err = l.leader.reopen(); return nil }}); e != nil {
		return e
	}
	return err
}

// Reconfigure applies another configuration. When it errs nothing has changed.
// Another path begins, or goes on with, the chain of that path.
func (l *Log) Reconfigure(cfg Config) error {
	var err error
	if e := l.submit(item{do: func() error { err = l.leader.reconfigure(cfg); return nil }}); e != nil {
		return e
	}
	if err == nil {
		l.queue.configure(cfg)
		l.background.configure(cfg)
	}
	return err
}

// Checkpoint writes a checkpoint now.
func (l *Log) Checkpoint() error { return l.submit(item{event: EventInterval}) }

// submit gives the writer something to do, and returns what became of it.
func (l *Log) submit(it item) error {
	e, _ := l.entries.Get().(*entry)
	return l.await(e, it)
}

// Close writes a last checkpoint and closes the file and the sinks. Sinks get a
// short time to deliver what they hold. A disk that takes no writes holds it up
// for a few times write_timeout at most. It is an error to write afterwards.
func (l *Log) Close() error {
	if l.queue.isClosed() {
		return nil
	}
	if err := l.background.stop(l.queue.patience()); err != nil {
		l.queue.close()
		return fmt.Errorf("close audit log: %w", err)
	}
	var err error
	e := l.submit(item{last: true, do: func() error {
		err = errors.Join(l.leader.close(EventStop), l.background.closeRetired())
		return nil
	}})
	l.queue.close()
	l.ending.Wait()
	switch {
	case errors.Is(e, ErrClosed):
		return nil
	case e != nil: // the writer still has the file
		return fmt.Errorf("close audit log: %w", e)
	}
	l.background.keepHeads(l)
	l.disk.Close()
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}
