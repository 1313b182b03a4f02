package federation

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// shown is the state of the lists for one caller.
type shown struct {
	*snapshot
	catalog *catalog.Catalog
	fits    fits
	down    []string
	shares  []*bodies.Share // of the lists that are not cached; nil for others
	ttl     time.Duration   // the shortest validity of the caller's lists
	hasTTL  bool            // false without a stated validity
}

// Tools returns the tools of a caller, without filtering by rules or its view. If release is not
// nil, the catalog was made for this call alone: it counts in limits.body_bytes until release,
// which the caller must call when it no longer uses the catalog.
func (f *Federation) Tools(ctx context.Context, c *upstream.Caller) (tools *catalog.Catalog, release func()) {
	v := f.shownTo(ctx, c, mcp.Tool)
	if slices.ContainsFunc(v.shares, func(s *bodies.Share) bool { return s != nil }) {
		release = v.end
	}
	return v.catalog, release
}

// shownTo returns the lists of a caller, of the given kinds, without filtering by rules or its
// view. It waits at most list_timeout for upstreams that were never read, and for the private
// lists of those in its view. The caller must call end.
func (f *Federation) shownTo(ctx context.Context, c *upstream.Caller, kinds ...mcp.ListKind) *shown {
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
	reads := func(fd *catalog.Feed) bool {
		return viewOf(c).Has(fd.Name) && slices.ContainsFunc(s.private[fd.Name], func(k mcp.ListKind) bool { return slices.Contains(kinds, k) })
	}
	mayRead := true
	if slices.ContainsFunc(f.feeds, reads) {
		var release func()
		if release, mayRead = f.opts.Lists.Turn(ctx, c); mayRead {
			defer release()
		}
	}
	var waiting sync.WaitGroup
	offers := make([]*catalog.Offer, len(f.feeds))
	v.shares = make([]*bodies.Share, len(f.feeds))
	for i, fd := range f.feeds {
		if mayRead && reads(fd) {
			waiting.Go(func() { offers[i], v.shares[i] = fd.ListsFor(ctx, c) })
		}
	}
	waiting.Wait()
	f.merge(v, c, offers, kinds)
	return v
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
func (f *Federation) merge(v *shown, c *upstream.Caller, offers []*catalog.Offer, kinds []mcp.ListKind) {
	var listings []catalog.Listing
	added := false
	for i, fd := range f.feeds {
		listing := catalog.Listing{Upstream: fd.Name}
		for _, shared := range v.listings {
			if shared.Upstream == fd.Name {
				listing = shared
			}
		}
		private := v.private[fd.Name]
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
		} else if viewOf(c).Has(fd.Name) && slices.ContainsFunc(private, func(k mcp.ListKind) bool { return slices.Contains(kinds, k) }) && !slices.Contains(v.down, fd.Name) {
			v.down = append(slices.Clip(v.down), fd.Name)
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

// count counts the bytes of an answer that was made from lists that are not cached. The error is
// [bodies.ErrOverloaded].
func (v *shown) count(n int) error {
	for _, s := range v.shares {
		if s != nil {
			return s.Count(n)
		}
	}
	return nil
}

// end releases the counts of the lists of a caller. It must be called when the answer was sent.
func (v *shown) end() {
	for _, s := range v.shares {
		if s != nil {
			s.End()
		}
	}
}

// releasing is the body of an answer, at whose end the lists in it are released.
type releasing struct {
	io.ReadCloser
	release func()
}

func (r *releasing) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}
