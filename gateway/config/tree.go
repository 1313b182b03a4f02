package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// The bounds of a configuration file.
const (
	// maxBytes is the largest file read, in bytes.
	maxBytes = 1 << 20
	// maxDepth is how deep its mappings and lists may nest.
	maxDepth = 32
	// maxKey is the longest key, in bytes.
	maxKey = 256
)

// path is the path of a node. It is formatted only for a finding: a file of a megabyte
// has half a million nodes.
type path struct {
	parent *path
	name   string
	index  int
	list   bool
}

func (p *path) field(name string) *path { return &path{parent: p, name: name} }
func (p *path) elem(i int) *path        { return &path{parent: p, index: i, list: true} }

func (p *path) String() string {
	switch {
	case p == nil:
		return ""
	case p.list:
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return diag.Join(p.parent.String(), p.name)
	}
}

// parse parses the single document of data. It returns nil when there is nothing to
// decode; errors are reported.
func (l *loader) parse(data []byte) *yaml.Node {
	switch {
	case len(data) > maxBytes:
		l.file("too-large", "the file is larger than 1 MiB")
		return nil
	case !utf8.Valid(data):
		l.at(firstInvalid(data), "not-utf8", "the file is not UTF-8 text")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := decodeNode(dec, &doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && blank(&doc):
		l.file("empty", "the file is empty")
		return nil
	case err != nil:
		l.syntax(data, err)
		return nil
	}
	if err := decodeNode(dec, &next); !errors.Is(err, io.EOF) {
		if err != nil {
			l.syntax(data, err)
		} else {
			l.at(diag.Pos{Line: next.Line, Column: next.Column}, "documents",
				"the file holds a second document; a gateway has one")
		}
		return nil
	}
	return doc.Content[0]
}

func blank(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null"
}

// decodeNode recovers from panics of the parser, which handles untrusted input and
// recovers only from its own errors.
func decodeNode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", r)
		}
	}()
	return dec.Decode(n)
}

var yamlLine = regexp.MustCompile(`^line ([0-9]+): `)

// parserErrors match the messages whose line the library counts from 0; it counts all
// others from 1.
var parserErrors = regexp.MustCompile(
	`^(did not find expected (key|node content|'-' indicator|',' or|<)|found undefined tag handle|found duplicate %|found incompatible YAML)`)

// syntax reports an error of the YAML parser, which has a line at best.
func (l *loader) syntax(data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	pos := diag.Pos{Line: 1} // an error on the first line has none
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		pos.Line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		if parserErrors.MatchString(msg) {
			pos.Line++
		}
	}
	hint := ""
	switch {
	case strings.Contains(msg, "cannot start any token"), strings.Contains(msg, "tab character"):
		hint = "indent with spaces: YAML does not allow tabs there; quote values that start with @, ` or %"
	case strings.HasPrefix(msg, "did not find expected alphabetic or numeric character"):
		hint = "a * alone, as in tool_name: \"*\", needs quotes: YAML reads a * without them as an alias"
	case strings.HasPrefix(msg, "unknown anchor "):
		pos = anchorUse(data, msg)
		hint = "aliases are not used in this file; a value that starts with * needs quotes"
	case strings.Contains(msg, "mapping values are not allowed"):
		hint = "check the indentation, and quote values that hold a colon and a space"
	case strings.HasPrefix(msg, "did not find expected"):
		hint = "check the indentation of this line and the ones above, and that quotes and brackets are closed"
	}
	l.add(diag.Finding{Code: "yaml-syntax", Message: msg, Hint: hint, Pos: pos})
}

// anchorUse finds the alias of an "unknown anchor" message.
func anchorUse(data []byte, msg string) diag.Pos {
	name := strings.SplitN(msg, "'", 3)
	if len(name) == 3 {
		for i, line := range splitLines(string(data)) {
			if at := strings.Index(line, "*"+name[1]); at >= 0 {
				return diag.Pos{Line: i + 1, Column: utf8.RuneCountInString(line[:at]) + 1}
			}
		}
	}
	return diag.Pos{}
}

func firstInvalid(data []byte) diag.Pos {
	pos := diag.Pos{Line: 1, Column: 1}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			break
		}
		pos.Column++
		if r == '\n' {
			pos.Line++
			pos.Column = 1
		}
		data = data[n:]
	}
	return pos
}

// inspect reports, anywhere in the tree, every construct that parsers read differently:
// anchors, aliases, merge keys, tags, keys that are not text, duplicate keys, and nesting
// beyond the limit.
func (l *loader) inspect(n *yaml.Node, at *path, depth int) {
	if depth > maxDepth {
		l.node(n, at, "too-deep", "", fmt.Sprintf("nested deeper than %d levels", maxDepth))
		return
	}
	if n.Kind == yaml.AliasNode {
		l.node(n, at, "alias", "write the value out, or quote it if it is text that starts with *",
			"aliases are not used in this file")
		return
	}
	if n.Anchor != "" {
		l.refuse(n, at, "anchor", "remove it, or quote the value if it is text that starts with &",
			"anchors are not used in this file")
	}
	if n.Style&yaml.TaggedStyle != 0 {
		l.refuse(n, at, "tag", "remove it; quotes make any value text", "tags are not used in this file")
	}
	switch n.Kind {
	case yaml.MappingNode:
		l.inspectKeys(n, at, depth)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			l.inspect(c, at.elem(i), depth+1)
		}
	}
}

func (l *loader) inspectKeys(n *yaml.Node, at *path, depth int) {
	first := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode:
			l.node(k, at, "key", "", "a key must be plain text")
			continue
		case k.Anchor != "" || k.Style&yaml.TaggedStyle != 0:
			l.node(k, at, "key", "remove it", "a key with an anchor or a tag")
			continue
		case k.ShortTag() == "!!merge":
			l.node(k, at, "merge", "write the keys out", "merge keys (<<) are not used in this file")
			continue
		case len(k.Value) > maxKey:
			l.node(k, at, "key", "", fmt.Sprintf("a key is longer than %d bytes", maxKey))
			continue
		}
		if line, dup := first[k.Value]; dup {
			l.node(k, at.field(k.Value), "duplicate-key", "keep one of them",
				fmt.Sprintf("is given twice, first on line %d", line))
			continue
		}
		first[k.Value] = k.Line
		l.inspect(v, at.field(k.Value), depth+1)
	}
}
