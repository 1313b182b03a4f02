package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"svc/server/api"
)

// Write writes documents as YAML, separated by "---". [Read] reads the same.
func Write(w io.Writer, list []api.Document) error {
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

// nodeOf makes a node of the next JSON value, with members in their order.
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

// word is a text that every reader of YAML takes for a text, unless it is reserved.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*$`)

// reserved are words that some reader of YAML takes for something else, in lower case.
var reserved = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}

// textNode writes a text in the plainest style that every reader of YAML reads as it is.
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

// isBlock reports whether a text is lines of printable characters that a block holds
// as they are: the first begins with no space, none ends with one, and one line break
// ends the last.
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
