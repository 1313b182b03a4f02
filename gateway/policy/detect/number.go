package detect

import (
	"bytes"
	"slices"
	"strings"
)

// run is digits with their separators: a candidate for a card, a phone or a social security
// number.
type run struct {
	digits [maxDigits]byte
	n      int
	groups [maxGroups]group
	g      int
}

// Bounds of a run. Larger runs are none of these numbers.
const (
	maxDigits = 20
	maxGroups = 20
)

// group is a contiguous part of the digits of a run.
type group struct {
	start, end int // in the text
	first      int // index of its first digit in digits
}

func (g group) len() int { return g.end - g.start }

// number examines a word with digits. It returns the end of a finding, or 0.
func (p *pass) number(start, end int) int {
	t := p.text
	if !isDigit(t[start]) {
		if p.want&wantNIF != 0 {
			if e := p.foreignNIF(start); e > 0 {
				return p.add(NIF, start, e)
			}
		}
		if p.want&wantIBAN != 0 && end-start >= 4 && isDigit(t[start+2]) && isDigit(t[start+3]) && p.free(start) {
			if e := ibanEnd(t, start); e > 0 {
				return p.add(IBAN, start, e)
			}
		}
		return 0
	}
	if !p.free(start) {
		return 0
	}
	if p.want&wantIP != 0 {
		if addr, e := p.ipv4(start); e > 0 && (start == 0 || t[start-1] != '_' || emphasized(t, start, e)) { // and no version: lib_1.2.3.4
			if nobodys(addr) {
				return e // nor is a part of it an address
			}
			return p.add(IPAddress, start, e)
		}
		if colon := colonSoon(t, start); colon > 0 {
			if e := p.ipv6(colon); e > colon+1 {
				return e
			}
		}
	}
	if p.want&(wantCard|wantSSN|wantPhone|wantIdentity) == 0 {
		return 0
	}
	var r run
	r.read(t, start)
	if p.want&wantIdentity != 0 {
		if e, end := p.identity(&r); end > 0 {
			return p.add(e, start, end)
		}
	}
	if p.want&wantCard != 0 {
		if e := p.card(&r); e > 0 {
			return p.add(CreditCard, start, e)
		}
	}
	if p.want&wantSSN != 0 {
		if e := p.ssn(&r); e > 0 {
			return p.add(SSN, start, e)
		}
	}
	if p.want&wantPhone != 0 && r.n >= minPhone {
		if s, e := p.phone(&r); e > 0 {
			return p.add(Phone, s, e)
		}
	}
	return 0
}

// minPhone is the number of digits of the shortest phone number. Most numbers in texts are shorter,
// and their context is not examined.
const minPhone = 7

// colonSoon returns the first colon after hexadecimal digits that are followed by two more groups,
// 0 when there is none.
func colonSoon(t []byte, i int) int {
	end := min(len(t), i+46)
	first := 0
	for ; i < end && (isHex(t[i]) || t[i] == ':'); i++ {
		switch {
		case t[i] != ':':
		case first > 0:
			return first
		default:
			first = i
		}
	}
	return 0
}

// afterName returns where a value in a word begins that a name precedes, as in cc_4, and start when
// there is no name.
func afterName(t []byte, start, end int) int {
	at := start
	for i := start; i < end && !isDigit(t[i]); i++ {
		if t[i] == '_' && i+1 < end {
			at = i + 1
		}
	}
	return at
}

// free reports whether a number may begin at i: no letter or digit is adjacent. Letters of
// scripts without spaces do not count.
func (p *pass) free(i int) bool {
	if i == 0 {
		return true
	}
	c := p.text[i-1]
	if c < 0x80 {
		return !isWord(c) || escaped(p.text, i) || c == '_' && (named(p.text, i) || opens(p.text, i))
	}
	return !touches(p.text[:i])
}

// opens reports that the text at i is behind underscores that no letter or digit precedes, as at the
// start of an emphasis of Markdown.
func opens(t []byte, i int) bool {
	from := i
	for from > 0 && t[from-1] == '_' {
		from--
	}
	return from < i && (from == 0 || !isAlnum(t[from-1]) && !touches(t[:from]))
}

// closes reports that the text at i is underscores that no letter or digit follows.
func closes(t []byte, i int) bool {
	end := i
	for end < len(t) && t[end] == '_' {
		end++
	}
	return end > i && (end == len(t) || !isAlnum(t[end]))
}

// emphasized reports that a value is between underscores that are no part of a longer word.
func emphasized(t []byte, start, end int) bool { return opens(t, start) && closes(t, end) }

// read fills the run from the digits at start. Groups are separated by up to three separator
// characters.
func (r *run) read(t []byte, start int) {
	for i := start; r.g < maxGroups; {
		from := i
		for i < len(t) && isDigit(t[i]) && r.n < maxDigits {
			r.digits[r.n] = t[i]
			r.n++
			i++
		}
		r.groups[r.g] = group{from, i, r.n - (i - from)}
		r.g++
		k := i
		for k < len(t) && k-i < 3 && separates(t[k]) {
			k++
		}
		if k == i || k >= len(t) || !isDigit(t[k]) || r.n == maxDigits {
			return
		}
		i = k
	}
}

func separates(c byte) bool {
	return c == ' ' || c == '-' || c == '.' || c == '/' || c == '(' || c == ')' || c == '_'
}

// endsAt reports whether a number may end at i: it is not followed by characters that make it a
// part of a longer token. A comma does not: after a number of this length it ends a column of a
// table or an item of a list, also before a digit.
func endsAt(t []byte, i int) bool {
	if i >= len(t) {
		return true
	}
	c := t[i]
	if isWord(c) {
		return false
	}
	if (c == '-' || c == '.' || c == '/') && i+1 < len(t) && isDigit(t[i+1]) {
		return false
	}
	return c != '-' || i+1 >= len(t) || !isAlnum(t[i+1])
}

// joined reports whether the number at i is joined to a token before it: a-1, x.1, 10:15, but not - 1.
func joined(t []byte, i int) bool {
	if i == 0 {
		return false
	}
	switch t[i-1] {
	case '-', '.', '/', '_':
		return i > 1 && isAlnum(t[i-2]) && !escaped(t, i-1)
	case '#':
		return i > 1 && class[t[i-2]]&letter != 0
	case ':': // a time of day
		return i > 1 && isDigit(t[i-2]) && (i+2 >= len(t) || !isDigit(t[i+1]) || !isDigit(t[i+2]))
	case '\\': // but not of ESC \, which ends a title or a link
		return i < 2 || t[i-2] != esc
	case '$':
		return true
	}
	return false
}

// named reports that a name precedes the value at i, without a digit and joined to it: card-4,
// cc_4. It does not make the value a part of another one, as 17-4 does.
func named(t []byte, i int) bool {
	if i < 2 || !joins(t[i-1]) {
		return false
	}
	from := i - 1
	for from > 0 && (class[t[from-1]]&letter != 0 || t[from-1] == '_') {
		from--
	}
	return from < i-1 && (from == 0 || !isDigit(t[from-1]))
}

// Bounds of what trails a value: the digits and the letters of a part, and the parts.
const (
	maxTrailing = 4
	maxWord     = 24
	maxParts    = 4
)

// trails reports that what follows a value at i is no part of it, although [endsAt] is false: a
// date or another short number, as of a card that expires on 4…/12/27, a word as in 4…_old, or a
// unit as in 4…EUR. Letters that could be hexadecimal digits continue an identifier.
func trails(t []byte, i int) bool {
	for range maxParts {
		from := i
		if joins(t[i]) {
			from++
		}
		digits, hex, end := 0, true, from
		for ; end < len(t) && isAlnum(t[end]) && end-from <= maxWord; end++ {
			if isDigit(t[end]) {
				digits++
			}
			hex = hex && isHex(t[end])
		}
		switch n := end - from; {
		case n == 0:
			return true
		case n > maxWord, digits > 0 && (digits < n || n > maxTrailing || from == i), digits == 0 && (hex || from == i && n > 3):
			return false
		}
		if i = end; i == len(t) || !joins(t[i]) {
			return true
		}
	}
	return false
}

// joins reports the characters that join a value to a name or to what trails it.
func joins(c byte) bool { return c == '-' || c == '.' || c == '/' || c == '_' }

// card returns the end of a card number at the start of the run, or 0.
func (p *pass) card(r *run) int {
	start := r.groups[0].start
	if r.n < 13 {
		return 0
	}
	if joined(p.text, start) {
		var buf [40]byte
		if !named(p.text, start) || !cardWords.in(p.context(buf[:], start)) {
			return 0
		}
	}
	n, best := 0, 0
	for g := range r.g {
		n = r.groups[g].first + r.groups[g].len()
		if n < 13 || n > 19 {
			continue
		}
		end := r.groups[g].end
		exact := endsAt(p.text, end)
		if !exact && (best > 0 || !trails(p.text, end)) || !cardLength(r.digits[:n]) || !luhn(r.digits[:n]) || !p.cardShape(r, g+1) {
			continue
		}
		if best = end; exact {
			return end
		}
	}
	return best
}

// cardWords precede card numbers; notCardWords precede other long numbers.
var (
	cardWords    = newVocabulary("cardWords")
	notCardWords = newVocabulary("notCardWords")
)

// cardGroups are the lengths of the groups in which card numbers are printed.
var cardGroups = [][]int{{4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}, {4, 4, 4, 4, 3}, {4, 4, 4, 3}, {4, 4, 5}, {6, 13}, {4, 4, 4, 2}, {4, 4, 4, 1}}

// cardShape reports whether the first g groups are divided like a card number: not at all, or as
// printed on cards with one kind of separator. Other divisions, and undivided numbers that other
// numberings share, need a word for card nearby.
func (p *pass) cardShape(r *run, g int) bool {
	if !r.cardGaps(p.text, g) {
		return false
	}
	var buf [40]byte
	near := p.context(buf[:], r.groups[0].start)
	if g == 1 {
		n := r.groups[0].len()
		return !notCardWords.in(near) && (n >= 14 && n <= 16 || cardWords.in(near))
	}
	return r.printed(p.text, g) || cardWords.in(near)
}

// cardGaps reports that the separators of the first g groups are one character, possibly with
// spaces around it, and no bracket.
func (r *run) cardGaps(t []byte, g int) bool {
	for i := 1; i < g; i++ {
		gap := r.gap(t, i)
		if bytes.ContainsAny(gap, "()") || len(gap) > 1 && !(gap[0] == ' ' && gap[len(gap)-1] == ' ') {
			return false
		}
	}
	return true
}

// printed reports that the first g groups have the lengths of groups on cards, all with the same
// separator: space, dash or dot.
func (r *run) printed(t []byte, g int) bool {
	mark := divider(r.gap(t, 1))
	if mark == '_' || mark == '/' {
		return false
	}
	for i := 2; i < g; i++ {
		if divider(r.gap(t, i)) != mark {
			return false
		}
	}
	return slices.ContainsFunc(cardGroups, func(lengths []int) bool {
		if len(lengths) != g {
			return false
		}
		for i, n := range lengths {
			if r.groups[i].len() != n {
				return false
			}
		}
		return true
	})
}

// divider returns the separator in a gap, a space when there is none.
func divider(gap []byte) byte {
	if len(gap) == 3 {
		return gap[1]
	}
	return gap[0]
}

// gap returns the text before group i.
func (r *run) gap(t []byte, i int) []byte { return t[r.groups[i-1].end:r.groups[i].start] }

// luhn checks the check digit of ASCII digits.
func luhn(digits []byte) bool {
	sum, same := 0, true
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		same = same && digits[i] == digits[0]
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && !same
}

// cardLength reports whether an issuer has numbers with these first digits and this length.
func cardLength(d []byte) bool {
	n := len(d)
	six := 0
	for _, c := range d[:6] {
		six = six*10 + int(c-'0')
	}
	for _, r := range issuers {
		if six >= r.low && six <= r.high {
			return n >= r.min && n <= r.max
		}
	}
	return false
}

// issuers are the ranges of the first six digits, from the networks' published tables.
var issuers = func() (all []issuer) {
	for _, entry := range tableOf("issuers") {
		f := strings.Fields(entry)
		all = append(all, issuer{number(f[0]), number(f[1]), number(f[2]), number(f[3])})
	}
	return all
}()

// issuer is a range of first digits, and the length of its numbers.
type issuer struct{ low, high, min, max int }

// ssnWords precede social security numbers.
var ssnWords = newVocabulary("ssnWords")

// ssn returns the end of a social security number at the start of the run, or 0.
func (p *pass) ssn(r *run) int {
	t := p.text
	var buf [40]byte
	start := r.groups[0].start
	alone := !joined(t, start)
	if !alone && !named(t, start) {
		return 0
	}
	switch {
	case r.g >= 3 && r.groups[0].len() == 3 && r.groups[1].len() == 2 && r.groups[2].len() == 4:
		a, b, end := t[r.groups[0].end:r.groups[1].start], t[r.groups[1].end:r.groups[2].start], r.groups[2].end
		if string(a) != string(b) || len(a) != 1 || a[0] == '/' || a[0] == '_' || !ssnValid(r.digits[:9]) {
			return 0
		}
		exact := endsAt(t, end) || emphasized(t, start, end)
		sample := string(r.digits[:9]) == "123456789"
		// A year or a fraction may follow (4…/1980, 4….0), but not the rest of a number of a part.
		if (a[0] != '-' || sample || !alone || !exact && t[end] != '/' && t[end] != '.') && !ssnWords.in(p.context(buf[:], start)) || !exact && !trails(t, end) {
			return 0
		}
		return end
	case r.groups[0].len() == 9:
		end := r.groups[0].end
		if (endsAt(t, end) || trails(t, end)) && ssnValid(r.digits[:9]) && ssnWords.in(p.context(buf[:], start)) {
			return end
		}
	}
	return 0
}

// ssnValid rejects numbers that were never issued, and those that are known from advertisements.
func ssnValid(d []byte) bool {
	switch area := string(d[:3]); {
	case area == "000", area == "666", d[0] == '9', string(d[3:5]) == "00", string(d[5:9]) == "0000":
		return false
	}
	switch string(d) {
	case "078051120", "219099999", "457555462", "111111111", "222222222", "333333333", "444444444", "555555555", "777777777", "888888888":
		return false
	}
	return true
}
