package detect

import (
	"unicode"
	"unicode/utf8"
)

// ibanLengths holds the length of the account numbers of each country (ISO
// 13616 registry).
var ibanLengths = map[[2]byte]int{
	{'A', 'D'}: 24, {'A', 'E'}: 23, {'A', 'L'}: 28, {'A', 'T'}: 20, {'A', 'Z'}: 28, {'B', 'A'}: 20, {'B', 'E'}: 16, {'B', 'G'}: 22, {'B', 'H'}: 22,
	{'B', 'I'}: 27, {'B', 'R'}: 29, {'B', 'Y'}: 28, {'C', 'H'}: 21, {'C', 'R'}: 22, {'C', 'Y'}: 28, {'C', 'Z'}: 24, {'D', 'E'}: 22, {'D', 'J'}: 27,
	{'D', 'K'}: 18, {'D', 'O'}: 28, {'E', 'E'}: 20, {'E', 'G'}: 29, {'E', 'S'}: 24, {'F', 'I'}: 18, {'F', 'K'}: 18, {'F', 'O'}: 18, {'F', 'R'}: 27,
	{'G', 'B'}: 22, {'G', 'E'}: 22, {'G', 'I'}: 23, {'G', 'L'}: 18, {'G', 'R'}: 27, {'G', 'T'}: 28, {'H', 'N'}: 28, {'H', 'R'}: 21, {'H', 'U'}: 28,
	{'I', 'E'}: 22, {'I', 'L'}: 23, {'I', 'Q'}: 23, {'I', 'S'}: 26, {'I', 'T'}: 27, {'J', 'O'}: 30, {'K', 'W'}: 30, {'K', 'Z'}: 20, {'L', 'B'}: 28,
	{'L', 'C'}: 32, {'L', 'I'}: 21, {'L', 'T'}: 20, {'L', 'U'}: 20, {'L', 'V'}: 21, {'L', 'Y'}: 25, {'M', 'C'}: 27, {'M', 'D'}: 24, {'M', 'E'}: 22,
	{'M', 'K'}: 19, {'M', 'N'}: 20, {'M', 'R'}: 27, {'M', 'T'}: 31, {'M', 'U'}: 30, {'N', 'I'}: 28, {'N', 'L'}: 18, {'N', 'O'}: 15, {'O', 'M'}: 23,
	{'P', 'K'}: 24, {'P', 'L'}: 28, {'P', 'S'}: 29, {'P', 'T'}: 25, {'Q', 'A'}: 29, {'R', 'O'}: 24, {'R', 'S'}: 22, {'R', 'U'}: 33, {'S', 'A'}: 24,
	{'S', 'C'}: 31, {'S', 'D'}: 18, {'S', 'E'}: 24, {'S', 'I'}: 19, {'S', 'K'}: 24, {'S', 'M'}: 27, {'S', 'O'}: 23, {'S', 'T'}: 25, {'S', 'V'}: 28,
	{'T', 'L'}: 23, {'T', 'N'}: 24, {'T', 'R'}: 26, {'U', 'A'}: 29, {'V', 'A'}: 22, {'V', 'G'}: 24, {'X', 'K'}: 20, {'Y', 'E'}: 30,
}

func upper(c byte) byte {
	if c-'a' <= 'z'-'a' {
		return c - ('a' - 'A')
	}
	return c
}

// ibanEnd returns the end of the account number that begins at start, 0 when
// there is none: the length of its country, single separators between groups,
// check digits that are right.
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
	if i < len(t) && isWord(t[i]) {
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

// touches reports whether the last character of text belongs to a script that
// writes spaces between words, so that a number cannot begin right behind it.
func touches(text []byte) bool {
	r, _ := utf8.DecodeLastRune(text)
	return r < 0x2E80 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
