package itemcheck

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/catalog"
)

// schemaOf returns the schema of an item (schema/REVISION/schema.ts of the protocol). Legacy
// revisions differ in their members, and SDKs parse all of them with the schema of the newest
// legacy revision; this package does too.
func schemaOf(kind catalog.Kind, modern bool) check {
	if modern {
		return modernSchemas[kind]
	}
	return legacySchemas[kind]
}

var (
	icons = member{"icons", false, list(object(
		member{"src", true, text},
		member{"mimeType", false, text},
		member{"sizes", false, list(text)},
		member{"theme", false, oneOf("light", "dark")},
	))}
	name        = member{"name", true, text}
	title       = member{"title", false, text}
	description = member{"description", false, text}
	mimeType    = member{"mimeType", false, text}
	meta        = member{"_meta", false, anyObject}

	toolAnnotations = member{"annotations", false, object(
		member{"title", false, text},
		member{"readOnlyHint", false, boolean},
		member{"destructiveHint", false, boolean},
		member{"idempotentHint", false, boolean},
		member{"openWorldHint", false, boolean},
	)}
	annotations = member{"annotations", false, object(
		member{"audience", false, list(oneOf("user", "assistant"))},
		member{"priority", false, fraction},
		member{"lastModified", false, dateTime},
	)}

	// legacyObjectSchema is the schema of inputSchema and outputSchema in legacy revisions.
	legacyObjectSchema = object(
		member{"type", true, oneOf("object")},
		member{"properties", false, each(anyObject)},
		member{"required", false, list(text)},
	)

	prompt = object(name, title, description, icons, meta,
		member{"arguments", false, list(object(name, title, description, member{"required", false, boolean}))})
	resource = object(member{"uri", true, text}, name, title, description, mimeType, icons, annotations, meta,
		member{"size", false, integer})
	template = object(member{"uriTemplate", true, text}, name, title, description, mimeType, icons, annotations, meta)

	legacySchemas = map[catalog.Kind]check{
		catalog.Tool: object(name, title, description, icons, toolAnnotations, meta,
			member{"inputSchema", true, legacyObjectSchema},
			member{"outputSchema", false, legacyObjectSchema},
			member{"execution", false, object(member{"taskSupport", false, oneOf("required", "optional", "forbidden")})},
		),
		catalog.Prompt: prompt, catalog.Resource: resource, catalog.Template: template,
	}
	modernSchemas = map[catalog.Kind]check{
		catalog.Tool: object(name, title, description, icons, toolAnnotations, meta,
			member{"inputSchema", true, all(
				object(member{"$schema", false, text}, member{"type", true, oneOf("object")}),
				paramHeaders)},
			member{"outputSchema", false, object(member{"$schema", false, text})},
			member{"execution", false, anything},
		),
		catalog.Prompt: prompt, catalog.Resource: resource, catalog.Template: template,
	}
)

// all accepts a value that every check accepts.
func all(checks ...check) check {
	return func(at string, v any) string {
		for _, c := range checks {
			if problem := c(at, v); problem != "" {
				return problem
			}
		}
		return ""
	}
}

// integer accepts an integer literal that every SDK can represent.
func integer(at string, v any) string {
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
func fraction(at string, v any) string {
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
func dateTime(at string, v any) string {
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

func sortedNames(members map[string]any) []string { return slices.Sorted(maps.Keys(members)) }

// escape writes a member name as a step of a JSON Pointer (RFC 6901).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
