package federation

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/backoff"
	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/mcp"
	"svc/gateway/views"
)

// Pauses between two readings of an upstream.
const (
	minRefresh = time.Second
	// minAnnounced is the average pause between two readings after list_changed, or for a waiting
	// client: after a quiet time up to maxAnnounced of them need only minBurst (token bucket).
	minAnnounced = 5 * time.Second
	maxAnnounced = 10
	minBurst     = 100 * time.Millisecond
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
)

const agent = "svc-federation"

// feed is one upstream and its lists as read with the gateway's own credentials.
type feed struct {
	name   string
	shared bool // shared_lists
	// perCaller is set if the lists can be read only with the token of a caller.
	perCaller bool
	lister    lister.Lister // of the goroutine of Run
	asked     chan struct{} // closed when the upstream was read once
	again     chan struct{} // holds a value when the lists should be read early
	// paid is when the pauses of all early readings have passed; used by the goroutine of Run.
	paid time.Time
	// announced is set when the upstream announced a change since the last reading began.
	announced atomic.Bool

	mu       sync.Mutex
	listed   *lister.Offer // the last valid offer, as the upstream sent it
	offer    *lister.Offer // the offer without withheld definitions
	goodAt   time.Time
	readAt   time.Time     // time of the last reading, failed or not
	reading  chan struct{} // closed when the next reading has ended; nil if no goroutine waits for it
	failures uint64
	failing  bool
}

func newFeed(u Upstream, version string) *feed {
	return &feed{
		name: u.Config.Name, shared: u.Config.SharedLists, perCaller: u.Config.PerCaller(),
		lister: lister.Lister{Transport: u.Transport, Agent: agent, Version: version, Protocol: u.Config.Protocol},
		asked:  make(chan struct{}), again: make(chan struct{}, 1),
	}
}

// readAgain requests an early reading.
func (fd *feed) readAgain() {
	select {
	case fd.again <- struct{}{}:
	default:
	}
}

// nextReading returns a channel that is closed when the next reading has ended and its lists are
// merged.
func (fd *feed) nextReading() <-chan struct{} {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if fd.reading == nil {
		fd.reading = make(chan struct{})
	}
	return fd.reading
}

// noteReading wakes the goroutines that wait for a reading.
func (fd *feed) noteReading(now time.Time) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if fd.readAt = now; fd.reading != nil {
		close(fd.reading)
		fd.reading = nil
	}
}

// readSince reports whether the upstream was read after a time.
func (fd *feed) readSince(t time.Time) bool {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.readAt.After(t)
}

func (fd *feed) health() (failures uint64, failing bool) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.failures, fd.failing
}

// last returns the last valid offer, the time of its reading, and whether a reading has failed
// since.
func (fd *feed) last() (offer *lister.Offer, at time.Time, failing bool) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.offer, fd.goodAt, fd.failing
}

// private reports whether a list is for one caller alone. Without a cacheScope it is shared in
// the legacy revisions, and private in 2026-07-28.
func (fd *feed) private(offer *lister.Offer, list *lister.List) bool {
	switch {
	case fd.perCaller:
		return true
	case fd.shared:
		return false
	case list.Scoped:
		return list.Private
	}
	return mcp.Modern(offer.Revision)
}

// follow reads one upstream repeatedly until ctx ends.
func (f *Federation) follow(ctx context.Context, fd *feed) {
	asked := sync.OnceFunc(func() { close(fd.asked) })
	defer asked()
	fails, early := 0, false
	for ctx.Err() == nil {
		announced := fd.announced.Swap(false)
		pause, err := f.refresh(ctx, fd)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !early || fails == 0 { // clients and upstreams can request many early readings in a short time
				fails++
			}
			pause = backoff.After(fails, firstBackoff, maxBackoff)
			f.opts.Logger.Warn("the lists of an upstream could not be read", "upstream", fd.name, "again_in", pause.String(), "error", err)
		} else {
			if fails > 0 {
				f.opts.Logger.Info("the lists of an upstream are read again", "upstream", fd.name)
			}
			fails = 0
		}
		asked()
		if f.begun.Load() {
			f.rebuild()
		}
		fd.noteReading(f.opts.Now())
		if announced {
			f.forgetPrivate(fd)
		}
		early = f.wait(ctx, fd, pause)
	}
}

// forgetPrivate drops the callers' lists of an upstream that announced a change, and notifies all
// watching clients, because private lists are not compared.
func (f *Federation) forgetPrivate(fd *feed) {
	kinds := f.current.Load().private[fd.name]
	if len(kinds) == 0 {
		return
	}
	f.private.forget(fd.name)
	f.watchers.notify(func(v *views.View) []catalog.Kind {
		return slices.DeleteFunc(slices.Clone(kinds), func(k catalog.Kind) bool { return !v.Lists(k, fd.name) })
	})
}

// wait returns after a pause, or earlier when an early reading is requested, at the rate of
// minAnnounced; early is set in the second case.
func (f *Federation) wait(ctx context.Context, fd *feed, pause time.Duration) (early bool) {
	rest := max(minBurst, fd.owes(f.opts.Now())-(maxAnnounced-1)*minAnnounced)
	soonest, latest := time.NewTimer(min(pause, rest)), time.NewTimer(pause)
	defer soonest.Stop()
	defer latest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soonest.C:
	}
	select {
	case <-ctx.Done():
	case <-latest.C:
	case <-fd.again:
		now := f.opts.Now()
		fd.paid = now.Add(fd.owes(now) + minAnnounced)
		return true
	}
	return false
}

// owes returns the rest of the pauses of the early readings so far.
func (fd *feed) owes(now time.Time) time.Duration {
	if !fd.paid.After(now) {
		return 0
	}
	return fd.paid.Sub(now)
}

// read reads the offer of an upstream for the gateway itself. An upstream that accepts only
// tokens of callers is not read: each of its lists may have items for a caller.
func (fd *feed) read(ctx context.Context) (*lister.Offer, error) {
	if !fd.perCaller {
		return fd.lister.Read(ctx, catalog.Kinds[:]...)
	}
	offer := new(lister.Offer)
	for _, kind := range catalog.Kinds {
		offer.Lists = append(offer.Lists, lister.List{Kind: kind})
	}
	return offer, nil
}

// refresh reads the lists of one upstream, and returns the pause until the next reading. A panic
// is treated as a failure.
func (f *Federation) refresh(ctx context.Context, fd *feed) (pause time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			f.opts.Logger.Error("panic", "in", "federation", "upstream", fd.name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		fd.mu.Lock()
		defer fd.mu.Unlock()
		if fd.failing = err != nil; err != nil && ctx.Err() == nil {
			fd.failures++
		}
	}()
	offer, err := fd.read(ctx)
	if err != nil {
		return 0, err
	}
	if !fd.perCaller {
		f.note(fd.name, nil, offer)
	}
	pause, polled := f.opts.Config.RefreshInterval, false
	for i := range offer.Lists {
		list := &offer.Lists[i]
		if list.Cut != nil {
			f.opts.Logger.Warn("a list of an upstream is incomplete", "upstream", fd.name, "list", list.Kind.Method(), "items", len(list.Items), "reason", list.Cut)
		}
		if fd.private(offer, list) {
			list.Items = nil // they are for the gateway's own account
			continue
		}
		if len(list.Items) > 0 {
			polled = true
		}
		if list.HasTTL {
			pause = min(pause, list.TTL)
		}
	}
	if !polled && (fd.perCaller || mcp.Modern(offer.Revision)) {
		pause = maxBackoff // private lists are read when a client requests them
	}
	fd.mu.Lock()
	fd.listed, fd.offer, fd.goodAt = offer, f.keep(fd.name, offer), f.opts.Now()
	fd.mu.Unlock()
	return max(pause, minRefresh), nil
}
