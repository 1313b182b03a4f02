package arguments

import (
	"bytes"
	"cmp"
	"math"
)

// decimal is a JSON number in a form that compares exactly: sign · 0.DIGITS · 10^point.
type decimal struct {
	negative bool
	// digits has no zero at either end; empty for zero. It may share memory with the text, if the
	// digits are contiguous there.
	digits, more []byte
	point        int64
}

// parseDecimal parses a JSON number, which must be well-formed.
func parseDecimal(text []byte) decimal {
	var d decimal
	if len(text) > 0 && text[0] == '-' {
		d.negative, text = true, text[1:]
	}
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		d.point = exponent(text[i+1:])
		text = text[:i]
	}
	whole, part, _ := bytes.Cut(text, []byte("."))
	whole = bytes.TrimLeft(whole, "0")
	d.point += int64(len(whole))
	if len(whole) == 0 {
		trimmed := bytes.TrimLeft(part, "0")
		d.point -= int64(len(part) - len(trimmed))
		part = trimmed
	}
	part = bytes.TrimRight(part, "0")
	if len(part) == 0 {
		whole = bytes.TrimRight(whole, "0")
	}
	if len(whole) == 0 {
		whole, part = part, nil
	}
	if d.digits, d.more = whole, part; len(whole) == 0 {
		return decimal{}
	}
	return d
}

// exponent parses an exponent. One beyond the range of a configuration is limited to a value
// outside that range.
func exponent(text []byte) int64 {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	var e int64
	for _, c := range text {
		if e = e*10 + int64(c-'0'); e > math.MaxInt32 {
			e = math.MaxInt32
		}
	}
	if negative {
		return -e
	}
	return e
}

// digit returns a digit of the number, counted from the first that is not zero.
func (d *decimal) digit(i int) byte {
	if i < len(d.digits) {
		return d.digits[i]
	}
	if i -= len(d.digits); i < len(d.more) {
		return d.more[i]
	}
	return '0'
}

// compareDecimals orders decimals.
func compareDecimals(d, e decimal) int { return d.compare(&e) }

// compare returns -1, 0 or 1.
func (d *decimal) compare(e *decimal) int {
	switch dz, ez := len(d.digits) == 0, len(e.digits) == 0; {
	case dz && ez:
		return 0
	case dz:
		return -sign(e.negative)
	case ez, d.negative != e.negative:
		return sign(d.negative)
	}
	order := cmp.Compare(d.point, e.point)
	for i := 0; order == 0 && i < max(len(d.digits)+len(d.more), len(e.digits)+len(e.more)); i++ {
		order = cmp.Compare(d.digit(i), e.digit(i))
	}
	return order * sign(d.negative)
}

// integer reports whether the number has no fraction.
func (d *decimal) integer() bool {
	return int64(len(d.digits)+len(d.more)) <= d.point || len(d.digits) == 0
}

func sign(negative bool) int {
	if negative {
		return -1
	}
	return 1
}
