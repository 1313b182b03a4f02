package planecmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"svc/store/api"
)

// write writes documents as YAML, separated by "---". [Read] returns the same documents.
func write(w io.Writer, list []api.Document) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	for _, doc := range list {
		data, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		node, err := nodeOf(d)
		if err != nil {
			return err
		}
		if err := enc.Encode(node); err != nil {
			return err
		}
	}
	return enc.Close()
}

// nodeOf converts the next JSON value to a node, with members in their order.
func nodeOf(d *json.Decoder) (*yaml.Node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case string:
		return textNode(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool, nil:
		text := "null"
		if v != nil {
			text = fmt.Sprint(v)
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}, nil
	}
	node := &yaml.Node{Kind: yaml.MappingNode}
	if tok == json.Delim('[') {
		node.Kind = yaml.SequenceNode
	}
	for d.More() {
		child, err := nodeOf(d)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err = d.Token() // the end
	return node, err
}

// word matches strings that every YAML parser reads as strings, unless they are
// reserved.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*$`)

// reserved are the words that some YAML parser does not read as strings, in lower case.
var reserved = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}

// textNode writes a string in the plainest style that every YAML parser reads back
// unchanged.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	switch {
	case word.MatchString(s) && !reserved[strings.ToLower(s)]:
		n.Style = 0
	case isBlock(s):
		n.Style = yaml.LiteralStyle
	}
	return n
}

// isBlock reports whether a string can be written as a block: lines of printable characters,
// the first not beginning with a space, none ending with one, and one line break at the end.
func isBlock(s string) bool {
	lines, ok := strings.CutSuffix(s, "\n")
	if !ok || !strings.Contains(lines, "\n") {
		return false
	}
	for i, line := range strings.Split(lines, "\n") {
		if line == "" && i == 0 || strings.TrimRight(line, " ") != line || i == 0 && line[0] == ' ' {
			return false
		}
		for _, r := range line {
			if !unicode.IsPrint(r) {
				return false
			}
		}
	}
	return !strings.HasSuffix(lines, "\n")
}
