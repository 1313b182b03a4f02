package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"svc/gateway/mcp"
)

// Limits of one tool in the index. Longer texts are truncated or omitted; the
// tool itself is routed with any definition.
const (
	maxDefinition  = 64 << 10 // bytes of one definition
	maxTitle       = 256      // bytes kept of a title
	maxDescription = 8 << 10  // bytes kept of a description
	maxParams      = 200      // parameters indexed
	maxSchemaDepth = 4        // levels of properties indexed
)

// Tool is one tool of one upstream as a search shows it. Its texts are cleaned
// (see [mcp.RemoveInvisible]). It is immutable.
type Tool struct {
	// Upstream is the name of the upstream that routes lead to.
	Upstream string
	// Name is the name for calls.
	Name string
	// Title and Description may be empty.
	Title, Description string
	// InputSchema is a JSON object.
	InputSchema json.RawMessage

	params []param
	digest hash // of the whole definition
}

// param is a parameter in the index.
type param struct{ name, description string }

// Reasons why a definition is left out of the index.
var (
	errTooLarge   = errors.New("definition is too large")
	errNoName     = errors.New("definition has no name that can be called")
	errSchema     = errors.New("input schema is not an object")
	errHiddenName = errors.New("a parameter name holds characters that cannot be seen")
)

// parseTool parses a tool of a list. raw must have been scanned.
func parseTool(upstream string, raw []byte) (*Tool, error) {
	if len(raw) > maxDefinition {
		return nil, errTooLarge
	}
	m := object(raw)
	t := &Tool{Upstream: upstream, Name: text(m["name"])}
	if t.Name == "" || len(t.Name) > mcp.MaxName || mcp.RemoveInvisible(t.Name) != t.Name {
		return nil, errNoName
	}
	t.digest = digest(m)
	t.Title = text(m["title"])
	if t.Title == "" {
		t.Title = text(object(m["annotations"])["title"])
	}
	t.Title = cut(mcp.RemoveInvisible(t.Title), maxTitle)
	t.Description = cut(mcp.RemoveInvisible(text(m["description"])), maxDescription)
	schema := m["inputSchema"]
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	if schema[0] != '{' {
		return nil, fmt.Errorf("%q: %w", t.Name, errSchema)
	}
	clean, ok := cleanJSON(schema)
	if !ok {
		return nil, fmt.Errorf("%q: %w", t.Name, errHiddenName)
	}
	t.InputSchema = clean
	if own := schemaOf(raw); bytes.Equal(clean, own) {
		t.InputSchema = own // which is in memory in any case
	}
	t.params = appendParams(nil, clean, 1)
	return t, nil
}

// digest is the hash of a definition, independent of the order of its members.
// _meta may change with every response and is excluded.
func digest(m map[string]json.RawMessage) hash {
	whole := make(map[string]any, len(m))
	for name, raw := range m {
		if name == "_meta" {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if d.Decode(&v) == nil {
			whole[name] = v
		}
	}
	canonical, _ := json.Marshal(whole) // sorts the members
	return sha256.Sum256(canonical)
}

// appendParams adds the parameters of a schema, including those of nested
// objects and of array elements.
func appendParams(params []param, schema []byte, depth int) []param {
	if depth > maxSchemaDepth || len(schema) == 0 || schema[0] != '{' {
		return params
	}
	m := object(schema)
	if items := m["items"]; len(items) > 0 {
		params = appendParams(params, items, depth+1)
	}
	properties := object(m["properties"])
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(params) >= maxParams {
			break
		}
		description := ""
		if raw := properties[name]; len(raw) > 0 && raw[0] == '{' {
			description = text(object(raw)["description"])
		}
		params = append(params, param{name, description})
		params = appendParams(params, properties[name], depth+1)
	}
	return params
}

// cut shortens text to at most n bytes, at the start of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
