package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// errClosed is returned after the log was closed.
var errClosed = errors.New("the audit log is closed")

// retryAfter is the time after a failure before [Log.Ready] tries to write again.
const retryAfter = time.Second

// Options are the parameters of a log that are not part of its configuration.
type Options struct {
	// Now returns the current time; time.Now when nil.
	Now func() time.Time
	// Logger logs failures and recoveries; nil discards them.
	Logger *slog.Logger
	// MaxBacklog is the number of unreported lines that rotation keeps beyond
	// max_backups; 0 when no reporter runs. See [Log.SetReported].
	MaxBacklog uint64
	// StateDir is the directory of the saved heads of signed chains, with which the file
	// is compared when it is opened again; empty saves none.
	StateDir string

	// OpenFile opens the audit file; tests replace it to make writes fail or block.
	OpenFile OpenFunc
}

// Log appends to the audit file. It is safe for concurrent use.
//
// Write returns when its line has reached the file. One goroutine writes at a time: the
// goroutine of a request (see [Log.WriteFor]) or the log's own. Lines that are queued
// during a write are written next, with one system call. No response waits longer than
// write_timeout.
type Log struct {
	opts          Options
	entries       sync.Pool
	reported      atomic.Uint64
	progressKnown atomic.Bool // SetReported was called for this chain
	failure       atomic.Pointer[failure]

	headFailing atomic.Bool     // the last attempt to save a head failed
	lost        atomic.Uint64   // lines that were not written and whose requests passed
	counts      [3]atomic.Int64 // requests, those of them that were denied, and those that failed
	dropped     atomic.Uint64   // lines dropped by sinks that were replaced
	sinks       atomic.Pointer[[]*sink]
	disk        syncer
	ending      sync.WaitGroup // replaced sinks that still deliver

	queue  queue
	writer fileWriter

	background background
}

// failure is the reason why lines cannot be written, and its time. pending means that a
// write is blocked: a second write would block behind it.
type failure struct {
	err     error
	at      time.Time
	pending bool
}

// Open opens the audit file of a validated configuration for appending. An unfinished
// line that a crash left is moved to a file with the suffix .torn; the chain continues
// from the last whole line, which may be in a rotated file. Open returns
// an error when another process has the file open for writing, and when the file is not
// an audit log. Where checkpoints are signed, the end of the chain is compared with the
// head in the state directory, and a checkpoint records a difference.
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
	l.writer = fileWriter{log: l, now: opts.Now}
	if err := l.writer.open(cfg, nil); err != nil {
		return nil, err
	}
	l.writer.startSinks()
	l.queue.start(cfg, l.watchdog)
	go l.run()
	l.background.start(l)
	l.background.configure(cfg)
	return l, nil
}

// Write appends the record and returns when its line has reached the file (and the disk,
// with fsync: always), or after write_timeout. An error means that the request must fail;
// the line is not in the file, unless the write ended after the timeout
// ([Checkpoint.Late]). With on_write_error: count Write returns nil, the line is counted
// as lost, and the next checkpoint reports the count.
//
// Write ignores the end of ctx: a request whose client has disconnected is recorded like
// any other.
func (l *Log) Write(_ context.Context, r *Record) error { return l.WriteFor(nil, r) }

// WriteFor is [Log.Write] for a request that can be answered while its goroutine is
// blocked in a write. That goroutine then writes the line itself, which saves a switch to
// the log's goroutine.
func (l *Log) WriteFor(caller Caller, r *Record) error {
	l.count(r)
	e, _ := l.entries.Get().(*entry)
	e.body = r.appendBody(e.body[:0])
	err := l.await(e, item{body: e.body, at: r.Time.Add(r.Duration).UnixNano(), caller: caller})
	if err != nil && l.queue.counts.Load() && !errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// count counts a request by its result.
func (l *Log) count(r *Record) {
	if r.Kind != KindRequest && r.Kind != "" || r.RPC != RPCRequest {
		return
	}
	l.counts[0].Add(1)
	switch {
	case denied(r) || Blocked(r):
		l.counts[1].Add(1)
	case r.ErrorKind != "" || r.IsError || r.Status >= 400:
		l.counts[2].Add(1)
	}
}

// Counts returns the number of JSON-RPC requests since the log was opened, of those that were
// denied, and of those that failed. A stream is counted when it ends.
func (l *Log) Counts() (requests, blocked, failed int64) {
	return l.counts[0].Load(), l.counts[1].Load(), l.counts[2].Load()
}

// Ready returns nil when lines can be written, else the reason. A gateway with
// on_write_error: refuse calls Ready before it contacts an upstream. While lines cannot
// be written, Ready tries to write a checkpoint (recovered) at most once a second;
// while a write is blocked, it returns at once. With on_write_error: count it always
// returns nil.
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
		if err := l.submit(item{event: eventRecovered}); err == nil {
			return nil
		}
	}
	if f = l.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// Lost returns the number of lines that were not written and whose requests passed.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// SetReported sets the last line that the reporter has delivered: rotation may delete
// lines up to seq.
func (l *Log) SetReported(seq uint64) {
	l.reported.Store(seq)
	if !l.progressKnown.Swap(true) {
		l.background.rotated()
	}
}

// Reopen closes the file and opens its path again, for the case that another program has
// renamed or deleted the file. The chain continues in the new file.
// While the path names the open file, Reopen changes nothing.
func (l *Log) Reopen() error {
	var err error
	if e := l.submit(item{do: func() error { err = l.writer.reopen(); return nil }}); e != nil {
		return e
	}
	return err
}

// Reconfigure applies another configuration. After an error the old configuration stays
// in effect. Another path must have no lines, nor rotated files: the chain goes on there.
func (l *Log) Reconfigure(cfg Config) error {
	var err error
	if e := l.submit(item{do: func() error { err = l.writer.reconfigure(cfg); return nil }}); e != nil {
		return e
	}
	if err == nil {
		l.queue.configure(cfg)
		l.background.configure(cfg)
	}
	return err
}

// Checkpoint writes a checkpoint now.
func (l *Log) Checkpoint() error { return l.submit(item{event: eventInterval}) }

// submit queues an item for the file writer and returns its outcome. The goroutine that
// runs the items, the log's own or a request's, is the leader for that write.
func (l *Log) submit(it item) error {
	e, _ := l.entries.Get().(*entry)
	return l.await(e, it)
}

// Close writes a last checkpoint and closes the file and the sinks. The sinks get a short
// time to deliver their queued lines. A blocked disk delays Close by at most a few times
// write_timeout. A write after Close returns an error.
func (l *Log) Close() error {
	if l.queue.isClosed() {
		return nil
	}
	if err := l.background.stop(l.queue.writeTimeout()); err != nil {
		l.queue.close()
		return fmt.Errorf("close audit log: %w", err)
	}
	var err error
	e := l.submit(item{last: true, do: func() error {
		err = errors.Join(l.writer.append(eventStop), l.writer.close(), l.background.closeRetired())
		return nil
	}})
	l.queue.close()
	l.ending.Wait()
	switch {
	case errors.Is(e, errClosed):
		return nil
	case e != nil: // the file writer still uses the file
		return fmt.Errorf("close audit log: %w", e)
	}
	l.background.saveHeads(l)
	l.disk.Close()
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}
