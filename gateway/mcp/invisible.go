package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// RemoveInvisible returns text without characters that are invisible for a person and that a model may
// still read: control characters except line feeds and tabs, characters that change the direction
// of writing, tags, variation selectors, private-use characters, and other characters without a
// glyph.
func RemoveInvisible(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, text)
}

// EscapeInvisible writes the characters that [RemoveInvisible] removes as \u escapes. data is JSON, with
// line feeds at most between its values: the result is the same JSON value, because such characters
// only occur in strings. It is data itself when there is nothing to escape.
func EscapeInvisible(data []byte) []byte {
	escaped := func(r rune) bool { return r >= 0x7F && hidden(r) }
	if utf8.Valid(data) && strings.IndexFunc(alias(data), escaped) < 0 {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for _, r := range string(data) {
		if !escaped(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", unit)
		}
	}
	return out
}

// hidden reports whether RemoveInvisible removes a character.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ':
		return true
	case r < 0x7F:
		return false
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, // variation selectors
		r >= 0xE0000 && r <= 0xE0FFF, // tags, and the reserved characters beside them
		r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0,
		r >= 0x17B4 && r <= 0x17B5, r >= 0x180B && r <= 0x180F:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}
