package audit

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// str parses a string.
func (d *decoder) str() (string, error) {
	if !d.take('"') {
		return "", errNotRecord
	}
	rest := d.in[d.at:]
	for i := range len(rest) {
		if c := rest[i]; c != '"' && c != '\\' && c >= ' ' {
			continue
		}
		start := d.at
		d.at += i
		switch rest[i] {
		case '"':
			d.at++
			return rest[:i], nil
		case '\\':
			return d.escaped(start)
		}
		return "", errNotRecord
	}
	return "", errNotRecord
}

// escaped parses the rest of a string that has escapes.
func (d *decoder) escaped(start int) (string, error) {
	b := []byte(d.in[start:d.at])
	for d.at < len(d.in) {
		c := d.in[d.at]
		d.at++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			return "", errNotRecord
		case c != '\\':
			b = append(b, c)
			continue
		}
		r, ok := d.escape()
		if !ok {
			return "", errNotRecord
		}
		b = utf8.AppendRune(b, r)
	}
	return "", errNotRecord
}

// escape parses the characters after a backslash.
func (d *decoder) escape() (rune, bool) {
	if d.at >= len(d.in) {
		return 0, false
	}
	c := d.in[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
	default:
		return 0, false
	}
	r, ok := d.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if !strings.HasPrefix(d.in[d.at:], `\u`) {
		return 0, false
	}
	d.at += 2
	low, ok := d.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (d *decoder) hex4() (rune, bool) {
	if d.at+4 > len(d.in) {
		return 0, false
	}
	n, err := strconv.ParseUint(d.in[d.at:d.at+4], 16, 16)
	d.at += 4
	return rune(n), err == nil
}

func (d *decoder) boolean() (bool, error) {
	d.space()
	for _, w := range []string{"true", "false"} {
		if end := d.at + len(w); end <= len(d.in) && d.in[d.at:end] == w {
			d.at = end
			return w == "true", nil
		}
	}
	return false, errNotRecord
}

// digits returns the text of a number.
func (d *decoder) digits() string {
	d.space()
	start := d.at
	for d.at < len(d.in) {
		c := d.in[d.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		d.at++
	}
	return d.in[start:d.at]
}

func (d *decoder) unsigned(n *uint64) (err error) {
	if *n, err = strconv.ParseUint(d.digits(), 10, 64); err != nil {
		return errNotRecord
	}
	return nil
}

func (d *decoder) integer(set func(int64)) error {
	n, err := strconv.ParseInt(d.digits(), 10, 64)
	if err != nil {
		return errNotRecord
	}
	set(n)
	return nil
}

func (d *decoder) float(f *float64) (err error) {
	if *f, err = strconv.ParseFloat(d.digits(), 64); err != nil {
		return errNotRecord
	}
	return nil
}

// millis parses milliseconds: fast in the form that the log writes, with three decimals,
// else as any number.
func (d *decoder) millis(v *time.Duration) error {
	text := d.digits()
	if us, ok := micros(text); ok {
		*v = us
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errNotRecord
	}
	if f < 0 || f > float64(maxDuration/time.Millisecond) {
		return errNotRecord
	}
	*v = time.Duration(f*1000+0.5) * time.Microsecond
	return nil
}

// micros parses up to nine digits, a point and three more digits.
func micros(text string) (time.Duration, bool) {
	point := len(text) - 4
	if point < 1 || point > 9 || text[point] != '.' {
		return 0, false
	}
	var us int64
	for i := range len(text) {
		c := text[i] - '0'
		if i == point {
			continue
		}
		if c > 9 {
			return 0, false
		}
		us = 10*us + int64(c)
	}
	return time.Duration(us) * time.Microsecond, true
}
