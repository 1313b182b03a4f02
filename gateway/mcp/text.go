package mcp

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// appendUnescaped appends the value of a string, given the text between its
// quotes. The text must have been scanned: escapes are not checked again.
func appendUnescaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		r, n := unescape(text[i:])
		dst = utf8.AppendRune(dst, r)
		text = text[i+n:]
	}
}

// unescape returns the character of the escape that text starts with, and the
// length of the escape. The escape must be valid.
func unescape(text []byte) (r rune, n int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ = hex4(text, 2)
		if utf16.IsSurrogate(r) {
			low, _ := hex4(text, 8)
			return utf16.DecodeRune(r, low), 12
		}
		return r, 6
	}
	return rune(text[1]), 2
}

// alias returns b as a string without copying. The string is valid until b is modified:
// see the fields Method and Name of [Message].
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// stringOf returns the value of the string, as written with its quotes. The result shares
// memory with raw unless there are escapes.
func stringOf(raw []byte, kind byte) string {
	text := raw[1 : len(raw)-1]
	if kind == kindEscaped {
		return alias(appendUnescaped(make([]byte, 0, len(text)), text))
	}
	return alias(text)
}

// plain reports whether a value contains no control characters.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7F {
			return false
		}
	}
	return true
}

// visible reports whether a value is not empty and consists of visible ASCII characters
// only.
func visible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7F {
			return false
		}
	}
	return s != ""
}
