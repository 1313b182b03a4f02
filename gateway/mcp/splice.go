package mcp

import (
	"bytes"
	"slices"
)

// Edit replaces the bytes at a span.
type Edit struct {
	At   Span
	With []byte
}

// Splice appends body with the edits applied. The edits must be in ascending
// order and not overlap. An edit of an absent span is ignored.
func Splice(dst, body []byte, edits ...Edit) []byte {
	size := len(body)
	for _, e := range edits {
		size += len(e.With)
	}
	dst = slices.Grow(dst, size)
	from := 0
	for _, e := range edits {
		if !e.At.Present() || e.At.Start < from || e.At.End > len(body) {
			continue
		}
		dst = append(dst, body[from:e.At.Start]...)
		dst = append(dst, e.With...)
		from = e.At.End
	}
	return append(dst, body[from:]...)
}

// SameID reports whether two ids as written are the same JSON value: a peer may
// respond with other escapes than the request had. Numbers are compared as
// written. Both must have been scanned.
func SameID(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) < 2 || len(b) < 2 || a[0] != '"' || b[0] != '"' {
		return false
	}
	return bytes.Equal(appendUnescaped(nil, a[1:len(a)-1]), appendUnescaped(nil, b[1:len(b)-1]))
}

// StringValue returns the value of a JSON string as written with its quotes; ok
// is false when raw is not a string. raw must have been scanned.
func StringValue(raw []byte) (value string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return string(appendUnescaped(nil, raw[1:len(raw)-1])), true
}

// stringAt returns the value of the string at a span of a scanned body.
func stringAt(body []byte, at Span) (value string, ok bool) {
	return StringValue(at.Of(body))
}
