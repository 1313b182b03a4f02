package toolsearch

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/gateway/mcp"
)

// Clean returns text without what a reader does not see and a model may still
// read: control characters but line feeds and tabs, characters that change the
// direction of writing, tags, variation selectors, private-use characters, and
// all others that have no shape of their own.
func Clean(text string) string {
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

// hidden reports whether a character is one of those that Clean takes out.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ':
		return true
	case r < 0x7F:
		return false
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, // variation selectors
		r >= 0xE0000 && r <= 0xE0FFF, // tags, and what is reserved beside them
		r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0,
		r >= 0x17B4 && r <= 0x17B5, r >= 0x180B && r <= 0x180F:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// cleanJSON returns a JSON value with all strings in it cleaned, numbers as they
// were written. ok is false when the name of a member would have to be changed:
// what the upstream calls a parameter must stay what it is called. The value
// must have been scanned.
func cleanJSON(raw []byte) (clean []byte, ok bool) {
	clean = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			if c := raw[i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				clean = append(clean, c)
			}
			i++
			continue
		}
		end := i + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(raw) {
			return nil, false
		}
		text, _ := mcp.StringValue(raw[i : end+1])
		i = end + 1
		cleaned := Clean(text)
		if len(cleaned) != len(text) && isName(raw[i:]) {
			return nil, false
		}
		clean = mcp.AppendString(clean, cleaned)
	}
	return clean, true
}

// isName reports whether the string before rest is the name of a member.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\n', '\t', '\r':
		default:
			return c == ':'
		}
	}
	return false
}

// object reads a JSON object by its exact member names; nil when raw is none.
func object(raw []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// text reads a JSON string; "" when raw is none.
func text(raw []byte) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
