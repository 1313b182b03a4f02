package detect

import "bytes"

// maxInWord is the length of the longest part of an escape in a word: U0001F4B3.
const maxInWord = 9

// escapeIn returns how many bytes of the word at start belong to an escape sequence that begins
// before it: 1 of \n, 5 of \u00a0, 2 of %20, 3 of the terminal sequence ESC [31m. Where the bytes
// have a second meaning, other is the length to try next: the 20 of =20 may be quoted-printable or
// the begin of a number. Both are 0 for none.
func escapeIn(t []byte, start int) (n, other int) {
	if start == 0 || start >= len(t) {
		return 0, 0
	}
	switch t[start-1] {
	case '\\':
		if start > 1 && t[start-2] == esc { // ESC \ ends a title or a link
			return 0, 0
		}
		switch t[start] {
		case 'n', 'r', 't', 'b', 'f', 'v', 'a', 'e', 'N':
			return 1, 0
		case '0':
			if allHex(t, start+1, 2) && t[start+1] < '8' && t[start+2] < '8' {
				other = 3 // octal
			}
			return 1, other
		case 'x':
			if allHex(t, start+1, 2) {
				return 3, 0
			}
		case 'u':
			if allHex(t, start+1, 4) {
				return 5, 0
			}
		case 'U':
			if allHex(t, start+1, 8) {
				return 9, 0
			}
		}
	case '%':
		if allHex(t, start, 2) {
			return 2, 0
		}
	case '=':
		if quotedPrintable(t, start) {
			return 0, 2
		}
	case '[', ';', ':', '?':
		return 0, terminal(t, start)
	case '(', ')': // selects a character set
		if start > 1 && t[start-2] == esc {
			return 0, 1
		}
	case esc:
		return 0, 1
	}
	return 0, 0
}

const esc = 0x1B

// allHex reports that n bytes at i are hexadecimal digits.
func allHex(t []byte, i, n int) bool {
	if i+n > len(t) {
		return false
	}
	for _, c := range t[i : i+n] {
		if !isHex(c) {
			return false
		}
	}
	return true
}

// quotedPrintable reports the code of a character that quoted-printable text encodes (RFC 2045,
// section 6.7): no digit and no letter.
func quotedPrintable(t []byte, i int) bool {
	if i+2 > len(t) || !isHex(t[i]) || !isHex(t[i+1]) {
		return false
	}
	c := hexValue(t[i])<<4 | hexValue(t[i+1])
	return c == '\t' || c == '\n' || c == '\r' || c >= ' ' && !isAlnum(c)
}

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}

// maxParameters bounds the parameters of a terminal sequence, in bytes.
const maxParameters = 24

// terminal returns the length of the rest of a control sequence of terminals in the word at start
// (ECMA-48: ESC [ 1;31m): the last parameter and the final letter; 0 for none. Logs often have lost
// the ESC of those for colors.
func terminal(t []byte, start int) int {
	end := start
	for end < len(t) && end-start < maxInWord-1 && isDigit(t[end]) {
		end++
	}
	if end == len(t) || class[t[end]]&letter == 0 {
		return 0
	}
	from := start - 1
	for from > 0 && start-from < maxParameters && (isDigit(t[from]) || t[from] == ';' || t[from] == ':' || t[from] == '?') {
		from--
	}
	if t[from] != '[' {
		return 0
	}
	if t[end] == 'm' && end > start {
		return end + 1 - start
	}
	for _, begin := range escBegins {
		if bytes.HasSuffix(t[:from], begin) {
			return end + 1 - start
		}
	}
	return 0
}

// escBegins are the spellings of ESC in texts.
var escBegins = [][]byte{{esc}, []byte(`\e`), []byte(`\E`), []byte(`\033`), []byte(`\33`), []byte(`\x1b`), []byte(`\x1B`), []byte(`\u001b`), []byte(`\u001B`), []byte(`^[`)}

// escaped reports that an escape sequence ends at i, so that a letter or digit in front of i is no
// part of what begins there.
func escaped(t []byte, i int) bool {
	for n := 1; n <= maxInWord && n < i; n++ {
		if !isAlnum(t[i-n]) {
			return false
		}
		if a, b := escapeIn(t, i-n); a == n || b == n {
			return true
		}
	}
	return false
}
