package mcp

import "testing"

func TestFind(t *testing.T) {
	const body = `{"a":{"b":1},"\u0063":"x","d":[{"e":2}]}`
	for name, want := range map[string]string{"a": `{"b":1}`, "c": `"x"`, "d": `[{"e":2}]`, "b": "", "e": "", "": ""} {
		if got := string(Find([]byte(body), Span{0, len(body)}, name).Of([]byte(body))); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
	if got := Find([]byte(`["a"]`), Span{0, 5}, "a"); got.Present() {
		t.Errorf("found %+v in an array", got)
	}
	if got := Find([]byte(body), Span{}, "a"); got.Present() {
		t.Errorf("found %+v in nothing", got)
	}
}

func TestRemove(t *testing.T) {
	for _, row := range [][3]string{
		{`{"a":1}`, "a", `{}`},
		{`{"a":1,"b":2}`, "a", `{"b":2}`},
		{`{"a":1, "b":2 ,"c":3}`, "b", `{"a":1 ,"c":3}`},
		{`{"a":1,"b":[{}]}`, "b", `{"a":1}`},
		{`{"\u0061":1,"b":2}`, "a", `{"b":2}`},
		{`{"a":1}`, "b", `{"a":1}`},
		{`["a"]`, "a", `["a"]`},
	} {
		body := []byte(row[0])
		if got := string(Remove(body, Span{0, len(body)}, row[1])); got != row[2] {
			t.Errorf("%s without %s: %s, want %s", row[0], row[1], got, row[2])
		}
		if string(body) != row[0] {
			t.Errorf("%s was changed", row[0])
		}
	}
}
