package catalog

import (
	"bytes"
	"fmt"

	"svc/gateway/mcp"
)

// Fit returns the form of an item that clients of a protocol generation can parse, or a problem:
// the position as a JSON Pointer, and a description. modern means 2026-07-28. The form is raw
// itself in most cases. Faults with one possible meaning are repaired: an optional member that is
// null is removed, the schema of a property that is true or false becomes {} or {"not":{}}, and an
// inputSchema without a type gets "object". For legacy clients an outputSchema whose type is not
// object is removed, because these revisions allow no other type. raw is one JSON value of a
// scanned message.
func Fit(kind mcp.ListKind, raw []byte, modern bool) (item []byte, problem string) {
	v, err := mcp.Value(raw)
	if err != nil {
		return nil, err.Error()
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, problemAt("", "is no object")
	}
	if kind == mcp.Tool && !modern {
		if output, present := object["outputSchema"]; present && legacyObjectSchema(repairs{}, "", output) != "" {
			delete(object, "outputSchema")
			whole := mcp.Span{End: len(raw)}
			whole.Start = bytes.IndexByte(raw, '{')
			raw = mcp.Remove(raw, whole, "outputSchema")
		}
	}
	r := repairs{}
	if problem := schemaOf(kind, modern)(r, "", object); problem != "" {
		return nil, problem
	}
	if len(r) > 0 {
		raw = r.apply(nil, raw, mcp.Span{End: len(raw)}, "")
	}
	return raw, ""
}

// repairs are the changes of an item: JSON Pointers to new values, to nil for members to remove.
type repairs map[string][]byte

// apply appends the value at a span of raw with the changes at and below its JSON Pointer.
func (r repairs) apply(dst, raw []byte, span mcp.Span, at string) []byte {
	text := bytes.TrimSpace(span.Of(raw))
	switch {
	case len(text) > 0 && text[0] == '{':
		dst = append(dst, '{')
		add := func(name string) {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(mcp.AppendString(dst, name), ':')
		}
		for members := mcp.Members(raw, span); members.Next(); {
			name := string(members.Name())
			below := at + "/" + escape(name)
			with, changed := r[below]
			if changed && with == nil {
				continue
			}
			if add(name); changed {
				dst = append(dst, with...)
			} else {
				dst = r.apply(dst, raw, members.Value(), below)
			}
		}
		if with := r[at+missingType]; with != nil {
			add("type")
			dst = append(dst, with...)
		}
		return append(dst, '}')
	case len(text) > 0 && text[0] == '[':
		dst = append(dst, '[')
		for i, elements := 0, mcp.Elements(raw, span); elements.Next(); i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = r.apply(dst, raw, elements.Value(), fmt.Sprintf("%s/%d", at, i))
		}
		return append(dst, ']')
	}
	return append(dst, text...)
}

// missingType, after the JSON Pointer of an object, stands for a member type that it does not
// have. It is no end of a JSON Pointer, where ~ is followed by 0 or 1.
const missingType = "~type"

// check returns a problem in a value, or "", and adds the repairs that the value needs. at is its
// JSON Pointer.
type check func(r repairs, at string, v any) (problem string)

func problemAt(at, what string) string {
	if at == "" {
		return "the item " + what
	}
	return at + " " + what
}

func text(_ repairs, at string, v any) string {
	if _, ok := v.(string); !ok {
		return problemAt(at, "is no string")
	}
	return ""
}

func boolean(_ repairs, at string, v any) string {
	if _, ok := v.(bool); !ok {
		return problemAt(at, "is no boolean")
	}
	return ""
}

func anything(repairs, string, any) string { return "" }

func anyObject(_ repairs, at string, v any) string {
	if _, ok := v.(map[string]any); !ok {
		return problemAt(at, "is no object")
	}
	return ""
}

// oneOf accepts the given strings.
func oneOf(values ...string) check {
	return func(_ repairs, at string, v any) string {
		for _, want := range values {
			if v == want {
				return ""
			}
		}
		return problemAt(at, fmt.Sprintf("is none of %q", values))
	}
}

// schemaOfProperty accepts a schema: an object, or a boolean, which SDKs and providers of models do
// not read.
func schemaOfProperty(r repairs, at string, v any) string {
	switch v {
	case true:
		r[at] = []byte(`{}`)
		return ""
	case false:
		r[at] = []byte(`{"not":{}}`)
		return ""
	}
	return anyObject(r, at, v)
}

// typedObject gives an object without a type the type object.
func typedObject(r repairs, at string, v any) string {
	object, ok := v.(map[string]any)
	if !ok {
		return problemAt(at, "is no object")
	}
	switch typ, present := object["type"]; {
	case !present:
		r[at+missingType] = []byte(`"object"`)
	case typ == nil:
		r[at+"/type"] = []byte(`"object"`)
	default:
		return ""
	}
	object["type"] = "object"
	return ""
}

// listed accepts an array of elements.
func listed(element check) check {
	return func(r repairs, at string, v any) string {
		elements, ok := v.([]any)
		if !ok {
			return problemAt(at, "is no array")
		}
		for i, e := range elements {
			if problem := element(r, fmt.Sprintf("%s/%d", at, i), e); problem != "" {
				return problem
			}
		}
		return ""
	}
}

// each accepts an object by its values.
func each(value check) check {
	return func(r repairs, at string, v any) string {
		members, ok := v.(map[string]any)
		if !ok {
			return problemAt(at, "is no object")
		}
		for _, name := range sortedNames(members) {
			if problem := value(r, at+"/"+escape(name), members[name]); problem != "" {
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

// checkedObject accepts an object by the members in the schema; it may have others.
func checkedObject(list ...member) check {
	return func(r repairs, at string, v any) string {
		members, ok := v.(map[string]any)
		if !ok {
			return problemAt(at, "is no object")
		}
		for _, m := range list {
			value, present := members[m.name]
			switch {
			case !present && m.required:
				return problemAt(at+"/"+m.name, "is missing")
			case present && value == nil && !m.required:
				r[at+"/"+m.name] = nil
			case present:
				if problem := m.check(r, at+"/"+m.name, value); problem != "" {
					return problem
				}
			}
		}
		return ""
	}
}
