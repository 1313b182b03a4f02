package postgres

import (
	"regexp"
	"testing"

	"svc/store/move"
)

// TestEverythingIsCarried checks that every kind of rows is known here, and that every
// table stores rows of a kind or is listed in notCarried with a reason. It fails for a
// new table until the table is in one of the lists.
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
		for _, name := range c.tables {
			known[name] = true
		}
	}
	for _, m := range schema {
		for _, found := range regexp.MustCompile(`CREATE TABLE (?:IF NOT EXISTS )?(\w+)`).FindAllStringSubmatch(m.SQL, -1) {
			if !known[found[1]] {
				t.Errorf("table %s is neither in carried nor in notCarried", found[1])
			}
		}
	}
}
