package flow

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// Labels is a set of labels: bit i is the label Names.List()[i]. The zero value is the empty set. A
// set means something only together with the [Names] that it was made with.
type Labels uint16

// MaxNames bounds the names of one configuration.
const MaxNames = 16

// All reports whether all labels of other are in l.
func (l Labels) All(other Labels) bool { return l&other == other }

// Any reports whether one of the labels of other is in l.
func (l Labels) Any(other Labels) bool { return l&other != 0 }

// Len returns the number of labels in the set.
func (l Labels) Len() int { return bits.OnesCount16(uint16(l)) }

// Names are the declared names, sorted. It is immutable; a nil Names has none.
type Names struct {
	list []string
	in   [64]atomic.Pointer[subset] // of some sets, by their lowest bits: of all sets of up to 6 names
}

// subset are the names in a set.
type subset struct {
	of    Labels
	names []string
}

// NewNames returns the names of a list, each once. Names beyond [MaxNames] are left out; a configuration
// that was validated has none.
func NewNames(list ...string) *Names {
	n := &Names{list: slices.Compact(slices.Sorted(slices.Values(list)))}
	if len(n.list) > MaxNames {
		n.list = n.list[:MaxNames]
	}
	return n
}

// List returns all names in the order of their bits. The caller must not change it.
func (n *Names) List() []string {
	if n == nil {
		return nil
	}
	return n.list
}

// Every returns the set with all names.
func (n *Names) Every() Labels { return Labels(1<<len(n.List()) - 1) }

// Of returns the set of some names. Names that are not declared are left out.
func (n *Names) Of(names ...string) (l Labels) {
	for _, name := range names {
		if i, ok := slices.BinarySearch(n.List(), name); ok {
			l |= 1 << i
		}
	}
	return l
}

// In returns the names in a set, sorted; nil for the empty set. The caller must not change the list, which
// other callers have too.
func (n *Names) In(l Labels) []string {
	if n == nil || l == 0 {
		return nil
	}
	kept := &n.in[int(l)%len(n.in)]
	if s := kept.Load(); s != nil && s.of == l {
		return s.names
	}
	s := &subset{of: l}
	for i, name := range n.list {
		if l>>i&1 != 0 {
			s.names = append(s.names, name)
		}
	}
	s.names = slices.Clip(s.names)
	kept.Store(s)
	return s.names
}
