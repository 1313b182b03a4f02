package guardrail

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseReply(t *testing.T) {
	for _, c := range []struct {
		name, text string
		verdict    Verdict
		body       string
		err        error
	}{
		{"pass", `{"action":"pass"}`, Pass, "", nil},
		{"pass with white space", " {\n\"action\" : \"pass\" }\r\n", Pass, "", nil},
		{"pass with a body", `{"action":"pass","body":{"a":1}}`, Pass, "", nil},
		{"escapes", "{\"\\u0061ction\":\"p\\u0061ss\"}", Pass, "", nil},
		{"action twice, one with escapes", "{\"action\":\"pass\",\"\\u0061ction\":\"reject\"}", "", "", errReplyTwice},
		{"reject", `{"action":"reject"}`, Reject, "", nil},
		{"reject with a reason", `{"reason":"says \"no\"","action":"reject"}`, Reject, "", nil},
		{"reason of any type", `{"action":"reject","reason":[{"a":[]}]}`, Reject, "", nil},
		{"mask", `{"action":"mask","body":{"jsonrpc":"2.0", "id":1}}`, Mask, `{"jsonrpc":"2.0", "id":1}`, nil},
		{"mask with the body first", `{"body":{},"action":"mask"}`, Mask, `{}`, nil},
		{"other members", `{"action":"pass","version":2,"Action":"reject"}`, Pass, "", nil},
		{"mask without body", `{"action":"mask"}`, "", "", errReplyBody},
		{"mask with null", `{"action":"mask","body":null}`, "", "", errReplyBody},
		{"mask with a string", `{"action":"mask","body":"{}"}`, "", "", errReplyBody},
		{"mask with a list", `{"action":"mask","body":[{}]}`, "", "", errReplyBody},
		{"unknown action", `{"action":"allow"}`, "", "", errReplyAction},
		{"action in other letters", `{"action":"Pass"}`, "", "", errReplyAction},
		{"member in other letters", `{"Action":"pass"}`, "", "", errReplyAction},
		{"no action", `{"body":{}}`, "", "", errReplyAction},
		{"action not a string", `{"action":true}`, "", "", errReplyAction},
		{"action null", `{"action":null}`, "", "", errReplyAction},
		{"action twice", `{"action":"reject","action":"pass"}`, "", "", errReplyTwice},
		{"body twice", `{"action":"mask","body":{},"body":{}}`, "", "", errReplyTwice},
		{"empty", ``, "", "", errReplyJSON},
		{"white space", " \n", "", "", errReplyJSON},
		{"text", `pass`, "", "", errReplyJSON},
		{"a string", `"pass"`, "", "", errReplyJSON},
		{"a list", `[{"action":"pass"}]`, "", "", errReplyJSON},
		{"null", `null`, "", "", errReplyJSON},
		{"cut", `{"action":"pass"`, "", "", errReplyJSON},
		{"cut in a value", `{"action":"pa`, "", "", errReplyJSON},
		{"trailing data", `{"action":"pass"}{}`, "", "", errReplyJSON},
		{"trailing junk", `{"action":"pass"} x`, "", "", errReplyJSON},
		{"trailing comma", `{"action":"pass",}`, "", "", errReplyJSON},
		{"html", `<html>`, "", "", errReplyJSON},
		{"too deep", `{"a":` + strings.Repeat("[", 100_000) + `}`, "", "", errReplyJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseReply([]byte(c.text))
			if !errors.Is(err, c.err) || got.verdict != c.verdict || string(got.body) != c.body {
				t.Errorf("%q %q %v, want %q %q %v", got.verdict, got.body, err, c.verdict, c.body, c.err)
			}
		})
	}
}

// FuzzParseReply: for every reply of an endpoint the parser does not panic, an accepted reply is
// JSON with one action on which all parsers agree, and errors do not quote the reply.
func FuzzParseReply(f *testing.F) {
	for _, s := range []string{`{"action":"pass"}`, `{"action":"mask","body":{"id":1}}`, `{"action":"reject","reason":"x"}`,
		`{"action":"pass","action":"reject"}`, `{"action":"mask","body":[]}`, `{`, `[]`, "{\"action\":\"p\\u0061ss\"}", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseReply(data)
		if err != nil {
			if got.verdict != "" || got.body != nil {
				t.Errorf("an error with a verdict: %+v", got)
			}
			if text := err.Error(); len(data) > 8 && strings.Contains(text, string(data)) {
				t.Errorf("the error quotes the answer: %s", text)
			}
			return
		}
		var plain map[string]any
		if json.Unmarshal(data, &plain) != nil || plain["action"] != string(got.verdict) {
			t.Fatalf("%q was read from %q", got.verdict, data)
		}
		switch got.verdict {
		case Pass, Reject:
			if got.body != nil {
				t.Error("a body without mask")
			}
		case Mask:
			if !json.Valid(got.body) || !bytes.Contains(data, got.body) || got.body[0] != '{' {
				t.Errorf("body %q of %q", got.body, data)
			}
		default:
			t.Errorf("verdict %q", got.verdict)
		}
	})
}
