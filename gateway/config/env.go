package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// expansion is a value from outside of the file and the field that contains it.
type expansion struct {
	path  string
	name  string // as between ${ and }
	value string
}

const (
	// maxExpanded bounds the expanded value of one field, in bytes.
	maxExpanded = 64 << 10
	// maxExpandedAll bounds the expanded values of all fields together.
	maxExpandedAll = 16 << 20
)

// expand replaces each ${NAME} in s by the variable's value, and each ${file:PATH} by the text of
// the file. The value is text: it is neither parsed as YAML nor expanded again. A variable that is
// not set, or empty, is an error, and so is a file that cannot be used. In fields that are not
// expanded it is a warning; below policy it is neither, because ${1} is a reference in replacement
// templates.
func (l *loader) expand(n *yaml.Node, s string, at *path, f field) (string, bool) {
	if !strings.Contains(s, "${") {
		return s, true
	}
	if !f.env {
		if name, _, ok := reference(s[strings.Index(s, "${")+len("${"):]); ok && !at.under("policy") {
			l.warn(n, at, "env-not-expanded", "write the value itself",
				fmt.Sprintf("environment variables and files are not expanded in this field; ${%s} stays as it is", name))
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
		name, size, valid := reference(rest)
		if !valid {
			l.node(n, at, "env-syntax", "write ${NAME}, with letters, digits and _ only, or ${file:/PATH}, with an absolute path without } and ${; a value may hold anything",
				"a ${ that is not followed by the name of an environment variable, or by file: and a path, and }")
			return "", false
		}
		s = rest[size:]
		value, known := l.valueOf(n, at, name)
		if !known {
			ok = false
			continue
		}
		if out.Len()+len(value) > maxExpanded {
			l.nodef(n, at, "env-too-long", "", "with %s the value is longer than %d bytes", name, maxExpanded)
			return "", false
		}
		if l.expandedSize += len(value); l.expandedSize > maxExpandedAll {
			l.nodef(n, at, "env-too-long", "", "with %s the values of variables and files in this configuration have more than %d bytes together", name, maxExpandedAll)
			return "", false
		}
		if e := (expansion{at.String(), name, value}); !slices.Contains(l.expanded[seen:], e) {
			l.expanded = append(l.expanded, e)
		}
		out.WriteString(value)
	}
	return out.String(), ok
}

// valueOf returns the value of a reference, and reports the reason when there is none.
func (l *loader) valueOf(n *yaml.Node, at *path, name string) (value string, ok bool) {
	if path, isFile := strings.CutPrefix(name, filePrefix); isFile {
		return l.secretFile(n, at, path)
	}
	if l.getenv != nil {
		value, _ = l.getenv(name)
	}
	if value == "" {
		l.unset(n, at, "the environment variable "+name+" is not set or empty", "the environment variable "+name+" is not set here",
			"set "+name+" in the environment of the gateway")
		return "", false
	}
	if strings.ContainsRune(value, 0) {
		l.nodef(n, at, "wrong-type", "", "%s holds a NUL character", name)
		return "", false
	}
	return value, true
}

// reference parses the rest of a ${NAME} or ${file:PATH} at the start of s, after the opening:
// what is between the braces, and its length with the closing one.
func reference(s string) (name string, size int, ok bool) {
	longest := maxKey
	if strings.HasPrefix(s, filePrefix) {
		longest = maxSecretPath
	}
	end := strings.IndexByte(s[:min(len(s), longest+1)], '}')
	if end < 0 {
		return "", 0, false
	}
	name = s[:end]
	if path, isFile := strings.CutPrefix(name, filePrefix); isFile {
		return name, end + 1, isSecretPath(path)
	}
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

// scrub removes values of environment variables and files from the text of a finding: the
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
