package config

import (
	"encoding/json"
	"reflect"

	"gopkg.in/yaml.v3"

	"svc/gateway/mcp"
)

// JSON is a field that accepts any value: the value as JSON text, with its members in the
// order of the file; nil when absent.
type JSON []byte

// isJSON reports whether a field of the type accepts any value, as JSON text.
func isJSON(t reflect.Type) bool {
	return t == reflect.TypeFor[JSON]() || t == reflect.TypeFor[json.RawMessage]()
}

// json appends n as JSON. Numbers and texts are distinguished as in other fields: only a
// number that every YAML parser reads in the same way is a number.
func (l *loader) json(b []byte, n *yaml.Node, at *path) ([]byte, bool) {
	if n.Kind == yaml.AliasNode || at.depth() > maxDepth {
		return b, false // reported by inspect
	}
	ok, good := true, true
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i, first := 0, true; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if !usableKey(k) {
				ok = false
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(mcp.AppendString(b, k.Value), ':')
			b, good = l.json(b, v, at.field(k.Value))
			ok = ok && good
		}
		return append(b, '}'), ok
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, v := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b, good = l.json(b, v, at.elem(i))
			ok = ok && good
		}
		return append(b, ']'), ok
	}
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...), true
	case "!!bool":
		if n.Value == "true" || n.Value == "false" {
			return append(b, n.Value...), true
		}
		l.mismatch(n, at, "true or false", "write true or false, or put it in quotes")
		return b, false
	case "!!int", "!!float":
		if l.number(n, at, anyNumber, "a number") {
			return append(b, n.Value...), true
		}
		return b, false
	}
	return mcp.AppendString(b, n.Value), true
}
