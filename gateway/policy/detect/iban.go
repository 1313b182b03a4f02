package detect

import (
	"unicode"
	"unicode/utf8"
)

// ibanLengths has the length of the account numbers of each country (ISO 13616 registry).
var ibanLengths = func() map[[2]byte]int {
	m := make(map[[2]byte]int)
	for _, entry := range tableOf("ibans") {
		m[[2]byte{entry[0], entry[1]}] = number(entry[3:])
	}
	return m
}()

func upper(c byte) byte {
	if c-'a' <= 'z'-'a' {
		return c - ('a' - 'A')
	}
	return c
}

// ibanEnd returns the end of the account number that begins at start, 0 when there is none. An
// account number has the length of its country, single separators between groups, and valid check
// digits.
func ibanEnd(t []byte, start int) int {
	want := ibanLengths[[2]byte{upper(t[start]), upper(t[start+1])}]
	if want == 0 {
		return 0
	}
	var chars [34]byte
	n, i := 0, start
	for n < want {
		if i < len(t) && isAlnum(t[i]) {
			chars[n] = upper(t[i])
			n++
			i++
			continue
		}
		k := i
		for k < len(t) && k-i < 2 && (t[k] == ' ' || t[k] == '-' || t[k] == '.') {
			k++
		}
		if n < 4 || k == i || k >= len(t) || !isAlnum(t[k]) {
			return 0
		}
		i = k
	}
	if i < len(t) && isWord(t[i]) && !trails(t, i) {
		return 0
	}
	rest := 0
	for k := range want {
		c := chars[(k+4)%want]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	if rest != 1 {
		return 0
	}
	return i
}

// touches reports whether the last character of text belongs to a script that writes spaces
// between words, so that a number cannot begin directly after it.
func touches(text []byte) bool {
	r, _ := utf8.DecodeLastRune(text)
	return r < 0x2E80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
