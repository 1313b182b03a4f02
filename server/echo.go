package server

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"svc/server/api"
)

// echo says which members of an object a PUT takes from what GET answers, beside
// those that can be set (decision API34).
type echo struct {
	// fixed are read-only: absent, or as they are.
	fixed []string
	// measured are read-only too, and change by themselves with traffic: any value of
	// their type is taken, and none is kept.
	measured []string
	// counted are read-only and only grow: at most what they are now.
	counted []string
	// instead says how a fixed member is changed.
	instead map[string]string
}

// decodeChange reads the body of a PUT into v, which has what can be set, after it has
// checked and taken out what else GET answers. current is asked for the object as GET
// answers it, only where the body has such a member. removed names the members that
// are null and have a value now; whether they can be removed is the caller's to say.
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
		maps.Copy(wrong, v.Validate())
	}
	if len(wrong) > 0 {
		return nil, invalid(wrong)
	}
	return removed, nil
}

// concerns reports whether a body has something that is not simply to be set.
func (e echo) concerns(given map[string]jsontext.Value) bool {
	for name, value := range given {
		if slices.Contains(e.fixed, name) || slices.Contains(e.measured, name) || slices.Contains(e.counted, name) || value.Kind() == 'n' {
			return true
		}
	}
	return false
}

// take removes from the members of a body what is not to be set, and says what is
// wrong with it.
func (e echo) take(given, now map[string]jsontext.Value, wrong map[string]string) (removed []string) {
	_, whole := given["id"] // it is what was read, perhaps with changes
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, known := given[name], now[name]
		switch {
		case slices.Contains(e.counted, name):
			if !atMost(value, known) {
				wrong[name] = "is read-only, and more than it is now: leave it out"
			}
		case slices.Contains(e.measured, name):
			if value.Kind() != known.Kind() {
				wrong[name] = "is read-only, and of another type here"
			}
		case slices.Contains(e.fixed, name):
			if !sameJSON(value, known) {
				wrong[name] = "is read-only, and differs from that of the object: leave it out"
				if instead := e.instead[name]; instead != "" {
					wrong[name] += "; " + instead
				}
			}
		case value.Kind() == 'n' && known.Kind() == 'n': // no value, as before
		case value.Kind() == 'n' && (known.Kind() == '0' && (name == "p99LatencyMs" || name == "errorRatePercent")):
			removed = append(removed, name)
		case name == "name" && whole && sameJSON(value, known) && !normalizedJSON(value): // stored before names were normalized
		default:
			continue
		}
		delete(given, name)
	}
	return removed
}

// atMost reports whether a JSON number is at most another one.
func atMost(a, b jsontext.Value) bool {
	var x, y float64
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x <= y
}

// normalizedJSON reports whether a JSON string is a name in its normalized form.
func normalizedJSON(v jsontext.Value) bool {
	var s string
	return json.Unmarshal(v, &s) == nil && api.NormalizeName(s) == s
}

// membersOfBody returns the members of a JSON object; false where it is none, or is
// none that a body may be: decodeStrict says why.
func membersOfBody(body []byte) (map[string]jsontext.Value, bool) {
	if _, err := inspect(body); err != nil {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
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

// sameJSON reports whether two JSON values are equal, however they are written.
// Timestamps are those that name the same moment.
func sameJSON(a, b jsontext.Value) bool {
	var x, y any
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
