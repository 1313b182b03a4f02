package check

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ToolClaims is what the definition of a tool says about the flow of data. The server wrote it, and nothing
// verifies it.
type ToolClaims struct {
	// ReadOnly and OpenWorld are hints of the annotations; nil where the tool has none.
	ReadOnly, OpenWorld *bool
	// Addresses are the names of arguments that say where something is sent to or fetched from, such as url
	// and to, sorted, at most [maxAddresses].
	Addresses []string
}

const (
	maxAddresses   = 32
	maxSchemaDepth = 16 // levels of an input schema in which arguments are looked up
)

// ClaimsOf reads the definition of a tool, one item of tools/list. What has another form than the
// protocol's is left out.
func ClaimsOf(tool []byte) (c ToolClaims) {
	var t struct {
		Annotations, InputSchema json.RawMessage
	}
	if json.Unmarshal(tool, &t) != nil {
		return c
	}
	var hints struct{ ReadOnlyHint, OpenWorldHint *bool }
	if json.Unmarshal(t.Annotations, &hints) == nil {
		c.ReadOnly, c.OpenWorld = hints.ReadOnlyHint, hints.OpenWorldHint
	}
	var schema any
	_ = json.Unmarshal(t.InputSchema, &schema) // no schema has no arguments
	found := map[string]bool{}
	addresses(schema, 0, found)
	c.Addresses = slices.Sorted(maps.Keys(found))
	c.Addresses = c.Addresses[:min(len(c.Addresses), maxAddresses)]
	return c
}

// schemaParts are the members of a schema that have schemas of the same value, or of parts of it.
var schemaParts = []string{"items", "prefixItems", "anyOf", "oneOf", "allOf", "then", "else", "additionalProperties"}

// addresses adds the names of arguments in a schema that are addresses.
func addresses(schema any, depth int, found map[string]bool) {
	if depth > maxSchemaDepth {
		return
	}
	switch s := schema.(type) {
	case []any:
		for _, part := range s {
			addresses(part, depth+1, found)
		}
	case map[string]any:
		for _, named := range []string{"properties", "$defs", "definitions"} {
			members, _ := s[named].(map[string]any)
			for name, part := range members {
				if named == "properties" && isAddress(name) {
					found[name] = true
				}
				addresses(part, depth+1, found)
			}
		}
		for _, part := range schemaParts {
			addresses(s[part], depth+1, found)
		}
	}
}

// words splits the name of an argument: targetURL, target_url and target-url have two.
var words = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)

// isAddress reports whether the last word of a name, but for id and name, is that of an address: webhook_url,
// recipients, channelId.
func isAddress(name string) bool {
	parts := words.FindAllString(name, -1)
	for len(parts) > 1 && (strings.EqualFold(parts[len(parts)-1], "id") || strings.EqualFold(parts[len(parts)-1], "name")) {
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return false
	}
	switch last := strings.ToLower(parts[len(parts)-1]); strings.TrimSuffix(last, "s") {
	case "url", "uri", "href", "link", "endpoint", "webhook", "callback", "host", "hostname", "domain", "addres", "addresse",
		"recipient", "to", "cc", "bcc", "email", "channel", "destination":
		return true
	}
	return false
}
