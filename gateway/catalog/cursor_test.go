package catalog

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func testCursors(t *testing.T, key byte) Cursors {
	t.Helper()
	block, err := aes.NewCipher([]byte(strings.Repeat(string(rune(key)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return Cursors{AEAD: aead}
}

func TestCursorsHoldForOneListAndCaller(t *testing.T) {
	s := testCursors(t, 'k')
	it := &Item{Kind: Tool, Visible: "a_" + strings.Repeat("x", MaxKey-2)}
	cursor := s.Seal([]byte("alice"), it)
	if after, err := s.Open([]byte("alice"), Tool, cursor); err != nil || after != it.Visible {
		t.Fatalf("%v", err)
	}
	flipped := []byte(cursor)
	flipped[len(flipped)/2] ^= 1
	tests := []struct {
		name, scope string
		kind        Kind
		cursor      string
		by          Cursors
	}{
		{"another caller", "bob", Tool, cursor, s},
		{"another kind", "alice", Prompt, cursor, s},
		{"another key", "alice", Tool, cursor, testCursors(t, 'l')},
		{"changed", "alice", Tool, string(flipped), s},
		{"cut", "alice", Tool, cursor[:len(cursor)-2], s},
		{"nothing", "alice", Tool, "", s},
		{"another alphabet", "alice", Tool, "+/" + cursor[2:], s},
		{"long", "alice", Tool, strings.Repeat("A", 1<<20), s},
		{"of nothing", "alice", Tool, s.Seal([]byte("alice"), &Item{Kind: Tool}), s},
	}
	for _, tt := range tests {
		if after, err := tt.by.Open([]byte(tt.scope), tt.kind, tt.cursor); !errors.Is(err, ErrCursor) {
			t.Errorf("%s: %q, %v", tt.name, after, err)
		}
	}
}

// A position that was never in the list, or that is no longer remembered, is invalid.
func TestUnknownPlaces(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"})
	owners := memoryOwners(t)
	c := Build(names, owners, nil, []Listing{list("a", "tool:x", "tool:y")})
	c = Build(names, owners, c, []Listing{list("a", "tool:y")})
	all := func(*Item) bool { return true }
	if page, more, ok := c.Page(Tool, "x", 10, all); !ok || more || len(page) != 1 || page[0].Own != "y" {
		t.Errorf("after a removed item: %v %v %v", page, more, ok)
	}
	if _, _, ok := c.Page(Tool, "z", 10, all); ok {
		t.Error("z was never listed")
	}
	for i := range 5 { // each list replaces all items of the previous one
		l := Listing{Upstream: "a"}
		for n := range MaxItems {
			l.Items[Tool] = append(l.Items[Tool], fmt.Appendf(nil, `{"name":"t%d_%d"}`, i, n))
		}
		c = Build(names, owners, c, []Listing{l})
	}
	if n := len(c.gone[Tool]); n > maxGone+MaxItems {
		t.Errorf("%d positions are kept", n)
	}
	if n := len(owners.owned); n > maxOwned {
		t.Errorf("%d names are kept", n)
	}
	if n := owners.count["a"]; n != len(owners.owned) {
		t.Errorf("%d names are counted, %d are kept", n, len(owners.owned))
	}
}
