package mcp

import (
	"bytes"
	"unicode/utf8"
)

// Canonicalize returns a scanned body in which every string escape has its
// shortest form: a character that needs no escape is written as itself, any
// other as the two-character escape of JSON or as \u00xx. The JSON value is the
// same and the result is never longer. A body without escapes is returned
// unchanged; otherwise the result is appended to dst.
//
// Text searches use it: AK\u0049A becomes AKIA.
func Canonicalize(dst, body []byte) []byte {
	i := bytes.IndexByte(body, '\\')
	if i < 0 {
		return body
	}
	for {
		dst = append(dst, body[:i]...)
		body = body[i:]
		if !wholeEscape(body) {
			return append(dst, body...) // the body was not scanned
		}
		r, n := unescape(body)
		if r < ' ' || r == '"' || r == '\\' {
			dst = appendEscaped(dst, byte(r))
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		body = body[n:]
		if i = bytes.IndexByte(body, '\\'); i < 0 {
			return append(dst, body...)
		}
	}
}

// wholeEscape reports whether b starts with a valid JSON escape.
func wholeEscape(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
	default:
		return false
	}
	r, ok := hex4(b, 2)
	if !ok || 0xDC00 <= r && r <= 0xDFFF {
		return false
	}
	if r < 0xD800 || r > 0xDFFF {
		return true
	}
	if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
		return false
	}
	low, ok := hex4(b, 8)
	return ok && 0xDC00 <= low && low <= 0xDFFF
}
