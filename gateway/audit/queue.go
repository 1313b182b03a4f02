package audit

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/poison"
)

// errPending is why a line was given up on.
var errPending = errors.New("the disk takes no writes")

// patienceSteps is how many times within write_timeout the waiting is looked at.
const patienceSteps = 8

// item is one thing for the writer to do: a line, a checkpoint, or a function.
type item struct {
	body  []byte
	at    int64 // when what the line tells of ended, in nanoseconds
	event Event
	do    func() error
	last  bool   // nothing is done after it
	step  uint64 // when it was queued, in steps of the watchdog
	err   error  // what became of it, once it was committed
	from  *entry
	// caller answers for a goroutine that writes by itself; nil where the writer
	// does.
	caller Caller
}

// Caller is a request whose goroutine writes its line by itself.
type Caller interface {
	// WriteOverdue is called once write_timeout has passed, while the goroutine
	// still waits in the write, which it does not leave before WriteOverdue has
	// returned. The line counts as not written.
	WriteOverdue()
}

func (it *item) isLine() bool { return it.body != nil }

// entry is what a caller waits with. It is reused, unless it was given up.
type entry struct {
	body    []byte     // a reused buffer for an encoded record
	done    chan error // holds the outcome
	givenUp bool       // the writer may still have it
}

func newEntry() *entry {
	return &entry{body: make([]byte, 0, 1024), done: make(chan error, 1)}
}

// queue is what waits for the writer. The callers add, the writer takes all, and
// a watchdog gives up what waits too long. It runs on a timer while lines come,
// since a timer of its own for each line would wake the scheduler each time.
type queue struct {
	timeout atomic.Int64
	counts  atomic.Bool // on_write_error: count
	wake    chan struct{}
	timer   *time.Timer // of the watchdog

	mu      sync.Mutex
	items   []item
	spare   []item // the items of before, emptied
	current []item // what the writer has
	active  bool   // somebody writes, or the writer was woken and is about to
	inline  bool   // it is a caller that writes
	// answering is closed when WriteOverdue has returned; nil while none is called.
	answering chan struct{}
	stuck     bool // what the writer has was given up
	closed    bool
	ticking   bool   // the watchdog runs
	used      bool   // something was queued since it looked
	step      uint64 // how often it has looked
	// passed counts the lines that were given up before the writer had them, and
	// let pass. It takes the number over.
	passed uint64
}

func (q *queue) start(cfg Config, watch func()) {
	q.wake = make(chan struct{}, 1)
	q.timer = time.AfterFunc(time.Hour, watch)
	q.timer.Stop()
	q.configure(cfg)
}

func (q *queue) configure(cfg Config) {
	q.timeout.Store(int64(cfg.WriteTimeout))
	q.counts.Store(cfg.OnWriteError == OnErrorCount)
}

func (q *queue) patience() time.Duration { return time.Duration(q.timeout.Load()) }

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close ends the queue. The writer ends once it has done what it has.
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

// await hands an item to the writer and waits for the outcome, for at most
// write_timeout. A function that the writer has begun is waited for, but for the
// last one.
func (l *Log) await(e *entry, it item) error {
	q := &l.queue
	it.from = e
	q.mu.Lock()
	if q.closed || q.stuck {
		err := ErrClosed
		if !q.closed {
			err = l.pass(&it)
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
		q.timer.Reset(q.patience() / patienceSteps)
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

// release makes an entry free for another request, unless the writer may still
// have it.
func (l *Log) release(e *entry) {
	if !e.givenUp {
		poison.Released(e.body)
		l.entries.Put(e)
	}
}

// writeInline writes a line on its caller's goroutine, and with it the lines of
// the requests that could run at that moment: they get their turn first, so that
// one system call writes what a busy gateway has, and their goroutines wait for
// no other one to be woken. The caller's line is the first of the queue, and
// inline is set. What comes while it writes is left to the writer.
func (l *Log) writeInline(e *entry) error {
	q := &l.queue
	runtime.Gosched()
	q.mu.Lock()
	items := l.takeLines()
	q.mu.Unlock()
	l.leader.commit(items)
	q.mu.Lock()
	for q.answering != nil {
		answered := q.answering
		q.mu.Unlock()
		<-answered
		q.mu.Lock()
	}
	err := items[0].err
	l.hand(items, items[1:])
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

// takeLines takes the lines at the head of the queue. Checkpoints and functions,
// and what is behind them, are left to the writer. The caller holds the queue's
// lock.
func (l *Log) takeLines() []item {
	q := &l.queue
	n := slices.IndexFunc(q.items, func(it item) bool { return !it.isLine() })
	if n < 0 {
		n = len(q.items)
	}
	return l.takeFirst(n)
}

// takeFirst takes the first n items of the queue. The caller holds its lock.
func (l *Log) takeFirst(n int) []item {
	q := &l.queue
	items := q.items[:n]
	q.items, q.spare = append(q.spare[:0], q.items[n:]...), nil
	q.current = items
	l.leader.lost += q.passed
	q.passed = 0
	return items
}

// pass counts a line that the writer never gets, where lines are counted. The
// caller holds the queue's lock.
func (l *Log) pass(it *item) error {
	if it.isLine() && l.queue.counts.Load() {
		l.queue.passed++
		l.lost.Add(1)
	}
	return l.pendingError()
}

func (l *Log) pendingError() error {
	return fmt.Errorf("write audit line: %w for %s", errPending, l.queue.patience())
}

// watch is the watchdog. It runs on the timer's goroutine.
func (l *Log) watch() {
	q := &l.queue
	q.mu.Lock()
	q.step++
	var caller Caller
	if len(q.current) > 0 && !q.stuck && q.step-q.current[0].step >= patienceSteps {
		l.giveUp()
		if caller = q.current[0].caller; q.inline {
			q.answering = make(chan struct{})
		}
	}
	if q.ticking = q.used || q.active; q.ticking && !q.closed {
		q.timer.Reset(q.patience() / patienceSteps)
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

// giveUp ends the waiting of everybody: of those whose lines are being written,
// and of those behind. Until the writer gets on nothing is queued. The caller
// holds the queue's lock.
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
		q.items[i].from.done <- l.pass(&q.items[i])
	}
	clear(q.items)
	q.items = q.items[:0]
}

// run is the writer: it writes what no caller writes by itself. Its system calls
// are ordinary ones, like those of callers: the scheduler takes the processor from
// a goroutine that waits in one, however long the disk takes.
func (l *Log) run() {
	for range l.queue.wake {
		for {
			runtime.Gosched() // as in writeInline
			items, more := l.take()
			if len(items) > 0 {
				l.leader.commit(items)
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

// take returns what waits; more is false once the queue is closed.
func (l *Log) take() (items []item, more bool) {
	q := &l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inline { // it wakes the writer in the end
		return nil, true
	}
	if len(q.items) == 0 {
		q.active = false
		return nil, !q.closed
	}
	return l.takeFirst(len(q.items)), true
}

// finish ends a write of the writer.
func (l *Log) finish(items []item) {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	l.hand(items, items)
}

// hand settles the items of a write that has ended, and hands out the outcomes to
// those that wait for one. The caller holds the queue's lock.
func (l *Log) hand(items, waiting []item) {
	q := &l.queue
	q.current = nil
	l.settle(items)
	for i := range waiting {
		if !waiting[i].from.givenUp {
			waiting[i].from.done <- waiting[i].err // never waits: it holds one
		}
	}
	clear(items)
	if cap(items) <= keptItems {
		q.spare = items[:0]
	}
}

// settle notes that a write has ended. What was given up while it was written is
// counted by what became of it. The caller holds the queue's lock.
func (l *Log) settle(items []item) {
	q := &l.queue
	if q.stuck {
		q.stuck = false
		if f := l.failure.Load(); f != nil && f.pending {
			l.failure.Store(&failure{err: f.err}) // the next question tries again
		}
	}
	for i := range items {
		it := &items[i]
		switch given := it.from.givenUp; {
		case it.isLine() && it.err == nil && given:
			l.leader.late++
		case it.isLine() && it.err != nil && q.counts.Load():
			l.leader.lost++
			if !given {
				l.lost.Add(1)
			}
		}
	}
}

// keptItems bounds the list that is kept between writes.
const keptItems = 4096
