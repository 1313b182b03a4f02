package mcp

import "bytes"

// TextKind says what a piece of text inside a body is.
type TextKind uint8

// The kinds of texts. Only string values can be rewritten without changing what
// kind of message it is.
const (
	TextString TextKind = iota // the value of a string
	TextName                   // the name of a member
	TextNumber                 // a number
)

// Text is one piece of text inside a body: where it is as written, quotes
// included, and what it is.
type Text struct {
	At   Span
	Kind TextKind
}

// Texts goes over all strings, member names and numbers inside a part of a
// scanned body, from left to right and at any depth. Literals (true, false,
// null) are no text. On a body that was not scanned it ends early, but never
// leaves it.
type Texts struct{ w walker }

// TextsIn returns the texts of the part of body at a span; an absent part has
// none.
func TextsIn(body []byte, at Span) Texts {
	end := min(max(at.End, 0), len(body))
	return Texts{w: walker{b: body[:end], i: min(max(at.Start, 0), end)}}
}

// Next returns the next text; ok is false when there is none.
func (t *Texts) Next() (text Text, ok bool) {
	w := &t.w
	for w.i < len(w.b) {
		start := w.i
		switch c := w.b[w.i]; {
		case c == '"':
			w.skipString()
			w.i = min(w.i, len(w.b))
			text = Text{At: Span{start, w.i}}
			w.space()
			if w.i < len(w.b) && w.b[w.i] == ':' {
				text.Kind = TextName
			}
			return text, true
		case c == '-' || '0' <= c && c <= '9':
			for w.i++; w.i < len(w.b) && inNumber(w.b[w.i]); {
				w.i++
			}
			return Text{At: Span{start, w.i}, Kind: TextNumber}, true
		default:
			w.i++
		}
	}
	return Text{}, false
}

// inNumber reports whether a character can go on a number.
func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// TextAlias is [TextValue] as a string: it too shares memory with raw unless
// there are escapes, and must not be kept longer than that holds still.
func TextAlias(raw []byte) string { return alias(TextValue(raw)) }

// TextValue returns the value of a string as written with its quotes. It shares
// memory with raw unless there are escapes. raw must have been scanned; what is
// no string is returned as it is.
func TextValue(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	text := raw[1 : len(raw)-1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return appendUnescaped(make([]byte, 0, len(text)), text)
}
