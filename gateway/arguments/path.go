package arguments

import (
	"path"
	"strings"
	"unicode/utf8"
)

// decodings is how often percent escapes are decoded: a program may decode what another
// has decoded before.
const decodings = 3

// cleanPath returns the path that a value names: an absolute path, or a URL that begins
// with file:///. Percent escapes, dot segments and repeated slashes are resolved. ok is
// false for a value that programs read in different ways.
func cleanPath(value string) (clean string, ok bool) {
	if len(value) >= 5 && strings.EqualFold(value[:5], "file:") {
		// The text behind ? or # is no part of the path of a URL, and is one of the
		// path of a program that only takes off the scheme; controls some programs drop.
		value = value[5:]
		if !strings.HasPrefix(value, "///") || strings.ContainsAny(value, "?#") || strings.ContainsFunc(value, control) {
			return "", false
		}
		value = value[2:]
	}
	if !strings.HasPrefix(value, "/") || strings.Contains(value, "%") && malformedEscape(value) {
		return "", false
	}
	for range decodings {
		next := decodeEscapes(value)
		if next == value {
			break
		}
		value = next
	}
	if decodeEscapes(value) != value || strings.ContainsAny(value, "\x00\\") || !utf8.ValidString(value) {
		return "", false
	}
	clean = path.Clean("/" + value)
	if drive(clean) || drive(strings.TrimLeft(value, "/")) || drive(strings.TrimLeft(value, "/.")) {
		return "", false
	}
	return clean, true
}

// within reports whether a clean path is that of a directory or of something in it.
func within(root, clean string) bool {
	return clean == root || root == "/" || strings.HasPrefix(clean, root) && clean[len(root)] == '/'
}

// drive reports whether a path begins with the letter of a drive.
func drive(p string) bool {
	p = strings.TrimLeft(p, "/")
	if len(p) < 2 || p[1] != ':' && p[1] != '|' {
		return false
	}
	c := p[0] | 0x20
	return 'a' <= c && c <= 'z'
}

// malformedEscape reports whether some % is not followed by two hexadecimal digits.
func malformedEscape(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && (i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0) {
			return true
		}
	}
	return false
}

// decodeEscapes decodes the percent escapes of a text once; a % that begins none stays.
func decodeEscapes(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.IndexByte(s, '%') {
		b.WriteString(s[:i])
		if i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0 {
			b.WriteByte(byte(unhex(s[i+1])<<4 | unhex(s[i+2])))
			s = s[i+3:]
			continue
		}
		b.WriteByte('%')
		s = s[i+1:]
	}
	b.WriteString(s)
	return b.String()
}

// unhex returns the value of a hexadecimal digit, -1 for another byte.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// control reports whether a character is one that URL parsers drop or refuse.
func control(r rune) bool { return r <= ' ' || r == 0x7F }
