package detect

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLevels bounds the number of extractions of nested JSON.
const maxLevels = 4

// leaves extracts the JSON in a text: its strings are separated by leafEnd, and the text
// around them is kept. Strings that contain JSON are extracted too, and
// escapes outside of JSON are resolved, as in a text that quotes JSON. It returns text
// itself when there is nothing to extract. Each level is one pass; nothing is read twice
// when a text turns out not to be JSON.
func leaves(buf *[2][]byte, text []byte) []byte {
	for level := range maxLevels {
		if !structured(text) {
			break
		}
		out := &buf[level%2]
		w := leafWriter{text: text, out: slices.Grow((*out)[:0], len(text))}
		w.run()
		*out = w.out
		text = w.out
	}
	return text
}

// structured reports whether a text has escapes or the beginning of JSON.
func structured(t []byte) bool {
	if bytes.IndexByte(t, '\\') >= 0 {
		return true
	}
	for i := 0; ; i++ {
		k := bytes.IndexByte(t[i:], '"')
		if k < 0 {
			return false
		}
		if i += k; opensJSON(t, i) {
			return true
		}
	}
}

// opensJSON reports whether the quotation mark at i is the first one of a JSON object or array.
func opensJSON(t []byte, i int) bool {
	for k := i - 1; k >= 0; k-- { // not before the previous mark
		switch t[k] {
		case ' ', '\n', '\t', '\r':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

// leafWriter is one pass over a text.
type leafWriter struct {
	text []byte
	out  []byte
	at   int
}

func (w *leafWriter) run() {
	for w.at < len(w.text) {
		t := w.text[w.at:]
		k := bytes.IndexAny(t, "\"\\")
		if k < 0 {
			w.out = append(w.out, t...)
			return
		}
		w.out = append(w.out, t[:k]...)
		w.at += k
		switch {
		case t[k] == '\\':
			w.escape()
		case opensJSON(w.text, w.at):
			w.json()
		default:
			w.out = append(w.out, '"')
			w.at++
		}
	}
}

// json reads from the first string of an object or an array until the end of the JSON.
func (w *leafWriter) json() {
	w.out = append(w.out, leafEnd)
	for depth := 1; w.at < len(w.text); {
		switch c := w.text[w.at]; {
		case c == '"':
			w.at++
			w.string()
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				w.at++
				return
			}
		case c <= ' ' || c == ',' || c == ':' || c == '-' || c == '+' || c == '.' || isAlnum(c): // numbers and literals
		default:
			return
		}
		w.at++
	}
}

// string reads a string up to its closing mark and writes it as one leaf.
func (w *leafWriter) string() {
	for w.at < len(w.text) {
		t := w.text[w.at:]
		k := 0
		for k < len(t) && t[k] != '"' && t[k] != '\\' {
			k++
		}
		w.out = append(w.out, t[:k]...)
		if w.at += k; w.at == len(w.text) {
			break
		}
		if t[k] == '"' {
			w.at++
			break
		}
		w.escape()
	}
	w.out = append(w.out, leafEnd)
}

// escape decodes the escape at the backslash.
func (w *leafWriter) escape() {
	t := w.text[w.at:]
	if len(t) == 1 {
		w.at++
		return
	}
	w.at += 2
	switch c := t[1]; c {
	case 'n', 'r':
		w.out = append(w.out, '\n')
	case 't', 'b', 'f':
		w.out = append(w.out, ' ')
	case '"', '\\', '/':
		w.out = append(w.out, c)
	case 'u', 'x':
		digits := 4
		if c == 'x' {
			digits = 2
		}
		r, ok := hexRune(t[2:], digits)
		if !ok {
			w.out = append(w.out, t[:2]...)
			return
		}
		w.at += digits
		if utf16.IsSurrogate(r) && len(t) >= 12 && t[6] == '\\' && t[7] == 'u' {
			if low, ok := hexRune(t[8:], 4); ok {
				w.at += 6
				r = utf16.DecodeRune(r, low)
			}
		}
		w.out = utf8.AppendRune(w.out, r)
	default:
		w.out = append(w.out, ' ', c)
	}
}

// hexRune parses hexadecimal digits.
func hexRune(t []byte, digits int) (r rune, ok bool) {
	if len(t) < digits {
		return 0, false
	}
	for _, c := range t[:digits] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(lower(c)-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
