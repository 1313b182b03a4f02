package federation

import (
	"crypto/sha256"
	"slices"
	"sync"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Bounds on the cached merged lists of callers.
const (
	maxMerged      = 256
	maxMergedBytes = 64 << 20 // of the definitions in all of them
)

// callerKey identifies a caller with its credentials and view, and kinds of lists.
type callerKey [sha256.Size]byte

// merged is the catalog of one caller with its private lists, merged from a snapshot and offers.
// It is immutable.
type merged struct {
	snapshot *snapshot
	offers   []*catalog.Offer
	catalog  *catalog.Catalog
	fits     fits
	bytes    int
}

// mergedLists caches the catalogs of callers with private lists, because merging takes far longer
// than answering from a merged catalog.
type mergedLists struct {
	mu    sync.Mutex
	byKey map[callerKey]*merged
	bytes int
}

// mergedKey is the key of a caller and the requested kinds; the zero key for a caller whose
// catalog is not cached.
func mergedKey(c *upstream.Caller, kinds []mcp.ListKind) callerKey {
	key, ok := c.CacheKey()
	if !ok {
		return callerKey{}
	}
	text := key[:]
	for _, kind := range kinds {
		text = append(text, byte(kind))
	}
	text = append(text, c.View.Scope()...)
	return sha256.Sum256(text)
}

// get returns the cached catalog for a key if it was merged from the same snapshot and offers,
// otherwise the result of build. before is the previous catalog, or nil.
func (l *mergedLists) get(key callerKey, s *snapshot, offers []*catalog.Offer, build func(before *merged) *merged) *merged {
	if key == (callerKey{}) {
		return build(nil)
	}
	l.mu.Lock()
	before := l.byKey[key]
	l.mu.Unlock()
	if before != nil && before.snapshot == s && slices.Equal(before.offers, offers) {
		return before
	}
	m := build(before)
	m.snapshot, m.offers = s, offers
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[callerKey]*merged{}
	}
	l.drop(key)
	for old := range l.byKey { // in any order, because each can be merged again
		if len(l.byKey) < maxMerged && l.bytes+m.bytes <= maxMergedBytes {
			break
		}
		l.drop(old)
	}
	if m.bytes <= maxMergedBytes {
		l.byKey[key] = m
		l.bytes += m.bytes
	}
	return m
}

// drop removes the catalog of a key. The caller holds mu.
func (l *mergedLists) drop(key callerKey) {
	if m := l.byKey[key]; m != nil {
		l.bytes -= m.bytes
		delete(l.byKey, key)
	}
}

// mergeLists merges the lists of one caller. It reuses the known forms of unchanged items.
func (f *Federation) mergeLists(s *snapshot, before *merged, listings []catalog.Listing) *merged {
	previous := s
	if before != nil {
		previous = &snapshot{catalog: before.catalog, fits: before.fits}
	}
	c := catalog.Build(f.names, f.owners, previous.catalog, listings)
	m := &merged{catalog: c, fits: fitsOf(c, previous)}
	for _, kind := range mcp.ListKinds {
		for _, it := range c.Items(kind) {
			m.bytes += len(it.JSON)
		}
	}
	return m
}
