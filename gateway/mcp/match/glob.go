package match

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds the length of a pattern in bytes.
const maxPattern = 1024

// Pattern is a compiled shell-style pattern over flat, case-sensitive names: * matches any run of
// characters, ? matches one, [abc], [a-z] and [!a-z] (or [^a-z]) match one of a class, and a
// backslash makes the next character literal. No character separates parts of a name. It is safe
// for concurrent use.
type Pattern struct {
	tokens []token
}

type tokenKind uint8

const (
	tokenLiteral tokenKind = iota
	tokenStar
	tokenOne
	tokenClass
)

// token is one part of a pattern.
type token struct {
	kind   tokenKind
	text   string  // of a literal
	ranges []runes // of a class
	negate bool
}

// runes is a range of characters, both ends included.
type runes struct{ low, high rune }

// CompileGlob compiles a pattern. Its error describes what is wrong.
func CompileGlob(pattern string) (*Pattern, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPattern)
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("the pattern is not UTF-8")
	}
	p := &Pattern{}
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; c {
		case '*':
			if n := len(p.tokens); n == 0 || p.tokens[n-1].kind != tokenStar {
				p.tokens = append(p.tokens, token{kind: tokenStar})
			}
			i++
		case '?':
			p.tokens = append(p.tokens, token{kind: tokenOne})
			i++
		case '[':
			t, n, err := parseClass(pattern[i:])
			if err != nil {
				return nil, fmt.Errorf("the pattern %q %w at character %d", pattern, err, i+1)
			}
			p.tokens = append(p.tokens, t)
			i += n
		case '\\':
			i++
			if i == len(pattern) {
				return nil, fmt.Errorf("the pattern %q ends with a backslash", pattern)
			}
			fallthrough
		default:
			_, n := utf8.DecodeRuneInString(pattern[i:])
			p.literal(pattern[i : i+n])
			i += n
		}
	}
	return p, nil
}

// literal adds literal characters.
func (p *Pattern) literal(s string) {
	if n := len(p.tokens); n > 0 && p.tokens[n-1].kind == tokenLiteral {
		p.tokens[n-1].text += s
		return
	}
	p.tokens = append(p.tokens, token{kind: tokenLiteral, text: s})
}

// parseClass parses the class at the start of s and returns its length.
func parseClass(s string) (t token, n int, err error) {
	t.kind = tokenClass
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		t.negate = true
		i++
	}
	for {
		switch {
		case i >= len(s):
			return t, 0, errors.New("has a class that is not closed")
		case s[i] == ']' && len(t.ranges) == 0:
			return t, 0, errors.New("has an empty class")
		case s[i] == ']':
			return t, i + 1, nil
		case s[i] == '[' && i+1 < len(s) && strings.IndexByte(":.=", s[i+1]) >= 0:
			return t, 0, errors.New("has a named class, which is not supported")
		}
		var r runes
		if r.low, i, err = classRune(s, i); err != nil {
			return t, 0, err
		}
		r.high = r.low
		if i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			if r.high, i, err = classRune(s, i+1); err != nil {
				return t, 0, err
			}
			if r.high < r.low {
				return t, 0, errors.New("has a range that runs backwards")
			}
		}
		t.ranges = append(t.ranges, r)
	}
}

// classRune parses one character of a class, which may be escaped.
func classRune(s string, i int) (r rune, next int, err error) {
	if s[i] == '\\' {
		i++
	}
	if i >= len(s) {
		return 0, 0, errors.New("has a class that is not closed")
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return r, i + n, nil
}

// Match reports whether the pattern matches the whole of name. It backtracks only to the last
// star, so the time is at most the length of the name times that of the longest part between two
// stars.
func (p *Pattern) Match(name string) bool {
	t, i := 0, 0
	star, resume := -1, 0
	for {
		if t == len(p.tokens) {
			if i == len(name) {
				return true
			}
		} else if p.tokens[t].kind == tokenStar {
			star, resume = t, i
			t++
			if t == len(p.tokens) {
				return true
			}
			continue
		} else if n, ok := p.tokens[t].match(name[i:]); ok {
			i += n
			t++
			continue
		}
		if star < 0 || resume >= len(name) {
			return false
		}
		_, n := utf8.DecodeRuneInString(name[resume:])
		resume += n
		t, i = star+1, resume
	}
}

// match reports whether a token other than a star matches the start of s, and the length of the
// match.
func (t *token) match(s string) (n int, ok bool) {
	if t.kind == tokenLiteral {
		return len(t.text), strings.HasPrefix(s, t.text)
	}
	if s == "" {
		return 0, false
	}
	r, n := utf8.DecodeRuneInString(s)
	if t.kind == tokenOne {
		return n, true
	}
	for _, c := range t.ranges {
		if c.low <= r && r <= c.high {
			return n, !t.negate
		}
	}
	return n, t.negate
}

// Regex returns an RE2 expression, without anchors, that matches the whole of a name if and only
// if the pattern does, for names in UTF-8.
func (p *Pattern) Regex() string {
	var b strings.Builder
	for _, t := range p.tokens {
		switch t.kind {
		case tokenLiteral:
			b.WriteString(regexp.QuoteMeta(t.text))
		case tokenStar:
			b.WriteString(`(?s:.*)`)
		case tokenOne:
			b.WriteString(`(?s:.)`)
		case tokenClass:
			b.WriteByte('[')
			if t.negate {
				b.WriteByte('^')
			}
			for _, r := range t.ranges {
				fmt.Fprintf(&b, `\x{%x}-\x{%x}`, r.low, r.high)
			}
			b.WriteByte(']')
		}
	}
	return b.String()
}

// Prefix returns the prefix that every match has. whole reports that the pattern matches every
// name with this prefix, exact that it matches only the prefix itself.
func (p *Pattern) Prefix() (text string, whole, exact bool) {
	if len(p.tokens) == 0 {
		return "", false, true
	}
	rest := p.tokens
	if rest[0].kind == tokenLiteral {
		text, rest = rest[0].text, rest[1:]
	}
	return text, len(rest) == 1 && rest[0].kind == tokenStar, len(rest) == 0
}

// Suffix returns the suffix that every match has.
func (p *Pattern) Suffix() string {
	if n := len(p.tokens); n > 0 && p.tokens[n-1].kind == tokenLiteral {
		return p.tokens[n-1].text
	}
	return ""
}
