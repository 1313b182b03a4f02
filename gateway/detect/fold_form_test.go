package detect

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// TestDecompositionIsTheNormalForm holds what compat relies on: the decomposition
// of one character is its normal form.
func TestDecompositionIsTheNormalForm(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || hangul(r) { // syllables of Korean are not decomposed
			continue
		}
		in := string(r)
		form := norm.NFKD.PropertiesString(in).Decomposition()
		if form == nil {
			form = []byte(in)
		}
		if want := norm.NFKD.String(in); string(form) != want {
			t.Fatalf("%U: %q, want %q", r, form, want)
		}
	}
}
