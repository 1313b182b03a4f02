package detect

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"svc/gateway/mcp"
)

// Misfit is a value that an output schema does not take.
type Misfit struct {
	// Path are the names and indexes that lead to the value.
	Path []string
	// Instead is a value that the schema names, as JSON; nil when it names none.
	Instead []byte
}

// Misfits returns what the output schema of a tool does not take in a structured content. known
// is false when the tool has no usable schema, or the content is too large. Unlike [Schemas.Score]
// it checks formats too, as some clients do. A nil collection knows no schema.
func (s *Schemas) Misfits(upstream, name string, content []byte) (misfits []Misfit, known bool) {
	if s == nil {
		return nil, false
	}
	sch := (*s.known.Load())[tool{upstream, name}]
	if sch == nil || sch.strict == nil || len(content) == 0 || len(content) > maxContent || !withinBounds(content) {
		return nil, false
	}
	defer func() {
		if recover() != nil { // a schema that the library cannot handle
			misfits, known = nil, false
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return nil, false
	}
	var wrong *jsonschema.ValidationError
	switch err = sch.strict.Validate(doc); {
	case err == nil:
		return nil, true
	case !errors.As(err, &wrong):
		return nil, false
	}
	return collect(nil, wrong), true
}

// collect appends the values that an error is about: those of its innermost causes.
func collect(list []Misfit, e *jsonschema.ValidationError) []Misfit {
	for _, cause := range e.Causes {
		list = collect(list, cause)
	}
	if len(e.Causes) > 0 {
		return list
	}
	m := Misfit{Path: e.InstanceLocation}
	switch k := e.ErrorKind.(type) {
	case *kind.Const:
		m.Instead = scalar(k.Want)
	case *kind.Enum:
		for i := 0; m.Instead == nil && i < len(k.Want); i++ {
			m.Instead = scalar(k.Want[i])
		}
	case *kind.Minimum:
		if k.Want.IsInt() {
			m.Instead = []byte(k.Want.Num().String())
		}
	case *kind.Maximum:
		if k.Want.IsInt() {
			m.Instead = []byte(k.Want.Num().String())
		}
	}
	return append(list, m)
}

// scalar returns a value of a schema as JSON, nil for one that is no text and no number.
func scalar(v any) []byte {
	switch v := v.(type) {
	case json.Number:
		return []byte(v)
	case string:
		return mcp.AppendString(nil, v)
	}
	return nil
}
