package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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

	open openFunc // of tests that let writes fail
}

// Log appends to the audit file. It is safe for concurrent use.
//
// Write returns when its line has reached the file. Writers that come while
// another writes are gathered, and the first of them then writes for all with
// one system call; a writer that finds nobody writing does it itself. Whoever
// writes is called the leader, and holds alone what the leader field guards.
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

	mu      sync.Mutex
	leading bool
	closed  bool
	next    *group // gathers while somebody leads

	leader leader

	background background
}

// failure says why lines cannot be written, and since when.
type failure struct {
	err error
	at  time.Time
}

// item is one thing for the leader to do: a line, a checkpoint, or a function.
type item struct {
	body  []byte
	at    int64 // when what the line tells of ended, in nanoseconds
	event Event
	do    func() error
	err   error // what became of it, once it was committed
}

// group is what gathered while somebody else led. One of its members becomes
// the leader, and does the work of all.
type group struct {
	items []item
	lead  chan struct{} // holds the leadership, once
	done  chan struct{} // closed when the errors of the items stand
}

// entry is a reused buffer for an encoded record.
type entry struct{ body []byte }

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
	if opts.open == nil {
		l.opts.open = l.openFile
	}
	l.background.prepare()
	l.entries.New = func() any { return &entry{body: make([]byte, 0, 1024)} }
	l.leader = leader{log: l, now: opts.Now}
	if err := l.leader.open(cfg, EventStart); err != nil {
		return nil, err
	}
	l.leader.startSinks()
	l.background.start(l)
	l.background.configure(cfg)
	return l, nil
}

// Write appends the record and returns when its line has reached the file (and
// the disk, with fsync: always). An error means that the line is not in the
// file; the request it is about must then fail. With on_write_error: count it
// returns nil, and the line is counted as lost and reported by the next
// checkpoint that can be written.
//
// The end of ctx does not keep the line from being written: a request whose
// client has left is recorded like any other.
func (l *Log) Write(_ context.Context, r *Record) error {
	e, _ := l.entries.Get().(*entry)
	e.body = r.appendBody(e.body[:0])
	err := l.submit(item{body: e.body, at: r.Time.Add(r.Duration).UnixNano()})
	l.entries.Put(e)
	return err
}

// submit hands one item to the leader, or becomes it, and returns the outcome.
func (l *Log) submit(it item) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	if !l.leading {
		l.leading = true
		l.mu.Unlock()
		// Whoever else is about to write does so first, and goes along: one
		// system call for all of them. With nobody about this costs nothing.
		runtime.Gosched()
		return l.lead(it)
	}
	g := l.next
	if g == nil {
		g = &group{lead: make(chan struct{}, 1), done: make(chan struct{})}
		l.next = g
	}
	mine := len(g.items)
	g.items = append(g.items, it)
	l.mu.Unlock()

	select {
	case <-g.done:
	case <-g.lead:
		l.leader.commit(g.items)
		l.pass()
		close(g.done)
	}
	return g.items[mine].err
}

// lead commits an item together with what gathered since the caller became the
// leader.
func (l *Log) lead(it item) error {
	l.mu.Lock()
	g := l.next
	l.next = nil
	l.mu.Unlock()
	if g == nil {
		l.leader.single[0] = it
		l.leader.commit(l.leader.single[:])
		err := l.leader.single[0].err
		l.pass()
		return err
	}
	mine := len(g.items)
	g.items = append(g.items, it)
	l.leader.commit(g.items)
	l.pass()
	close(g.done)
	return g.items[mine].err
}

// pass gives the leadership to the group that gathered meanwhile, or up.
func (l *Log) pass() {
	l.mu.Lock()
	g := l.next
	l.next = nil
	l.leading = g != nil
	l.mu.Unlock()
	if g != nil {
		g.lead <- struct{}{}
	}
}

// Ready tells whether lines can be written: nil, or why not. A gateway that
// refuses traffic it cannot record asks before it contacts an upstream. While
// lines cannot be written it tries again at most once a second, with a
// checkpoint that says so. With on_write_error: count it is always nil.
func (l *Log) Ready() error {
	f := l.failure.Load()
	if f == nil {
		return nil
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
		l.background.configure(cfg)
	}
	return err
}

// Checkpoint writes a checkpoint now.
func (l *Log) Checkpoint() error { return l.submit(item{event: EventInterval}) }

// Close writes a last checkpoint and closes the file and the sinks. Sinks get a
// short time to deliver what they hold. It is an error to write afterwards.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	l.background.stop()
	var err error
	if e := l.submit(item{do: func() error {
		err = errors.Join(l.leader.close(EventStop), l.background.closeRetired())
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		return nil
	}}); e != nil && !errors.Is(e, ErrClosed) {
		return e
	}
	l.background.keepHeads(l)
	l.disk.Close()
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}
