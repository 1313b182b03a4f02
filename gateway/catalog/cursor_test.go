package catalog

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"strings"
	"testing"

	"svc/gateway/mcp"
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
	it := &Item{Kind: mcp.Tool, Visible: "a_" + strings.Repeat("x", MaxKey-2)}
	cursor := s.Seal([]byte("alice"), it)
	if after, err := s.Open([]byte("alice"), mcp.Tool, cursor); err != nil || after != it.Visible {
		t.Fatalf("%v", err)
	}
	flipped := []byte(cursor)
	flipped[len(flipped)/2] ^= 1
	tests := []struct {
		name, scope string
		kind        mcp.ListKind
		cursor      string
		by          Cursors
	}{
		{"another caller", "bob", mcp.Tool, cursor, s},
		{"another kind", "alice", mcp.Prompt, cursor, s},
		{"another key", "alice", mcp.Tool, cursor, testCursors(t, 'l')},
		{"changed", "alice", mcp.Tool, string(flipped), s},
		{"cut", "alice", mcp.Tool, cursor[:len(cursor)-2], s},
		{"nothing", "alice", mcp.Tool, "", s},
		{"another alphabet", "alice", mcp.Tool, "+/" + cursor[2:], s},
		{"long", "alice", mcp.Tool, strings.Repeat("A", 1<<20), s},
		{"of nothing", "alice", mcp.Tool, s.Seal([]byte("alice"), &Item{Kind: mcp.Tool}), s},
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
	c := Build(names, owners, nil, []Listing{catalogList("a", "tool:x", "tool:y")})
	c = Build(names, owners, c, []Listing{catalogList("a", "tool:y")})
	all := func(*Item) bool { return true }
	if page, more, ok := c.Page(mcp.Tool, "x", 10, all); !ok || more || len(page) != 1 || page[0].Own != "y" {
		t.Errorf("after a removed item: %v %v %v", page, more, ok)
	}
	if _, _, ok := c.Page(mcp.Tool, "z", 10, all); ok {
		t.Error("z was never listed")
	}
	for i := range 5 { // each list replaces all items of the previous one
		l := Listing{Upstream: "a"}
		for n := range MaxItems {
			l.Items[mcp.Tool] = append(l.Items[mcp.Tool], fmt.Appendf(nil, `{"name":"t%d_%d"}`, i, n))
		}
		c = Build(names, owners, c, []Listing{l})
	}
	if n := len(c.gone[mcp.Tool]); n > maxGone+MaxItems {
		t.Errorf("%d positions are kept", n)
	}
	if n := len(owners.owned); n > maxOwned {
		t.Errorf("%d names are kept", n)
	}
	if n := owners.count["a"]; n != len(owners.owned) {
		t.Errorf("%d names are counted, %d are kept", n, len(owners.owned))
	}
}
