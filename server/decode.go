package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"svc/store/api"
)

const (
	// maxDepth bounds the nesting of a body; the deepest documented body has 5 levels.
	maxDepth = 32
	// maxMembers bounds the members of one object; the largest documented object has 20.
	// The decoder keeps the names of an object in memory to detect duplicates.
	maxMembers = 256
	// maxDetails bounds the entries of one details object.
	maxDetails = 50

	hasNUL = "must not contain NUL"
)

// encodeOptions keep the encoding/json meaning of omitempty in the wire types.
var encodeOptions = jsonv1.OmitEmptyWithLegacySemantics(true)

// encode returns the JSON of a wire value. A nil slice becomes [], never null. All wire
// types can be encoded; if one cannot, the client gets a complete error body instead of
// a partial response.
func encode(v any) []byte {
	b, err := json.Marshal(v, encodeOptions)
	if err != nil {
		return []byte(`{"error":"internal server error"}`)
	}
	return b
}

// decodeStrict reads body into the struct that v points to. The body must be one JSON
// object in valid UTF-8, without duplicate, unknown or null members, wrong types, NUL in
// strings or trailing data. The error is a 400 whose details name every offending member
// by its path.
func decodeStrict(body []byte, v any) error { return decodeObject(body, v, nullOfMatcher) }

// decodeNew reads the body of a POST as decodeStrict does, but a member that is null is absent:
// clients that write every field of an object give null to those without a value. In conditions
// and documents, where a lost member widens what is meant, and in lists, null is an error.
func decodeNew(body []byte, v any) error { return decodeObject(body, v, nullIsAbsent) }

// decodeObject is decodeStrict; accept reports whether a null may stand at a place.
func decodeObject(body []byte, v any, accept func(jsontext.Pointer) bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return &failure{400, "the request body is empty; a JSON object is expected", nil}
	}
	if err := tooLarge(body); err != nil {
		return err
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if err != nil {
		// Uncommon spellings of numbers and times are read by a second pass with
		// decodeOptions, so that the first pass stays fast.
		reflect.ValueOf(v).Elem().SetZero()
		err = json.Unmarshal(body, v, decodeOptions)
	}
	if err == nil && !bytes.Contains(body, []byte("null")) && !bytes.Contains(body, []byte(`\u0000`)) {
		return nil
	}
	found, serr := inspect(body, accept)
	if serr != nil {
		return serr
	}
	if err != nil {
		explain(body, reflect.TypeOf(v).Elem(), found)
	}
	switch {
	case len(found) > 0:
		return invalid(found)
	case err != nil: // the error has no member
		return &failure{400, "the request body does not have the expected form", nil}
	}
	return nil
}

// tooLarge rejects a body with an object of too many members, or that is nested too deep,
// before it is decoded: to detect duplicates, the decoder keeps the names of objects that it
// skips or copies too. It reads the bytes once, allocates nothing, and leaves the syntax to the
// decoder.
func tooLarge(body []byte) error {
	if len(body) <= smallBody {
		return nil
	}
	var commas [maxDepth]int // of the open objects and lists; negative in lists
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth == maxDepth {
				return errTooDeep
			}
			commas[depth] = 0
			if body[i] == '[' {
				commas[depth] = -len(body)
			}
			depth++
		case '}', ']':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				continue
			}
			if commas[depth-1]++; commas[depth-1] >= maxMembers {
				return errTooManyMembers
			}
		}
	}
	return nil
}

var (
	errTooDeep        = &failure{400, fmt.Sprintf("the request body is nested deeper than %d levels", maxDepth), nil}
	errTooManyMembers = &failure{400, fmt.Sprintf("an object of the request body has more than %d members", maxMembers), nil}
)

var (
	errNotObject = &failure{400, "the request body must be a JSON object", nil}
	errGoesOn    = &failure{400, "the request body has data after its JSON object", nil}
)

// inspect walks body once. It rejects a body that is not one JSON object, and returns
// the paths of nulls that are not accepted and of strings with a NUL.
func inspect(body []byte, accept func(jsontext.Pointer) bool) (map[string]string, error) {
	found := map[string]string{}
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // decodes without a copy of the body
	if k := d.PeekKind(); k != '{' && k != 0 {
		return nil, errNotObject
	}
	for {
		tok, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, malformed(err)
		}
		if d.StackDepth() > maxDepth {
			return nil, errTooDeep
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n > 2*maxMembers { // an object has twice as many tokens as members: names and values
			return nil, errTooManyMembers
		}
		if len(found) >= maxDetails {
			continue
		}
		switch tok.Kind() {
		case 'n':
			if accept(d.StackPointer()) {
				continue
			}
			found[memberPath(d.StackPointer())] = "must not be null"
		case '"':
			if strings.IndexByte(tok.String(), 0) >= 0 {
				found[memberPath(d.StackPointer())] = hasNUL
			}
		case '}':
			if d.StackDepth() == 0 {
				if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
					return nil, errGoesOn
				}
				return found, nil
			}
		}
	}
}

// nullOfMatcher reports whether a null is a value that a condition on arguments compares
// with: the value of equals, or an element of one_of.
func nullOfMatcher(at jsontext.Pointer) bool {
	if at.LastToken() != "equals" {
		at = at.Parent()
		if at.LastToken() != "one_of" {
			return false
		}
	}
	at = at.Parent()
	if at.LastToken() == "not" {
		at = at.Parent()
	}
	return strings.HasSuffix(string(at.Parent()), "/condition/arguments")
}

// nullIsAbsent reports whether a null is a member of the body or of one of its traces, or the
// value of a matcher.
func nullIsAbsent(at jsontext.Pointer) bool {
	parent := at.Parent()
	return parent == "" && at != "" || parent.Parent() == "/traces" || nullOfMatcher(at)
}

// malformed returns the error for a body that is not JSON, with the position; a
// duplicate member is named.
func malformed(err error) error {
	var se *jsontext.SyntacticError
	if !errors.As(err, &se) {
		return &failure{400, "the request body is not valid JSON", nil}
	}
	if errors.Is(se.Err, jsontext.ErrDuplicateName) {
		return invalidField(memberPath(se.JSONPointer), "is given twice")
	}
	return &failure{400, fmt.Sprintf("the request body is not valid JSON at byte %d", se.ByteOffset), nil}
}

// explain decodes each member of body by itself, so that the error names all wrong
// members and not only the first. body has passed inspect.
func explain(body []byte, t reflect.Type, found map[string]string) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // decodes without a copy of the body
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() == '"' && len(found) < maxDetails {
		name, err := d.ReadValue()
		if err != nil {
			return
		}
		name = name.Clone() // ReadValue invalidates it
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		one := slices.Concat([]byte{'{'}, name, []byte{':'}, value, []byte{'}'})
		var se *json.SemanticError
		if err := json.Unmarshal(one, reflect.New(t).Interface(), decodeOptions); errors.As(err, &se) {
			path := memberPath(se.JSONPointer)
			if _, ok := found[path]; !ok {
				found[path] = expectation(se)
			}
		}
	}
}

// expectation returns the text of the type that a member should have.
func expectation(se *json.SemanticError) string {
	var many *api.TooManyError
	switch {
	case errors.Is(se.Err, json.ErrUnknownName):
		return "unknown field"
	case errors.As(se.Err, &many):
		return many.Error()
	}
	t := se.GoType
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "has the wrong type"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "must be an RFC 3339 timestamp such as 2026-01-31T09:30:00Z"
	}
	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be an integer"
	case reflect.Slice, reflect.Array:
		return "must be an array"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	}
	return "has the wrong type"
}

// memberPath converts a JSON pointer to the form of the keys in details:
// /traces/3/status becomes traces[3].status. Names come from the client and are
// truncated.
func memberPath(p jsontext.Pointer) string {
	var b strings.Builder
	for tok := range p.Tokens() {
		if n, err := strconv.ParseUint(tok, 10, 32); err == nil && b.Len() > 0 {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(cut(tok, 64))
		if b.Len() > 256 {
			break
		}
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}

// cut truncates s to at most n bytes at a character boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
