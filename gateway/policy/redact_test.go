package policy

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svc/gateway/mcp"
)

// redactRule compiles a redact rule of regex and replacement pairs.
func redactRule(t testing.TB, pairs ...string) *Rule {
	t.Helper()
	c := RuleConfig{ID: "r", Action: "redact", When: &When{}}
	for i := 0; i < len(pairs); i += 2 {
		c.Redact = append(c.Redact, Substitution{Regex: pairs[i], Replacement: pairs[i+1]})
	}
	return mustCompile(t, Config{Rules: []RuleConfig{c}}).Rules()[0]
}

func scan(t testing.TB, body string) *mcp.Message {
	t.Helper()
	m := &mcp.Message{}
	if err := mcp.Scan([]byte(body), m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

func mailCall(text string) string {
	return `{"jsonrpc":"2.0","id":"i-1","method":"tools/call","params":{"name":"mail","arguments":{"text":"` + text + `"}}}`
}

func TestRedact(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		in    string
		want  string // "" if it must be refused
		why   string
	}{
		{"replaces", []string{`\d{4}-\d{4}`, "[card]"}, mailCall("pay 1234-5678 now 1111-2222"), mailCall("pay [card] now [card]"), ""},
		{"no match leaves the bytes as they were", []string{`nothing`, "x"}, mailCall(`AK\u0049A`), mailCall(`AK\u0049A`), ""},
		{"in order, on the result of the one before", []string{"a+", "b", "b", "c"}, mailCall("xaaax"), "", "kind"},
		{"in order", []string{"Q+", "W", "W", "V"}, mailCall("xQQQx"), mailCall("xVx"), ""},
		{"backreference", []string{`(\d)(\d)`, "$2$1"}, mailCall("x12x34"), mailCall("x21x43"), ""},
		{"named and braced groups", []string{`(?P<user>[A-Z]+)@(Z+)`, "${user}-${2}x$$"}, mailCall("AB@ZZ"), mailCall("AB-ZZx$"), ""},
		{"group 0", []string{`SECRET`, "<$0>"}, mailCall("aSECRETb"), mailCall("a<SECRET>b"), ""},
		{"group that does not take part", []string{`(P)|(Q)`, "[$1|$2]"}, mailCall("PQ"), mailCall("[P|][|Q]"), ""},
		{"looks around the match", []string{`\b(\d+)\b`, "<$1>"}, mailCall("1 a2 3"), "", "id"},
		{"word boundaries at the match", []string{`\b(7\d)\b`, "<$1>"}, mailCall("71 a72 73b 74"), mailCall("<71> a72 73b <74>"), ""},
		{"escapes cannot hide what is looked for", []string{`AKIA\w+`, "[key]"}, mailCall(`\u0041K\u0049A123 \/ \"q\" \ud83d\ude00`), mailCall(`[key] / \"q\" 😀`), ""},
		{"empty replacement", []string{`SECRET`, ""}, mailCall("aSECRETb"), mailCall("ab"), ""},
		{"changes the tool name", []string{`mail`, "admin"}, mailCall("x"), "", "name"},
		{"changes the tool name that was escaped", []string{`mail`, "admin"}, strings.Replace(mailCall("x"), "mail", `m\u0061il`, 1), "", "name"},
		{"removes the tool name", []string{`"name":"mail",`, ""}, mailCall("x"), "", "name"},
		{"changes the method", []string{`tools/call`, "tools/list"}, mailCall("x"), "", "method"},
		{"changes the id", []string{`i-1`, "i-2"}, mailCall("x"), "", "id"},
		{"id escaped and unchanged", []string{`SECRET`, "x"}, strings.Replace(mailCall("SECRET"), "i-1", `i\u002d1`, 1), mailCall("x"), ""},
		{"removes the id", []string{`"id":"i-1",`, ""}, mailCall("x"), "", "kind"},
		{"breaks JSON", []string{`SECRET`, `"`}, mailCall("SECRET"), "", "not valid JSON"},
		{"adds a second name", []string{`"arguments":\{[^}]*\}`, `"name":"x"`}, mailCall("x"), "", "twice"},
		{"adds a case variant", []string{`"arguments":`, `"Name":`}, mailCall("x"), "", "case"},
		{"changes the uri", []string{"secret", "public"}, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:secret"}}`, "", "uri"},
		{"changes the task id", []string{"secret", "public"}, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"secret"}}`, "", "task id"},
		{"changes the version", []string{"2026", "2025"}, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "", "version"},
		{"frame", []string{`\d{3}`, "***"}, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"pin 123"}}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"pin ***"}}`, ""},
		{"answer", []string{`\d{3}`, "***"}, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"pin 123"}]}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"pin ***"}]}}`, ""},
		{"answer whose result type changes", []string{"input_required", "complete"}, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, "", "result type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := scan(t, c.in)
			before := string(m.Body)
			var out mcp.Message
			err := redactRule(t, c.pairs...).Redact(ClientToServer, m, &out)
			if string(m.Body) != before {
				t.Error("the message itself was changed")
			}
			switch {
			case c.why != "":
				if !errors.Is(err, errRedactInvalid) {
					t.Fatalf("got %v and %s", err, out.Body)
				}
			case err != nil:
				t.Fatal(err)
			case string(out.Body) != c.want:
				t.Errorf("got  %s\nwant %s", out.Body, c.want)
			case out.Method != m.Method || out.Name != m.Name:
				t.Errorf("the view is %+v", out)
			}
		})
	}
}

// The limit of the result is enforced while it grows.
func TestRedactCannotAmplify(t *testing.T) {
	for _, c := range []struct{ name, regex, replacement, text string }{
		{"backreference 100 times", `(x+)`, strings.Repeat("$1", 100), strings.Repeat("x", 1<<20)},
		{"empty match", `()`, strings.Repeat("${1}y", 400), strings.Repeat("x", 64<<10)},
		{"empty match without groups", `q*`, strings.Repeat("y", 1000), strings.Repeat("x", 64<<10)},
		{"long literal", `x`, strings.Repeat("y", 4096), strings.Repeat("x", 64<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub, err := newSubstitution(Substitution{Regex: c.regex, Replacement: c.replacement})
			if err != nil {
				t.Fatal(err)
			}
			out, _, ok := sub.apply([]byte(c.text), mcp.MaxBody)
			if ok || len(out) > mcp.MaxBody+len(c.text) {
				t.Errorf("ok is %v with %d bytes", ok, len(out))
			}
			var m mcp.Message
			if err := redactRule(t, c.regex, c.replacement).Redact(ClientToServer, scan(t, mailCall(c.text)), &m); !errors.Is(err, errRedactInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	sub, err := newSubstitution(Substitution{Regex: "a", Replacement: "bb"})
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]bool{7: false, 8: true} {
		if out, _, ok := sub.apply([]byte("xaxaxx"), limit); ok != want {
			t.Errorf("limit %d: %v with %q", limit, ok, out)
		}
	}
}

// Substitutions have the same result as the standard library.
func TestSubstitutionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.SampledFrom([]string{
			`a`, `(a)(b)?`, `\b(a)`, `(a)\b`, `^(a)`, `(a)$`, `(?m)^(.)`, `(?m)(.)$`, `(a*)`, `(a*?)b?`, `()`, `(?i)(B+)`, `(é|a)(.?)`,
			`(?P<x>a)|(?P<y>b)`, `(a|ab)(c|bcd)?`, `\B(.)`, `(?s)(.)(.)`, `(a|ab\z)`, `(a|ab$)(?:)`, `\b`, `(\s|$)`,
		}).Draw(t, "expr")
		template := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"$1", "${1}", "$2", "$0", "$$", "$", "x", "${x}", "$x", "$1x", "${", "${1", "$é", "$01", "$9", "${y}é"}), 0, 5).Draw(t, "template"), "")
		src := rapid.StringOf(rapid.SampledFrom([]rune("aabbcd é\n"))).Draw(t, "src")
		sub, err := newSubstitution(Substitution{Regex: expr, Replacement: template})
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(expr).ReplaceAllString(src, template)
		got, hit, ok := sub.apply([]byte(src), 1<<20)
		if !hit {
			got = []byte(src)
		}
		if !ok || string(got) != want {
			t.Fatalf("%q by %q: got %q %v, want %q", expr, template, got, ok, want)
		}
	})
}

func TestRedactParam(t *testing.T) {
	r := redactRule(t, `sk-[a-z]+`, "[key]", `"pin":"\d+"`, `"pin":"0"`)
	m := scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"key":"sk-abc","pin":"1234","n":7,"city":"Köln"}}}`)
	var out mcp.Message
	if err := r.Redact(ClientToServer, m, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value, want string
		keep              bool
	}{
		{"the same substitution", "sk-abc", "[key]", true},
		{"untouched", "Köln", "Köln", true},
		{"number", "7", "7", true},
		{"redacted by its context", "1234", "1234", false},
		{"never was an argument", "zzz", "zzz", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, keep := r.RedactParam(&out, c.value); keep != c.keep || keep && got != c.want {
				t.Errorf("got %q %v", got, keep)
			}
		})
	}
}

// In messages to the client a redaction may change every string except those by
// which client and gateway correlate the message.
func TestRedactOnTheWayDown(t *testing.T) {
	answer := func(members string) string { return `{"jsonrpc":"2.0","id":"i-1","result":{` + members + `}}` }
	for _, c := range []struct {
		name  string
		pairs []string
		in    string
		want  string // "" if it must be refused
	}{
		{"a uri", []string{"secret", "x"}, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///secret"}}`, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///x"}}`},
		{"names in a list", []string{"secret", "x"}, answer(`"tools":[{"name":"secret_tool"}]`), answer(`"tools":[{"name":"x_tool"}]`)},
		{"the name in a request", []string{"secret", "x"}, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"name":"secret"}}`, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"name":"x"}}`},
		{"a result type", []string{"input_required", "complete"}, answer(`"resultType":"input_required"`), answer(`"resultType":"complete"`)},
		{"a revision", []string{"2025-06-18", "2025-03-26"}, answer(`"protocolVersion":"2025-06-18"`), answer(`"protocolVersion":"2025-03-26"`)},
		{"a task id inside of content", []string{"secret", "x"}, answer(`"structuredContent":{"taskId":"secret","nextCursor":"secret"}`), answer(`"structuredContent":{"taskId":"x","nextCursor":"x"}`)},
		{"beside references", []string{"secret", "x"}, answer(`"taskId":"t\u002f1","note":"secret"`), answer(`"taskId":"t/1","note":"x"`)},
		{"the id", []string{"i-1", "i-2"}, answer(`"a":1`), ""},
		{"the shape", []string{`"result"`, `"error"`}, answer(`"a":1`), ""},
		{"the method", []string{"updated", "changed"}, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u"}}`, ""},
		{"the subscription", []string{"secret", "x"}, `{"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"secret"}}}`, ""},
		{"a task id", []string{"secret", "x"}, answer(`"taskId":"secret"`), ""},
		{"the task id of 2025-11-25", []string{"secret", "x"}, answer(`"task":{"taskId":"secret"}`), ""},
		{"a task id in a list", []string{"secret", "x"}, answer(`"tasks":[{"taskId":"secret"}]`), ""},
		{"the name of a reference", []string{"taskId", "job"}, answer(`"tasks":[{"taskId":"1"}]`), ""},
		{"a state", []string{"secret", "x"}, answer(`"requestState":"secret"`), ""},
		{"a cursor", []string{"secret", "x"}, answer(`"tools":[],"nextCursor":"secret"`), ""},
		{"the tasks of a subscription", []string{"secret", "x"}, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["secret"]}}}`, ""},
		{"a reference that is added", []string{"secret", `x","taskId":"1`}, answer(`"a":"secret"`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out mcp.Message
			switch err := redactRule(t, c.pairs...).Redact(ServerToClient, scan(t, c.in), &out); {
			case c.want == "":
				if !errors.Is(err, errRedactInvalid) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v and %s", err, out.Body)
				}
			case err != nil:
				t.Error(err)
			case string(out.Body) != c.want:
				t.Errorf("got  %s\nwant %s", out.Body, c.want)
			}
		})
	}
}
