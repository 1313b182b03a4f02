package auth

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// maxTenures bounds the remembered secrets that are no longer configured.
const maxTenures = 16_384

// tenure is the time in which a secret of a key, or with the zero Secret the key itself, was
// configured.
type tenure struct {
	held bool // by the active keyring, also when another hash of the key stands for it
	// ended is when it was last removed, in nanoseconds since 1970; 0 for never. What it opened
	// until then stays ended when it is configured again.
	ended int64
}

type tenureID struct {
	key    string
	secret Secret
}

// tenures are the secrets that were configured. They are immutable: an activation makes new ones.
type tenures struct {
	of map[tenureID]tenure
	// floor stands for the removals that were forgotten because there were too many: what any key
	// opened until then has ended.
	floor int64
	any   bool // something was removed
}

// ended reports whether what a secret opened at a time ended with a removal.
func (t *tenures) ended(key string, opened Secret, at int64) bool {
	if t == nil || !t.any {
		return false
	}
	last := max(t.floor, t.of[tenureID{key: key}].ended)
	for _, listed := range [...]byte{0, 1} { // the same hash, as the one field and as one of hashes
		opened[len(opened)-1] = opened[len(opened)-1]&^1 | listed
		last = max(last, t.of[tenureID{key, opened}].ended)
	}
	return at <= last
}

// under returns the tenures once the keyring is active, and whether they are others.
func (t *tenures) under(k *Keyring, now time.Time) (next *tenures, changed bool) {
	next = &tenures{of: make(map[tenureID]tenure, len(t.of)), floor: t.floor}
	maps.Copy(next.of, t.of)
	for key, list := range k.byID {
		next.of[tenureID{key: key}] = tenure{held: true, ended: t.of[tenureID{key: key}].ended}
		for _, e := range list {
			id := tenureID{key, e.secret}
			next.of[id] = tenure{held: true, ended: t.of[id].ended}
		}
	}
	for id, old := range t.of {
		held := k.holds(id.key, id.secret)
		if old.held && !held {
			old.ended = now.UnixNano()
		}
		old.held = held
		next.of[id] = old
	}
	next.forget(k)
	next.any = next.floor > 0
	for _, one := range next.of {
		next.any = next.any || one.ended > 0
	}
	return next, next.floor != t.floor || !maps.Equal(next.of, t.of)
}

// forget removes the oldest of the secrets that are not configured when there are too many, first
// those of which another hash of the key took the place.
func (t *tenures) forget(k *Keyring) {
	var gone []tenureID
	for id := range t.of {
		configured := func(e *entry) bool { return id.secret == (Secret{}) || e.secret == id.secret }
		if !slices.ContainsFunc(k.byID[id.key], configured) {
			gone = append(gone, id)
		}
	}
	if len(gone) <= maxTenures {
		return
	}
	slices.SortFunc(gone, func(a, b tenureID) int { return cmp.Compare(t.of[a].ended, t.of[b].ended) })
	for _, id := range gone[:len(gone)-maxTenures] {
		t.floor = max(t.floor, t.of[id].ended)
		delete(t.of, id)
	}
}

// savedTenure is a tenure in the file of known keys.
type savedTenure struct {
	ID     string `json:"id"`
	Secret []byte `json:"secret,omitempty"`
	Held   bool   `json:"held,omitempty"`
	Ended  int64  `json:"ended,omitempty"`
}

// saved returns the tenures for the file, in a fixed order.
func (t *tenures) saved() (list []savedTenure) {
	for id, one := range t.of {
		s := savedTenure{ID: id.key, Held: one.held, Ended: one.ended}
		if id.secret != (Secret{}) {
			s.Secret = id.secret[:]
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b savedTenure) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), slices.Compare(a.Secret, b.Secret))
	})
	return list
}

// savedTenures returns the tenures of a file.
func savedTenures(list []savedTenure, floor int64) *tenures {
	t := &tenures{of: make(map[tenureID]tenure, len(list)), floor: floor}
	for _, s := range list {
		id := tenureID{key: s.ID}
		copy(id.secret[:], s.Secret)
		t.of[id] = tenure{held: s.Held, ended: s.Ended}
	}
	return t
}
