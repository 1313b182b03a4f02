package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"svc/store/api"
)

// bodyOf has a member of each type in request bodies.
type bodyOf struct {
	Name   string    `json:"name"`
	Count  int64     `json:"count"`
	Ratio  *float64  `json:"ratio"`
	On     *bool     `json:"on"`
	At     time.Time `json:"at"`
	Names  []string  `json:"names"`
	Nested struct {
		Type string `json:"type"`
	} `json:"nested"`
	Items []struct {
		Status string `json:"status"`
	} `json:"items"`
}

// TestDecodeStrict: unknown, duplicate and null members, wrong types, invalid
// JSON and trailing data are 400, with details by field.
func TestDecodeStrict(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		details    map[string]string
		message    string // part of the error text, when there are no details
	}{
		{"empty", "", nil, "empty"},
		{"white space", " \n", nil, "empty"},
		{"not JSON", "name=x", nil, "JSON"},
		{"single quotes", "{'name':'x'}", nil, "not valid JSON at byte 1"},
		{"trailing comma", `{"name":"x",}`, nil, "not valid JSON"},
		{"comment", `{"name":"x"/**/}`, nil, "not valid JSON"},
		{"NaN", `{"ratio":NaN}`, nil, "not valid JSON"},
		{"cut short", `{"name":"x"`, nil, "not valid JSON"},
		{"byte order mark", "\ufeff{}", nil, "JSON"},
		{"invalid UTF-8", "{\"name\":\"\xff\"}", nil, "not valid JSON"},
		{"lone surrogate", `{"name":"\ud800"}`, nil, "not valid JSON"},
		{"array", `[]`, nil, "must be a JSON object"},
		{"string", `"x"`, nil, "must be a JSON object"},
		{"null", `null`, nil, "must be a JSON object"},
		{"trailing data", `{"name":"x"} {}`, nil, "data after its JSON object"},
		{"trailing junk", `{"name":"x"} x`, nil, "data after its JSON object"},
		{"too deep", `{"name":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, nil, "deeper than 32"},
		{"hopelessly deep", `{"name":` + strings.Repeat("[", 500_000), nil, "deeper than 32"},
		{"unknown field", `{"nmae":"x"}`, map[string]string{"nmae": "unknown field"}, ""},
		{"other case is another field", `{"Name":"x"}`, map[string]string{"Name": "unknown field"}, ""},
		{"__proto__", `{"__proto__":{"a":1}}`, map[string]string{"__proto__": "unknown field"}, ""},
		{"nested unknown field", `{"nested":{"kind":1}}`, map[string]string{"nested.kind": "unknown field"}, ""},
		{"duplicate field", `{"name":"x","name":"y"}`, map[string]string{"name": "is given twice"}, ""},
		{"duplicate spelled with an escape", `{"name":"x","n\u0061me":"y"}`, map[string]string{"name": "is given twice"}, ""},
		{"null for required", `{"name":null}`, map[string]string{"name": "must not be null"}, ""},
		{"null for optional", `{"on":null}`, map[string]string{"on": "must not be null"}, ""},
		{"null in a list", `{"names":["a",null]}`, map[string]string{"names[1]": "must not be null"}, ""},
		{"NUL", `{"name":"a\u0000b"}`, map[string]string{"name": "must not contain NUL"}, ""},
		{"number for string", `{"name":5}`, map[string]string{"name": "must be a string"}, ""},
		{"string for number", `{"ratio":"5"}`, map[string]string{"ratio": "must be a number"}, ""},
		{"number beyond floats", `{"ratio":1e999}`, map[string]string{"ratio": "must be a number"}, ""},
		{"fraction for integer", `{"count":1.5}`, map[string]string{"count": "must be an integer"}, ""},
		{"integer too large", `{"count":99999999999999999999}`, map[string]string{"count": "must be an integer"}, ""},
		{"string for boolean", `{"on":"true"}`, map[string]string{"on": "must be true or false"}, ""},
		{"date for timestamp", `{"at":"2026-01-31"}`, map[string]string{"at": "must be an RFC 3339 timestamp such as 2026-01-31T09:30:00Z"}, ""},
		{"object for list", `{"names":{}}`, map[string]string{"names": "must be an array"}, ""},
		{"list for object", `{"nested":[]}`, map[string]string{"nested": "must be an object"}, ""},
		{"wrong type inside a list", `{"items":[{"status":"a"},{"status":1}]}`, map[string]string{"items[1].status": "must be a string"}, ""},
		{"everything wrong is named at once", `{"name":1,"x":2,"ratio":null,"on":3}`, map[string]string{
			"name": "must be a string", "x": "unknown field", "ratio": "must not be null", "on": "must be true or false",
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var v bodyOf
			err := decodeStrict([]byte(tc.body), &v)
			var f *failure
			if !errors.As(err, &f) {
				t.Fatalf("got %v, want a failure", err)
			}
			if f.status != 400 {
				t.Errorf("status %d, want 400", f.status)
			}
			if diff := cmp.Diff(tc.details, f.details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			if !strings.Contains(f.message, tc.message) {
				t.Errorf("message %q does not say %q", f.message, tc.message)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	var v bodyOf
	body := ` {"name":"null \u00e9 😀 \u202e","ratio":1e2,"on":true,"at":"2026-01-31T09:30:00+01:00","names":[],"items":[{"status":"x"}]} `
	if err := decodeStrict([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	if v.Name != "null é 😀 \u202e" || *v.Ratio != 100 || !*v.On || v.Names == nil || v.At.UTC().Hour() != 8 {
		t.Errorf("got %+v", v)
	}
}

// TestDecodeDetailsBounded: the response to a hostile body is small.
func TestDecodeDetailsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range maxMembers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strings.Repeat("é", 200) + strings.Repeat("x", 8*i) + `":1`)
	}
	b.WriteByte('}')
	err := decodeStrict([]byte(b.String()), &bodyOf{})
	var f *failure
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	if len(f.details) == 0 || len(f.details) > maxDetails {
		t.Errorf("%d details", len(f.details))
	}
	for k := range f.details {
		if len(k) > 300 || !utf8.ValidString(k) {
			t.Errorf("key of %d bytes, valid %v", len(k), utf8.ValidString(k))
		}
	}
}

// TestDecodeMembersBounded: the number of members is bounded in objects at any
// depth, because the decoder keeps their names.
func TestDecodeMembersBounded(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"m%d":0`, i)
		}
		return b.String()[1:]
	}
	for body, want := range map[string]string{
		"{" + members(maxMembers) + "}":               "invalid input",
		"{" + members(maxMembers+1) + "}":             "an object of the request body has more than 256 members",
		`{"names":[{` + members(maxMembers+1) + "}]}": "an object of the request body has more than 256 members",
	} {
		var f *failure
		if err := decodeStrict([]byte(body), &bodyOf{}); !errors.As(err, &f) || f.status != 400 || f.message != want {
			t.Errorf("%.30s…: %v, want %q", body, err, want)
		}
	}
}

func TestEncode(t *testing.T) {
	empty := ""
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"a nil list is [], never null", api.Items[api.Team]{}, `{"data":[]}`},
		{"details are left out when there are none", api.Error{Error: "x"}, `{"error":"x"}`},
		{"an empty group name is still a name", api.GroupKey{Environment: &empty}, `{"environment":""}`},
		{"false is left out where it says nothing", struct {
			Blocked bool `json:"blocked,omitempty"`
		}{}, `{}`},
		{"null where the specification wants the field", api.KeyItem{}.LastUsedAt, `null`},
		{"markup is data", api.Error{Error: "<script>"}, `{"error":"<script>"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(encode(tc.v)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzDecode: decoding of any bytes ends in success or in a 400 with bounded
// details. Success means that the body was one JSON object and that nothing of
// it was lost.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"name":"x"}`, `{"name":null}`, `{"name":1,"name":2}`, `{"items":[{"status":1}]}`, `[1]`, `{"a":{"b":[`, "{\"\xff\":1}",
		`{"name":"x","condition":{"type":"injection_score","threshold":0.5},"phase":"request","action":"block"}`, `{"name":"\u0000"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v api.PolicyCreate
		err := decodeStrict(body, &v)
		if err == nil {
			if !jsontext.Value(body).IsValid() {
				t.Fatalf("%q was accepted", body)
			}
			if strings.ContainsRune(v.Name, 0) {
				t.Fatalf("NUL passed in %q", body)
			}
			return
		}
		var fl *failure
		if !errors.As(err, &fl) || fl.status != 400 {
			t.Fatalf("%q: %v", body, err)
		}
		if len(fl.details) > maxDetails+1 || len(encode(api.Error{Error: fl.message, Details: fl.details})) > 64<<10 {
			t.Fatalf("%d details for %q", len(fl.details), body)
		}
	})
}
