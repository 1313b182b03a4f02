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
