package planecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"svc/store/api"
)

// maxDepth bounds the nesting of a document; the deepest has 6 levels.
const maxDepth = 32

// Document is a document with its position.
type Document struct {
	api.Document
	File string
	Line int
}

// At is the position of the document.
func (d *Document) At() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// Read parses the documents of one file. A list under the key "documents", as the API
// returns it, is read as its entries.
func Read(file string, text []byte) (list []Document, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var root yaml.Node
		switch err := d.Decode(&root); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		node := root.Content[0]
		if node.Kind == yaml.ScalarNode && node.Tag == "!!null" && node.Style == 0 { // nothing between two separators
			continue
		}
		if err := plain(node, 0); err != nil {
			return nil, fmt.Errorf("%s:%w", file, err)
		}
		nodes := []*yaml.Node{node}
		if entries := entriesOf(node); entries != nil {
			nodes = entries.Content
		}
		for _, n := range nodes {
			doc, err := document(n)
			if err != nil {
				return nil, fmt.Errorf("%s:%w", file, err)
			}
			list = append(list, Document{doc, file, n.Line})
		}
	}
}

// problem is an error with its position in a file.
func problem(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%d:%d: "+format, append([]any{n.Line, n.Column}, args...)...)
}

// plain rejects YAML features that documents must not use.
func plain(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return problem(n, "is nested deeper than %d levels", maxDepth)
	case n.Anchor != "":
		return problem(n, "the anchor &%s: documents have no anchors", n.Anchor)
	case n.Kind == yaml.AliasNode:
		return problem(n, "the alias *%s: documents have no aliases", n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		return problem(n, "the tag %s: documents have no tags", n.Tag)
	}
	names := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case child.Kind != yaml.ScalarNode:
				return problem(child, "a name must be a string")
			case child.Tag == "!!merge":
				return problem(child, "the merge key <<: documents have none")
			case names[child.Value]:
				return problem(child, "%q is given twice", child.Value)
			}
			names[child.Value] = true
		}
		if err := plain(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf returns the list of documents in a node; nil when it is a single
// document.
func entriesOf(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	var entries *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch {
		case n.Content[i].Value == "documents" && n.Content[i+1].Kind == yaml.SequenceNode:
			entries = n.Content[i+1]
		case n.Content[i].Value != "warnings":
			return nil
		}
	}
	return entries
}

// document converts a node to a document.
func document(n *yaml.Node) (doc api.Document, err error) {
	if n.Kind != yaml.MappingNode {
		return doc, problem(n, "a document must be an object with kind, name and spec")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch name.Value {
		case "kind", "name":
			if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
				return doc, problem(value, "%s must be a string: put it in quotes", name.Value)
			}
			if name.Value == "kind" {
				doc.Kind = value.Value
			} else {
				doc.Name = value.Value
			}
		case "spec":
			var b bytes.Buffer
			if err := writeJSON(&b, value); err != nil {
				return doc, err
			}
			doc.Spec = b.Bytes()
		default:
			return doc, problem(name, "unknown member %q: a document has kind, name and spec", name.Value)
		}
	}
	switch {
	case doc.Kind == "":
		return doc, problem(n, "the document has no kind")
	case doc.Name == "":
		return doc, problem(n, "the document has no name")
	}
	return doc, nil
}

// number matches a JSON number.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// writeJSON writes a node as JSON.
func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeText(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, child := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, child); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	default:
		return writeScalar(b, n)
	}
	return nil
}

func writeScalar(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return writeText(b, n.Value)
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return problem(n, "%s must be true or false", n.Value)
		}
		fmt.Fprint(b, v)
	case "!!int", "!!float":
		if number.MatchString(n.Value) {
			b.WriteString(n.Value)
			return nil
		}
		return problem(n, "%s: write the number in decimal, or put the string in quotes", n.Value)
	default:
		return problem(n, "%s values are not allowed in a document", n.Tag)
	}
	return nil
}

func writeText(b *bytes.Buffer, s string) error {
	text, err := json.Marshal(s)
	b.Write(text)
	return err
}
