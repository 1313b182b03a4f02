package detect

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Match is a finding: an entity and its span in the text, in bytes.
type Match struct {
	Entity     Entity
	Start, End int
}

// Scanner finds entities. It is immutable and safe for concurrent use.
type Scanner struct {
	want set
}

// NewScanner returns a scanner for the given entities, or for all when none is given. Unknown
// names are ignored; ParseEntity reports them.
func NewScanner(entities ...Entity) *Scanner {
	s := &Scanner{}
	for _, e := range entities {
		s.want |= e.bit()
	}
	if len(entities) == 0 {
		for _, e := range Entities() {
			s.want |= e.bit()
		}
	}
	return s
}

// Scan appends the findings in text to dst, sorted and without overlaps. It allocates only for
// dst, for long texts with characters that must be folded, and for texts with invisible characters.
func (s *Scanner) Scan(dst []Match, text []byte) []Match {
	return s.ScanValue(dst, "", text)
}

// ScanValue is Scan for the value of a member: its name, such as phone, is context for values
// that are ambiguous by themselves.
func (s *Scanner) ScanValue(dst []Match, name string, text []byte) []Match {
	if len(text) == 0 || s.want == 0 {
		return dst
	}
	if s.want&wantAPIKey != 0 && passwordName([]byte(name)) && password(text, true) {
		return append(dst, Match{APIKey, 0, len(text)})
	}
	if nextFold(text, 0) == len(text) { // most texts are their own normal form
		p := pass{text: text, name: name, want: s.want, found: dst, base: len(dst)}
		p.run()
		return p.found
	}
	v := views.Get().(*view)
	v.split = false
	base := len(dst)
	dst = s.scanView(dst, name, text, v)
	if v.joined {
		// An invisible character in a value is no part of it, between two values it separates them.
		v.split = true
		dst = merge(dst, base, s.scanView(nil, name, text, v))
	}
	v.release()
	return dst
}

// scanView is ScanValue for the view of a text.
func (s *Scanner) scanView(dst []Match, name string, text []byte, v *view) []Match {
	p := pass{text: v.of(text), name: name, want: s.want, found: dst, base: len(dst)}
	p.run()
	for i := p.base; i < len(p.found); i++ {
		m := &p.found[i]
		m.Start, m.End = v.original(m.Start, m.End)
	}
	return p.found
}

// merge merges more findings of the same text into those in dst from base on. Both are sorted and
// without overlaps; findings that overlap with each other become one.
func merge(dst []Match, base int, more []Match) []Match {
	all := append(slices.Clone(dst[base:]), more...)
	slices.SortStableFunc(all, func(a, b Match) int { return a.Start - b.Start })
	dst = dst[:base]
	for _, m := range all {
		if last := len(dst) - 1; last >= base && m.Start < dst[last].End {
			dst[last].End = max(dst[last].End, m.End)
		} else {
			dst = append(dst, m)
		}
	}
	return dst
}

// pass is one pass over one text.
type pass struct {
	text  []byte
	name  string // name of the member, or empty
	want  set
	found []Match
	base  int // length of found at the start
	end   int // end of the last finding

	password place // the next password
	command  int   // end of the current curl command
	cookie   int   // end of the current line with cookies
	data     int   // end of the data of a Secret
	kind     secretKind
	decoded  int  // end of the last run that was decoded
	inner    bool // the text was decoded from another one
}

// run finds all entities. Each handler returns the position to continue at: after its finding, or
// after the text that it examined.
func (p *pass) run() {
	t := p.text
	digits := p.want&(wantAPIKey|wantJWT|wantPrivateKey) == 0
	for i := 0; i < len(t); {
		if digits {
			if i = p.skip(i); i == len(t) {
				return
			}
		}
		c := class[t[i]]
		if c&word != 0 {
			start, flags := i, byte(0)
			for i < len(t) {
				c := class[t[i]]
				if c&word == 0 {
					break
				}
				flags |= c
				i++
			}
			if flags&digit != 0 || i-start >= minWord {
				i = p.word(start, i, flags)
			}
			continue
		}
		switch {
		case c == 0:
			i++
		case t[i] == '@' && p.want&wantEmail != 0:
			i = p.email(i)
		case t[i] == ':':
			i = p.colon(i)
		case t[i] == '-':
			i = p.dash(i)
		case t[i] == '$' && p.want&wantAPIKey != 0:
			i = p.crypt(i)
		default:
			i++
		}
	}
}

// skip returns the position of the next @ or colon, or the start of the next word with a digit, at
// or after i: where no keys are wanted, everything has one of them. It looks at eight bytes at once,
// because most texts have few.
func (p *pass) skip(i int) int {
	t, from := p.text, i
	for i < len(t) {
		if i+8 <= len(t) {
			x := binary.LittleEndian.Uint64(t[i:])
			low := x &^ topBits
			// The top bits of bytes from 0 to @: digits, the colon, and a few others.
			some := (low + (0x80-'0')*eachByte) &^ (low + (0x80-'@'-1)*eachByte) &^ x & topBits
			if some == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(some) / 8
		}
		switch c := t[i]; {
		case isDigit(c):
			for i > from && isWord(t[i-1]) {
				i--
			}
			return i
		case c == '@', c == ':':
			return i
		}
		i++
	}
	return i
}

// dash examines a dash, with which private keys and options begin.
func (p *pass) dash(i int) int {
	if i < p.command {
		p.userOption(i)
	}
	if p.want&wantPrivateKey != 0 {
		return p.privateKey(i)
	}
	return i + 1
}

// minWord is the length of the shortest word without digits with which a key begins; shorter ones
// are followed by - or . and examined there.
const minWord = 2

// word examines a run of letters, digits and underscores.
func (p *pass) word(start, end int, flags byte) int {
	first := start
	n, other := escapeIn(p.text, first)
	if first+n < end {
		start += n
	}
	if p.want&(wantAPIKey|wantJWT) != 0 && keyStarts.has(p.text, start) {
		if next := p.secret(start); next > 0 {
			return next
		}
	}
	if p.want&(wantAPIKey|wantJWT) != 0 && flags&underscore != 0 {
		if next := p.namedSecret(start, end); next > 0 {
			return next
		}
	}
	if flags&digit != 0 && p.want&wantAPIKey != 0 && end < len(p.text) && class[p.text[end]]&mark != 0 {
		if next := p.formed(start, end); next > 0 {
			return next
		}
	}
	if flags&digit != 0 && p.want&wantNumbers != 0 {
		if next := p.numberIn(start, end, flags); next > 0 {
			return next
		}
	}
	if start > first { // what looked like an escape may be the begin of the value
		if next := p.behind(first, end, flags); next > 0 {
			return next
		}
	}
	if other > 0 && first+other < end {
		if next := p.behind(first+other, end, flags); next > 0 {
			return next
		}
	}
	if p.want&wantAPIKey != 0 && end-first > 2 && end < len(p.text) && names(p.text, end) {
		if next := p.assigned(first, end); next > 0 {
			return next
		}
	}
	if start < p.data {
		if next := p.ofSecret(start); next > 0 {
			return next
		}
	}
	if p.want&(wantAPIKey|wantJWT|wantPrivateKey) != 0 && end-start >= minEncoded {
		if next := p.encoded(start); next > 0 {
			return next
		}
	}
	if p.want&wantAPIKey != 0 && (flags&digit != 0 && end-start >= minLooseDigits || end-start >= minLoose) {
		if next := p.looseKey(start, end); next > 0 {
			return next
		}
	}
	return end
}

// minEncoded is the length of a word with which a run that is decoded may begin, in bytes.
const minEncoded = 16

// nameEnds has the last three letters of the names that [pass.assigned] knows, in any case, so that
// few words are examined.
var nameEnds = func() (t [1 << 15 / 64]uint64) {
	for _, end := range []string{"ord", "swd", "pwd", "ase", "ort", "ass", "sic", "uth", "sig", "ata"} {
		n := lastThree(end[0], end[1], end[2])
		t[n/64] |= 1 << (n % 64)
	}
	return t
}()

func lastThree(a, b, c byte) uint { return uint(a&31)<<10 | uint(b&31)<<5 | uint(c&31) }

// names reports that a word that ends at i may be the name of a secret.
func names(t []byte, i int) bool {
	n := lastThree(t[i-3], t[i-2], t[i-1])
	return nameEnds[n/64]&(1<<(n%64)) != 0
}

// maxName bounds the name that is joined to a key, in bytes.
const maxName = 32

// namedSecret examines a word that has a key behind a name, as in key_AKIA.
func (p *pass) namedSecret(start, end int) int {
	for i := start; ; {
		n := bytes.IndexByte(p.text[i:min(end, start+maxName)], '_')
		if n < 0 {
			return 0
		}
		if i += n + 1; i < end && keyStarts.has(p.text, i) {
			if next := p.secret(i); next > 0 {
				return next
			}
		}
	}
}

// numberIn examines a word with digits, without a name that precedes the value in it.
func (p *pass) numberIn(start, end int, flags byte) int {
	if flags&underscore != 0 {
		start = afterName(p.text, start, end)
	}
	return p.number(start, end)
}

// behind examines the rest of a word that could begin or end with a part of an escape: what is in
// front of start may belong to the value or not. It returns the end of a finding, or 0.
func (p *pass) behind(start, end int, flags byte) int {
	if p.want&(wantAPIKey|wantJWT) != 0 && keyStarts.has(p.text, start) {
		if next := p.secret(start); next > 0 {
			return next
		}
	}
	if flags&digit != 0 && p.want&wantNumbers != 0 {
		return p.numberIn(start, end, flags)
	}
	return 0
}

// add records a finding and returns its end. A mail address takes precedence over numbers in it;
// otherwise the first finding remains.
func (p *pass) add(e Entity, start, end int) int {
	for start < p.end && len(p.found) > p.base {
		last := p.found[len(p.found)-1]
		if e != Email || last.Start < start || last.Entity == APIKey || last.Entity == JWT {
			return max(end, p.end)
		}
		p.found = p.found[:len(p.found)-1]
		p.end = 0
		if n := len(p.found); n > p.base {
			p.end = p.found[n-1].End
		}
	}
	p.found = append(p.found, Match{e, start, end})
	p.end = end
	return end
}

// context fills buf with the text before i on its line, in lower case; at the start of a line
// with the previous line, and at the start of the text with the name of the member.
func (p *pass) context(buf []byte, i int) []byte {
	n := 0
	if i < len(buf) && p.name != "" {
		for ; n < len(p.name) && n < len(buf)-i-2; n++ {
			buf[n] = lower(p.name[n])
		}
		n += copy(buf[n:], ": ")
	}
	near := buf[:n+len(before(buf[n:], p.text, i))]
	text := near
	for len(text) > n && (text[len(text)-1] <= ' ' || !isWord(text[len(text)-1]) && text[len(text)-1] < 0x80) {
		text = text[:len(text)-1]
	}
	if at := bytes.LastIndexByte(text, '\n'); at >= n {
		return near[at+1:]
	}
	return near
}
