package policy

import "slices"

// affixes finds rules by the prefix or the suffix of a tool name. A name is looked up
// once per length that the keys with the same first byte have, so the cost depends on the
// number of lengths, not on the number of rules.
type affixes struct {
	rules     map[string][]entry
	backwards bool
	whole     []entry // the empty key, which matches every name
	// heads maps the first byte of a key to an entry of lengths, counted from 1.
	heads   [256]uint16
	lengths [][]int
}

// enter adds a rule for a prefix or suffix.
func (a *affixes) enter(key string, r *Rule) {
	if key == "" {
		a.whole = enter(a.whole, r)
		return
	}
	a.rules[key] = enter(a.rules[key], r)
	head := &a.heads[a.head(key)]
	if *head == 0 {
		a.lengths = append(a.lengths, nil)
		*head = uint16(len(a.lengths))
	}
	list := &a.lengths[*head-1]
	if i, found := slices.BinarySearch(*list, len(key)); !found {
		*list = slices.Insert(*list, i, len(key))
	}
}

// head returns the byte of a key that is compared first.
func (a *affixes) head(key string) byte {
	if a.backwards {
		return key[len(key)-1]
	}
	return key[0]
}

// findAffix checks the rules under all prefixes, or suffixes, of the tool's name.
func (s *Set) findAffix(a *affixes, q *Request, best int32) int32 {
	best = s.first(a.whole, q, best)
	if q.Tool == "" || len(a.lengths) == 0 {
		return best
	}
	head := a.heads[a.head(q.Tool)]
	if head == 0 {
		return best
	}
	for _, n := range a.lengths[head-1] {
		if n > len(q.Tool) {
			break
		}
		key := q.Tool[:n]
		if a.backwards {
			key = q.Tool[len(q.Tool)-n:]
		}
		best = s.first(a.rules[key], q, best)
	}
	return best
}
