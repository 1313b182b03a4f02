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
	// minAnnounced is the pause between two readings after list_changed, or for a client that
	// waits, on average: after a quiet time maxAnnounced of them need only minBurst.
	minAnnounced = 5 * time.Second
	maxAnnounced = 10
	minBurst     = 100 * time.Millisecond
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
)

const agent = "svc-federation"

// feed is one upstream, as the gateway reads it with credentials of its own.
type feed struct {
	name   string
	shared bool // shared_lists
	// perCaller is set where the lists can be read with the token of a caller alone.
	perCaller bool
	lister    lister.Lister // of the goroutine of Run
	asked     chan struct{} // closed when the upstream was asked once
	again     chan struct{} // holds a value when the lists are wanted before their time
	// paid is when the pauses of all readings before their time have passed; of the
	// goroutine of Run.
	paid time.Time
	// announced is set when the upstream announced a change since the last reading
	// began.
	announced atomic.Bool

	mu       sync.Mutex
	listed   *lister.Offer // the last good one, as the upstream sent it
	offer    *lister.Offer // what of it is not withheld
	goodAt   time.Time
	readAt   time.Time     // the last reading, also one that failed
	reading  chan struct{} // closed when the next reading has ended; nil while nobody waits
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

// readAgain asks for the lists before their time.
func (fd *feed) readAgain() {
	select {
	case fd.again <- struct{}{}:
	default:
	}
}

// nextReading returns what is closed when the next reading has ended and its lists were
// merged.
func (fd *feed) nextReading() <-chan struct{} {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if fd.reading == nil {
		fd.reading = make(chan struct{})
	}
	return fd.reading
}

// noteReading wakes those that wait for a reading.
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

// last returns the last good offer, when it was read, and whether the upstream has
// failed since.
func (fd *feed) last() (offer *lister.Offer, at time.Time, failing bool) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.offer, fd.goodAt, fd.failing
}

// private reports whether a list is meant for one caller alone. Without a cacheScope
// it is shared in the legacy revisions, and private in 2026-07-28.
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

// follow reads one upstream until ctx ends.
func (f *Federation) follow(ctx context.Context, fd *feed) {
	asked := sync.OnceFunc(func() { close(fd.asked) })
	defer asked()
	fails := 0
	for ctx.Err() == nil {
		announced := fd.announced.Swap(false)
		pause, err := f.refresh(ctx, fd)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fails++
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
		f.wait(ctx, fd, pause)
	}
}

// forgetPrivate forgets what callers see of an upstream that announced a change, and
// notifies the clients that watch: what is private to each is not compared.
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

// wait returns after a pause, and earlier when the lists are wanted; how much earlier
// minAnnounced says.
func (f *Federation) wait(ctx context.Context, fd *feed, pause time.Duration) {
	rest := max(minBurst, fd.owes(f.opts.Now())-(maxAnnounced-1)*minAnnounced)
	soonest, latest := time.NewTimer(min(pause, rest)), time.NewTimer(pause)
	defer soonest.Stop()
	defer latest.Stop()
	select {
	case <-ctx.Done():
		return
	case <-soonest.C:
	}
	select {
	case <-ctx.Done():
	case <-latest.C:
	case <-fd.again:
		now := f.opts.Now()
		fd.paid = now.Add(fd.owes(now) + minAnnounced)
	}
}

// owes returns the pauses that readings before their time have used up and that have not
// passed yet.
func (fd *feed) owes(now time.Time) time.Duration {
	if !fd.paid.After(now) {
		return 0
	}
	return fd.paid.Sub(now)
}

// read reads what the upstream offers to the gateway itself. One that takes the tokens of
// callers alone is not asked: each of its lists may have something for a caller.
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

// refresh reads the lists of one upstream, and returns the pause until the next
// time. A panic is a failure like others.
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
			f.opts.Logger.Warn("a list of an upstream is cut", "upstream", fd.name, "list", list.Kind.Method(), "items", len(list.Items), "reason", list.Cut)
		}
		if fd.private(offer, list) {
			list.Items = nil // they are the gateway's own account's
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
		pause = maxBackoff // private lists are read when a client asks
	}
	fd.mu.Lock()
	fd.listed, fd.offer, fd.goodAt = offer, f.keep(fd.name, offer), f.opts.Now()
	fd.mu.Unlock()
	return max(pause, minRefresh), nil
}
