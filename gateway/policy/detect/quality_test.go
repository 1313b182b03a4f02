package detect

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"svc/gateway/base/background"
	"svc/gateway/mcp"
)

func message(t testing.TB, body string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(body), m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

func list(tools string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + tools + `]}}`
}

// learn passes a list to the collection like the gateway does.
func learn(t testing.TB, s *Schemas, upstream, tools string) bool {
	t.Helper()
	m := message(t, list(tools))
	if !s.ShouldLearn(upstream, m) {
		return false
	}
	s.Learn(upstream, m.Spans.Result.Of(m.Body))
	return true
}

const weather = `{"name":"weather","outputSchema":{"type":"object","properties":{"t":{"type":"number"}},"required":["t"]}}`

func TestScore(t *testing.T) {
	s := New(true)
	if !learn(t, s, "up", weather+`,{"name":"bare"}`) {
		t.Fatal("the list taught nothing")
	}
	for _, row := range []struct {
		name, upstream, tool, result string
		score                        float64
		ok                           bool
	}{
		{"as declared", "up", "weather", `{"content":[],"structuredContent":{"t":1.5}}`, 1, true},
		{"another type", "up", "weather", `{"content":[],"structuredContent":{"t":"warm"}}`, 0, true},
		{"a part is missing", "up", "weather", `{"structuredContent":{}}`, 0, true},
		{"nothing structured", "up", "weather", `{"content":[]}`, 0, true},
		{"written with escapes", "up", "weather", `{"structured\u0043ontent":{"t":1}}`, 1, true},
		{"a tool's error", "up", "weather", `{"content":[],"isError":true}`, 0, false},
		{"asks for input", "up", "weather", `{"resultType":"input_required"}`, 0, false},
		{"complete", "up", "weather", `{"resultType":"complete","structuredContent":{"t":1}}`, 1, true},
		{"a tool without a schema", "up", "bare", `{"structuredContent":{}}`, 0, false},
		{"a tool of another upstream", "other", "weather", `{"structuredContent":{}}`, 0, false},
		{"too large", "up", "weather", `{"structuredContent":{"t":1,"x":"` + strings.Repeat("x", maxContent) + `"}}`, 0, false},
		{"a number to choke on", "up", "weather", `{"structuredContent":{"t":1e999999}}`, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := message(t, `{"jsonrpc":"2.0","id":1,"result":`+row.result+`}`)
			score, ok := s.Score(row.upstream, row.tool, m)
			if score != row.score || ok != row.ok {
				t.Errorf("score %v, %v; want %v, %v", score, ok, row.score, row.ok)
			}
		})
	}
}

func TestLearn(t *testing.T) {
	s := New(true)
	learn(t, s, "up", weather)
	if learn(t, s, "up", weather) {
		t.Error("the same list was learned twice")
	}
	answer := message(t, `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"t":1}}}`)
	learn(t, s, "up", `{"name":"next page","outputSchema":{"type":"object"}}`)
	if _, ok := s.Score("up", "weather", answer); !ok {
		t.Error("another page took the schema away")
	}
	learn(t, s, "up", `{"name":"weather","outputSchema":{"type":"array"}}`)
	if score, ok := s.Score("up", "weather", answer); score != 0 || !ok {
		t.Errorf("with the new schema: %v, %v", score, ok)
	}
	learn(t, s, "up", `{"name":"weather"},{"name":"x","outputSchema":{}}`)
	if _, ok := s.Score("up", "weather", answer); ok {
		t.Error("the schema is still there")
	}
	var many []string
	for i := range maxTools + 10 {
		many = append(many, fmt.Sprintf(`{"name":"t%d","outputSchema":{}}`, i))
	}
	learn(t, s, "many", strings.Join(many, ","))
	n := 0
	for k := range *s.known.Load() {
		if k.upstream == "many" {
			n++
		}
	}
	if n != maxTools {
		t.Errorf("%d schemas of one upstream, want %d", n, maxTools)
	}
}

// Schemas that would cause requests or unbounded work are not used; ordinary ones
// with references are.
func TestSchemasThatAreNotUsed(t *testing.T) {
	bomb := `"a30":{"type":"object"}`
	for i := range 30 {
		bomb += fmt.Sprintf(`,"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	for _, row := range []struct {
		name, schema string
		used         bool
	}{
		{"references into itself", `{"$defs":{"p":{"type":"number"}},"type":"object","properties":{"t":{"$ref":"#/$defs/p"}}}`, true},
		{"one definition used often", `{"$defs":{"p":{"type":"number"}},"type":"object","properties":{"a":{"$ref":"#/$defs/p"},"b":{"$ref":"#/$defs/p"}}}`, true},
		{"a property named $ref", `{"properties":{"$ref":{"type":"string"}}}`, true},
		{"a file", `{"$ref":"file:///etc/passwd"}`, false},
		{"an address", `{"properties":{"a":{"$ref":"http://127.0.0.1:1/schema"}}}`, false},
		{"a meta-schema of its own", `{"$schema":"http://127.0.0.1:1/schema"}`, false},
		{"a schema with a name of its own inside", `{"properties":{"a":{"$id":"urn:x","$defs":{"b":{}},"items":{"$ref":"#/$defs/b"}}}}`, false},
		{"a property named id", `{"$id":"urn:whole","properties":{"id":{"type":"string"},"$id":{"type":"string"}}}`, true},
		{"recursion", `{"properties":{"next":{"$ref":"#"}}}`, false},
		{"doubling", `{"$defs":{` + bomb + `},"$ref":"#/$defs/a0"}`, false},
		{"deep nesting", strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70), false},
		{"a number to choke on", `{"multipleOf":1e-999999}`, false},
		{"no schema", `{"type":7}`, false},
		{"a pattern that is none", `{"pattern":"("}`, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := compile([]byte(row.schema), false) != nil; got != row.used {
				t.Errorf("used %v, want %v", got, row.used)
			}
		})
	}
}

// For any schema and response of an upstream, the validation ends.
func FuzzScore(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"t":1}`)
	f.Add(`{"$defs":{"a":{"items":{"$ref":"#/$defs/b"}},"b":{"uniqueItems":true}},"$ref":"#/$defs/a"}`, `[[1,1.0]]`)
	f.Add(`{"format":"regex","contentEncoding":"base64","if":{},"then":{"pattern":"a*"}}`, `"("`)
	f.Fuzz(func(t *testing.T, schema, content string) {
		body := list(`{"name":"x","outputSchema":` + schema + `}`)
		answer := `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":` + content + `}}`
		var m, a mcp.Message
		if mcp.Scan([]byte(body), &m) != nil || mcp.Scan([]byte(answer), &a) != nil {
			return
		}
		s := New(true)
		s.Learn("up", m.Spans.Result.Of(m.Body))
		if score, ok := s.Score("up", "x", &a); score < 0 || score > 1 || !ok && score != 0 {
			t.Errorf("score %v, %v", score, ok)
		}
	})
}

// Lists are learned in the background, and responses to calls are scored by the
// learned schemas.
func TestGradeLearnsFromListsAndScoresCalls(t *testing.T) {
	s := New(true)
	grade := func(asked, answer string) (float64, bool) {
		calls := background.New(slog.New(slog.DiscardHandler))
		defer calls.Stop() // wait for the background calls
		return s.Grade("up", message(t, asked), message(t, answer), calls)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather"}}`
	good := `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"t":1.5}}}`
	if _, ok := grade(call, good); ok {
		t.Error("scored before anything was learned")
	}
	if _, ok := grade(`{"jsonrpc":"2.0","method":"tools/list"}`, list(weather)); ok {
		t.Error("a list has a score")
	}
	if _, ok := grade(call, good); ok {
		t.Error("learned from what answers no request")
	}
	if _, ok := grade(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, list(weather)); ok {
		t.Error("a list has a score")
	}
	if score, ok := grade(call, good); !ok || score != 1 {
		t.Errorf("score %v, %v", score, ok)
	}
	s = nil
	if _, ok := grade(call, good); ok {
		t.Error("a score of no collection")
	}
}
