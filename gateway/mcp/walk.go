package mcp

import "bytes"

// walker iterates over the members of an object or the elements of an array in a scanned
// body. On a body that was not scanned it ends early, but never leaves it.
type walker struct {
	b     []byte
	i     int
	end   byte
	first bool

	// item is the whole current member or element, starting at the name of a member;
	// name and value are its parts. An element has no name.
	item, name, value Span
}

// members iterates over the object at a span.
func members(body []byte, at Span) walker {
	return walker{b: body[:at.End], i: at.Start + 1, end: '}', first: true}
}

// elements iterates over the array at a span.
func elements(body []byte, at Span) walker {
	return walker{b: body[:at.End], i: at.Start + 1, end: ']', first: true}
}

// next moves to the next item.
func (w *walker) next() bool {
	w.space()
	if w.i >= len(w.b) || w.b[w.i] == w.end {
		return false
	}
	if !w.first {
		w.i++ // the comma
		w.space()
	}
	w.first = false
	start := w.i
	w.name = Span{}
	if w.end == '}' {
		w.skip()
		w.name = Span{start, w.i}
		w.space()
		w.i++ // the colon
		w.space()
	}
	from := w.i
	w.skip()
	if w.i > len(w.b) {
		w.i = len(w.b)
	}
	if w.i <= from {
		return false
	}
	w.value, w.item = Span{from, w.i}, Span{start, w.i}
	return true
}

// space skips white space.
func (w *walker) space() {
	for w.i < len(w.b) && (w.b[w.i] == ' ' || w.b[w.i] == '\n' || w.b[w.i] == '\t' || w.b[w.i] == '\r') {
		w.i++
	}
}

// skip moves past the value at the offset.
func (w *walker) skip() {
	depth := 0
	for w.i < len(w.b) {
		switch c := w.b[w.i]; c {
		case '"':
			w.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
			if depth == 0 {
				w.i++
				return
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return
			}
		}
		w.i++
	}
}

// skipString moves past the string at the offset.
func (w *walker) skipString() {
	start := w.i + 1
	for w.i = start; w.i < len(w.b); {
		at := bytes.IndexByte(w.b[w.i:], '"')
		if at < 0 {
			w.i = len(w.b)
			return
		}
		quote := w.i + at
		w.i = quote + 1
		escapes := quote
		for escapes > start && w.b[escapes-1] == '\\' {
			escapes--
		}
		if (quote-escapes)%2 == 0 {
			return
		}
	}
}

// HasScalar reports whether a string, number or literal inside the span of a scanned
// body has the given text as its value.
func HasScalar(body []byte, at Span, value string) bool {
	w := walker{b: body[:max(at.End, 0)], i: at.Start}
	for w.i < len(w.b) {
		start := w.i
		switch w.b[w.i] {
		case '"':
			w.skipString()
			end := min(w.i, len(w.b))
			w.space()
			if w.i < len(w.b) && w.b[w.i] == ':' {
				continue // the name of a member
			}
			if got, ok := stringAt(body, Span{start, end}); ok && got == value {
				return true
			}
		case '{', '}', '[', ']', ',', ':', ' ', '\n', '\t', '\r':
			w.i++
		default:
			w.skip()
			if w.i == start {
				w.i++
			}
			if string(body[start:w.i]) == value {
				return true
			}
		}
	}
	return false
}

// NamedScalars reports whether an object inside the span of a scanned body has a string,
// number or literal under a name that called accepts, and whether the value of one of
// them is the given text.
func NamedScalars(body []byte, at Span, called func(name string) bool, value string) (named, equal bool) {
	w := walker{b: body[:max(at.End, 0)], i: at.Start}
	wanted := false // the next scalar has an accepted name
	for w.i < len(w.b) && !equal {
		start := w.i
		switch w.b[w.i] {
		case '"':
			w.skipString()
			text := Span{start, min(w.i, len(w.b))}
			w.space()
			got, ok := stringAt(body, text)
			if w.i < len(w.b) && w.b[w.i] == ':' {
				wanted = ok && called(got)
				continue
			}
			named, equal = named || wanted, wanted && ok && got == value
			wanted = false
		case '{', '[', ',':
			w.i++
			wanted = false
		case '}', ']', ':', ' ', '\n', '\t', '\r':
			w.i++
		default:
			w.skip()
			if w.i == start {
				w.i++
			}
			named, equal = named || wanted, wanted && string(body[start:w.i]) == value
			wanted = false
		}
	}
	return named, equal
}

// ValidString reports whether raw is exactly one JSON string that [Scan] accepts.
func ValidString(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	s := scanner{b: raw}
	_, _, _, ok := s.str()
	return ok && s.i == len(raw)
}

// ValidID reports whether raw is exactly one string or integer of a bounded length that
// [Scan] accepts as an id. raw may be any bytes.
func ValidID(raw []byte) bool {
	if len(raw) == 0 || len(raw) > MaxID {
		return false
	}
	if raw[0] == '"' {
		return ValidString(raw)
	}
	s := scanner{b: raw}
	kind, ok := s.number()
	return ok && kind == kindInteger && s.i == len(raw) && len(raw) <= MaxIDDigits
}
