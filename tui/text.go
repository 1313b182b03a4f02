package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// maxText bounds a string from outside that is drawn, in bytes.
const maxText = 1024

// cells measures runes like terminals without support for grapheme clusters.
// The result is never less than that of other terminals, so a line that fits
// by this measure does not wrap.
var cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// clean converts a string from outside for drawing: one line, without control
// sequences, invisible characters, changes of text direction and excessive
// marks. Removed characters are shown as U+FFFD, so that different names do
// not look the same.
func clean(s string) string {
	if printableASCII(s) {
		return s
	}
	if len(s) > maxText {
		s = s[:maxText]
	}
	var b strings.Builder
	b.Grow(len(s))
	marks, emoji := 0, false
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case r == 0xFE0E || r == 0xFE0F: // how the previous character was drawn
			if !emoji {
				b.WriteRune(utf8.RuneError)
			}
			continue
		case r >= 0x1F1E6 && r <= 0x1F1FF: // flags are pairs of letters whose width differs between terminals
			b.WriteByte('A' + byte(r-0x1F1E6))
		case unicode.Is(unicode.Mn, r):
			if marks++; marks <= 2 && b.Len() > 0 {
				b.WriteRune(r)
			}
			continue
		case r != utf8.RuneError && (!unicode.IsPrint(r) || cells.RuneWidth(r) == 0 || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		marks, emoji = 0, unicode.Is(unicode.So, r)
	}
	return b.String()
}

func printableASCII(s string) bool {
	if len(s) > maxText {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// width returns the number of cells of a clean string.
func width(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			n, i = n+1, i+1
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		n, i = n+cells.RuneWidth(r), i+size
	}
	return n
}

// cut truncates a clean string to w cells; a truncated string ends in "…".
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if len(s) <= w || width(s) <= w {
		return s
	}
	return s[:prefix(s, w-1)] + "…"
}

// prefix returns the number of bytes of a clean string that fit in w cells.
func prefix(s string, w int) int {
	n := 0
	for i, r := range s {
		if n += cells.RuneWidth(r); n > w {
			return i
		}
	}
	return len(s)
}

// fit makes a clean string exactly w cells wide, padded on the right or, for
// numbers, on the left.
func fit(s string, w int, right bool) string {
	s = cut(s, w)
	n := w - width(s)
	if n <= 0 {
		return s
	}
	if right {
		return blanks(n) + s
	}
	return s + blanks(n)
}

const blank = "                                                                                                                                "

func blanks(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

// wrap breaks a clean string into lines of at most w cells, at blanks if
// possible.
func wrap(s string, w int) []string {
	if w < 1 {
		return nil
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		for width(word) > w {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			n := prefix(word, w)
			if n == 0 { // a wide rune does not fit into one cell
				return append(lines, "…")
			}
			lines, word = append(lines, word[:n]), word[n:]
		}
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= w:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
