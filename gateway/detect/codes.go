package detect

import (
	"strconv"
	"unicode/utf8"
)

// minCodes is how many numbers in a row may be characters.
const minCodes = 12

// numbered decodes stretches of numbers that stand for characters: decimal, eight
// binary digits, or hexadecimal with 0x.
func (e *examination) numbered(t []byte, depth int) {
	var plain []byte
	codes, between := 0, 0
	flush := func() {
		if codes >= minCodes {
			e.decoded("disguise: character codes", plain, depth)
		}
		plain, codes = plain[:0], 0
	}
	for i := 0; i < len(t); {
		if !isAlnum(t[i]) {
			if between++; between > 3 {
				flush()
			}
			i++
			continue
		}
		start := i
		for i < len(t) && isAlnum(t[i]) {
			i++
		}
		r, ok := codeOf(t[start:i])
		if !ok {
			flush()
		} else {
			plain, codes = utf8.AppendRune(plain, r), codes+1
		}
		between = 0
	}
	flush()
}

// codeOf returns the character that a number stands for.
func codeOf(w []byte) (rune, bool) {
	text, base := string(w), 10
	switch {
	case len(w) >= 3 && len(w) <= 6 && w[0] == '0' && lower(w[1]) == 'x':
		text, base = text[2:], 16
	case len(w) == 8:
		base = 2
	case len(w) > 4:
		return 0, false
	}
	for i := range len(text) {
		if !isDigit(text[i]) && base != 16 { // an error of strconv would cost memory
			return 0, false
		}
	}
	v, err := strconv.ParseUint(text, base, 16)
	if err != nil || v < ' ' && v != '\n' && v != '\t' || v == 0x7F || !utf8.ValidRune(rune(v)) {
		return 0, false
	}
	return rune(v), true
}
