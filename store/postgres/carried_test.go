package postgres

import (
	"regexp"
	"testing"

	"svc/store/transfer"
)

// TestEverythingIsCarried: every kind of rows is known here, and every table is part of
// one or is left behind for a reason. A table that is new fails until it is in one of the
// lists.
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
		for _, name := range c.tables {
			known[name] = true
		}
	}
	for _, m := range schema {
		for _, found := range regexp.MustCompile(`CREATE TABLE (?:IF NOT EXISTS )?(\w+)`).FindAllStringSubmatch(m.SQL, -1) {
			if !known[found[1]] {
				t.Errorf("nothing says what a migration does with table %s", found[1])
			}
		}
	}
}
