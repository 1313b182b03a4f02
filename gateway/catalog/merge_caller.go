package catalog

import (
	"context"
	"slices"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// Shown is the merged lists for one caller.
type Shown struct {
	*Snapshot
	// Catalog has the private lists of the caller too.
	Catalog *Catalog
	// Down are the upstreams in the caller's view whose items are missing or may be out of date.
	Down []string
	// TTL is the shortest validity of the caller's lists, if HasTTL.
	TTL    time.Duration
	HasTTL bool

	shares []*bodies.Share // of the lists that are not cached; nil for others
}

// ViewOf returns the view that a client uses; nil for none.
func ViewOf(c *upstream.Caller) *auth.View {
	if c == nil {
		return nil
	}
	return c.View
}

// For returns the lists of a caller, of the given kinds, without filtering by rules or its view. It
// waits a bounded time for upstreams that were never read, and for the private lists of those in its
// view. The caller must call End.
func (m *Merge) For(ctx context.Context, c *upstream.Caller, kinds ...mcp.ListKind) *Shown {
	ctx, cancel := context.WithTimeout(ctx, m.opts.Wait)
	defer cancel()
	select {
	case <-m.first:
	case <-ctx.Done():
	}
	s, view := m.Current(), ViewOf(c)
	v := &Shown{Snapshot: s, Catalog: s.Catalog, Down: s.down}
	if view != nil {
		v.Down = slices.DeleteFunc(slices.Clone(s.down), func(name string) bool { return !view.Has(name) })
	}
	if !m.begun.Load() { // no names have owners yet
		return v
	}
	for name, ttl := range s.ttls {
		if view.Has(name) {
			v.lower(ttl)
		}
	}
	private := func(fd *Feed) bool {
		return view.Has(fd.Name) && slices.ContainsFunc(s.Private[fd.Name], func(k mcp.ListKind) bool { return slices.Contains(kinds, k) })
	}
	if !slices.ContainsFunc(m.opts.Feeds, private) {
		return v
	}
	offers := make([]*Offer, len(m.opts.Feeds))
	v.shares = make([]*bodies.Share, len(m.opts.Feeds))
	if release, ok := m.opts.Lists.turn(ctx, c); ok {
		defer release()
		var waiting sync.WaitGroup
		for i, fd := range m.opts.Feeds {
			if private(fd) {
				waiting.Go(func() { offers[i], v.shares[i] = fd.ListsFor(ctx, c) })
			}
		}
		waiting.Wait()
	}
	for i, fd := range m.opts.Feeds {
		if offers[i] == nil && private(fd) && !slices.Contains(v.Down, fd.Name) {
			v.Down = append(slices.Clip(v.Down), fd.Name)
		}
	}
	m.addPrivate(v, c, offers, kinds)
	return v
}

// lower applies the validity of a list.
func (v *Shown) lower(ttl time.Duration) {
	if !v.HasTTL || ttl < v.TTL {
		v.TTL, v.HasTTL = ttl, true
	}
}

// addPrivate adds private lists to the lists of a caller. offers are in the order of the feeds, nil
// for lists that were not read. If the caller's lists are the same as for its previous request, the
// cached merge is used.
func (m *Merge) addPrivate(v *Shown, c *upstream.Caller, offers []*Offer, kinds []mcp.ListKind) {
	listings, added := make([]Listing, len(offers)), false
	for i, fd := range m.opts.Feeds {
		listings[i].Upstream = fd.Name
		if at := slices.IndexFunc(v.listings, func(l Listing) bool { return l.Upstream == fd.Name }); at >= 0 {
			listings[i] = v.listings[at]
		}
		if offers[i] == nil {
			continue
		}
		for j := range offers[i].Lists {
			l := &offers[i].Lists[j]
			if slices.Contains(v.Private[fd.Name], l.Kind) && slices.Contains(kinds, l.Kind) {
				listings[i].Items[l.Kind], added = l.Items, true
				if l.HasTTL && len(l.Items) > 0 {
					v.lower(l.TTL)
				}
			}
		}
	}
	if added {
		v.Catalog = m.merged.get(mergedKey(c, kinds), v.Snapshot, offers, func(previous *Catalog) *Catalog {
			return Build(m.opts.Names, m.opts.Owners, previous, listings)
		})
	}
}

// Alone reports whether the lists were made for this call alone. They count in limits.body_bytes
// until End.
func (v *Shown) Alone() bool {
	return slices.ContainsFunc(v.shares, func(s *bodies.Share) bool { return s != nil })
}

// Count counts the bytes of an answer that was made from lists that are not cached. The error is
// [bodies.ErrOverloaded].
func (v *Shown) Count(n int) error {
	for _, s := range v.shares {
		if s != nil {
			return s.Count(n)
		}
	}
	return nil
}

// End releases the counts of the lists of a caller. It must be called when the answer was sent.
func (v *Shown) End() {
	for _, s := range v.shares {
		if s != nil {
			s.End()
		}
	}
}
