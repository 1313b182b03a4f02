package arguments

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/gateway/policy/match"
)

// decodings is how often percent escapes are decoded, because a program may decode a value that
// another has decoded before.
const decodings = 3

// cleanPath returns the path of a value: an absolute path, or a URL that begins with file:///.
// Percent escapes, dot segments and repeated slashes are resolved. ok is false for a value that
// programs parse in different ways.
func cleanPath(value string) (clean string, ok bool) {
	if len(value) > maxPath {
		return "", false
	}
	if len(value) >= 5 && strings.EqualFold(value[:5], "file:") {
		// Text after ? or # is not part of the path of a URL, but is part of it for a program
		// that only removes the scheme. Some programs drop control characters.
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
		next := match.Unescape(value)
		if next == value {
			break
		}
		value = next
	}
	if match.Unescape(value) != value || strings.ContainsAny(value, "\x00\\") || !utf8.ValidString(value) {
		return "", false
	}
	clean = path.Clean(value)
	if drive(clean) || drive(strings.TrimLeft(value, "/")) || drive(strings.TrimLeft(value, "/.")) {
		return "", false
	}
	return clean, true
}

// maxPath bounds a path in bytes, as operating systems do.
const maxPath = 4 << 10

// pathCost returns the cost of pathWithin for a value beside its plain reading, in bytes of plain
// reading: decoding costs about 16 times as much, and comparing all interpretations 256 times.
func pathCost(value string) int {
	switch {
	case len(value) > maxPath:
		return 0
	case needsReadings(pathOf(value)):
		return 256 * len(value)
	case strings.IndexByte(value, '%') >= 0:
		return 16 * len(value)
	}
	return 0
}

// pathWithin reports whether a value is the path of a directory or of something in it. ok is
// false for a value that programs interpret in different ways: one that is no clean path, and one
// whose escapes hide separators or dot segments such that it is inside in one interpretation and
// outside in another. A program that resolves dot segments without decoding interprets
// /etc/passwd/%2e%2e/%2e%2e/srv%2fa%2fb%2fc%2fd/../../.. as /etc/passwd, and one that decodes
// first as a path in /srv.
func pathWithin(root, value string) (in, ok bool) {
	clean, ok := cleanPath(value)
	if !ok {
		return false, false
	}
	in = within(root, clean)
	if !needsReadings(pathOf(value)) {
		return in, true // interpretations differ at most in the spelling of names
	}
	value, _ = pathOf(value)
	for _, reading := range pathReadings(value) {
		if within(root, reading) != in {
			return false, false
		}
	}
	return in, true
}

// pathOf returns the path of a value without the scheme of a file URL, and whether it is one.
func pathOf(value string) (path string, isURL bool) {
	if len(value) >= len("file://") && strings.EqualFold(value[:5], "file:") {
		return value[len("file://"):], true
	}
	return value, false
}

// needsReadings reports whether interpretations of a path may differ in more than the spelling of
// names. In URLs .. removes an empty segment, in paths it does not.
func needsReadings(path string, isURL bool) bool {
	return isURL && strings.Contains(path, "//") || strings.IndexByte(path, '%') >= 0 && !sameSteps(path, decodeAll(path))
}

// decodeAll decodes percent escapes as often as programs may.
func decodeAll(value string) string {
	for range decodings {
		value = match.Unescape(value)
	}
	return value
}

// sameSteps reports whether two paths have the same separators and dot segments.
func sameSteps(a, b string) bool {
	for a != "" || b != "" {
		var x, y string
		var more, also bool
		x, a, more = strings.Cut(a, "/")
		y, b, also = strings.Cut(b, "/")
		if more != also || dots(x) != dots(y) {
			return false
		}
	}
	return true
}

// dots returns a dot segment unchanged, and "" for a name.
func dots(segment string) string {
	if segment == "." || segment == ".." {
		return segment
	}
	return ""
}

// pathReadings returns the clean paths of all interpretations: each decodes up to three times,
// and before each decoding resolves dot segments, resolves plain and escaped ones as URL parsers
// do, or resolves none.
func pathReadings(value string) []string {
	var readings []string
	texts := []string{value}
	for range decodings + 1 {
		var next []string
		for _, text := range texts {
			clean, asURL := path.Clean(text), resolveURL(text)
			readings = append(readings, clean, asURL)
			for _, t := range []string{text, clean, asURL} {
				if decoded := match.Unescape(t); decoded != t && !slices.Contains(next, decoded) {
					next = append(next, decoded)
				}
			}
		}
		texts = next
	}
	return readings
}

// resolveURL resolves dot segments as URL parsers do, escaped ones too: .. removes the segment
// before it, also an empty one.
func resolveURL(value string) string {
	var steps []string
	for s := range strings.SplitSeq(strings.TrimPrefix(value, "/"), "/") {
		switch dots(match.Unescape(s)) {
		case ".":
		case "..":
			steps = steps[:max(0, len(steps)-1)]
		default:
			steps = append(steps, s)
		}
	}
	return path.Clean("/" + strings.Join(steps, "/"))
}

// within reports whether a clean path is that of a directory or of something in it.
func within(root, clean string) bool {
	return clean == root || root == "/" || strings.HasPrefix(clean, root) && clean[len(root)] == '/'
}

// drive reports whether a path begins with a drive letter.
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
		if s[i] == '%' && (i+2 >= len(s) || match.Hex(s[i+1]) < 0 || match.Hex(s[i+2]) < 0) {
			return true
		}
	}
	return false
}

// control reports whether a character is one that URL parsers drop or reject.
func control(r rune) bool { return r <= ' ' || r == 0x7F }
