package bolt

import (
	"slices"
	"testing"

	"svc/store/transfer"
)

// TestEverythingIsCarried: every kind of rows is known here, and every bucket is part of
// one, is made of one, or is left behind for a reason. A bucket that is new fails until it
// is in one of the lists.
func TestEverythingIsCarried(t *testing.T) {
	known := map[string]bool{}
	for name := range notCarried {
		known[name] = true
	}
	for _, kind := range transfer.Kinds {
		c, ok := carried[kind]
		if !ok || kind != transfer.Traces && (c.export == nil || c.put == nil) {
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
