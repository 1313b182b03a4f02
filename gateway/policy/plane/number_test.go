package plane

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
	"svc/store/api"
)

// cardLike returns a number of 16 digits from 4 on whose check digit is that of a card.
func cardLike(r *rand.Rand) string {
	for {
		id := "4" + strconv.Itoa(1e14+r.IntN(9e14))
		if len(detect.NewScanner(detect.CreditCard).Scan(nil, []byte(id))) > 0 {
			return id
		}
	}
}

// TestANumberLikeACardIsMaskedNotDenied: one of ten random identifiers that begin with 4 has the
// check digit of a card. Whatever the strategy and wherever the number is, the message passes with
// a number of the same length that is no card; only the action block denies it.
func TestANumberLikeACardIsMaskedNotDenied(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, strategy := range api.RedactionStrategies {
		for phase, name := range api.Phases {
			if strategy == "token" && Phase(phase) != Response {
				continue
			}
			b, err := Compile(bundle(api.GovernancePolicy{Phase: name, Condition: pii(), Action: "redact", RedactionStrategy: strategy}), Built{}, make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			id := cardLike(r)
			body, want := callWith(`{"id":`+id+`,"amount":17}`), callWith(`{"id":1000000000000000,"amount":17}`)
			if Phase(phase) == Response {
				body = `{"jsonrpc":"2.0","id":1,"result":{"content":[],"row":` + id + `}}`
				want = strings.Replace(body, id, "1000000000000000", 1)
			}
			in := input(body)
			in.Tokens.TokenContext = detect.TokenContext{Agent: "any", Upstream: "up"}
			v := b.For("any").Judge(Phase(phase), in)
			if v.Err != nil || string(v.Redacted.Body) != want {
				t.Errorf("%s, %s: error %v, became %s, want %s", name, strategy, v.Err, v.Redacted.Body, want)
				continue
			}
			if again := b.For("any").Judge(Phase(phase), &Input{Message: &v.Redacted, Now: in.Now}); len(again.Entities) > 0 {
				t.Errorf("%s, %s: the mask is %v", name, strategy, again.Entities)
			}
		}
	}
	b, err := Compile(bundle(api.GovernancePolicy{Condition: pii(), Action: "block"}), Built{})
	if err != nil {
		t.Fatal(err)
	}
	if v := b.For("any").Judge(Request, input(callWith(`{"id":`+cardLike(r)+`}`))); v.Block == nil {
		t.Error("a policy with the action block let a card pass")
	}
}

// TestAMaskedNumberLeavesTheNamesOfRequestsAlone: a progress token and the id of a cancelled request
// name a request to the other side.
func TestAMaskedNumberLeavesTheNamesOfRequestsAlone(t *testing.T) {
	b, err := Compile(bundle(api.GovernancePolicy{Condition: pii(), Action: "redact", RedactionStrategy: "mask"}), Built{})
	if err != nil {
		t.Fatal(err)
	}
	id := cardLike(rand.New(rand.NewPCG(9, 10)))
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`:                                                    "",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + id + `,"progress":1}}`:                                    "",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":` + id + `},"name":"send","arguments":{"n":` + id + `}}}`: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":` + id + `},"name":"send","arguments":{"n":1000000000000000}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":` + id + `},"name":"send","arguments":{"progressToken":` + id + `}}}`: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1000000000000000},"name":"send","arguments":{"progressToken":1000000000000000}}}`,
		`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"send","arguments":{"a":[{"b":"` + id + `"},` + id + `.00,"x"]}}}`: `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"send","arguments":{"a":[{"b":"****************"},1000000000000000,"x"]}}}`,
	} {
		v := b.For("any").Judge(Request, input(body))
		if v.Err != nil || v.Changed != (want != "") || want != "" && string(v.Redacted.Body) != want {
			t.Errorf("%s\nerror %v, became\n%s, want\n%s", body, v.Err, v.Redacted.Body, want)
		}
	}
}

// TestAMaskedNumberIsMirroredInItsHeader: the value of a header field that mirrors a number is
// redacted as the number is, and any text that is none stays as it is.
func TestAMaskedNumberIsMirroredInItsHeader(t *testing.T) {
	b, err := Compile(bundle(api.GovernancePolicy{Condition: pii(), Action: "redact", RedactionStrategy: "mask"}), Built{})
	if err != nil {
		t.Fatal(err)
	}
	set := b.For("any")
	id := cardLike(rand.New(rand.NewPCG(11, 12)))
	v := set.Judge(Request, input(callWith(`{"id":`+id+`}`)))
	if got := set.RedactValue(Request, id, true, v.Fired); !mcp.HasScalar(v.Redacted.Body, v.Redacted.Spans.Arguments, got) || !json.Valid([]byte(got)) {
		t.Errorf("the header has %q, the body %s", got, v.Redacted.Body)
	}
	if got := set.RedactValue(Request, id, false, v.Fired); got != "****************" {
		t.Errorf("as a string: %q", got)
	}
	for _, text := range []string{"", "e0", ".e5", "-", `"` + id + `"`, "null", "1e", "call " + id} {
		if got := set.RedactValue(Request, text, true, v.Fired); got != text {
			t.Errorf("%q as a number became %q", text, got)
		}
	}
}
