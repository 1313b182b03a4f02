package federation

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Bounds on the cached private lists.
const (
	maxPrivate      = 1024     // each of one caller at one upstream
	maxPrivateBytes = 64 << 20 // of all
	maxPrivateTTL   = time.Minute
)

// privateKey identifies a caller with its credentials, at one upstream.
type privateKey [sha256.Size]byte

// keyOf returns the cache key of a caller's lists at an upstream. ok is false for a caller
// identified only by its address, whose lists are not cached.
func keyOf(c *transport.Caller, upstream string) (key privateKey, ok bool) {
	caller, ok := c.CacheKey()
	return sha256.Sum256(append(caller[:], upstream...)), ok
}

// privateLists caches the lists that upstreams returned for one caller each, while they are
// valid.
type privateLists struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[privateKey]*list.Element
	order   *list.List // the least recently used first
	bytes   int
}

// privateEntry is one reading for one caller. done is closed when it has ended; the fields below
// are set before.
type privateEntry struct {
	key      privateKey
	upstream string
	done     chan struct{}

	offer *lister.Offer
	err   error
	until time.Time
	bytes int
}

func newPrivateLists(now func() time.Time) privateLists {
	return privateLists{now: now, entries: map[privateKey]*list.Element{}, order: list.New()}
}

// get returns the lists of an upstream for a caller: the cached ones, or the result of read.
// Concurrent calls for the same key share one reading.
func (p *privateLists) get(ctx context.Context, key privateKey, upstream string, read func() (*lister.Offer, error)) (*lister.Offer, error) {
	e, mine := p.entry(key, upstream)
	if mine {
		go func() {
			e.offer, e.err = read()
			p.finish(e)
			close(e.done)
		}()
	}
	select {
	case <-e.done:
		return e.offer, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// entry returns the entry of a key; mine is set when the caller must fill it.
func (p *privateLists) entry(key privateKey, upstream string) (e *privateEntry, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.entries[key]; at != nil {
		e := at.Value.(*privateEntry)
		select {
		case <-e.done:
			if e.err == nil && p.now().Before(e.until) {
				p.order.MoveToBack(at)
				return e, false
			}
			p.drop(at)
		default:
			return e, false
		}
	}
	e = &privateEntry{key: key, upstream: upstream, done: make(chan struct{})}
	p.entries[key] = p.order.PushBack(e)
	return e, true
}

// finish stores the result of a reading, and evicts entries over the bounds.
func (p *privateLists) finish(e *privateEntry) {
	e.until = p.now().Add(maxPrivateTTL)
	if e.offer != nil {
		for i := range e.offer.Lists {
			l := &e.offer.Lists[i]
			if l.HasTTL {
				e.until = minTime(e.until, p.now().Add(l.TTL))
			}
			for _, item := range l.Items {
				e.bytes += len(item)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.entries[e.key]; at != nil && at.Value == any(e) {
		p.bytes += e.bytes
	} else {
		e.bytes = 0 // removed meanwhile
	}
	for at := p.order.Front(); at != nil && (p.order.Len() > maxPrivate || p.bytes > maxPrivateBytes); {
		next := at.Next()
		if old := at.Value.(*privateEntry); old != e {
			p.drop(at)
		}
		at = next
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// drop removes an entry. The caller holds mu. Goroutines that wait for it still get its result.
func (p *privateLists) drop(at *list.Element) {
	e := at.Value.(*privateEntry)
	p.order.Remove(at)
	delete(p.entries, e.key)
	select {
	case <-e.done:
		p.bytes -= e.bytes
	default:
	}
}

// forget removes the lists of an upstream for all callers.
func (p *privateLists) forget(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := p.order.Front(); at != nil; {
		next := at.Next()
		if at.Value.(*privateEntry).upstream == upstream {
			p.drop(at)
		}
		at = next
	}
}

// shown is the state of the lists for one caller.
type shown struct {
	*snapshot
	catalog *catalog.Catalog
	fits    fits
	down    []string
	ttl     time.Duration // the shortest validity of the caller's lists
	hasTTL  bool          // false without a stated validity
}

// Tools returns the tools of a caller, without filtering by rules or its view.
func (f *Federation) Tools(ctx context.Context, c *transport.Caller) *catalog.Catalog {
	return f.shownTo(ctx, c, catalog.Tool).catalog
}

// shownTo returns the lists of a caller, of the given kinds, without filtering by rules or its
// view. It waits at most list_timeout for upstreams that were never read, and for the private
// lists of those in its view.
func (f *Federation) shownTo(ctx context.Context, c *transport.Caller, kinds ...catalog.Kind) *shown {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Config.ListTimeout)
	defer cancel()
	select {
	case <-f.first:
	case <-ctx.Done():
	}
	s := f.now()
	v := &shown{snapshot: s, catalog: s.catalog, fits: s.fits, down: s.down}
	if view := viewOf(c); view != nil {
		v.down = slices.DeleteFunc(slices.Clone(s.down), func(name string) bool { return !view.Has(name) })
	}
	if !f.begun.Load() { // no names have owners yet
		return v
	}
	for name, ttl := range s.ttls {
		if viewOf(c).Has(name) {
			v.lower(ttl)
		}
	}
	var waiting sync.WaitGroup
	offers := make([]*lister.Offer, len(f.feeds))
	for i, fd := range f.feeds {
		if viewOf(c).Has(fd.name) && slices.ContainsFunc(s.private[fd.name], func(k catalog.Kind) bool { return slices.Contains(kinds, k) }) {
			waiting.Go(func() { offers[i] = f.readPrivate(ctx, fd, c) })
		}
	}
	waiting.Wait()
	f.merge(v, c, offers, kinds)
	return v
}

// readPrivate reads the lists of an upstream for a caller; nil if it does not respond.
func (f *Federation) readPrivate(ctx context.Context, fd *feed, c *transport.Caller) *lister.Offer {
	caller := c.Clone() // the reading may outlive the request
	read := func() (*lister.Offer, error) {
		l := lister.Lister{Transport: fd.lister.Transport, Agent: agent, Version: fd.lister.Version, Protocol: fd.lister.Protocol, Caller: caller}
		ctx, cancel := context.WithTimeout(context.Background(), f.opts.Config.ListTimeout)
		defer cancel()
		offer, err := l.Read(ctx, catalog.Kinds[:]...)
		if err != nil {
			return nil, err
		}
		f.note(fd.name, caller, offer)
		return f.keep(fd.name, offer), nil
	}
	key, ok := keyOf(c, fd.name)
	var offer *lister.Offer
	var err error
	if ok {
		offer, err = f.private.get(ctx, key, fd.name, read)
	} else {
		offer, err = read()
	}
	if errors.Is(err, upstream.ErrNoSubject) {
		return new(lister.Offer) // it has no lists for a caller without a token
	}
	if err != nil {
		f.opts.Logger.Warn("the lists of an upstream could not be read for a client", "upstream", fd.name, "error", err)
		return nil
	}
	return offer
}

// lower applies the validity of a list.
func (v *shown) lower(ttl time.Duration) {
	if !v.hasTTL || ttl < v.ttl {
		v.ttl, v.hasTTL = ttl, true
	}
}

// merge adds private lists to the lists of a caller. offers are in the order of feeds, nil for
// lists that were not read. If the caller's lists are the same as for its previous request, the
// cached merge is used.
func (f *Federation) merge(v *shown, c *transport.Caller, offers []*lister.Offer, kinds []catalog.Kind) {
	var listings []catalog.Listing
	added := false
	for i, fd := range f.feeds {
		listing := catalog.Listing{Upstream: fd.name}
		for _, shared := range v.listings {
			if shared.Upstream == fd.name {
				listing = shared
			}
		}
		private := v.private[fd.name]
		if offers[i] != nil {
			for j := range offers[i].Lists {
				l := &offers[i].Lists[j]
				if slices.Contains(private, l.Kind) && slices.Contains(kinds, l.Kind) {
					listing.Items[l.Kind] = l.Items
					added = true
					if l.HasTTL && len(l.Items) > 0 {
						v.lower(l.TTL)
					}
				}
			}
		} else if viewOf(c).Has(fd.name) && slices.ContainsFunc(private, func(k catalog.Kind) bool { return slices.Contains(kinds, k) }) && !slices.Contains(v.down, fd.name) {
			v.down = append(slices.Clip(v.down), fd.name)
		}
		listings = append(listings, listing)
	}
	if added {
		m := f.merged.get(mergedKey(c, kinds), v.snapshot, offers, func(before *merged) *merged {
			return f.mergeLists(v.snapshot, before, listings)
		})
		v.catalog, v.fits = m.catalog, m.fits
	}
}
