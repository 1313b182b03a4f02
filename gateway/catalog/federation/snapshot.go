package federation

import (
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// maxReported bounds the items that are reported individually after a change.
const maxReported = 100

// snapshot is the merged lists that are the same for all clients, at one time. It is immutable.
type snapshot struct {
	catalog  *catalog.Catalog
	listings []catalog.Listing
	offers   map[string]*catalog.Offer
	// declared are the last declared capabilities of each upstream.
	declared map[string]members
	// private are the kinds of which an upstream has private lists.
	private map[string][]mcp.ListKind
	// down are the upstreams whose items are unknown or expired, and those whose last reading
	// failed.
	down []string
	// ttls are the shortest validity of the shared lists of each upstream; without an entry if
	// none is stated.
	ttls map[string]time.Duration
	// until is when an upstream's last items must no longer be listed; zero for never.
	until time.Time
	fits  fits
}

// fits are the forms of items for the two protocol generations, empty for items that clients of a
// generation cannot parse.
type fits map[*catalog.Item][2][]byte

// now returns the current snapshot.
func (f *Federation) now() *snapshot {
	s := f.current.Load()
	if !s.until.IsZero() && f.opts.Now().After(s.until) {
		return f.rebuild()
	}
	return s
}

// rebuild merges the lists again, reports omitted items, and notifies the watching clients.
func (f *Federation) rebuild() *snapshot {
	f.building.Lock()
	defer f.building.Unlock()
	before := f.current.Load()
	s := f.build(before)
	f.current.Store(s)
	f.report(before, s)
	f.notifyShared(before, s)
	f.reportStore()
	f.save()
	return s
}

func (f *Federation) build(before *snapshot) *snapshot {
	s := &snapshot{offers: map[string]*catalog.Offer{}, declared: map[string]members{}, private: map[string][]mcp.ListKind{}, ttls: map[string]time.Duration{}}
	now := f.opts.Now()
	for _, fd := range f.feeds {
		offer, at, failing := fd.Last()
		if offer != nil {
			f.declared.note(fd.Name, offer.Capabilities)
		}
		s.declared[fd.Name] = f.declared.of(fd.Name)
		if failing || offer == nil {
			s.down = append(s.down, fd.Name)
		}
		if offer == nil {
			continue
		}
		if failing {
			end := at.Add(f.opts.Config.StaleFor)
			if now.After(end) {
				continue
			}
			if s.until.IsZero() || end.Before(s.until) {
				s.until = end
			}
		}
		s.offers[fd.Name] = offer
		s.add(fd, offer)
	}
	var previous *catalog.Catalog
	if before != nil {
		previous = before.catalog
	}
	s.catalog = catalog.Build(f.names, f.owners, previous, s.listings)
	s.fits = fitsOf(s.catalog, before)
	return s
}

// add adds the shared lists of an upstream.
func (s *snapshot) add(fd *catalog.Feed, offer *catalog.Offer) {
	listing := catalog.Listing{Upstream: fd.Name}
	for i := range offer.Lists {
		list := &offer.Lists[i]
		if fd.Private(offer, list) {
			s.private[fd.Name] = append(s.private[fd.Name], list.Kind)
			continue
		}
		listing.Items[list.Kind] = list.Items
		if ttl, has := s.ttls[fd.Name]; list.HasTTL && len(list.Items) > 0 && (!has || list.TTL < ttl) {
			s.ttls[fd.Name] = list.TTL
		}
	}
	s.listings = append(s.listings, listing)
}

// fitsOf determines the forms of items for clients of each generation. It reuses the forms of the
// same definitions in the previous snapshot.
func fitsOf(c *catalog.Catalog, before *snapshot) fits {
	out := fits{}
	for _, kind := range mcp.ListKinds {
		for _, it := range c.Items(kind) {
			if before != nil {
				if old, ok := before.catalog.Item(kind, it.Visible); ok && old.Digest == it.Digest && old.Upstream == it.Upstream {
					out[it] = before.fits[old]
					continue
				}
			}
			out[it] = fit(it)
		}
	}
	return out
}

func fit(it *catalog.Item) (forms [2][]byte) {
	for i, modern := range [...]bool{false, true} {
		forms[i], _ = catalog.Fit(it.Kind, it.JSON, modern)
	}
	return forms
}

// of returns the form of an item for a generation; nil when its clients cannot parse it.
func (m fits) of(it *catalog.Item, modern bool) []byte {
	forms, ok := m[it]
	if !ok {
		forms = fit(it)
	}
	if modern {
		return forms[1]
	}
	return forms[0]
}

// report logs the items that are newly omitted.
func (f *Federation) report(before, now *snapshot) {
	known := make(map[catalog.LeftOut]bool, len(before.catalog.LeftOut()))
	for _, left := range before.catalog.LeftOut() {
		known[left] = true
	}
	reported, more := 0, 0
	warn := func(left catalog.LeftOut, reason string) {
		if reported++; reported > maxReported {
			more++
			return
		}
		args := []any{"upstream", left.Upstream, "kind", left.Kind.String(), "name", left.Own,
			"visible_name", left.Visible, "reason", reason, "owner", left.Owner}
		if fix := left.Remedy(); fix != "" {
			args = append(args, "fix", fix)
		}
		f.opts.Logger.Warn("an item is omitted from the lists", args...)
	}
	for _, left := range now.catalog.LeftOut() {
		if left.Reason != catalog.ReasonHidden && !known[left] {
			warn(left, string(left.Reason))
		}
	}
	for _, kind := range mcp.ListKinds {
		for _, it := range now.catalog.Items(kind) {
			old, ok := before.catalog.Item(kind, it.Visible)
			if ok && old.Digest == it.Digest {
				continue
			}
			if len(it.Visible) > catalog.LongVisible && kind == mcp.Tool {
				f.opts.Logger.Warn("a tool has a name that some clients truncate", "upstream", it.Upstream, "visible_name", it.Visible, "bytes", len(it.Visible))
			}
			for _, modern := range []bool{false, true} {
				if now.fits.of(it, modern) == nil {
					_, problem := catalog.Fit(kind, it.JSON, modern)
					generation := "legacy"
					if modern {
						generation = "2026-07-28"
					}
					warn(catalog.LeftOut{Upstream: it.Upstream, Kind: kind, Own: it.Own, Visible: it.Visible}, "clients of the generation "+generation+" cannot read it: "+problem)
				}
			}
		}
	}
	if more > 0 {
		f.opts.Logger.Warn("further items are omitted from the lists", "items", more)
	}
	f.reportAlike(before.catalog, now.catalog)
}

// reportAlike logs the items whose visible names newly look like those of other upstreams.
func (f *Federation) reportAlike(before, now *catalog.Catalog) {
	had := func(it *catalog.Item) bool {
		old, ok := before.Item(it.Kind, it.Visible)
		return ok && old.Upstream == it.Upstream
	}
	reported := 0
	for _, a := range now.Alike() {
		if had(a.Item) && had(a.Other) {
			continue
		}
		if reported++; reported > maxReported {
			continue
		}
		f.opts.Logger.Warn("a name looks like that of another upstream, which it may imitate", "upstream", a.Item.Upstream, "kind", a.Item.Kind.String(),
			"visible_name", a.Item.Visible, "looks_like", a.Other.Visible, "other_upstream", a.Other.Upstream, "fix", "compare the definitions; then remove one with tools.deny, or tell them apart with tools.rename or a prefix")
	}
	if reported > maxReported {
		f.opts.Logger.Warn("further names look like those of other upstreams", "items", reported-maxReported)
	}
}
