package mcp

import (
	"slices"
	"testing"
)

func TestTexts(t *testing.T) {
	const body = `{"a":"x\"}","b":[1,-2.5e3,true,null,{"c":"[y"}],"":"","é":"\u00e9"}`
	var got []string
	texts := TextsIn([]byte(body), Span{0, len(body)})
	for {
		text, ok := texts.Next()
		if !ok {
			break
		}
		raw := text.At.Of([]byte(body))
		got = append(got, map[TextKind]string{TextString: "value ", TextName: "name ", TextNumber: "number "}[text.Kind]+string(TextValue(raw)))
	}
	want := []string{"name a", `value x"}`, "name b", "number 1", "number -2.5e3", "name c", "value [y", "name ", "value ", "name é", "value é"}
	if !slices.Equal(got, want) {
		t.Errorf("texts are %q, want %q", got, want)
	}
}

func TestTextsOfAbsentPart(t *testing.T) {
	texts := TextsIn([]byte(`{"a":1}`), Span{})
	if text, ok := texts.Next(); ok {
		t.Errorf("an absent part has the text %+v", text)
	}
}

// On any bytes, the walk ends and stays inside the body.
func FuzzTexts(f *testing.F) {
	f.Add([]byte(`{"a":"x","b":[1,2]}`))
	f.Add([]byte(`"\`))
	f.Add([]byte(`-`))
	f.Fuzz(func(t *testing.T, body []byte) {
		texts := TextsIn(body, Span{0, len(body) + 1})
		last := 0
		for {
			text, ok := texts.Next()
			if !ok {
				return
			}
			if text.At.Start < last || text.At.End > len(body) || text.At.End <= text.At.Start {
				t.Fatalf("text at %+v after %d of %d", text.At, last, len(body))
			}
			last = text.At.End
			if ValidString(text.At.Of(body)) {
				_ = TextValue(text.At.Of(body))
			}
		}
	})
}
