package mcp

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	lowBits   = 0x0101010101010101
	highBits  = 0x8080808080808080
	flip      = 0x0202020202020202 // with this mask one comparison finds quotes and control characters
	afterFlip = 0x2121212121212121
	slashes   = 0x5c5c5c5c5c5c5c5c
)

// stops is a SWAR search (SIMD within a register): in the 8 bytes of w it sets the high
// bit of the first byte that ends a run of plain characters in a string: a quote, a
// backslash or a control character. The lowest set bit is exact; higher ones may be
// false.
//
// After the XOR with flip, a quote is 0x20 and the control characters are below it, so
// that one comparison finds both.
func stops(w uint64) uint64 {
	return ((w ^ flip - afterFlip) | (w ^ slashes - lowBits)) &^ w & highBits
}

// longString is the length from which a string is scanned in larger steps.
const longString = 32

// runWords is run in steps of four words; seen is the bitwise or of the scanned bytes.
func runWords(b []byte, i int) (end int, seen uint64) {
	for len(b)-i >= 32 {
		p := b[i : i+32]
		w0, w1 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		w2, w3 := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
		if stops(w0)|stops(w1)|stops(w2)|stops(w3) != 0 {
			break
		}
		seen |= w0 | w1 | w2 | w3
		i += 32
	}
	return i, seen
}

// str scans the string whose opening quote is at the offset, and returns the bounds of
// the text between the quotes.
func (s *scanner) str() (start, end int, escaped, ok bool) {
	b, i := s.b, s.i+1
	start = i
	var high uint64 // some byte was not ASCII, possibly one after the string
	for {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			high |= w
			m := stops(w)
			if m == 0 {
				if i += 8; i-start >= longString {
					end, seen := run(b, i)
					i, high = end, high|seen
				}
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		} else {
			for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
				high |= uint64(b[i])
				i++
			}
			if i == len(b) {
				return 0, 0, false, s.fail(faultTruncated, i)
			}
		}
		switch b[i] {
		case '"':
			if high&highBits != 0 && !utf8.Valid(b[start:i]) {
				return 0, 0, false, s.fail(faultUTF8, start)
			}
			s.i = i + 1
			return start, i, escaped, true
		case '\\':
			escaped = true
			n := s.escape(i)
			if n == 0 {
				return 0, 0, false, false
			}
			i += n
		default:
			return 0, 0, false, s.fail(faultControl, i)
		}
	}
}

// escape checks the escape at i and returns its length, 0 when it is invalid. A
// surrogate pair counts as one escape.
func (s *scanner) escape(i int) int {
	b := s.b
	if i+1 >= len(b) {
		s.fail(faultTruncated, len(b))
		return 0
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		s.fail(faultEscape, i)
		return 0
	}
	r, ok := hex4(b, i+2)
	if !ok {
		s.fail(faultEscape, i)
		return 0
	}
	if r < 0xD800 || r > 0xDFFF {
		return 6
	}
	if r < 0xDC00 && i+8 <= len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
		if low, ok := hex4(b, i+8); ok && 0xDC00 <= low && low <= 0xDFFF {
			return 12
		}
	}
	s.fail(faultSurrogate, i)
	return 0
}

// hex4 reads the four hexadecimal digits at i.
func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
