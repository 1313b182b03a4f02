package itemcheck

import (
	"bytes"
	"fmt"

	"svc/gateway/canonical"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// Fit returns the form of an item that clients of a protocol generation can parse, or a problem:
// the position as a JSON Pointer, and a description. modern means 2026-07-28. The form is raw
// itself in most cases; for legacy clients an outputSchema whose type is not object is removed,
// because these revisions allow no other type. raw is one JSON value of a scanned message.
func Fit(kind catalog.Kind, raw []byte, modern bool) (item []byte, problem string) {
	v, err := canonical.Value(raw)
	if err != nil {
		return nil, err.Error()
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, problemAt("", "is no object")
	}
	if kind == catalog.Tool && !modern {
		if output, present := object["outputSchema"]; present && legacyObjectSchema("", output) != "" {
			delete(object, "outputSchema")
			whole := mcp.Span{End: len(raw)}
			whole.Start = bytes.IndexByte(raw, '{')
			raw = mcp.Remove(raw, whole, "outputSchema")
		}
	}
	if problem := schemaOf(kind, modern)("", object); problem != "" {
		return nil, problem
	}
	return raw, ""
}

// check returns a problem in a value, or "". at is its JSON Pointer.
type check func(at string, v any) (problem string)

func problemAt(at, what string) string {
	if at == "" {
		return "the item " + what
	}
	return at + " " + what
}

func text(at string, v any) string {
	if _, ok := v.(string); !ok {
		return problemAt(at, "is no string")
	}
	return ""
}

func boolean(at string, v any) string {
	if _, ok := v.(bool); !ok {
		return problemAt(at, "is no boolean")
	}
	return ""
}

func anything(string, any) string { return "" }

func anyObject(at string, v any) string {
	if _, ok := v.(map[string]any); !ok {
		return problemAt(at, "is no object")
	}
	return ""
}

// oneOf accepts the given strings.
func oneOf(values ...string) check {
	return func(at string, v any) string {
		for _, want := range values {
			if v == want {
				return ""
			}
		}
		return problemAt(at, fmt.Sprintf("is none of %q", values))
	}
}

// list accepts an array of elements.
func list(element check) check {
	return func(at string, v any) string {
		elements, ok := v.([]any)
		if !ok {
			return problemAt(at, "is no array")
		}
		for i, e := range elements {
			if problem := element(fmt.Sprintf("%s/%d", at, i), e); problem != "" {
				return problem
			}
		}
		return ""
	}
}

// each accepts an object by its values.
func each(value check) check {
	return func(at string, v any) string {
		members, ok := v.(map[string]any)
		if !ok {
			return problemAt(at, "is no object")
		}
		for _, name := range sortedNames(members) {
			if problem := value(at+"/"+escape(name), members[name]); problem != "" {
				return problem
			}
		}
		return ""
	}
}

// member is a member of an object in the schema.
type member struct {
	name     string
	required bool
	check    check
}

// object accepts an object by the members in the schema; it may have others.
func object(list ...member) check {
	return func(at string, v any) string {
		members, ok := v.(map[string]any)
		if !ok {
			return problemAt(at, "is no object")
		}
		for _, m := range list {
			value, present := members[m.name]
			switch {
			case !present && m.required:
				return problemAt(at+"/"+m.name, "is missing")
			case present:
				if problem := m.check(at+"/"+m.name, value); problem != "" {
					return problem
				}
			}
		}
		return ""
	}
}
