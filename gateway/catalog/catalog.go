package catalog

import (
	"cmp"
	"slices"

	"svc/gateway/mcp"
)

// Listing is the present list of one upstream.
type Listing struct {
	Upstream string
	// Items are the definitions of each kind in the upstream's order, each one JSON value of a
	// scanned message.
	Items [mcp.NumListKinds][][]byte
}

// LeftOut is an item that is omitted from the merged lists, with the reason.
type LeftOut struct {
	Upstream string
	Kind     mcp.ListKind
	Own      string // empty if the definition has no name
	Visible  string // the name that it would have, if any
	Reason   Reason
	Owner    string // for a name with an owner
	Problem  string // why clients may not use an address
}

// Catalog is the merged lists of several upstreams at one moment. It is immutable and safe for
// concurrent use.
type Catalog struct {
	names   *Names
	items   [mcp.NumListKinds][]*Item        // upstreams in the order of the file, items in that of the upstream
	byKey   [mcp.NumListKinds]map[string]int // index in items by visible name
	read    map[readKey]*read
	heads   *heads
	leftOut []LeftOut
	gone    [mcp.NumListKinds]gone
}

type readKey struct {
	upstream string
	kind     mcp.ListKind
}

// read is one list with the items whose names their upstream can own, and those that are left out.
type read struct {
	list    [][]byte
	items   []*Item
	leftOut []LeftOut
}

// Build merges lists. Listings may come in any order; an upstream without one has no items.
// previous is the previous catalog, or nil: with it a cursor of an earlier page continues at its
// position, and unchanged items are the same ones. The owners decide which upstream keeps a name
// that several list; a name without an owner goes to the first upstream in the order of the file.
// With nil names all items have the upstreams' own names, and listings are in the order of the file.
func Build(names *Names, owners *Owners, previous *Catalog, listings []Listing) *Catalog {
	c := &Catalog{names: names, read: map[readKey]*read{}}
	owners.next()
	listings = slices.Clone(listings)
	if names != nil {
		slices.SortStableFunc(listings, func(a, b Listing) int { return cmp.Compare(names.order[a.Upstream], names.order[b.Upstream]) })
	}
	for _, kind := range mcp.ListKinds {
		c.byKey[kind] = map[string]int{}
	}
	var lists [][]*Item
	var all []*Item
	for i := range listings {
		for _, kind := range claimOrder {
			r := c.readList(readKey{listings[i].Upstream, kind}, listings[i].Items[kind], previous)
			lists = append(lists, r.items)
			for _, it := range r.items {
				if !it.Addressed {
					all = append(all, it)
				}
			}
			c.leftOut = append(c.leftOut, r.leftOut...)
		}
	}
	owners.settle(all)
	c.heads = newHeads(owners.templates())
	for _, items := range lists {
		c.own(owners, items)
	}
	for _, kind := range mcp.ListKinds {
		c.gone[kind] = goneSince(previous, c, kind)
	}
	return c
}

// claimOrder is the order in which the lists of an upstream are claimed. Templates come before
// resources, because they own uris too.
var claimOrder = [...]mcp.ListKind{mcp.Tool, mcp.Prompt, mcp.Template, mcp.Resource}

// readList reads the list of one upstream and kind. What the previous catalog read of the same list
// is valid for this one.
func (c *Catalog) readList(key readKey, list [][]byte, previous *Catalog) *read {
	if previous != nil && previous.names == c.names {
		if r := previous.read[key]; r != nil && slices.EqualFunc(r.list, list, sameBytes) {
			c.read[key] = r
			return r
		}
	}
	r, seen := &read{list: list}, map[string]bool{}
	c.read[key] = r
	leave := func(it *Item, why Reason) {
		out := LeftOut{Upstream: key.upstream, Kind: key.kind, Reason: why}
		if it != nil {
			out.Own, out.Visible = it.Own, it.Visible
		}
		if why == ReasonAddress {
			out.Problem = c.names.addressProblem(key.kind, it.Visible)
		}
		r.leftOut = append(r.leftOut, out)
	}
	for n, raw := range list {
		if n >= MaxItems {
			leave(nil, ReasonTooMany)
			break
		}
		it, why := newItem(c.names, key.upstream, key.kind, raw)
		if why == "" && seen[it.Visible] {
			why = ReasonTwice
		}
		if why != "" {
			leave(it, why)
			continue
		}
		seen[it.Visible] = true
		if previous != nil {
			if old, ok := previous.Item(key.kind, it.Visible); ok && old.Same(it) {
				it = old
			}
		}
		r.items = append(r.items, it)
	}
	return r
}

// sameBytes reports whether two definitions are the same memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// own adds the items that their upstream owns.
func (c *Catalog) own(owners *Owners, items []*Item) {
	for _, it := range items {
		if owner := c.claim(owners, it); owner != it.Upstream {
			c.leftOut = append(c.leftOut, LeftOut{Upstream: it.Upstream, Kind: it.Kind, Own: it.Own, Visible: it.Visible, Reason: ReasonClaimed, Owner: owner})
			continue
		}
		c.byKey[it.Kind][it.Visible] = len(c.items[it.Kind])
		c.items[it.Kind] = append(c.items[it.Kind], it)
	}
}

// claim returns the owner of an item's key: its own upstream, if the key had no owner.
func (c *Catalog) claim(owners *Owners, it *Item) string {
	if it.Addressed {
		return it.Upstream
	}
	switch it.Kind {
	case mcp.Template:
		if owner, ok := c.heads.covers(it.Visible, it.Upstream); ok {
			return owner
		}
	case mcp.Resource:
		owner, ok := c.heads.ownerOf(it.Visible)
		if kept, has := owners.Of(mcp.Resource, it.Visible); ok && owner != it.Upstream && (!has || kept != it.Upstream) {
			return owner
		}
	}
	owner := owners.claim(it.Kind, it.Visible, it.Upstream)
	if it.Kind == mcp.Template && owner == it.Upstream {
		c.heads.add(it.Visible, it.Upstream)
	}
	return owner
}

// LeftOut returns the items that are omitted from the merged lists.
func (c *Catalog) LeftOut() []LeftOut { return c.leftOut }

// Items returns all items of a kind in their order.
func (c *Catalog) Items(kind mcp.ListKind) []*Item { return c.items[kind] }

// Item returns the item with a visible name.
func (c *Catalog) Item(kind mcp.ListKind, visible string) (*Item, bool) {
	i, ok := c.byKey[kind][visible]
	if !ok {
		return nil, false
	}
	return c.items[kind][i], true
}

// Page returns up to limit items of a kind that the caller may see, beginning after the item
// named by after, or with the first one when after is empty. more reports that further items
// follow. ok is false when after names no present or remembered item.
func (c *Catalog) Page(kind mcp.ListKind, after string, limit int, keep func(*Item) bool) (page []*Item, more, ok bool) {
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
