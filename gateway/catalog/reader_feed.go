package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Feed is one upstream and its lists. Its methods are safe for concurrent use.
type Feed struct {
	Name   string
	Config *upstream.Config
	// Announcing is for subscriptions of clients of 2026-07-28, whatever the upstream supports; nil
	// for none.
	Announcing upstream.Transport
	reader     *Reader
	// perCaller is set if the lists can be read only with the token of a caller.
	perCaller bool

	// What is needed; set before Run.
	needs    []Need
	kinds    []mcp.ListKind
	interval time.Duration
	merged   bool
	kept     bool // the last lists stay in memory, for a Merge

	lister   Lister        // of the goroutine of follow
	asked    chan struct{} // closed when the upstream was read once
	again    chan struct{} // holds a value when the lists should be read early
	readings chan struct{} // holds a value for each reading for a caller
	// cost is the pause after the last reading that the size of its lists requires; used by the
	// goroutine of follow.
	cost time.Duration
	// paid is when the pauses of all early readings have passed; used by the goroutine of follow.
	paid time.Time
	// announced is set when the upstream announced a change since the last reading began, and away
	// when it could not be reached for the last one.
	announced atomic.Uint32 // bits of kinds, see announcedBy
	away      atomic.Bool

	mu       sync.Mutex
	listed   *Offer // the last valid offer, as the upstream sent it; nil unless it is kept
	offer    *Offer // the offer without withheld definitions
	goodAt   time.Time
	readAt   time.Time     // time of the last reading, failed or not
	reading  chan struct{} // closed when the next reading has ended; nil if no goroutine waits for it
	failures uint64
	err      error // of the last reading
}

// Follow adds what a part of the gateway needs. It must be called before Run.
func (fd *Feed) Follow(n Need) {
	for _, kind := range mcp.ListKinds {
		if slices.Contains(n.Kinds, kind) && !slices.Contains(fd.kinds, kind) {
			fd.kinds = append(fd.kinds, kind)
		}
	}
	if len(n.Kinds) > 0 && (fd.interval == 0 || n.Interval < fd.interval) {
		fd.interval = n.Interval
	}
	fd.needs, fd.merged = append(fd.needs, n), fd.merged || n.Merged
}

// ready waits until each of some upstreams was read once, or ctx ends, and reports whether all
// were.
func ready(ctx context.Context, feeds []*Feed) bool {
	for _, fd := range feeds {
		select {
		case <-fd.asked:
			continue
		default:
		}
		select {
		case <-fd.asked:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// PerCaller reports whether the lists can be read only with the token of a caller.
func (fd *Feed) PerCaller() bool { return fd.perCaller }

// ReadAgain requests an early reading.
func (fd *Feed) ReadAgain() {
	select {
	case fd.again <- struct{}{}:
	default:
	}
}

// Ask requests an early reading, waits for it until ctx ends, and returns its error. With
// unlessRecent it does not wait if the upstream was read less than minAnnounced ago, because the
// next reading may have to wait as long.
func (fd *Feed) Ask(ctx context.Context, unlessRecent bool) error {
	fd.mu.Lock()
	if fd.reading == nil {
		fd.reading = make(chan struct{})
	}
	read, at := fd.reading, fd.readAt
	fd.mu.Unlock()
	fd.ReadAgain()
	if unlessRecent && at.After(fd.reader.opts.Now().Add(-minAnnounced)) {
		return nil
	}
	select {
	case <-read:
	case <-ctx.Done():
		return ctx.Err()
	}
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.err
}

// Health returns the number of failed readings, and whether the last one failed.
func (fd *Feed) Health() (failures uint64, failing bool) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.failures, fd.err != nil
}

// last returns the last valid offer of lists that are kept, the time of its reading, and whether a
// reading has failed since.
func (fd *Feed) last() (offer *Offer, at time.Time, failing bool) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.offer, fd.goodAt, fd.err != nil
}

// Private reports whether a list is for one caller alone. Without a cacheScope it is shared in the
// legacy revisions; in 2026-07-28 it is private if clients get it.
func (fd *Feed) Private(offer *Offer, list *List) bool {
	switch {
	case fd.perCaller:
		return true
	case fd.Config.SharedLists && fd.merged:
		return false
	case list.Scoped || !fd.merged:
		return list.Private
	}
	return mcp.Modern(offer.Revision)
}

// follow reads the upstream repeatedly until ctx ends.
func (fd *Feed) follow(ctx context.Context) {
	log := fd.reader.opts.Logger
	asked := sync.OnceFunc(func() { close(fd.asked) })
	defer asked()
	fails, early := 0, false
	for ctx.Err() == nil {
		announced := fd.announced.Swap(0)
		offer, pause, err := fd.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !early || fails == 0 { // clients and upstreams can request many early readings in a short time
				fails++
			}
			pause = retry.After(fails, firstBackoff, maxBackoff)
			log.Warn("the lists of an upstream could not be read", "upstream", fd.Name, "again_in", pause.String(), "error", err)
		} else {
			if fails > 0 {
				log.Info("the lists of an upstream are read again", "upstream", fd.Name)
			}
			fails = 0
		}
		fd.hand(offer, fd.announcedKinds(announced, offer))
		asked()
		fd.noteReading()
		early = fd.wait(ctx, pause)
	}
}

// hand passes the lists of a reading to those that need them.
func (fd *Feed) hand(offer *Offer, announced []mcp.ListKind) {
	defer fd.reader.contain("use of lists", fd.Name)
	if len(announced) > 0 {
		fd.reader.private.forget(fd.Name)
	}
	for _, n := range fd.needs {
		if n.Read != nil {
			n.Read(offer, announced)
		}
	}
}

// contain recovers a panic, which would end the process; it must be deferred.
func (r *Reader) contain(what, upstream string) {
	if p := recover(); p != nil {
		r.opts.Logger.Error("panic", "in", what, "upstream", upstream, "panic", p, "stack", string(debug.Stack()))
	}
}

// noteReading wakes the goroutines that wait for a reading.
func (fd *Feed) noteReading() {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if fd.readAt = fd.reader.opts.Now(); fd.reading != nil {
		close(fd.reading)
		fd.reading = nil
	}
}

// wait returns after a pause, or earlier when an early reading is requested, at the rate of
// minAnnounced; early is set in the second case.
func (fd *Feed) wait(ctx context.Context, pause time.Duration) (early bool) {
	rest := max(minBurst, fd.cost, fd.owes(fd.reader.opts.Now())-(maxAnnounced-1)*minAnnounced)
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
		now := fd.reader.opts.Now()
		fd.paid = now.Add(fd.owes(now) + minAnnounced)
		return true
	}
	return false
}

// owes returns the rest of the pauses of the early readings so far.
func (fd *Feed) owes(now time.Time) time.Duration {
	if !fd.paid.After(now) {
		return 0
	}
	return fd.paid.Sub(now)
}

// read reads the needed lists for the gateway itself. If clients get the lists of an upstream that
// accepts only tokens of callers, it is not read: each of its lists may have items for a caller.
func (fd *Feed) read(ctx context.Context) (*Offer, error) {
	if !fd.perCaller || !fd.merged {
		return fd.lister.Read(ctx, fd.kinds...)
	}
	offer := new(Offer)
	for _, kind := range fd.kinds {
		offer.Lists = append(offer.Lists, List{Kind: kind})
	}
	return offer, nil
}

// refresh reads the lists, and returns them with the pause until the next reading. A panic is
// treated as a failure.
func (fd *Feed) refresh(ctx context.Context) (offer *Offer, pause time.Duration, err error) {
	r := fd.reader
	defer func() {
		if p := recover(); p != nil {
			r.opts.Logger.Error("panic", "in", "lists", "upstream", fd.Name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		away := errors.Is(err, upstream.ErrUnreachable) || errors.Is(err, upstream.ErrTimeout)
		if fd.away.Swap(away) != away {
			if away {
				r.away.Add(1)
			} else {
				r.away.Add(-1)
			}
		}
		fd.mu.Lock()
		defer fd.mu.Unlock()
		if fd.err = err; err != nil {
			if offer = nil; ctx.Err() == nil {
				fd.failures++
			}
		}
	}()
	listed, err := fd.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !fd.perCaller {
		r.note(fd.Name, nil, listed)
	}
	if fd.kept {
		fd.mu.Lock()
		listed.reuse(fd.listed) // which only this goroutine changes
		fd.mu.Unlock()
	}
	fd.cost = time.Duration(sizeOf(listed)) * (time.Second / readRate)
	for _, n := range fd.needs {
		if n.Check != nil {
			if err := n.Check(listed); err != nil {
				return nil, 0, err
			}
		}
	}
	pause = fd.pause(listed)
	offer = r.keep(fd.Name, listed)
	if fd.kept {
		fd.mu.Lock()
		fd.listed, fd.offer, fd.goodAt = listed, offer, r.opts.Now()
		fd.mu.Unlock()
	}
	return offer, pause, nil
}

// pause returns the time until the next reading, and removes the items of private lists that
// clients get, because they are for the gateway's own account.
func (fd *Feed) pause(offer *Offer) time.Duration {
	pause, polled := fd.interval, false
	for i := range offer.Lists {
		list := &offer.Lists[i]
		if list.Cut != nil {
			fd.reader.opts.Logger.Warn("a list of an upstream is incomplete", "upstream", fd.Name, "list", list.Kind.Method(), "items", len(list.Items), "reason", list.Cut)
		}
		if fd.Private(offer, list) {
			if fd.merged {
				list.Items = nil
			}
			continue // it is read again to find out whether it is still private
		}
		if len(list.Items) > 0 {
			polled = true
		}
		if list.HasTTL {
			pause = min(pause, list.TTL)
		}
	}
	if fd.merged && !polled && (fd.perCaller || mcp.Modern(offer.Revision)) {
		pause = maxBackoff // private lists are read when a client requests them
	}
	return max(pause, minRefresh, fd.cost)
}

// reuse replaces the definitions that an earlier offer has too by its own, so that they are in memory
// once and a merge need not read them again.
func (o *Offer) reuse(before *Offer) {
	if before == nil {
		return
	}
	for i := range o.Lists {
		items, old := o.Lists[i].Items, before.List(o.Lists[i].Kind).Items
		for j := range items[:min(len(items), len(old))] {
			if bytes.Equal(items[j], old[j]) {
				items[j] = old[j]
			}
		}
	}
}

// sizeOf returns the bytes of the items of an offer.
func sizeOf(o *Offer) (n int) {
	for i := range o.Lists {
		for _, item := range o.Lists[i].Items {
			n += len(item)
		}
	}
	for name := range o.forApps {
		n += len(name)
	}
	return n
}
