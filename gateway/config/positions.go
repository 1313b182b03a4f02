package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// locate returns the position of the field at path: of its value when that is a scalar,
// else of its key. A field that is absent has the position of its nearest existing
// parent; the zero Pos means the file as a whole.
func locate(root *yaml.Node, path string) diag.Pos {
	var pos diag.Pos
	n := root
	for path != "" && n != nil {
		var name string
		var index int
		name, index, path = cutPath(path)
		switch {
		case name == "" && n.Kind == yaml.SequenceNode && index >= 0 && index < len(n.Content):
			n = n.Content[index]
			pos = diag.Pos{Line: n.Line, Column: n.Column}
		case n.Kind == yaml.MappingNode:
			k, v := entry(n, name)
			if n = v; k == nil {
				return pos
			}
			pos = diag.Pos{Line: k.Line, Column: k.Column}
			if v.Kind == yaml.ScalarNode && v.Value != "" {
				pos = diag.Pos{Line: v.Line, Column: v.Column}
			}
		default:
			return pos
		}
	}
	return pos
}

// cutPath splits the first step off a path of [diag.Join] and At.Index: a name, or an
// index with an empty name.
func cutPath(path string) (name string, index int, rest string) {
	path = strings.TrimPrefix(path, ".")
	if inner, ok := strings.CutPrefix(path, "["); ok {
		if q, err := strconv.QuotedPrefix(inner); err == nil {
			name, _ = strconv.Unquote(q)
			return name, -1, strings.TrimPrefix(inner[len(q):], "]")
		}
		digits, after, _ := strings.Cut(inner, "]")
		i, err := strconv.Atoi(digits)
		if err != nil {
			i = -1
		}
		return "", i, after
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, -1, ""
	}
	return path[:end], -1, path[end:]
}

func entry(n *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// excerpts extracts the lines of the file that findings print.
type excerpts struct {
	lines   []string
	secrets []diag.Pos
	// shown caches masked lines, because a file can be one line that all findings refer
	// to.
	shown map[int][]rune
}

func newExcerpts(data []byte, secrets []diag.Pos) *excerpts {
	slices.SortFunc(secrets, func(a, b diag.Pos) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &excerpts{
		lines:   splitLines(strings.TrimPrefix(string(data), "\ufeff")),
		secrets: secrets,
		shown:   make(map[int][]rune),
	}
}

// splitLines splits at the line breaks of YAML.
func splitLines(s string) []string {
	return strings.Split(lineBreaks.Replace(s), "\n")
}

var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// fill adds the file, the line and the caret to the positions of findings.
func (e *excerpts) fill(file string, found []diag.Finding) {
	for i := range found {
		f := &found[i]
		f.Pos.File = file
		if f.Pos.Line < 1 || f.Pos.Line > len(e.lines) {
			continue
		}
		line, ok := e.shown[f.Pos.Line]
		if !ok {
			line = []rune(mask(e.cut(f.Pos.Line)))
			e.shown[f.Pos.Line] = line
		}
		f.Excerpt, f.Caret = window(line, f.Pos.Column)
	}
}

// secretLine finds a secret by the name of its key, for lines that could not be parsed as
// YAML.
var secretLine = regexp.MustCompile(
	`(?i)((?:key|secret|token|passw(?:or)?d|hash|authorization|cookie|credentials?)["']?\s*[:=]\s*)[^\s{\[].*$`)

// userInfo finds the password of a URL.
var userInfo = regexp.MustCompile(`://[^\s/@:]*:[^\s/@]+@`)

const masked = "********"

// cut returns a line up to its first secret.
func (e *excerpts) cut(line int) string {
	s := e.lines[line-1]
	i, _ := slices.BinarySearchFunc(e.secrets, line, func(p diag.Pos, line int) int { return cmp.Compare(p.Line, line) })
	if i < len(e.secrets) && e.secrets[i].Line == line {
		r := []rune(s)
		if c := e.secrets[i].Column - 1; c >= 0 && c < len(r) {
			s = string(r[:c]) + masked
		}
	}
	return s
}

// mask masks the part of a line that looks like a secret. The columns before it do not
// change.
func mask(s string) string {
	s = secretLine.ReplaceAllString(s, "${1}"+masked)
	return userInfo.ReplaceAllStringFunc(s, func(m string) string {
		i := strings.Index(m[len("://"):], ":") + len("://:")
		return m[:i] + strings.Repeat("*", utf8.RuneCountInString(m[i:])-1) + "@"
	})
}

// window cuts a long line to the text around the column, and returns it with the column
// of the caret.
func window(r []rune, column int) (string, int) {
	const before, most = 40, 120
	caret := max(min(column, len(r)+1), 0)
	if len(r) <= most {
		return string(r), caret
	}
	start := min(max(caret-before, 0), max(len(r)-most, 0))
	stop := min(start+most, len(r))
	text := string(r[start:stop])
	if start > 0 {
		text = "…" + string(r[start+1:stop])
	}
	if stop < len(r) {
		text += "…"
	}
	return text, caret - start
}
