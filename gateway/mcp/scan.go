package mcp

// level is the object of the envelope that a member belongs to, because the
// known names differ.
type level uint8

const (
	levelPlain level = iota
	levelTop
	levelParams
	levelMeta
	levelResult
	levelError
)

// Kinds of values as the scan reports them: usually their first character.
const (
	kindString  = '"'
	kindEscaped = 'e' // a string with escapes
	kindInteger = '0'
	kindFloat   = '.' // a number with a fraction or an exponent
	kindObject  = '{'
	kindArray   = '['
	kindTrue    = 't'
	kindFalse   = 'f'
	kindNull    = 'n'
	kindTwice   = '!' // a duplicate member
)

// slot is the position and kind of the value of a known member.
type slot struct {
	start, end int32
	kind       byte
}

// scanner reads one envelope. It is allocated on the stack of its caller: the
// message must not refer to its memory, and is filled from the body.
type scanner struct {
	b []byte
	i int

	// The stack of the member names of the open objects: in table while they
	// fit, in more from then on.
	table [nameTableSize]uint64
	more  []uint64
	held  int // number of names

	slots [fields]slot

	fault   fault // the fault that ended the scan
	faultAt int
	soft    fault // the first refusal after which the scan could continue
	softAt  int
}

// fail ends the scan.
func (s *scanner) fail(f fault, at int) bool {
	s.fault, s.faultAt = f, at
	return false
}

// refuse records why a well-formed message is refused. The scan continues, so
// that the id is found, and so that a body that is not JSON is reported as
// such.
func (s *scanner) refuse(f fault, at int) {
	if s.soft == noFault {
		s.soft, s.softAt = f, at
	}
}

// unexpected ends the scan at a character that cannot occur there.
func (s *scanner) unexpected() bool {
	if s.i >= len(s.b) {
		return s.fail(faultTruncated, len(s.b))
	}
	return s.fail(faultSyntax, s.i)
}

// space skips JSON white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		s.i++
	}
}

// document reads the whole body: one object with nothing around it.
func (s *scanner) document() bool {
	if len(s.b) > maxScan {
		return s.fail(faultTooLarge, maxScan)
	}
	if len(s.b) >= 3 && s.b[0] == 0xEF && s.b[1] == 0xBB && s.b[2] == 0xBF {
		return s.fail(faultBOM, 0)
	}
	s.space()
	if s.i == len(s.b) {
		return s.fail(faultEmpty, 0)
	}
	start := s.i
	switch s.b[start] {
	case '[':
		return s.fail(faultBatch, start)
	case '{':
		if !s.object(levelTop, 1) {
			return false
		}
	default:
		if _, ok := s.value(levelPlain, 0); !ok {
			return false
		}
		s.refuse(faultNotObject, start)
	}
	s.space()
	if s.i != len(s.b) {
		return s.fail(faultTrailing, s.i)
	}
	return true
}

// value reads the value at the offset. depth is that of the object or array
// around it; an object is read as the given level.
func (s *scanner) value(in level, depth int) (kind byte, ok bool) {
	if s.i >= len(s.b) {
		return 0, s.unexpected()
	}
	switch c := s.b[s.i]; c {
	case '"':
		_, _, escaped, ok := s.str()
		if escaped {
			return kindEscaped, ok
		}
		return kindString, ok
	case '{':
		return kindObject, s.object(in, depth+1)
	case '[':
		return kindArray, s.array(depth + 1)
	case 't':
		return kindTrue, s.word("true")
	case 'f':
		return kindFalse, s.word("false")
	case 'n':
		return kindNull, s.word("null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number()
		}
		return 0, s.unexpected()
	}
}

// word reads one of the literals true, false and null.
func (s *scanner) word(w string) bool {
	if len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
		s.i += len(w)
		return true
	}
	return s.fail(faultSyntax, s.i)
}

// object reads an object whose brace is at the offset.
func (s *scanner) object(in level, depth int) bool {
	if depth > MaxDepth {
		return s.fail(faultDepth, s.i)
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == '}' {
		s.i++
		return true
	}
	seen := nameSet{base: s.held}
	for {
		if s.i >= len(s.b) || s.b[s.i] != '"' {
			return s.unexpected()
		}
		start, end, escaped, ok := s.str()
		if !ok {
			return false
		}
		name := s.b[start:end]
		if escaped {
			name = appendUnescaped(nil, name)
		}
		s.addName(&seen, name, start)
		f := noField
		if in != levelPlain {
			f = s.known(in, name, start)
		}
		s.space()
		if s.i >= len(s.b) || s.b[s.i] != ':' {
			return s.unexpected()
		}
		s.i++
		s.space()
		if f == noField {
			if _, ok := s.value(levelPlain, depth); !ok {
				return false
			}
		} else if !s.member(f, depth) {
			return false
		}
		s.space()
		if s.i >= len(s.b) {
			return s.unexpected()
		}
		switch s.b[s.i] {
		case ',':
			s.i++
			s.space()
		case '}':
			s.i++
			s.closeNames(&seen)
			return true
		default:
			return s.unexpected()
		}
	}
}

// array reads an array whose bracket is at the offset.
func (s *scanner) array(depth int) bool {
	if depth > MaxDepth {
		return s.fail(faultDepth, s.i)
	}
	s.i++
	s.space()
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		return true
	}
	for {
		if _, ok := s.value(levelPlain, depth); !ok {
			return false
		}
		s.space()
		if s.i >= len(s.b) {
			return s.unexpected()
		}
		switch s.b[s.i] {
		case ',':
			s.i++
			s.space()
		case ']':
			s.i++
			return true
		default:
			return s.unexpected()
		}
	}
}

// number reads a number by the grammar of JSON, without converting it.
func (s *scanner) number() (kind byte, ok bool) {
	b, i := s.b, s.i
	if b[i] == '-' {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '0' {
		i++
		if i < len(b) && '0' <= b[i] && b[i] <= '9' {
			return 0, s.fail(faultNumber, i)
		}
	} else if !digits() {
		return 0, s.fail(faultNumber, i)
	}
	kind = kindInteger
	if i < len(b) && b[i] == '.' {
		kind = kindFloat
		i++
		if !digits() {
			return 0, s.fail(faultNumber, i)
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		kind = kindFloat
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return 0, s.fail(faultNumber, i)
		}
	}
	s.i = i
	return kind, true
}
