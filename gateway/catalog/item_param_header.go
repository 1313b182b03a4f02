package catalog

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/mcp"
)

// paramHeader is the member of a schema that mirrors an argument into a header
// Mcp-Param-* (protocol revision 2026-07-28, Streamable HTTP).
const paramHeader = "x-mcp-header"

// Members of a schema that contain further schemas: one, a list of them, or an object of them. An
// annotation below any of these may not apply to every call.
var (
	subschemas = []string{"items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains",
		"propertyNames", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties"}
	schemaMaps = []string{"$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties"}
)

// paramHeaders accepts an inputSchema whose annotations x-mcp-header are valid: each on a
// property that is reached through properties alone, of type string, integer or boolean, with a
// value that is an HTTP token and unique without regard to case.
func paramHeaders(_ repairs, at string, v any) string {
	p := paramHeaderPass{seen: map[string]bool{}}
	return p.visit(at, v, false, true)
}

type paramHeaderPass struct{ seen map[string]bool }

// visit checks one schema. property is set when it is the schema of a property, and reachable
// when only properties lead to it.
func (p *paramHeaderPass) visit(at string, v any, property, reachable bool) string {
	schema, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if header, present := schema[paramHeader]; present {
		if problem := p.annotation(at, schema, header, property && reachable); problem != "" {
			return problem
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for _, name := range sortedNames(properties) {
			if problem := p.visit(at+"/properties/"+escape(name), properties[name], true, reachable); problem != "" {
				return problem
			}
		}
	}
	for _, keyword := range subschemas {
		if problem := p.below(at+"/"+keyword, keyword, schema[keyword]); problem != "" {
			return problem
		}
	}
	return ""
}

// below checks the schemas of a keyword other than properties.
func (p *paramHeaderPass) below(at, keyword string, v any) string {
	switch v := v.(type) {
	case []any:
		for i, s := range v {
			if problem := p.visit(fmt.Sprintf("%s/%d", at, i), s, false, false); problem != "" {
				return problem
			}
		}
	case map[string]any:
		if !slices.Contains(schemaMaps, keyword) {
			return p.visit(at, v, false, false)
		}
		for _, name := range sortedNames(v) {
			if problem := p.visit(at+"/"+escape(name), v[name], false, false); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func (p *paramHeaderPass) annotation(at string, schema map[string]any, header any, allowed bool) string {
	at += "/" + paramHeader
	name, ok := header.(string)
	if !allowed {
		return problemAt(at, "is not on a property that properties alone lead to")
	}
	if !ok || !mcp.IsToken(name) {
		return problemAt(at, "is no token of HTTP")
	}
	switch schema["type"] {
	case "string", "integer", "boolean":
	default:
		return problemAt(at, "is on a property that is no string, integer or boolean")
	}
	lower := strings.ToLower(name)
	if p.seen[lower] {
		return problemAt(at, fmt.Sprintf("names the header %q a second time", name))
	}
	p.seen[lower] = true
	return ""
}
