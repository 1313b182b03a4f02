package quality

import (
	"bytes"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc/gateway/mcp"
)

// Bounds on the work that a schema can ask for.
const (
	maxWeight    = 20_000 // parts of a schema with its references unfolded
	maxUnfolding = 64     // levels of that
	maxDigits    = 64     // of a number as written
	maxExponent  = 3      // digits of an exponent
)

// schemaURL names the one schema that a compiler sees.
const schemaURL = "urn:svc:output-schema"

var errRemote = errors.New("references beyond the schema are not followed")

// local loads nothing: a schema must not make the gateway call anyone.
type local struct{}

// Load implements jsonschema.URLLoader.
func (local) Load(string) (any, error) { return nil, errRemote }

// compile returns a schema ready for use, nil for one that is not used: it is no
// schema, reaches beyond itself, is recursive, or unfolds to more than is
// affordable.
func compile(text []byte) (sch *jsonschema.Schema) {
	defer func() {
		if recover() != nil {
			sch = nil
		}
	}()
	if !modest(text) {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	u := unfolding{root: doc, open: map[string]bool{}, weights: map[string]int{}}
	if _, ok := u.weigh(doc, 0); !ok {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(local{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil
	}
	if sch, err = c.Compile(schemaURL); err != nil {
		return nil
	}
	return sch
}

// modest reports whether the numbers of a document are of a size that arithmetic
// copes with.
func modest(text []byte) bool {
	for texts := mcp.TextsIn(text, mcp.Span{Start: 0, End: len(text)}); ; {
		one, ok := texts.Next()
		if !ok {
			return true
		}
		if one.Kind != mcp.TextNumber {
			continue
		}
		number := one.At.Of(text)
		if len(number) > maxDigits {
			return false
		}
		if i := bytes.IndexAny(number, "eE"); i >= 0 && len(bytes.TrimLeft(number[i+1:], "+-0")) > maxExponent {
			return false
		}
	}
}

// unfolding counts the parts of a schema with its references written out, as a
// validation may walk them.
type unfolding struct {
	root    any
	open    map[string]bool // references that are being written out
	weights map[string]int
}

func (u *unfolding) weigh(node any, depth int) (weight int, ok bool) {
	if depth > maxUnfolding {
		return 0, false
	}
	weight = 1
	add := func(part any) bool {
		n, ok := u.weigh(part, depth+1)
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
			case "$id", "id": // below it, references would mean something else
				if _, isText := part.(string); isText && depth > 0 {
					return 0, false
				}
			case "$ref":
				ref, isText := part.(string)
				if !isText {
					break // a property of that name
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

// follow weighs what a reference stands for, once.
func (u *unfolding) follow(ref string, depth int) (weight int, ok bool) {
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
	if weight, ok = u.weigh(target, depth); ok {
		u.weights[ref] = weight
	}
	return weight, ok
}

// resolve finds what a reference into the schema itself names.
func (u *unfolding) resolve(ref string) (any, bool) {
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
