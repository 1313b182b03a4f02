package audit

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/http1"
)

// errPending is the error of a line whose write did not end within write_timeout.
var errPending = errors.New("the disk takes no writes")

// watchdogSteps is the number of runs of the watchdog within write_timeout.
const watchdogSteps = 8

// item is one unit of work for the file writer: a line, a checkpoint, or a function.
type item struct {
	body  []byte
	at    int64 // end time of the request of the line, in nanoseconds
	event Event
	do    func() error
	last  bool   // no item is processed after this one
	step  uint64 // watchdog step at which the item was queued
	err   error  // the outcome, after the commit
	from  *entry
	// caller is the request whose goroutine may write the line by itself; nil where only
	// the log's goroutine writes.
	caller Caller
}

// Caller is a request whose goroutine may write its line by itself.
type Caller interface {
	// WriteOverdue is called after write_timeout while the goroutine is still blocked in
	// the write. The goroutine does not continue before WriteOverdue has returned. The
	// line counts as not written.
	WriteOverdue()
}

func (it *item) isLine() bool { return it.body != nil }

// entry is the waiting state of a caller. It is reused, except after its wait was given
// up.
type entry struct {
	body    []byte     // a reused buffer of the encoded record
	done    chan error // receives the outcome; has space for one
	givenUp bool       // the writer may still use body
}

func newEntry() *entry {
	return &entry{body: make([]byte, 0, 1024), done: make(chan error, 1)}
}

// queue holds the items that wait for the file writer. Callers append items, the writer
// takes all, and a watchdog ends waits that exceed write_timeout. The watchdog is one
// timer that runs while lines are queued: a timer for each line would wake the scheduler
// each time.
type queue struct {
	timeout atomic.Int64
	counts  atomic.Bool // on_write_error: count
	wake    chan struct{}
	timer   *time.Timer // runs the watchdog

	mu      sync.Mutex
	items   []item
	spare   []item // the previous items slice, emptied, for reuse
	current []item // the items that the writer processes
	active  bool   // a goroutine writes, or the log's goroutine was woken and is about to
	inline  bool   // the writing goroutine is a caller's
	// answering is closed when WriteOverdue has returned; nil while no WriteOverdue runs.
	answering chan struct{}
	stuck     bool // the current items were given up
	closed    bool
	ticking   bool   // the timer of the watchdog is armed
	used      bool   // an item was queued since the last step
	step      uint64 // number of runs of the watchdog
	// lostInQueue counts lines that were given up before the writer took them, with
	// on_write_error: count. The writer adds the number to its lost lines.
	lostInQueue uint64
}

func (q *queue) start(cfg Config, watch func()) {
	q.wake = make(chan struct{}, 1)
	q.timer = time.AfterFunc(time.Hour, watch)
	q.timer.Stop()
	q.configure(cfg)
}

func (q *queue) configure(cfg Config) {
	q.timeout.Store(int64(cfg.WriteTimeout))
	q.counts.Store(cfg.OnWriteError == onErrorCount)
}

func (q *queue) writeTimeout() time.Duration { return time.Duration(q.timeout.Load()) }

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close closes the queue. The writer ends after its current items.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.timer.Stop()
	q.wakeUp()
}

func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// await queues an item and waits for its outcome, for at most write_timeout. A function
// that has begun is awaited without a limit, except the last one.
func (l *Log) await(e *entry, it item) error {
	q := &l.queue
	it.from = e
	q.mu.Lock()
	if q.closed || q.stuck {
		err := errClosed
		if !q.closed {
			err = l.dropUnqueued(&it)
		}
		q.mu.Unlock()
		l.release(e)
		return err
	}
	it.step = q.step
	wake := !q.active
	q.active, q.used = true, true
	if !q.ticking {
		q.ticking = true
		q.timer.Reset(q.writeTimeout() / watchdogSteps)
	}
	q.items = append(q.items, it)
	if wake && it.caller != nil && !q.counts.Load() {
		q.inline = true
		q.mu.Unlock()
		err := l.writeInline(e)
		l.release(e)
		return err
	}
	q.mu.Unlock()
	if wake {
		q.wakeUp()
	}
	err := <-e.done
	l.release(e)
	return err
}

// release returns an entry to the pool, unless the writer may still use it.
func (l *Log) release(e *entry) {
	if !e.givenUp {
		http1.Released(e.body)
		l.entries.Put(e)
	}
}

// writeInline writes a line on its caller's goroutine, together with the lines of other
// requests. It first yields (Gosched), so that runnable goroutines can queue their lines:
// one system call then writes all of them, and no goroutine waits for the log's goroutine
// to be woken. The caller's line is the first of the queue, and inline is set. Lines that
// are queued during the write are left to the log's goroutine.
func (l *Log) writeInline(e *entry) error {
	q := &l.queue
	runtime.Gosched()
	q.mu.Lock()
	items := l.takeLines()
	q.mu.Unlock()
	l.writer.commit(items)
	q.mu.Lock()
	for q.answering != nil {
		answered := q.answering
		q.mu.Unlock()
		<-answered
		q.mu.Lock()
	}
	err := items[0].err
	l.deliverOutcomes(items, items[1:])
	q.inline = false
	q.active = len(q.items) > 0
	wake := q.active || q.closed
	q.mu.Unlock()
	if wake {
		q.wakeUp()
	}
	if e.givenUp {
		return l.pendingError()
	}
	return err
}

// takeLines takes the lines at the front of the queue. It stops at the first checkpoint
// or function, which the log's goroutine processes. The caller holds the queue's lock.
func (l *Log) takeLines() []item {
	q := &l.queue
	n := slices.IndexFunc(q.items, func(it item) bool { return !it.isLine() })
	if n < 0 {
		n = len(q.items)
	}
	return l.takeFirst(n)
}

// takeFirst takes the first n items of the queue. The caller holds the queue's lock.
func (l *Log) takeFirst(n int) []item {
	q := &l.queue
	items := q.items[:n]
	q.items, q.spare = append(q.spare[:0], q.items[n:]...), nil
	q.current = items
	l.writer.lost += q.lostInQueue
	q.lostInQueue = 0
	return items
}

// dropUnqueued counts a line that is rejected before it is queued, with on_write_error:
// count, and returns the error. The caller holds the queue's lock.
func (l *Log) dropUnqueued(it *item) error {
	if it.isLine() && l.queue.counts.Load() {
		l.queue.lostInQueue++
		l.lost.Add(1)
	}
	return l.pendingError()
}

func (l *Log) pendingError() error {
	return fmt.Errorf("write audit line: %w for %s", errPending, l.queue.writeTimeout())
}

// watchdog gives up the current items when their write exceeds write_timeout. It runs on
// the timer's goroutine.
func (l *Log) watchdog() {
	q := &l.queue
	q.mu.Lock()
	q.step++
	var caller Caller
	if len(q.current) > 0 && !q.stuck && q.step-q.current[0].step >= watchdogSteps {
		l.giveUp()
		if caller = q.current[0].caller; q.inline {
			q.answering = make(chan struct{})
		}
	}
	if q.ticking = q.used || q.active; q.ticking && !q.closed {
		q.timer.Reset(q.writeTimeout() / watchdogSteps)
	}
	q.used = false
	inline := q.inline
	q.mu.Unlock()
	if caller == nil || !inline {
		return
	}
	defer func() {
		q.mu.Lock()
		close(q.answering)
		q.answering = nil
		q.mu.Unlock()
	}()
	caller.WriteOverdue()
}

// giveUp ends the wait of all callers: of those whose lines are being written and of
// those in the queue. Until the blocked write ends, no item is queued. The caller holds
// the queue's lock.
func (l *Log) giveUp() {
	q := &l.queue
	q.stuck = true
	err := l.pendingError()
	if q.counts.Load() {
		l.opts.Logger.Error("audit lines are being lost", "error", err)
	} else if l.failure.Swap(&failure{err: err, at: l.opts.Now(), pending: true}) == nil {
		l.opts.Logger.Error("audit lines cannot be written; requests are refused", "error", err)
	}
	for i := range q.current {
		it := &q.current[i]
		if it.do != nil && !it.last {
			continue // it may still take effect
		}
		if it.isLine() && q.counts.Load() {
			l.lost.Add(1)
		}
		it.from.givenUp = true
		if i > 0 || !q.inline {
			it.from.done <- err
		}
	}
	for i := range q.items {
		q.items[i].from.done <- l.dropUnqueued(&q.items[i])
	}
	clear(q.items)
	q.items = q.items[:0]
}

// run is the loop of the log's goroutine: it processes the items that no caller writes by
// itself. Its system calls block the thread; the scheduler then gives the processor to
// another thread, however long the disk blocks.
func (l *Log) run() {
	for range l.queue.wake {
		for {
			runtime.Gosched() // as in writeInline
			items, more := l.take()
			if len(items) > 0 {
				l.writer.commit(items)
				l.finish(items)
				continue
			}
			if !more {
				return
			}
			break
		}
	}
}

// take returns the queued items; more is false after the queue was closed.
func (l *Log) take() (items []item, more bool) {
	q := &l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inline { // writeInline wakes this goroutine when it ends
		return nil, true
	}
	if len(q.items) == 0 {
		q.active = false
		return nil, !q.closed
	}
	return l.takeFirst(len(q.items)), true
}

// finish ends a write of the log's goroutine.
func (l *Log) finish(items []item) {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.deliverOutcomes(items, items)
}

// deliverOutcomes accounts for the items of a finished write and sends the outcomes to
// the callers that wait. The caller holds the queue's lock.
func (l *Log) deliverOutcomes(items, waiting []item) {
	q := &l.queue
	q.current = nil
	l.countLate(items)
	for i := range waiting {
		if !waiting[i].from.givenUp {
			waiting[i].from.done <- waiting[i].err // never blocks: done has space for one
		}
	}
	clear(items)
	if cap(items) <= keptItems {
		q.spare = items[:0]
	}
}

// countLate records that a write has ended. Items that were given up during the write are
// counted as late or lost, by their outcome. The caller holds the queue's lock.
func (l *Log) countLate(items []item) {
	q := &l.queue
	if q.stuck {
		q.stuck = false
		if f := l.failure.Load(); f != nil && f.pending {
			l.failure.Store(&failure{err: f.err}) // the next call of Ready tries again
		}
	}
	for i := range items {
		it := &items[i]
		switch given := it.from.givenUp; {
		case it.isLine() && it.err == nil && given:
			l.writer.late++
		case it.isLine() && it.err != nil && q.counts.Load():
			l.writer.lost++
			if !given {
				l.lost.Add(1)
			}
		}
	}
}

// keptItems bounds the capacity of the slice that is reused between writes.
const keptItems = 4096
