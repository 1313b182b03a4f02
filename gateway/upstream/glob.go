package upstream

import (
	"errors"
	"unicode/utf8"
)

// A glob knows * (any run, also none), ? (one character) and classes: [abc],
// [a-z], [!a-z] or [^a-z]. A backslash takes the next character as it is. Names
// are flat: no character is a separator. Matching is by character and takes time
// in proportion to pattern times name at worst, never more: only the last star
// is ever taken up again.

// checkGlob reports why a pattern is none.
func checkGlob(pattern string) error {
	if len(pattern) > 1024 {
		return errors.New("is longer than 1024 bytes")
	}
	if !utf8.ValidString(pattern) {
		return errors.New("is not UTF-8")
	}
	for p := pattern; p != ""; {
		switch p[0] {
		case '[':
			_, rest, ok := matchClass(p, 0)
			if !ok {
				return errors.New("has a character class that is empty, reversed or not closed")
			}
			p = rest
		case '\\':
			if len(p) == 1 {
				return errors.New("ends with a backslash")
			}
			_, n := utf8.DecodeRuneInString(p[1:])
			p = p[1+n:]
		default:
			_, n := utf8.DecodeRuneInString(p)
			p = p[n:]
		}
	}
	return nil
}

// matchGlob reports whether pattern, which checkGlob accepts, matches all of name.
func matchGlob(pattern, name string) bool {
	var starPattern, starName string
	star := false
	for {
		switch {
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			star, starPattern, starName = true, pattern, name
			continue
		case name != "" && pattern != "":
			if p, n, ok := matchOne(pattern, name); ok {
				pattern, name = p, n
				continue
			}
		case name == "" && pattern == "":
			return true
		}
		if !star || name == "" {
			return false // a longer run for the star only leaves less of the name
		}
		_, n := utf8.DecodeRuneInString(starName)
		starName = starName[n:]
		pattern, name = starPattern, starName
	}
}

// matchOne matches the first element of pattern, not a star, against the first
// character of name, and returns what is left of both.
func matchOne(pattern, name string) (p, n string, ok bool) {
	r, size := utf8.DecodeRuneInString(name)
	name = name[size:]
	switch pattern[0] {
	case '?':
		return pattern[1:], name, true
	case '[':
		in, rest, valid := matchClass(pattern, r)
		return rest, name, valid && in
	case '\\':
		pattern = pattern[1:]
	}
	c, width := utf8.DecodeRuneInString(pattern)
	// Two invalid bytes decode to one and the same rune; they must not be equal.
	return pattern[min(width, len(pattern)):], name, c == r && (r != utf8.RuneError || size > 1)
}

// matchClass reads the class that pattern starts with and reports whether r is
// in it. A ] or a - that comes first, and a - that comes last, stand for
// themselves. ok is false when the class is malformed.
func matchClass(pattern string, r rune) (in bool, rest string, ok bool) {
	p := pattern[1:]
	negated := p != "" && (p[0] == '!' || p[0] == '^')
	if negated {
		p = p[1:]
	}
	for first := true; ; first = false {
		if p == "" {
			return false, "", false
		}
		if p[0] == ']' && !first {
			return in != negated, p[1:], true
		}
		lo, p2, valid := classRune(p)
		if !valid {
			return false, "", false
		}
		hi := lo
		if len(p2) > 1 && p2[0] == '-' && p2[1] != ']' {
			if hi, p2, valid = classRune(p2[1:]); !valid || hi < lo {
				return false, "", false
			}
		}
		in = in || lo <= r && r <= hi
		p = p2
	}
}

func classRune(p string) (r rune, rest string, ok bool) {
	if p[0] == '\\' {
		p = p[1:]
	}
	if p == "" {
		return 0, "", false
	}
	r, n := utf8.DecodeRuneInString(p)
	return r, p[n:], true
}
