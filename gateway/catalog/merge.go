package catalog

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
)

// MergeOptions are the parameters of NewMerge.
type MergeOptions struct {
	Lists *Reader
	// Feeds are the upstreams, in the order of the file.
	Feeds []*Feed
	// Need are the lists. Private ones are merged for their callers if clients get them.
	Need Need
	// Names are the names that clients see; nil if they are the upstreams' own.
	Names *Names
	// Owners decide which upstream keeps a name that several list.
	Owners *Owners
	// Wait bounds how long a caller waits for upstreams that were not read yet, and for private
	// lists.
	Wait time.Duration
	// StaleFor is how long the last lists of an upstream are merged while it cannot be read.
	StaleFor time.Duration
	Now      func() time.Time
	// Changed is called after each merge, by one goroutine at a time. It must not merge again: it
	// calls neither Current nor Rebuild.
	Changed func(before, after *Snapshot)
}

// Merge is the merged lists of upstreams. It runs with the reader. Its methods are safe for
// concurrent use.
type Merge struct {
	opts MergeOptions
	// first is closed when the first lists were merged; begun is set right before.
	first chan struct{}
	begun atomic.Bool

	building sync.Mutex // serializes rebuilds
	current  atomic.Pointer[Snapshot]
	merged   mergedLists
}

// NewMerge returns the merge of lists that are not known yet. It must be called before the reader
// runs.
func NewMerge(opts MergeOptions) *Merge {
	m := &Merge{opts: opts, first: make(chan struct{})}
	need := opts.Need
	need.Read = func(*Offer, []mcp.ListKind) {
		if m.begun.Load() {
			m.Rebuild()
		}
	}
	for _, fd := range opts.Feeds {
		fd.Follow(need)
		fd.kept = true
	}
	m.current.Store(m.build(nil))
	opts.Lists.merges = append(opts.Lists.merges, m)
	return m
}

// awaitFirst merges the first lists when every upstream was read once, or Wait has passed: before,
// the order of the file decides which upstream owns a name.
func (m *Merge) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.opts.Wait)
	defer cancel()
	ready(ctx, m.opts.Feeds)
	m.begun.Store(true) // readings that end from here on trigger a merge themselves
	m.rebuild()
	close(m.first)
}

// Snapshot is the merged lists that are the same for all clients, at one time. It is immutable.
type Snapshot struct {
	Catalog *Catalog
	// Offers are the last offers of the upstreams.
	Offers map[string]*Offer
	// Private are the kinds of which an upstream has private lists that clients get.
	Private map[string][]mcp.ListKind

	listings []Listing
	// down are the upstreams whose items are unknown or expired, and those whose last reading
	// failed.
	down []string
	// ttls are the shortest validity of the shared lists of each upstream; without an entry if
	// none is stated.
	ttls map[string]time.Duration
	// until is when an upstream's last items must no longer be listed; zero for never.
	until time.Time
}

// Current returns the current snapshot.
func (m *Merge) Current() *Snapshot {
	s := m.current.Load()
	if !s.until.IsZero() && m.opts.Now().After(s.until) {
		return m.rebuild()
	}
	return s
}

// Rebuild merges the lists again, because names have other owners; not before the first merge.
func (m *Merge) Rebuild() {
	if m.begun.Load() {
		m.rebuild()
	}
}

func (m *Merge) rebuild() *Snapshot {
	m.building.Lock()
	defer m.building.Unlock()
	before := m.current.Load()
	s := m.build(before)
	m.current.Store(s)
	m.opts.Changed(before, s)
	return s
}

func (m *Merge) build(before *Snapshot) *Snapshot {
	s := &Snapshot{Offers: map[string]*Offer{}, Private: map[string][]mcp.ListKind{}, ttls: map[string]time.Duration{}}
	now := m.opts.Now()
	for _, fd := range m.opts.Feeds {
		offer, at, failing := fd.last()
		if failing || offer == nil {
			s.down = append(s.down, fd.Name)
		}
		if offer == nil {
			continue
		}
		if failing {
			end := at.Add(m.opts.StaleFor)
			if now.After(end) {
				continue
			}
			if s.until.IsZero() || end.Before(s.until) {
				s.until = end
			}
		}
		s.Offers[fd.Name] = offer
		s.add(fd, offer, m.opts.Need.Kinds)
	}
	var previous *Catalog
	if before != nil {
		previous = before.Catalog
	}
	s.Catalog = Build(m.opts.Names, m.opts.Owners, previous, s.listings)
	return s
}

// add adds the shared lists of an upstream.
func (s *Snapshot) add(fd *Feed, offer *Offer, kinds []mcp.ListKind) {
	listing := Listing{Upstream: fd.Name}
	for i := range offer.Lists {
		list := &offer.Lists[i]
		switch {
		case !slices.Contains(kinds, list.Kind): // another part of the gateway needs it
			continue
		case fd.Private(offer, list):
			if fd.merged {
				s.Private[fd.Name] = append(s.Private[fd.Name], list.Kind)
			}
			continue
		}
		listing.Items[list.Kind] = list.Items
		if ttl, has := s.ttls[fd.Name]; list.HasTTL && len(list.Items) > 0 && (!has || list.TTL < ttl) {
			s.ttls[fd.Name] = list.TTL
		}
	}
	s.listings = append(s.listings, listing)
}
