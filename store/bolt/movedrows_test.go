package bolt

import (
	"slices"
	"testing"

	"svc/store/move"
)

// TestEverythingIsCarried checks that every kind of rows is known here, and that every
// bucket stores rows of a kind, is derived from them, or is listed in notCarried with a
// reason. It fails for a new bucket until the bucket is in one of the lists.
func TestEverythingIsCarried(t *testing.T) {
	known := map[string]bool{}
	for name := range notCarried {
		known[name] = true
	}
	for _, kind := range move.Kinds {
		c, ok := carried[kind]
		if !ok || kind != move.Traces && (c.export == nil || c.put == nil) {
			t.Errorf("%s are not carried", kind)
		}
		for _, name := range slices.Concat(c.buckets, c.indexes) {
			known[name] = true
		}
	}
	for _, b := range slices.Concat(topBuckets, tenantBuckets) {
		if !known[b.name] {
			t.Errorf("nothing says what a migration does with bucket %s", b.name)
		}
	}
}
