package detect

import "bytes"

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
// dst, and for long texts with characters that must be folded.
func (s *Scanner) Scan(dst []Match, text []byte) []Match {
	return s.ScanValue(dst, "", text)
}

// ScanValue is Scan for the value of a member: its name, such as phone, is context for values
// that are ambiguous by themselves.
func (s *Scanner) ScanValue(dst []Match, name string, text []byte) []Match {
	if len(text) == 0 || s.want == 0 {
		return dst
	}
	if nextFold(text, 0) == len(text) { // most texts are their own normal form
		p := pass{text: text, name: name, want: s.want, found: dst, base: len(dst)}
		p.run()
		return p.found
	}
	v := views.Get().(*view)
	p := pass{text: v.of(text), name: name, want: s.want, found: dst, base: len(dst)}
	p.run()
	for i := p.base; i < len(p.found); i++ {
		m := &p.found[i]
		m.Start, m.End = v.original(m.Start, m.End)
	}
	v.release()
	return p.found
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
}

// run finds all entities. Each handler returns the position to continue at: after its finding, or
// after the text that it examined.
func (p *pass) run() {
	t := p.text
	for i := 0; i < len(t); {
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
		default:
			i++
		}
	}
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
	start = p.unescaped(start, end)
	if p.want&(wantAPIKey|wantJWT) != 0 && keyStarts.has(p.text, start) {
		if next := p.secret(start); next > 0 {
			return next
		}
	}
	if flags&digit != 0 && p.want&wantAPIKey != 0 && end < len(p.text) && class[p.text[end]]&mark != 0 {
		if next := p.formed(start, end); next > 0 {
			return next
		}
	}
	if flags&digit != 0 && p.want&wantNumbers != 0 {
		if next := p.number(start, end); next > 0 {
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

// unescaped returns the start of a word after letters that are part of an escape: \n
// of program text, %3D of URLs.
func (p *pass) unescaped(start, end int) int {
	if start == 0 {
		return start
	}
	switch p.text[start-1] {
	case '\\':
		if c := p.text[start]; (c == 'n' || c == 'r' || c == 't') && start+1 < end {
			return start + 1
		}
	case '%':
		if start+2 < end && isHex(p.text[start]) && isHex(p.text[start+1]) {
			return start + 2
		}
	}
	return start
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
