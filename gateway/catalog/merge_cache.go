package catalog

import (
	"crypto/sha256"
	"slices"
	"sync"

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
	snapshot *Snapshot
	offers   []*Offer
	catalog  *Catalog
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
// otherwise the result of build. previous is the catalog of the key before, or that of the snapshot.
func (l *mergedLists) get(key callerKey, s *Snapshot, offers []*Offer, build func(previous *Catalog) *Catalog) *Catalog {
	if key == (callerKey{}) {
		return build(s.Catalog)
	}
	l.mu.Lock()
	before := l.byKey[key]
	l.mu.Unlock()
	previous := s.Catalog
	if before != nil {
		if before.snapshot == s && slices.Equal(before.offers, offers) {
			return before.catalog
		}
		previous = before.catalog
	}
	m := &merged{snapshot: s, offers: offers, catalog: build(previous)}
	for _, items := range m.catalog.items {
		for _, it := range items {
			m.bytes += len(it.JSON)
		}
	}
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
	return m.catalog
}

// drop removes the catalog of a key. The caller holds mu.
func (l *mergedLists) drop(key callerKey) {
	if m := l.byKey[key]; m != nil {
		l.bytes -= m.bytes
		delete(l.byKey, key)
	}
}
