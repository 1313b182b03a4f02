package detect

// Classes of bytes. Bytes of characters beyond ASCII have none.
const (
	letter byte = 1 << iota
	digit
	underscore
	mark // @ : - $ which may be in the middle of a finding

	word = letter | digit | underscore
)

// class has the class of each byte.
var class = func() (t [256]byte) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = letter, letter
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = digit
	}
	t['_'] = underscore
	t['@'], t[':'], t['-'], t['$'] = mark, mark, mark, mark
	return t
}()

func isDigit(c byte) bool { return c-'0' <= 9 }

// isWord reports a letter, a digit or an underscore.
func isWord(c byte) bool { return class[c]&word != 0 }

// isAlnum reports a letter or a digit.
func isAlnum(c byte) bool { return class[c]&(letter|digit) != 0 }

func isUpper(c byte) bool { return c-'A' <= 'Z'-'A' }

func isHex(c byte) bool { return isDigit(c) || lower(c)-'a' <= 5 }

// lower returns the lower-case form of an ASCII letter.
func lower(c byte) byte {
	if isUpper(c) {
		return c + 'a' - 'A'
	}
	return c
}
