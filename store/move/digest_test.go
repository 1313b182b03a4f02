package move

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"svc/store"
)

// notKept are the fields of a trace that are not stored.
var notKept = []string{"AgentNameSent", "ToolCalls"}

// TestDigestOfEveryField: a trace that differs in one stored field has another
// digest. The test fails for a new field until the field is in the digest.
func TestDigestOfEveryField(t *testing.T) {
	plain := appendTrace(nil, &store.Trace{})
	fields := reflect.TypeFor[store.Trace]()
	for i := range fields.NumField() {
		var tr store.Trace
		name, field := fields.Field(i).Name, reflect.ValueOf(&tr).Elem().Field(i)
		switch v := field.Addr().Interface().(type) {
		case *time.Time:
			*v = time.Unix(5, 7)
		case *[]string:
			*v = []string{"x"}
		case *store.TraceApproval:
			*v = store.TraceApproval{By: "x"}
		case *[]store.PolicyFired:
			*v = []store.PolicyFired{{ID: "x"}}
		case *[]store.QualityScore:
			*v = []store.QualityScore{{Scorer: "x"}}
		case *[]store.Span:
			*v = []store.Span{{Stage: "x"}}
		case *[]store.ToolCalls:
			*v = []store.ToolCalls{{Tool: "x"}}
		default:
			switch field.Kind() {
			case reflect.String:
				field.SetString("x")
			case reflect.Bool:
				field.SetBool(true)
			case reflect.Float64:
				field.SetFloat(0.5)
			default:
				field.SetInt(3)
			}
		}
		if same := slices.Equal(plain, appendTrace(nil, &tr)); same != slices.Contains(notKept, name) {
			t.Errorf("a trace with another %s has the same digest: %v", name, same)
		}
	}
}

// TestDigestOfRows: the order of rows does not change the digest, and their number
// does.
func TestDigestOfRows(t *testing.T) {
	of := func(rows ...string) (d Digest) {
		for _, row := range rows {
			d.Add([]byte(row))
		}
		return d
	}
	if of("a", "b") != of("b", "a") {
		t.Error("the order of rows matters")
	}
	for _, other := range []Digest{of("a"), of("a", "a"), of("a", "c"), of("a", "b", "b"), of()} {
		if of("a", "b") == other {
			t.Errorf("%v is also the digest of other rows", other)
		}
	}
}
