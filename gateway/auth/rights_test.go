package auth

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Tokens of the same caller have equal digests of rights when they differ only in claims that
// change with each token.
func TestRightsOfAToken(t *testing.T) {
	claims := func(text string) (out map[string]jsontext.Value) {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	base := rightsOf(claims(`{"sub":"a","groups":["x"],"exp":1,"iat":1,"nbf":1,"jti":"1","auth_time":1}`))
	for text, same := range map[string]bool{
		`{"exp":2,"iat":2,"nbf":2,"jti":"2","auth_time":2,"groups":["x"],"sub":"a"}`: true,
		`{"sub":"a","groups":["x","y"]}`:                                             false,
		`{"sub":"b","groups":["x"]}`:                                                 false,
		`{"sub":"a","groups":["x"],"scope":"admin"}`:                                 false,
		`{"sub":"a","groups\":4:[\"x\"]\"a":["x"],"x":1}`:                            false,
	} {
		if got := rightsOf(claims(text)) == base; got != same {
			t.Errorf("%s: equal %v, want %v", text, got, same)
		}
	}
}
