package stdio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/upstream"
)

// slot is the slot of one process: for one session, for several callers, or for one call.
// The process may end and be replaced. Its fields are guarded by the lock of the
// transport.
type slot struct {
	key   string // in Transport.slots; empty for the slot of one session or one call
	owner string // the owner that the process is counted for
	// params are the params of the initialize that a process receives; nil for none.
	params []byte
	// session is the only user of the process; nil for a shared process, or without a
	// session.
	session *session
	single  bool // the process ends after one call
	// unwanted is set when the client of the session disconnected before the process had
	// started.
	unwanted bool

	proc     *process
	starting *start
	users    map[*session]struct{} // of a shared process
}

// start is a running start of a process. done is closed when it has ended; err is set
// before.
type start struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// acquire returns the process of a slot for one call, starting it if there is none. It
// must be released after the call.
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
	switch {
	case p.slot.single:
		t.retire(p, "its call ended")
		return
	case p.outdated:
		t.retire(p, outdated)
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

// ReplaceOpen takes the processes out of use that could open a path which is hidden from processes
// that start now, and returns their number: one without calls ends at once, the others after their
// calls. It is called after a reload.
func (t *Transport) ReplaceOpen() (n int) {
	if t.opts.Hidden == nil {
		return 0
	}
	hidden := t.opts.Hidden()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hidden = hidden
	for p := range t.live {
		if t.replaceOpen(p) {
			n++
		}
	}
	return n
}

// replaceOpen is ReplaceOpen for one process. The caller holds the lock.
func (t *Transport) replaceOpen(p *process) bool {
	if p.outdated || !slices.ContainsFunc(t.hidden, func(path string) bool { return !slices.Contains(p.hidden, path) }) {
		return false
	}
	p.outdated = true
	if p.slot.proc == p && p.slot.session == nil { // others use it too, so it may never be without calls
		p.slot.proc = nil
	}
	if p.busy == 0 {
		t.retire(p, outdated)
	}
	return true
}

// outdated is the reason why a process is replaced.
const outdated = "it can open files that the configuration in force hides"

// admit makes room for a process. The caller holds the lock.
func (t *Transport) admit(sl *slot) error {
	if wait, last := t.failures.wait(sl.owner, t.opts.Now()); wait > 0 {
		return t.fail(opStart, upstream.ErrExited, false, fmt.Errorf("it is started again in %s: %w", wait.Round(time.Millisecond), last))
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

// spareEnding is the number of processes beyond max_processes that may be ending:
// programs take a moment to end, and those that ignore SIGTERM 5 s.
const spareEnding = 16

// evict ends the process that was idle for the longest time, of an owner or, when owner
// is empty, of all. It returns false when none is idle. The caller holds the lock.
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
	t.retire(longest, "another process needs its slot")
	return true
}

// start starts the process of a slot, and assigns it to the slot when it has responded.
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
			t.replaceOpen(p) // a reload during its start has hidden more
			break
		}
		if err == nil {
			err = p.exitError(opStart, false)
		}
		t.retire(p, "it did not start")
	}
	var rejected *rejectedError
	if err != nil && !errors.As(err, &rejected) && !errors.Is(err, context.Canceled) && !retry.NoDescriptors(err) {
		t.failures.add(sl.owner, t.opts.Now(), err)
		t.notes.failed(err, p)
		if p == nil || !p.exited { // otherwise gone has counted it
			t.exits++
		}
	}
	if p != nil && (t.closed || sl.unwanted) {
		t.retire(p, "no caller waits for it")
	}
	sl.starting, begun.err = nil, err
	t.dropUnused(sl)
	close(begun.done)
}

// retire takes a process out of use and ends it, once. The caller holds the lock.
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

// dropUnused removes a slot without users. The caller holds the lock.
func (t *Transport) dropUnused(sl *slot) {
	if sl.key != "" && sl.proc == nil && sl.starting == nil && len(sl.users) == 0 && t.slots[sl.key] == sl {
		delete(t.slots, sl.key)
	}
}

// disown subtracts one process of an owner. The caller holds the lock.
func (t *Transport) disown(owner string) {
	if t.owned[owner]--; t.owned[owner] <= 0 {
		delete(t.owned, owner)
	}
}

// gone is called when a process has ended unexpectedly.
func (t *Transport) gone(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.exited = true
	if p.retired {
		return
	}
	t.exits++
	if _, started := t.live[p]; !started {
		return // its start fails, which is counted
	}
	err := p.exitError(opRead, true)
	// The end of an unused process is not a failure.
	if now := t.opts.Now(); p.busy > 0 || now.Sub(p.idleSince) < quickExit {
		t.failures.add(p.slot.owner, now, err)
	}
	t.notes.failed(err, p)
	t.retire(p, "it has ended")
}

// quickExit is the idle time after which the end of a process is not a failure.
const quickExit = 10 * time.Second

// Limits of the recorded failures, and the backoff after them.
const (
	maxFailures = 4096
	minPause    = time.Second
	maxPause    = time.Minute
)

// failures contains the owners whose last processes failed.
type failures map[string]*failure

type failure struct {
	count int
	until time.Time
	last  error
}

// add counts a failure of an owner's process. Of its cause the text and an ExitError are kept.
func (f failures) add(owner string, now time.Time, cause error) {
	at := f[owner]
	if at == nil {
		if len(f) >= maxFailures {
			f.sweep(now)
		}
		at = new(failure)
		f[owner] = at
	}
	at.count++
	at.until, at.last = now.Add(retry.After(at.count, minPause, maxPause)), errors.New(causeText(cause))
	var exit *ExitError
	if errors.As(cause, &exit) {
		at.last = exit
	}
}

// sweep removes expired failures; all of them when none has expired.
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

// wait returns the time that an owner has to wait for its next process, and the reason.
func (f failures) wait(owner string, now time.Time) (time.Duration, error) {
	if at := f[owner]; at != nil && now.Before(at.until) {
		return at.until.Sub(now), at.last
	}
	return 0, nil
}

// worked removes the failures of an owner whose process has responded.
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
