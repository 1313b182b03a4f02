package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// WriteFields writes the members of a value one below the other, in their order;
// members of an object inside it have its name in front, as in tenant.id.
func WriteFields(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return WriteRaw(w, FormatJSON, data)
	}
	members := flat(nil, "", doc.Content[0])
	width := 0
	for i := 0; i < len(members); i += 2 {
		width = max(width, len(members[i].Value))
	}
	var b bytes.Buffer
	for i := 0; i < len(members); i += 2 {
		writeField(&b, members[i].Value, width, members[i+1])
		b.WriteByte('\n')
	}
	_, err = w.Write(b.Bytes())
	return err
}

// flat appends the members of an object as alternating names and values, with nested
// objects flattened.
func flat(list []*yaml.Node, path string, object *yaml.Node) []*yaml.Node {
	for i := 0; i+1 < len(object.Content); i += 2 {
		name, value := object.Content[i], object.Content[i+1]
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			list = flat(list, path+name.Value+".", value)
			continue
		}
		list = append(list, &yaml.Node{Kind: yaml.ScalarNode, Value: path + name.Value}, value)
	}
	return list
}

// writeField writes one line, or for a text of several lines the name and the
// text below it.
func writeField(b *bytes.Buffer, name string, width int, n *yaml.Node) {
	text := n.Value
	if n.Kind != yaml.ScalarNode {
		var v any
		if n.Decode(&v) == nil { // cannot fail: the value was encoded before
			if data, err := json.Marshal(v); err == nil {
				text = string(data)
			}
		}
	} else if n.Tag == "!!null" {
		text = ""
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) == 1 {
		fmt.Fprintf(b, "%-*s  %s", width, name, Dash(Clean(lines[0])))
		return
	}
	b.WriteString(name)
	for _, line := range lines {
		b.WriteString("\n    " + Clean(line))
	}
}
