package mcp

import "bytes"

// TextKind is the kind of a piece of text inside a body.
type TextKind uint8

// The kinds of texts. Only string values can be rewritten without changing the
// kind of the message.
const (
	TextString TextKind = iota // the value of a string
	TextName                   // the name of a member
	TextNumber                 // a number
)

// Text is one piece of text inside a body: its span as written, including
// quotes, and its kind.
type Text struct {
	At   Span
	Kind TextKind
}

// Texts iterates over all strings, member names and numbers inside a part of a
// scanned body, from left to right and at any depth. The literals true, false
// and null are not texts. On a body that was not scanned it ends early, but
// never leaves it.
type Texts struct{ w walker }

// TextsIn returns the texts of the part of body at a span; an absent part has
// no texts.
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

// inNumber reports whether a character can continue a number.
func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// TextAlias is [TextValue] as a string: it also shares memory with raw unless
// there are escapes, and is valid until raw is modified.
func TextAlias(raw []byte) string { return alias(TextValue(raw)) }

// TextValue returns the value of a string as written with its quotes. It shares
// memory with raw unless there are escapes. raw must have been scanned; a raw
// that is not a string is returned unchanged.
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
