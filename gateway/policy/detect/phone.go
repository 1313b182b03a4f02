package detect

import "strings"

// phone returns the span of a phone number at the start of the run; end 0 means none.
func (p *pass) phone(r *run) (start, end int) {
	t := p.text
	first := r.groups[0].start
	plus := first > 0 && t[first-1] == '+'
	open := first > 0 && t[first-1] == '('
	start = first
	if plus {
		start--
		if e := r.groups[0].end; start > 0 && t[start-1] == '(' && e < len(t) && t[e] == ')' {
			start-- // (+49)
		}
		if start > 0 && isDigit(t[start-1]) && !escaped(t, start) {
			return 0, 0
		}
		e := p.international(r, 0, true)
		if e == 0 && !open && t[start] == '+' { // a blank of a URL: call+312-555-0187
			e, start = p.national(r, false), first
		}
		if e == 0 {
			return 0, 0
		}
		if t[start] == '(' && e == r.groups[0].end {
			start++ // the bracket is around the number
		}
		return start, e
	}
	open = open && p.closes(r, 2)
	if open {
		start--
		if start > 1 && t[start-1] == '+' { // +(49)
			start--
			if e := p.international(r, 0, true); e > 0 {
				return start, e
			}
			start++
		}
		if start > 0 && isAlnum(t[start-1]) && !escaped(t, start) {
			return 0, 0
		}
	} else if joined(t, first) {
		var buf [phoneContext]byte
		if !named(t, first) || !p.phoneContext(buf[:], first) {
			return 0, 0
		}
	}
	if r.n > 9 && r.digits[0] == '0' && r.digits[1] == '0' && r.digits[2] != '0' {
		follows := first > 1 && t[first-1] == ' ' && isDigit(t[first-2])
		if e := p.international(r, 2, r.g > 1 && !follows); e > 0 {
			return start, e
		}
	}
	if r.n > 11 && r.digits[0] == '0' && r.digits[1] == '1' && r.digits[2] == '1' && r.groups[0].len() == 3 {
		if e := p.international(r, 3, true); e > 0 {
			return start, e
		}
	}
	if e := p.national(r, open); e > 0 {
		return start, e
	}
	return 0, 0
}

// international returns the end of a number with country code, which begins after skip digits; 0
// when it is none. Unambiguous numbers need no words around them.
func (p *pass) international(r *run, skip int, sure bool) int {
	cc := countryAt(r.digits[skip:r.n])
	if cc == nil {
		return 0
	}
	if after := skip + len(cc.code); r.digits[after] == '0' && cc.code != "39" && p.trunk(r, after) == 0 {
		return 0
	}
	t := p.text
	best := 0
	for g := range r.g {
		if g > 0 && !p.phoneGap(r, g, true) {
			break
		}
		if best > 0 && (p.text[r.groups[g-1].end] == ')' || r.groups[g].len() == 1 && len(r.gap(p.text, g)) == 3) {
			break // the number is complete: (+49…) 4, +49… / 4
		}
		digits := r.groups[g].first + r.groups[g].len() - skip - len(cc.code)
		if digits > cc.max+1 || digits > 0 && digits+len(cc.code) > 15 {
			break
		}
		if g > 0 && r.groups[g].len() == 4 && digits > cc.min && p.yearFollows(r, g) {
			break
		}
		trunk := p.trunk(r, skip+len(cc.code))
		n := digits - trunk
		end := r.groups[g].end
		if n >= cc.min && n <= cc.max && (endsAt(t, end) || best == 0 && trails(t, end)) && p.phoneShape(r, g+1) {
			best = end
		}
	}
	if best > 0 && !sure {
		var buf [phoneContext]byte
		if !p.phoneContext(buf[:], r.groups[0].start) {
			return 0
		}
	}
	return best
}

// trunk returns 1 if a bracketed zero follows the country code: +49 (0)30.
func (p *pass) trunk(r *run, after int) int {
	for g := 1; g < r.g; g++ {
		x := r.groups[g]
		if x.first == after && x.len() == 1 && r.digits[after] == '0' && p.text[x.start-1] == '(' {
			return 1
		}
	}
	return 0
}

// yearFollows reports a group of four digits that begins a date: +49 30 123456 2024-01-05.
func (p *pass) yearFollows(r *run, g int) bool {
	x := r.groups[g]
	year := string(p.text[x.start : x.start+2])
	return (year == "19" || year == "20") && x.end < len(p.text) && p.text[x.end] == '-' && g+2 < r.g && r.groups[g+1].len() == 2 && r.groups[g+2].len() == 2
}

// phoneGap reports whether the text between two groups can be part of a phone number. Brackets
// must close.
func (p *pass) phoneGap(r *run, g int, foreign bool) bool {
	gap := string(p.text[r.groups[g-1].end:r.groups[g].start])
	switch gap {
	case " ", "-", ".", "/", ") ", ")", " - ", " / ", ")-", " (", "(", "  ", "-(", "/ ", ") - ", "- ":
		return true
	}
	return false
}

// phoneShape rejects runs of single digits and lists of numbers.
func (p *pass) phoneShape(r *run, g int) bool {
	if g > 8 {
		return false
	}
	single, dots := 0, 0
	for i := 1; i < g; i++ {
		if r.groups[i].len() == 1 {
			single++
		}
		if p.text[r.groups[i].start-1] == '.' {
			dots++
		}
	}
	return single <= 2 && (dots == 0 || dots >= g-2)
}

// country is a calling code and the number of digits after it.
type country struct {
	code     string
	min, max int
}

// countryAt returns the country whose code digits begin with.
func countryAt(digits []byte) *country {
	for n := 1; n <= 3 && n < len(digits); n++ {
		if c, ok := countries[string(digits[:n])]; ok {
			return c
		}
	}
	return nil
}

// countries are the calling codes by their digits (ITU-T E.164 and the national numbering plans).
var countries = func() map[string]*country {
	m := make(map[string]*country)
	for _, entry := range tableOf("countries") {
		f := strings.Fields(entry)
		m[f[0]] = &country{f[0], number(f[1]), number(f[2])}
	}
	return m
}()
