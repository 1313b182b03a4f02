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
	c := &Catalog{names: names, heads: newHeads(owners.templates())}
	owners.next()
	listings = slices.Clone(listings)
	slices.SortStableFunc(listings, func(a, b Listing) int { return cmp.Compare(names.order[a.Upstream], names.order[b.Upstream]) })
	for _, kind := range Kinds {
		c.byKey[kind] = map[string]*Item{}
	}
	for i := range listings {
		for _, kind := range [...]Kind{Tool, Prompt, Template, Resource} { // templates own uris too
			c.addList(owners, &listings[i], kind)
		}
	}
	for _, kind := range Kinds {
		for i, it := range c.items[kind] {
			it.index = i
		}
		c.gone[kind] = goneSince(previous, c, kind)
	}
	return c
}

// addList adds the items of one upstream and kind.
func (c *Catalog) addList(owners *Owners, l *Listing, kind Kind) {
	seen := map[string]bool{}
	leave := func(it *Item, why Reason, owner string) {
		out := LeftOut{Upstream: l.Upstream, Kind: kind, Reason: why, Owner: owner}
		if it != nil {
			out.Own, out.Visible = it.Own, it.Visible
		}
		c.leftOut = append(c.leftOut, out)
	}
	for n, raw := range l.Items[kind] {
		if n >= MaxItems {
			leave(nil, ReasonTooMany, "")
			break
		}
		it, why := newItem(c.names, l.Upstream, kind, raw)
		if why == "" && seen[it.Visible] {
			why = ReasonTwice
		}
		if why != "" {
			leave(it, why, "")
			continue
		}
		seen[it.Visible] = true
		if owner := c.claim(owners, it); owner != l.Upstream {
			leave(it, ReasonClaimed, owner)
			continue
		}
		c.items[kind] = append(c.items[kind], it)
		c.byKey[kind][it.Visible] = it
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

// Owner returns the upstream that is asked for a name or uri that is not listed
// now: by the prefix of its name, by the owners, by the head of a template.
func (c *Catalog) Owner(owners *Owners, kind Kind, visible string) (upstream string, ok bool) {
	if kindFacts[kind].named {
		if upstream, ok := c.names.ByPrefix(visible); ok {
			return upstream, true
		}
	}
	if upstream, ok := owners.Of(kind, visible); ok {
		return upstream, true
	}
	if kind == Resource {
		return c.heads.ownerOf(visible)
	}
	return "", false
}

// Page returns up to limit items of a kind that the caller may see, beginning
// behind the item named by after, or with the first one when after is empty. more
// tells that further items follow. ok is false when after names nothing that was
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
