package bolt

import (
	"cmp"
	"slices"
)

// sortNewest sorts records by descending time, then by descending id, for
// buckets whose keys have another order.
func sortNewest[T any](list []T, by func(*T) (nanos int64, id string)) {
	slices.SortStableFunc(list, func(a, b T) int {
		at, ai := by(&a)
		bt, bi := by(&b)
		return cmp.Or(cmp.Compare(bt, at), cmp.Compare(bi, ai))
	})
}
