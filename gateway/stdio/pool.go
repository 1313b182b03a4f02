package stdio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/upstream"
)

// slot is the place of one process: that of a session, that of several callers, or that
// of one call. The process may end and be replaced. Its fields are guarded by the lock
// of the transport.
type slot struct {
	key   string // in Transport.slots; empty for the slot of one session or one call
	owner string // whom its process counts for
	// params are those of the initialize that a process is sent; nil for none.
	params []byte
	// session has the process for itself; nil where several use it, or none.
	session *session
	single  bool // the process ends after one call
	// unwanted is set when the client of the session left before the process had started.
	unwanted bool

	proc     *process
	starting *start
	users    map[*session]struct{} // of a process that several use
}

// start is the start of a process. done is closed when it has ended; err is set before.
type start struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// acquire returns the process of a slot for one call, and starts it where there is none.
// The process is released after the call.
func (t *Transport) acquire(ctx context.Context, sl *slot) (*process, error) {
	for {
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return nil, t.fail(opStart, upstream.ErrClosed, false, nil)
		}
		if p := sl.proc; p != nil {
			p.busy++
			p.idle.Stop()
			t.mu.Unlock()
			return p, nil
		}
		begun := sl.starting
		if begun == nil {
			if err := t.admit(sl); err != nil {
				t.dropUnused(sl)
				t.mu.Unlock()
				return nil, err
			}
			ctx, cancel := context.WithTimeout(t.running, t.config.StartTimeout)
			begun = &start{cancel: cancel, done: make(chan struct{})}
			sl.starting = begun
			t.starting++
			t.starts++
			t.owned[sl.owner]++
			t.ended.Add(1)
			go t.start(ctx, sl, begun)
		}
		t.mu.Unlock()
		select {
		case <-begun.done:
			if begun.err != nil {
				return nil, begun.err
			}
		case <-ctx.Done():
			return nil, t.failContext(ctx, opStart, false)
		}
	}
}

// release ends one use of a process.
func (t *Transport) release(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.busy--; p.busy > 0 || p.retired {
		return
	}
	if p.slot.single {
		t.retire(p, "its call ended")
		return
	}
	p.idleSince = t.opts.Now()
	p.idle.Reset(t.config.IdleTimeout)
}

// idled ends a process that was idle for idle_timeout.
func (t *Transport) idled(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.busy == 0 {
		t.retire(p, "it was idle")
	}
}

// admit makes room for a process. The lock is held.
func (t *Transport) admit(sl *slot) error {
	if wait, last := t.failures.wait(sl.owner, t.opts.Now()); wait > 0 {
		return t.fail(opStart, upstream.ErrExited, false, fmt.Errorf("it is started again in %s: %s", wait.Round(time.Millisecond), last))
	}
	busy := func(format string, args ...any) error {
		return t.fail(opStart, upstream.ErrBusy, false, fmt.Errorf(format, args...))
	}
	if n := t.config.MaxPerPrincipal; sl.owner != ownerGateway && sl.owner != ownerAll && t.owned[sl.owner] >= n && !t.evict(sl.owner) {
		return busy("all %d processes of the caller are in use (max_per_principal)", n)
	}
	if n := t.config.MaxProcesses; len(t.live)+t.starting >= n && !t.evict("") {
		return busy("all %d processes are in use (max_processes)", n)
	}
	if t.ending >= t.config.MaxProcesses+spareEnding {
		return busy("%d processes are still ending", t.ending)
	}
	return nil
}

// spareEnding is how many processes beyond max_processes may be ending: programs take a
// moment to end, and those that ignore SIGTERM 5 s.
const spareEnding = 16

// evict ends the process that was idle for the longest time, of an owner or, when it is
// empty, of all. It returns false when none is idle. The lock is held.
func (t *Transport) evict(owner string) bool {
	var longest *process
	for p := range t.live {
		if p.busy == 0 && (owner == "" || p.slot.owner == owner) && (longest == nil || p.idleSince.Before(longest.idleSince)) {
			longest = p
		}
	}
	if longest == nil {
		return false
	}
	t.retire(longest, "another process needs its place")
	return true
}

// start starts the process of a slot, and makes it the slot's when it has answered.
func (t *Transport) start(ctx context.Context, sl *slot, begun *start) {
	defer begun.cancel()
	p, err := t.launch(sl)
	if err == nil {
		err = p.open(ctx, sl.params)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting--
	switch {
	case p == nil:
		t.disown(sl.owner)
		t.ended.Done()
	default:
		t.live[p] = struct{}{}
		if err == nil && !p.exited {
			sl.proc = p
			p.idleSince = t.opts.Now()
			p.idle.Reset(t.config.IdleTimeout)
			break
		}
		if err == nil {
			err = p.exitError(opStart, false)
		}
		t.retire(p, "it did not start")
	}
	var rejected *rejectedError
	if err != nil && !errors.As(err, &rejected) && !errors.Is(err, context.Canceled) {
		t.failures.add(sl.owner, t.opts.Now(), causeText(err))
		t.notes.failed(err, p)
	}
	if p != nil && (t.closed || sl.unwanted) {
		t.retire(p, "nobody waits for it")
	}
	sl.starting, begun.err = nil, err
	t.dropUnused(sl)
	close(begun.done)
}

// retire takes a process out of use and ends it, once. The lock is held.
func (t *Transport) retire(p *process, why string) {
	if p.retired {
		return
	}
	p.retired = true
	p.idle.Stop()
	delete(t.live, p)
	t.disown(p.slot.owner)
	if p.slot.proc == p {
		p.slot.proc = nil
	}
	t.dropUnused(p.slot)
	t.ending++
	t.notes.debug("a process is ended", "pid", p.number, "reason", why)
	go func() {
		defer t.ended.Done()
		p.end()
		t.mu.Lock()
		t.ending--
		t.mu.Unlock()
	}()
}

// dropUnused forgets a slot that nobody refers to. The lock is held.
func (t *Transport) dropUnused(sl *slot) {
	if sl.key != "" && sl.proc == nil && sl.starting == nil && len(sl.users) == 0 && t.slots[sl.key] == sl {
		delete(t.slots, sl.key)
	}
}

// disown takes one process off its owner. The lock is held.
func (t *Transport) disown(owner string) {
	if t.owned[owner]--; t.owned[owner] <= 0 {
		delete(t.owned, owner)
	}
}

// gone is called when a process has ended that nobody asked to end.
func (t *Transport) gone(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.exited = true
	if p.retired {
		return
	}
	t.exits++
	if _, started := t.live[p]; !started {
		return // its start fails, and counts
	}
	err := p.exitError(opRead, true)
	// A program may end when nobody uses it, which is no failure.
	if now := t.opts.Now(); p.busy > 0 || now.Sub(p.idleSince) < quickExit {
		t.failures.add(p.slot.owner, now, causeText(err))
	}
	t.notes.failed(err, p)
	t.retire(p, "it has ended")
}

// quickExit is the time after which the end of an idle process is no failure.
const quickExit = 10 * time.Second

// Bounds on the memory of failures, and the pauses after them.
const (
	maxFailures = 4096
	minPause    = time.Second
	maxPause    = time.Minute
)

// failures are the owners whose last processes failed.
type failures map[string]*failure

type failure struct {
	count int
	until time.Time
	last  string
}

// add counts a failure of an owner's process.
func (f failures) add(owner string, now time.Time, text string) {
	at := f[owner]
	if at == nil {
		if len(f) >= maxFailures {
			f.sweep(now)
		}
		at = new(failure)
		f[owner] = at
	}
	at.count++
	at.until, at.last = now.Add(backoff.After(at.count, minPause, maxPause)), text
}

// sweep forgets what is over; everything when nothing is.
func (f failures) sweep(now time.Time) {
	for owner, at := range f {
		if now.After(at.until.Add(maxPause)) {
			delete(f, owner)
		}
	}
	if len(f) >= maxFailures {
		clear(f)
	}
}

// wait returns how long an owner has to wait for its next process, and why.
func (f failures) wait(owner string, now time.Time) (time.Duration, string) {
	if at := f[owner]; at != nil && now.Before(at.until) {
		return at.until.Sub(now), at.last
	}
	return 0, ""
}

// worked forgets the failures of an owner whose process has answered.
func (t *Transport) worked(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, owner)
}

// causeText is the cause of an error without the names of upstream and step.
func causeText(err error) string {
	var e *upstream.Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return upstream.Printable(err.Error(), 300)
}
