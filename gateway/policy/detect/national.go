package detect

import "bytes"

// phoneContext is how far before a number the words are searched, in bytes.
const phoneContext = 40

// phoneWords precede phone numbers.
var phoneWords = newVocabulary("phoneWords")

// notPhoneWords precede other numbers.
var notPhoneWords = newVocabulary("notPhoneWords")

// phoneContext reports whether a word for phone precedes start.
func (p *pass) phoneContext(buf []byte, start int) bool {
	return phoneWords.in(p.context(buf, start))
}

// national returns the end of a number without country code, 0 when the run is none. Some
// groupings are characteristic of phone numbers; others need a word for phone before them.
func (p *pass) national(r *run, open bool) int {
	if r.n < 7 {
		return 0
	}
	t := p.text
	var buf [phoneContext]byte
	var near []byte
	words, known := false, false
	context := func() bool {
		if !known {
			words, known = p.lastWord(near), true
		}
		return words
	}
	end := 0
	first := r.groups[0].start
	begin := first
	if open {
		begin--
	}
	follows := !open && first > 1 && t[first-1] == ' ' && isDigit(t[first-2]) // the end of a longer number
	for g := 0; g < r.g && g < 7; g++ {
		if g > 0 && !p.phoneGap(r, g, false) {
			break
		}
		x := r.groups[g]
		n := x.first + x.len()
		if n > 13 {
			break
		}
		if g == 4 && r.g > 5 && r.groups[5].len() == 2 && x.len() == 2 { // a row of bytes
			continue
		}
		exact := endsAt(t, x.end) || emphasized(t, begin, x.end)
		if n < 7 || !exact && (end > 0 || !trails(t, x.end)) || open != p.closes(r, g+1) {
			continue
		}
		shape := p.nationalShape(r, g+1, n, open)
		if shape != none && near == nil {
			near = p.context(buf[:], first)
		}
		// An extension may follow (3…/17), but not the rest of the number of a part.
		apart := !exact && shape == certain && (t[x.end] == '/' || open)
		if !exact && shape != none && !apart && !context() {
			continue
		}
		if !exact && shape == certain {
			return x.end
		}
		switch shape {
		case certain:
			// a number with spaces may be the end of a longer one, a number in dashes not
			if (!follows || g > 0 && p.separators(r, g+1)&sepSpace == 0) && !notPhoneWords.in(near) || context() {
				end = x.end
			}
		case possible:
			if context() && (g > 0 || n > 8 || p.rightAfter(near)) {
				end = x.end
			}
		}
	}
	return end
}

// lastWord reports whether near has a word for phone, and the last one comes after the last word
// for another kind of number.
func (p *pass) lastWord(near []byte) bool {
	yes, no := phoneWords.lastIn(near), notPhoneWords.lastIn(near)
	return yes >= 0 && yes >= no
}

// rightAfter reports whether near ends with a word for phone, with little after it. A few digits
// without separators need that, because they can be many kinds of numbers.
func (p *pass) rightAfter(near []byte) bool {
	at := phoneWords.lastIn(near)
	return at >= 0 && len(near)-at <= 20 && bytes.IndexByte(near[at:], ')') < 0 && bytes.IndexByte(near[at:], '\n') < 0
}

// closes reports whether the bracket that precedes the run closes after its first group.
func (p *pass) closes(r *run, g int) bool {
	if g < 2 || r.g < 2 {
		return false
	}
	for i := r.groups[0].end; i < r.groups[1].start; i++ {
		if p.text[i] == ')' {
			return true
		}
	}
	return false
}

// likeness is how much a grouping of digits looks like a phone number.
type likeness uint8

const (
	none     likeness = iota
	possible          // with a word for phone before it
	certain           // by itself
)

// nationalShape classifies the first g groups, n digits together.
func (p *pass) nationalShape(r *run, g, n int, open bool) likeness {
	var l [8]int
	for i := range g {
		l[i] = r.groups[i].len()
	}
	d := r.digits[:n]
	seps := p.separators(r, g)
	if p.dateLike(r, g) {
		return none
	}
	is := func(want ...int) bool {
		if len(want) != g {
			return false
		}
		for i, w := range want {
			if l[i] != w {
				return false
			}
		}
		return true
	}
	north := d
	if n == 11 && d[0] == '1' {
		north = d[1:]
	}
	american := len(north) == 10 && north[0] >= '2' && north[3] >= '2' && !(north[1] == '1' && north[2] == '1')
	same := seps&(seps-1) == 0
	switch {
	case open && american && (is(3, 3, 4) || is(3, 7)):
		return certain
	case american && (is(3, 3, 4) || is(1, 3, 3, 4)) && seps != sepSlash && seps&sepSpace == 0:
		return certain
	case american && is(1, 3, 3, 4) && seps&sepBracket != 0:
		return certain
	case american && (is(3, 3, 4) || is(1, 3, 3, 4)):
		return possible
	case open && d[0] == '0' && d[1] != '0' && n >= 8 && n <= 12:
		return certain
	case open && l[0] <= 3 && n >= 9 && n <= 11 && g >= 2:
		if is(2, 5, 4) || is(2, 4, 4) || is(3, 3, 2, 2) {
			return certain
		}
		return possible
	case d[0] == '0' && d[1] != '0' && n >= 9 && n <= 12:
		return p.trunkShape(d, l[:g], seps)
	case d[0] == '8' && n == 11 && (is(1, 3, 3, 2, 2) || is(1, 3, 3, 4)) && d[1] != '0':
		return certain
	case n == 11 && is(2, 5, 4) && d[2] == '9', n == 11 && is(3, 4, 4) && d[0] == '1' && d[1] >= '3' && seps != sepDot:
		return certain
	case g == 1 && n == 11 && d[0] == '1' && d[1] >= '3' && !american && p.eastAsian(r.groups[0].start):
		return certain
	case n == 8 && l[0] == 4 && g == 2 && !same:
		return none
	case g <= 6 && n >= 7 && n <= 12:
		return possible
	}
	return none
}

// trunkShape classifies numbers that begin with the trunk prefix 0.
func (p *pass) trunkShape(d []byte, l []int, seps separator) likeness {
	g, n := len(l), len(d)
	if g == 1 {
		mobile := n == 11 && (d[1] == '7' || d[1] == '1' && d[2] >= '5' && d[2] <= '7' || d[1] >= '7' && d[2] == '0' || d[1] == '1' && d[2] == '0' || d[1] == '5') ||
			n == 12 && d[1] == '1' && d[2] >= '5' && d[2] <= '7' || n == 10 && (d[1] == '6' || d[1] == '7' || d[1] == '4')
		if mobile && p.wordy() {
			return certain
		}
		return possible
	}
	pairs := n == 10 && g == 5
	for _, x := range l {
		pairs = pairs && x == 2
	}
	if pairs && seps&(seps-1) == 0 {
		return certain
	}
	if seps == sepDot && g == 2 || g == 2 && l[0] == 5 && l[1] == 4 { // a fraction, a ZIP code
		return possible
	}
	if l[0] < 2 || l[0] > 5 || n < 9 {
		return possible
	}
	for i, x := range l[1:] {
		if x < 2 && i+2 < g || x > 8 {
			return possible
		}
	}
	if seps&sepDot != 0 && seps != sepDot || g > 5 {
		return possible
	}
	return certain
}

// wordy reports whether the text is more than just a number.
func (p *pass) wordy() bool { return len(p.text) > 20 }

// eastAsian reports whether an ideograph or Hangul is directly before or after the number at
// start.
func (p *pass) eastAsian(start int) bool {
	for i := max(0, start-12); i < min(len(p.text), start+24); i++ {
		if c := p.text[i]; c >= 0xE3 && c <= 0xED {
			return true
		}
	}
	return false
}

// separator is a set of the characters between groups.
type separator uint8

const (
	sepSpace separator = 1 << iota
	sepDash
	sepDot
	sepSlash
	sepBracket
)

func (p *pass) separators(r *run, g int) (s separator) {
	for i := 1; i < g; i++ {
		for _, c := range p.text[r.groups[i-1].end:r.groups[i].start] {
			switch c {
			case ' ':
				s |= sepSpace
			case '-':
				s |= sepDash
			case '.':
				s |= sepDot
			case '/':
				s |= sepSlash
			default:
				s |= sepBracket
			}
		}
	}
	return s
}

// dateLike reports groups that begin with a date.
func (p *pass) dateLike(r *run, g int) bool {
	if g < 3 {
		return false
	}
	a, b, c := r.groups[0], r.groups[1], r.groups[2]
	if p.text[a.end] != p.text[b.end] || p.text[a.end] == ' ' {
		return false
	}
	v := func(x group) (n int) {
		for _, d := range p.text[x.start:min(x.end, x.start+5)] {
			n = n*10 + int(d-'0')
		}
		return n
	}
	day := func(x, y group) bool { return v(x) >= 1 && v(x) <= 31 && v(y) >= 1 && v(y) <= 12 }
	year := func(x group) bool { return x.len() == 4 && v(x) >= 1900 && v(x) < 2100 }
	return a.len() <= 2 && b.len() <= 2 && (day(a, b) || day(b, a)) && year(c) || year(a) && day(c, b) && b.len() <= 2 && c.len() <= 2
}
