package policy

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// part is one part of a replacement: text, or a group of the expression.
type part struct {
	text  string
	group int // -1 for text
}

// parseTemplate parses a replacement with the syntax of [regexp.Regexp.Expand]. The parts
// make it possible to compute the length of an expansion before it is written. unknown
// lists references to groups that the expression does not define; they expand to nothing.
func parseTemplate(re *regexp.Regexp, template string) (parts []part, unknown []string) {
	text := func(s string) {
		if s == "" {
			return
		}
		if n := len(parts); n > 0 && parts[n-1].group < 0 {
			parts[n-1].text += s
			return
		}
		parts = append(parts, part{text: s, group: -1})
	}
	for template != "" {
		before, after, ok := strings.Cut(template, "$")
		text(before)
		if !ok {
			break
		}
		if strings.HasPrefix(after, "$") {
			text("$")
			template = after[1:]
			continue
		}
		name, rest, ok := reference(after)
		if !ok {
			text("$") // a literal dollar sign
			template = after
			continue
		}
		template = rest
		if g := groupNumber(re, name); g >= 0 {
			parts = append(parts, part{group: g})
		} else {
			unknown = append(unknown, name)
		}
	}
	return parts, unknown
}

// reference parses the name of a group, with or without braces, at the start of s.
func reference(s string) (name, rest string, ok bool) {
	brace := strings.HasPrefix(s, "{")
	if brace {
		s = s[1:]
	}
	i := 0
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' {
			break
		}
		i += n
	}
	if i == 0 {
		return "", "", false
	}
	name, rest = s[:i], s[i:]
	if brace {
		if !strings.HasPrefix(rest, "}") {
			return "", "", false
		}
		rest = rest[1:]
	}
	return name, rest, true
}

// groupNumber returns the number of a group by its name or number, -1 when the expression
// does not define it.
func groupNumber(re *regexp.Regexp, name string) int {
	n := 0
	for i := 0; i < len(name); i++ {
		if name[i] < '0' || name[i] > '9' || n >= 1e8 || name[0] == '0' && len(name) > 1 {
			return re.SubexpIndex(name)
		}
		n = n*10 + int(name[i]-'0')
	}
	if n > re.NumSubexp() {
		return -1
	}
	return n
}
