package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// expansion is a value from the environment and the field that contains it.
type expansion struct {
	path  string
	name  string
	value string
}

// maxExpanded bounds the expanded value of one field, in bytes.
const maxExpanded = 64 << 10

// expand replaces each ${NAME} in s by the variable's value. The value is text: it is
// neither parsed as YAML nor expanded again. A variable that is not set,
// or empty, is an error. In fields that are not expanded it is a warning; below policy it
// is neither, because ${1} is a reference in replacement templates.
func (l *loader) expand(n *yaml.Node, s string, at *path, f field) (string, bool) {
	if !strings.Contains(s, "${") {
		return s, true
	}
	if !f.env {
		if name, _, ok := variable(s[strings.Index(s, "${")+len("${"):]); ok && !at.under("policy") {
			l.warn(n, at, "env-not-expanded", "write the value itself",
				fmt.Sprintf("environment variables are not expanded in this field; ${%s} stays as it is", name))
		}
		return s, true
	}
	var out strings.Builder
	ok, seen := true, len(l.expanded)
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			break
		}
		name, size, valid := variable(rest)
		if !valid {
			l.node(n, at, "env-syntax", "write ${NAME}, with letters, digits and _ only; a value from the environment may hold anything",
				"a ${ that is not followed by the name of an environment variable and }")
			return "", false
		}
		s = rest[size:]
		value := ""
		if l.getenv != nil {
			value, _ = l.getenv(name)
		}
		if value == "" {
			l.unset(n, at, name)
			ok = false
			continue
		}
		if out.Len()+len(value) > maxExpanded {
			l.nodef(n, at, "env-too-long", "", "with %s the value is longer than %d bytes", name, maxExpanded)
			return "", false
		}
		if strings.ContainsRune(value, 0) {
			l.nodef(n, at, "wrong-type", "", "%s holds a NUL character", name)
			return "", false
		}
		if e := (expansion{at.String(), name, value}); !slices.Contains(l.expanded[seen:], e) {
			l.expanded = append(l.expanded, e)
		}
		out.WriteString(value)
	}
	return out.String(), ok
}

// variable parses the rest of a ${NAME} at the start of s, after the opening: its name
// and its length.
func variable(s string) (name string, size int, ok bool) {
	end := strings.IndexByte(s[:min(len(s), maxKey+1)], '}')
	if end < 0 {
		return "", 0, false
	}
	name = s[:end]
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return "", 0, false
		}
	}
	return name, end + 1, name != ""
}

// under reports whether the path is in the named top-level section.
func (p *path) under(section string) bool {
	if p == nil {
		return false
	}
	for p.parent != nil {
		p = p.parent
	}
	return p.name == section
}

// scrub removes values of environment variables from the text of a finding: the
// validation of sections quotes values without knowing their origin. Short values are
// removed only from findings about their own field, because elsewhere they match by
// accident.
func (l *loader) scrub(path, text string) string {
	const long = 4
	for _, e := range l.expanded {
		if len(e.value) < long && !below(path, e.path) && !below(e.path, path) {
			continue
		}
		quoted := strconv.Quote(e.value)
		for _, v := range []string{e.value, quoted[1 : len(quoted)-1]} {
			text = strings.ReplaceAll(text, v, "${"+e.name+"}")
		}
	}
	return text
}
