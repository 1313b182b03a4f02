package server

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"svc/store/api"
)

// echo lists the members that a PUT accepts although they cannot be set, because GET
// returns them (decision API34).
type echo struct {
	// fixed members are read-only: absent, or equal to the current value.
	fixed []string
	// measured members are read-only too, and change with traffic: any value of the
	// right type is accepted and ignored.
	measured []string
	// counted members are read-only and only grow: a value up to the current one is
	// accepted.
	counted []string
	// instead is the text that names the way to change a fixed member.
	instead map[string]string
}

// decodeChange reads the body of a PUT into v, which has the members that can be set.
// First it checks and removes the other members that GET returns. It calls current for
// the object as GET returns it, only when the body has such a member. removed names
// the members that are null in the body and have a value now; the caller decides
// whether they can be removed.
func (c *call) decodeChange(v validator, e echo, current func() (any, error)) (removed []string, err error) {
	if err := plainBody(c); err != nil {
		return nil, err
	}
	body, err := c.payload(api.MaxBody)
	if err != nil {
		return nil, err
	}
	wrong := map[string]string{}
	if given, ok := membersOfBody(body); ok && e.concerns(given) {
		object, err := current()
		if err != nil {
			return nil, err
		}
		now, _ := membersOfBody(encode(object))
		removed = e.take(given, now, wrong)
		if body, err = json.Marshal(given, json.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	if err := decodeStrict(body, v); err != nil {
		var f *failure
		if !errors.As(err, &f) || len(f.details) == 0 {
			return nil, err
		}
		maps.Copy(wrong, f.details)
	} else {
		maps.Copy(wrong, problems(v))
	}
	if len(wrong) > 0 {
		return nil, invalid(wrong)
	}
	return removed, nil
}

// concerns reports whether a body has a null or a member that cannot be set.
func (e echo) concerns(given map[string]jsontext.Value) bool {
	for name, value := range given {
		if slices.Contains(e.fixed, name) || slices.Contains(e.measured, name) || slices.Contains(e.counted, name) || value.Kind() == 'n' {
			return true
		}
	}
	return false
}

// take removes the members that cannot be set from a body, and adds what is wrong with
// them to wrong.
func (e echo) take(given, now map[string]jsontext.Value, wrong map[string]string) (removed []string) {
	_, whole := given["id"] // the body is an object that was read before, perhaps with changes
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, known := given[name], now[name]
		switch {
		case slices.Contains(e.counted, name):
			if !atMost(value, known) {
				wrong[name] = "is read-only, and higher than its current value: leave it out"
			}
		case slices.Contains(e.measured, name):
			// A time that is null while there is none.
			if k := value.Kind(); k != known.Kind() && k != 'n' && (known.Kind() != 'n' || k != '"') {
				wrong[name] = "is read-only, and has the wrong type: leave it out"
			}
		case slices.Contains(e.fixed, name):
			if !sameJSON(value, known) {
				wrong[name] = "is read-only, and differs from its current value: leave it out"
				if instead := e.instead[name]; instead != "" {
					wrong[name] += "; " + instead
				}
			}
		case value.Kind() == 'n' && known.Kind() == 'n': // without a value before and after
		case value.Kind() == 'n' && (known.Kind() == '0' && (name == "p99LatencyMs" || name == "errorRatePercent")):
			removed = append(removed, name)
		case name == "name" && whole && sameJSON(value, known) && !normalizedJSON(value): // the name was stored before names were normalized
		default:
			continue
		}
		delete(given, name)
	}
	return removed
}

// atMost reports whether the JSON number a is at most b.
func atMost(a, b jsontext.Value) bool {
	var x, y float64
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x <= y
}

// normalizedJSON reports whether a JSON string is a name in its normalized form.
func normalizedJSON(v jsontext.Value) bool {
	var s string
	return json.Unmarshal(v, &s) == nil && api.NormalizeName(s) == s
}

// membersOfBody returns the members of a JSON object; false when the body is not an
// object, or has an error that decodeStrict reports.
func membersOfBody(body []byte) (map[string]jsontext.Value, bool) {
	if _, err := inspect(body, nullOfMatcher); err != nil {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body)) // decodes without a copy of the body
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, false
	}
	members := map[string]jsontext.Value{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		members[key] = value.Clone()
	}
	return members, true
}

// maxSpelling bounds how much longer another spelling of a value may be, with its white space
// and escapes.
const maxSpelling = 8

// sameJSON reports whether two JSON values are equal. Spelling does not matter, and
// timestamps are equal when they are the same point in time.
func sameJSON(a, b jsontext.Value) bool {
	var x, y any
	if len(a) > maxSpelling*(len(b)+smallBody) { // decoded, it could take many times its bytes
		return false
	}
	if len(b) == 0 || json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	if reflect.DeepEqual(x, y) {
		return true
	}
	s, first := x.(string)
	u, second := y.(string)
	if !first || !second {
		return false
	}
	at, first := parseTimestamp(s)
	bt, second := parseTimestamp(u)
	return first && second && at.Equal(bt)
}
