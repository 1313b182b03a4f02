package detect

import (
	"bytes"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc/gateway/mcp"
)

// Limits of the work for a schema, which is a program of the upstream's.
const (
	maxWeight       = 20_000 // parts of a schema with its references expanded
	maxUnfolding    = 64     // levels of expanded references
	maxNumberDigits = 64     // length of a number as written
	maxExponent     = 3      // digits of an exponent
)

// schemaURL is the name of the only schema that a compiler sees.
const schemaURL = "urn:svc:output-schema"

var errRemote = errors.New("references beyond the schema are not followed")

// local loads nothing, because a schema must not cause requests.
type local struct{}

// Load implements jsonschema.URLLoader.
func (local) Load(string) (any, error) { return nil, errRemote }

// compile returns a compiled schema, or nil for a schema that is not used: it is
// invalid, has external references, is recursive, or is too large when expanded. With
// formats, the keyword format is a restriction too.
func compile(text []byte, formats bool) (sch *jsonschema.Schema) {
	defer func() {
		if recover() != nil {
			sch = nil
		}
	}()
	if !withinBounds(text) {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	u := schemaSize{root: doc, open: map[string]bool{}, weights: map[string]int{}}
	if _, ok := u.measure(doc, 0); !ok {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(local{})
	if formats {
		c.AssertFormat()
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil
	}
	if sch, err = c.Compile(schemaURL); err != nil {
		return nil
	}
	return sch
}

// withinBounds reports whether the arithmetic of a validation can handle the numbers of
// a document.
func withinBounds(text []byte) bool {
	for texts := mcp.TextsIn(text, mcp.Span{Start: 0, End: len(text)}); ; {
		one, ok := texts.Next()
		if !ok {
			return true
		}
		if one.Kind != mcp.TextNumber {
			continue
		}
		number := one.At.Of(text)
		if len(number) > maxNumberDigits {
			return false
		}
		if i := bytes.IndexAny(number, "eE"); i >= 0 && len(bytes.TrimLeft(number[i+1:], "+-0")) > maxExponent {
			return false
		}
	}
}

// schemaSize counts the parts of a schema with its references expanded, because a
// validation may visit all of them.
type schemaSize struct {
	root    any
	open    map[string]bool // references that are being expanded
	weights map[string]int
}

func (u *schemaSize) measure(node any, depth int) (weight int, ok bool) {
	if depth > maxUnfolding {
		return 0, false
	}
	weight = 1
	add := func(part any) bool {
		n, ok := u.measure(part, depth+1)
		weight += n
		return ok && weight <= maxWeight
	}
	switch node := node.(type) {
	case []any:
		for _, part := range node {
			if !add(part) {
				return 0, false
			}
		}
	case map[string]any:
		for key, part := range node {
			switch key {
			case "$dynamicRef", "$recursiveRef":
				return 0, false
			case "$id", "id": // below this member, references are relative to another base
				if _, isText := part.(string); isText && depth > 0 {
					return 0, false
				}
			case "$ref":
				ref, isText := part.(string)
				if !isText {
					break // a property with that name
				}
				n, ok := u.follow(ref, depth+1)
				if weight += n; !ok || weight > maxWeight {
					return 0, false
				}
			}
			if !add(part) {
				return 0, false
			}
		}
	}
	return weight, true
}

// follow measures the target of a reference once.
func (u *schemaSize) follow(ref string, depth int) (weight int, ok bool) {
	if n, known := u.weights[ref]; known {
		return n, true
	}
	if u.open[ref] {
		return 0, false // recursive
	}
	target, ok := u.resolve(ref)
	if !ok {
		return 0, false
	}
	u.open[ref] = true
	defer delete(u.open, ref)
	if weight, ok = u.measure(target, depth); ok {
		u.weights[ref] = weight
	}
	return weight, ok
}

// resolve returns the target of a reference within the schema.
func (u *schemaSize) resolve(ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || strings.Contains(path, "%") {
		return nil, false
	}
	node := u.root
	if path == "" {
		return node, true
	}
	if path[0] != '/' {
		return nil, false
	}
	for key := range strings.SplitSeq(path[1:], "/") {
		object, ok := node.(map[string]any)
		if !ok {
			return nil, false
		}
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		if node, ok = object[key]; !ok {
			return nil, false
		}
	}
	return node, true
}
