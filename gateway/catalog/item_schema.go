package catalog

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/mcp"
)

// schemaOf returns the schema of an item (schema/REVISION/schema.ts of the protocol). Legacy
// revisions differ in their members, and SDKs parse all of them with the schema of the newest
// legacy revision; this package does too.
func schemaOf(kind mcp.ListKind, modern bool) check {
	if modern {
		return modernSchemas[kind]
	}
	return legacySchemas[kind]
}

var (
	icons = member{"icons", false, listed(checkedObject(
		member{"src", true, text},
		member{"mimeType", false, text},
		member{"sizes", false, listed(text)},
		member{"theme", false, oneOf("light", "dark")},
	))}
	name        = member{"name", true, text}
	title       = member{"title", false, text}
	description = member{"description", false, text}
	mimeType    = member{"mimeType", false, text}
	meta        = member{"_meta", false, anyObject}

	toolAnnotations = member{"annotations", false, checkedObject(
		member{"title", false, text},
		member{"readOnlyHint", false, boolean},
		member{"destructiveHint", false, boolean},
		member{"idempotentHint", false, boolean},
		member{"openWorldHint", false, boolean},
	)}
	annotations = member{"annotations", false, checkedObject(
		member{"audience", false, listed(oneOf("user", "assistant"))},
		member{"priority", false, fraction},
		member{"lastModified", false, dateTime},
	)}

	// legacyObjectSchema is the schema of inputSchema and outputSchema in legacy revisions.
	legacyObjectSchema = checkedObject(
		member{"$schema", false, anything},
		member{"type", true, oneOf("object")},
		member{"properties", false, each(schemaOfProperty)},
		member{"required", false, listed(text)},
	)

	// modernProperties are not constrained by the revision; their booleans are replaced, as for
	// legacy clients.
	modernProperties = member{"properties", false, func(r repairs, at string, v any) string {
		for _, name := range sortedNames(asObject(v)) {
			_ = schemaOfProperty(r, at+"/"+escape(name), asObject(v)[name])
		}
		return ""
	}}

	prompt = checkedObject(name, title, description, icons, meta,
		member{"arguments", false, listed(checkedObject(name, title, description, member{"required", false, boolean}))})
	resource = checkedObject(member{"uri", true, text}, name, title, description, mimeType, icons, annotations, meta,
		member{"size", false, integer})
	template = checkedObject(member{"uriTemplate", true, text}, name, title, description, mimeType, icons, annotations, meta)

	legacySchemas = map[mcp.ListKind]check{
		mcp.Tool: checkedObject(name, title, description, icons, toolAnnotations, meta,
			member{"inputSchema", true, all(typedObject, legacyObjectSchema)},
			member{"outputSchema", false, legacyObjectSchema},
			member{"execution", false, checkedObject(member{"taskSupport", false, oneOf("required", "optional", "forbidden")})},
		),
		mcp.Prompt: prompt, mcp.Resource: resource, mcp.Template: template, mcp.Skill: anyObject, // see CheckSkill
	}
	modernSchemas = map[mcp.ListKind]check{
		mcp.Tool: checkedObject(name, title, description, icons, toolAnnotations, meta,
			member{"inputSchema", true, all(
				typedObject,
				checkedObject(member{"$schema", false, text}, member{"type", true, oneOf("object")}, modernProperties, member{"required", false, anything}),
				paramHeaders)},
			member{"outputSchema", false, checkedObject(member{"$schema", false, text}, modernProperties, member{"required", false, anything})},
			member{"execution", false, anything},
		),
		mcp.Prompt: prompt, mcp.Resource: resource, mcp.Template: template, mcp.Skill: anyObject,
	}
)

// all accepts a value that every check accepts.
func all(checks ...check) check {
	return func(r repairs, at string, v any) string {
		for _, c := range checks {
			if problem := c(r, at, v); problem != "" {
				return problem
			}
		}
		return ""
	}
}

// integer accepts an integer literal that every SDK can represent.
func integer(_ repairs, at string, v any) string {
	n, ok := v.(json.Number)
	if !ok {
		return problemAt(at, "is no number")
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err != nil || i < -(1<<53) || i > 1<<53 {
		return problemAt(at, "is no integer of at most 53 bits")
	}
	return ""
}

// fraction accepts a number from 0 to 1.
func fraction(_ repairs, at string, v any) string {
	n, ok := v.(json.Number)
	if !ok {
		return problemAt(at, "is no number")
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || f < 0 || f > 1 {
		return problemAt(at, "is not between 0 and 1")
	}
	return ""
}

// dateTimeShape is a time of ISO 8601 with seconds and an offset from UTC.
var dateTimeShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// dateTime accepts a time of that form on an existing day.
func dateTime(_ repairs, at string, v any) string {
	s, ok := v.(string)
	if !ok {
		return problemAt(at, "is no string")
	}
	if !dateTimeShape.MatchString(s) {
		return problemAt(at, "is no time such as 2026-01-31T10:00:00Z")
	}
	if _, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)]); err != nil {
		return problemAt(at, "names a day that does not exist")
	}
	return ""
}

// asObject returns the members of an object, none of another value.
func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

func sortedNames(members map[string]any) []string { return slices.Sorted(maps.Keys(members)) }

// escape writes a member name as a step of a JSON Pointer (RFC 6901).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
