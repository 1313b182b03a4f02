package detect

import (
	"encoding/binary"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// view is the normal form of a text that the detectors scan: digits of other scripts, full-width
// letters, and Unicode spaces, dashes and dots are replaced by ASCII, invisible characters are
// removed, and the offset of each byte in the original is stored.
type view struct {
	orig  []byte
	text  []byte
	from  []int32 // offset in orig of each byte of text
	plain bool    // text is orig; from has no meaning
	// joined is set when a character that was removed stands behind a letter, a digit or a mark: it
	// may separate two values. A view with split has a space for each of them.
	joined, split bool
}

// views is a pool of buffers, because texts in some scripts always need a view.
var views = sync.Pool{New: func() any { return new(view) }}

// maxKept bounds the buffers that return to the pool, in bytes of text.
const maxKept = 64 << 10

// release returns the view's buffers to the pool.
func (v *view) release() {
	v.orig = nil
	if v.plain {
		v.text = nil
	}
	if cap(v.text) <= maxKept && cap(v.from) <= maxKept {
		views.Put(v)
	}
}

// of returns the view of text. Most texts are their own normal form.
func (v *view) of(text []byte) []byte {
	i := nextFold(text, 0)
	v.orig, v.plain, v.joined = text, i == len(text), false
	if v.plain {
		v.text = text
		return text
	}
	v.text, v.from = slices.Grow(v.text[:0], len(text)), slices.Grow(v.from[:0], len(text))
	v.copy(0, i)
	for i < len(text) {
		r, n := utf8.DecodeRune(text[i:])
		c, _ := fold(r)
		if c == 0 {
			v.joined = v.joined || len(v.text) > 0 && v.text[len(v.text)-1] > ' ' && v.text[len(v.text)-1] < utf8.RuneSelf
			if v.split {
				c = ' '
			}
		}
		if c != 0 {
			v.text, v.from = append(v.text, c), append(v.from, int32(i))
		}
		next := nextFold(text, i+n)
		v.copy(i+n, next)
		i = next
	}
	return v.text
}

// copy copies the part that does not fold.
func (v *view) copy(start, end int) {
	v.text = append(v.text, v.orig[start:end]...)
	for i := start; i < end; i++ {
		v.from = append(v.from, int32(i))
	}
}

// original returns the span in the text of a span of the normal form.
func (v *view) original(start, end int) (int, int) {
	if v.plain {
		return start, end
	}
	last := int(v.from[end-1])
	_, n := utf8.DecodeRune(v.orig[last:])
	return int(v.from[start]), last + n
}

// leads marks the first bytes of characters that folding may change.
var leads = func() (t [256]bool) {
	for r := rune(utf8.RuneSelf); r <= 0x3002; r++ {
		if _, folds := fold(r); folds {
			var b [utf8.UTFMax]byte
			utf8.EncodeRune(b[:], r)
			t[b[0]] = true
		}
	}
	t[0xEA], t[0xEF] = true, true // digits of other scripts, full-width forms
	t[0xF0], t[0xF3] = true, true // mathematical digits, tags
	return t
}()

// nextFold returns the offset at or after i of a character that folds, or the length of the text.
func nextFold(text []byte, i int) int {
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			for i++; i+8 <= len(text) && binary.LittleEndian.Uint64(text[i:])&topBits == 0; {
				i += 8
			}
			continue
		}
		if !leads[c] {
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if _, folds := fold(r); folds && (r != 0x3002 && r != 0xFF61 || inDomain(text[i+n:])) {
			return i
		}
		i += n
	}
	return i
}

// inDomain reports whether an ideographic full stop before rest is a dot of a domain name, and
// not the end of a sentence.
func inDomain(rest []byte) bool {
	r, _ := utf8.DecodeRune(rest)
	c, folds := fold(r)
	return folds && isAlnum(c) || r < utf8.RuneSelf && isAlnum(byte(r))
}

// fold returns the ASCII character for r, 0 if r is invisible, and whether r folds at all.
func fold(r rune) (c byte, folds bool) {
	switch {
	case r < 0xA0 && r != 0x85, r > 0x3002 && r < 0xA620:
		return 0, false
	case r >= 0xFF01 && r <= 0xFF5E: // full width
		return byte(r - 0xFF01 + '!'), true
	case r == 0x3002 || r == 0xFF61 || r == 0x2024 || r == 0xFE52: // dots of domains and numbers
		return '.', true
	case r == 0xFE6B:
		return '@', true
	case r >= 0x2010 && r <= 0x2015, r == 0x2212, r == 0xFE58, r == 0xFE63, r == 0x2043:
		return '-', true
	case r == 0x2028 || r == 0x2029 || r == 0x85:
		return '\n', true
	case r == 0x2044 || r == 0x2215:
		return '/', true
	case unicode.Is(unicode.Zs, r):
		return ' ', true
	case invisible(r):
		return 0, true
	}
	if r >= 0x660 && unicode.Is(unicode.Nd, r) {
		return byte('0' + digitValue(r)), true
	}
	return 0, false
}

// invisible reports invisible characters that are no spaces: zero-width ones, marks of direction,
// variation selectors and tags.
func invisible(r rune) bool {
	switch {
	case r == 0xAD, r == 0x34F, r == 0x61C, r == 0x180E, r == 0xFEFF,
		r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F,
		r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE01EF:
		return true
	}
	return false
}

// digitValue returns the value of a decimal digit of any script: Unicode keeps
// each script's ten digits together, in order.
func digitValue(r rune) int {
	if r >= 0x1D7CE && r <= 0x1D7FF { // mathematical digits, five consecutive sets
		return int(r-0x1D7CE) % 10
	}
	n := 0
	for n < 9 && unicode.Is(unicode.Nd, r-1) {
		r--
		n++
	}
	return n
}

// before returns up to n bytes of text before i, in lower case, in buf.
func before(buf []byte, text []byte, i int) []byte {
	n := min(len(buf), i)
	buf = buf[:n]
	for k, c := range text[i-n : i] {
		buf[k] = lower(c)
	}
	return buf
}

// vocabulary is a list of context words for numbers, by their first byte.
type vocabulary [256][]string

func newVocabulary(table string) *vocabulary {
	var v vocabulary
	for _, w := range tableOf(table) {
		v[w[0]] = append(v[w[0]], w)
	}
	return &v
}

// in reports whether text contains one of the words.
func (v *vocabulary) in(text []byte) bool { return v.lastIn(text) >= 0 }

// lastIn returns the offset of the last of the words in text, -1 when there is none. A word must
// begin at the start of a word of the text, and a short one must end there too, except in scripts
// without spaces.
func (v *vocabulary) lastIn(text []byte) int {
	for i := len(text) - 1; i >= 0; i-- {
		for _, w := range v[text[i]] {
			if hasPrefix(text[i:], w) && stands(text, i, w) {
				return i
			}
		}
	}
	return -1
}

// shortWord is the length up to which a word of a list must match a whole word, in bytes.
const shortWord = 4

// stands reports whether the word w, found at i, is a word by itself and not a part of another.
func stands(text []byte, i int, w string) bool {
	if first := w[0]; first >= utf8.RuneSelf || !isAlnum(first) {
		return true
	}
	if i > 0 && (class[text[i-1]]&letter != 0 || text[i-1] >= utf8.RuneSelf && touches(text[:i])) {
		return false
	}
	end := i + len(w)
	return len(w) > shortWord || end == len(text) || class[text[end]]&letter == 0 || w == "tel" || w == "cell" || w == "call" || w == "llam" || w == "fact" || w == "term"
}

func hasPrefix(text []byte, w string) bool {
	return len(text) >= len(w) && string(text[:len(w)]) == w
}
