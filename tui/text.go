package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// maxText bounds a string from outside that is drawn, in bytes.
const maxText = 1024

// cells measures runes as terminals do that know nothing of graphemes, which
// never counts less than those that do: a line that fits by this measure does
// not wrap.
var cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// clean makes a string from outside fit to be drawn: one line, without control
// sequences, without characters that are invisible, change the direction of
// the text or pile up marks. What is taken out is shown as U+FFFD, so that two
// different names do not look the same.
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
		case r == 0xFE0E || r == 0xFE0F: // how to draw the character before
			if !emoji {
				b.WriteRune(utf8.RuneError)
			}
			continue
		case r >= 0x1F1E6 && r <= 0x1F1FF: // flags are pairs of letters, and few terminals agree how wide
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

// width is how many cells a clean string takes.
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

// cut shortens a clean string to w cells; what was longer ends in "…".
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if len(s) <= w || width(s) <= w {
		return s
	}
	return s[:prefix(s, w-1)] + "…"
}

// prefix is how many bytes of a clean string fit in w cells.
func prefix(s string, w int) int {
	n := 0
	for i, r := range s {
		if n += cells.RuneWidth(r); n > w {
			return i
		}
	}
	return len(s)
}

// fit makes a clean string exactly w cells wide, padded at the end or, for
// figures, at the front.
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

// wrap breaks a clean string into lines of at most w cells, at blanks where
// there are any.
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
			if n == 0 { // a wide rune in one cell
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
