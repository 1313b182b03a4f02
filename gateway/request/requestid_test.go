package request

import (
	"regexp"
	"testing"
	"time"
)

func TestRequestIDIsATimeOrderedUUID(t *testing.T) {
	shape := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	now := time.UnixMilli(1_790_000_000_000)
	last := ""
	for i := range 1000 {
		id := NewID(now.Add(time.Duration(i) * time.Millisecond))
		if !shape.MatchString(id) {
			t.Fatalf("%q is not a UUIDv7", id)
		}
		if id <= last {
			t.Fatalf("%q does not sort after %q", id, last)
		}
		last = id
	}
}
