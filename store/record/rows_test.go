package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestPart: a part is found where bytes.Contains finds it, whatever the value was by which its
// rarest byte was chosen.
func TestPart(t *testing.T) {
	text := func(least, most int) []byte {
		b := make([]byte, least+rand.IntN(most-least+1))
		for i := range b {
			b[i] = "aabc"[rand.IntN(4)]
		}
		return b
	}
	found := 0
	for range 50_000 {
		value, sought := text(0, 12), text(1, 4)
		p := partOf(sought, text(0, 12))
		if p.in(value) != bytes.Contains(value, sought) {
			t.Fatalf("%q in %q, sought by %q: %v", sought, value, sought[p.rare], p.in(value))
		}
		if p.in(value) {
			found++
		}
	}
	if found < 5_000 || found > 45_000 {
		t.Errorf("%d of 50,000 were found", found)
	}
	r := Range{Having: [][]byte{[]byte("ab"), []byte("c")}}
	keeps := r.Keeps()
	for value, want := range map[string]bool{"": false, "ab": false, "c": false, "cab": true, "abc": true} {
		if keeps([]byte(value)) != want {
			t.Errorf("%q is kept: %v", value, !want)
		}
	}
	all := Range{}
	if !all.Keeps()(nil) {
		t.Error("a range without texts keeps nothing")
	}
}
