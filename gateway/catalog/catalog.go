package catalog

import (
	"cmp"
	"slices"
)

// Listing is what one upstream lists now.
type Listing struct {
	Upstream string
	// Items are the definitions of each kind in the upstream's order, each one JSON
	// value of a message that was scanned.
	Items [numKinds][][]byte
}

// LeftOut is an item that clients do not see, and why.
type LeftOut struct {
	Upstream string
	Kind     Kind
	Own      string // empty where the definition names nothing
	Visible  string // the name that it would have, where it has one
	Reason   Reason
	Owner    string // of a claimed name
}

// Catalog is what clients see of several upstreams at one moment. It is immutable
// and safe for concurrent use.
type Catalog struct {
	names   *Names
	items   [numKinds][]*Item // upstreams in the order of the file, items in that of the upstream
	byKey   [numKinds]map[string]*Item
	heads   *heads
	leftOut []LeftOut
	gone    [numKinds]gone
}

// Build merges lists. Listings may come in any order; an upstream without one has
// no items. previous is the catalog before, or nil: with it a cursor that was
// given out goes on at its place. The owners decide which upstream keeps a name
// that several list, and the order of the file where nobody owns it yet.
func Build(names *Names, owners *Owners, previous *Catalog, listings []Listing) *Catalog {
	c := &Catalog{names: names}
	owners.next()
	listings = slices.Clone(listings)
	slices.SortStableFunc(listings, func(a, b Listing) int { return cmp.Compare(names.order[a.Upstream], names.order[b.Upstream]) })
	for _, kind := range Kinds {
		c.byKey[kind] = map[string]*Item{}
	}
	var read [][]*Item // those of each list that can have an owner
	var all []*Item
	for i := range listings {
		for _, kind := range claimOrder {
			items := c.read(&listings[i], kind)
			read, all = append(read, items), append(all, items...)
		}
	}
	owners.settle(all)
	c.heads = newHeads(owners.templates())
	for _, items := range read {
		c.own(owners, items)
	}
	for _, kind := range Kinds {
		for i, it := range c.items[kind] {
			it.index = i
		}
		c.gone[kind] = goneSince(previous, c, kind)
	}
	return c
}

// claimOrder is the order in which the lists of an upstream are claimed: templates own
// uris too.
var claimOrder = [...]Kind{Tool, Prompt, Template, Resource}

// read returns the items of one upstream and kind that clients can be shown, and notes the
// others as left out.
func (c *Catalog) read(l *Listing, kind Kind) (items []*Item) {
	seen := map[string]bool{}
	leave := func(it *Item, why Reason) {
		out := LeftOut{Upstream: l.Upstream, Kind: kind, Reason: why}
		if it != nil {
			out.Own, out.Visible = it.Own, it.Visible
		}
		c.leftOut = append(c.leftOut, out)
	}
	for n, raw := range l.Items[kind] {
		if n >= MaxItems {
			leave(nil, ReasonTooMany)
			break
		}
		it, why := newItem(c.names, l.Upstream, kind, raw)
		if why == "" && seen[it.Visible] {
			why = ReasonTwice
		}
		if why != "" {
			leave(it, why)
			continue
		}
		seen[it.Visible] = true
		items = append(items, it)
	}
	return items
}

// own adds the items that their upstream owns.
func (c *Catalog) own(owners *Owners, items []*Item) {
	for _, it := range items {
		if owner := c.claim(owners, it); owner != it.Upstream {
			c.leftOut = append(c.leftOut, LeftOut{Upstream: it.Upstream, Kind: it.Kind, Own: it.Own, Visible: it.Visible, Reason: ReasonClaimed, Owner: owner})
			continue
		}
		c.items[it.Kind] = append(c.items[it.Kind], it)
		c.byKey[it.Kind][it.Visible] = it
	}
}

// claim returns the owner of what an item is asked for by: its own upstream, when
// nobody else has it.
func (c *Catalog) claim(owners *Owners, it *Item) string {
	switch it.Kind {
	case Template:
		if owner, ok := c.heads.covers(it.Visible, it.Upstream); ok {
			return owner
		}
	case Resource:
		owner, ok := c.heads.ownerOf(it.Visible)
		if kept, has := owners.Of(Resource, it.Visible); ok && owner != it.Upstream && (!has || kept != it.Upstream) {
			return owner
		}
	}
	owner := owners.claim(it.Kind, it.Visible, it.Upstream)
	if it.Kind == Template && owner == it.Upstream {
		c.heads.add(it.Visible, it.Upstream)
	}
	return owner
}

// LeftOut returns what clients do not see.
func (c *Catalog) LeftOut() []LeftOut { return c.leftOut }

// Items returns all items of a kind in their order.
func (c *Catalog) Items(kind Kind) []*Item { return c.items[kind] }

// Item returns the item that clients ask for as visible.
func (c *Catalog) Item(kind Kind, visible string) (*Item, bool) {
	it, ok := c.byKey[kind][visible]
	return it, ok
}

// Page returns up to limit items of a kind that the caller may see, beginning
// behind the item named by after, or with the first one when after is empty. more
// reports that further items follow. ok is false when after names nothing that was
// ever in its place.
func (c *Catalog) Page(kind Kind, after string, limit int, keep func(*Item) bool) (page []*Item, more, ok bool) {
	from := 0
	if after != "" {
		if from, ok = c.behind(kind, after); !ok {
			return nil, false, false
		}
	}
	for _, it := range c.items[kind][from:] {
		if !keep(it) {
			continue
		}
		if len(page) == limit {
			return page, true, true
		}
		page = append(page, it)
	}
	return page, false, true
}
