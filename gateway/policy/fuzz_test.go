package policy

import (
	"errors"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// FuzzGlob checks that a compiled pattern matches like path.Match if both have
// the same meaning: no separators in the name, no exclamation mark.
//
// Ten minutes: go test ./gateway/policy -run '^$' -fuzz '^FuzzGlob$' -fuzztime
// 10m -fuzzminimizetime 1x -parallel 1
func FuzzGlob(f *testing.F) {
	for _, c := range [][2]string{{"a*b?c", "axxbyc"}, {"[a-c]*", "bx"}, {"[^a]", "é"}, {`\*[\]]`, "*]"}, {"[", ""}, {"*a*b*", "xaxbx"}, {"[!a]", "!"}} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g, err := match.CompileGlob(pattern)
		if err != nil || len(name) > mcp.MaxName {
			return
		}
		got := g.Match(name)
		if strings.ContainsAny(name, "/") || strings.Contains(pattern, "[!") || !utf8.ValidString(name) {
			return
		}
		if want, err := path.Match(pattern, name); err == nil && got != want {
			t.Fatalf("%q matches %q: %v, path.Match says %v", pattern, name, got, want)
		}
	})
}

// FuzzRedact checks the properties of every redaction: it is refused, or the
// result is a message of the same kind, id, method and name, within the limit,
// that scans to the values Redact returned; and substitutions have the same
// result as the standard library.
//
// Ten minutes: go test ./gateway/policy -run '^$' -fuzz '^FuzzRedact$'
// -fuzztime 10m -fuzzminimizetime 1x -parallel 1
func FuzzRedact(f *testing.F) {
	f.Add([]byte(mailCall(`AK\u0049A 12`)), `AKIA`, "[key]")
	f.Add([]byte(mailCall("x12y")), `(\d)(\d)`, "$2$1$$${1}x")
	f.Add([]byte(mailCall("x")), `()`, "${1}")
	f.Add([]byte(mailCall("x")), `"name":"mail"`, `"name":"admin"`)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\nb"}]}}`), `(?m)^(.)|(b)\b`, "<$1$2>")
	f.Fuzz(func(t *testing.T, body []byte, expr, template string) {
		if len(expr) > 200 || len(template) > 200 || len(body) > 1<<12 {
			return
		}
		sub, err := newSubstitution(Substitution{Regex: expr, Replacement: template})
		if err != nil {
			return
		}
		before := string(body)
		want := regexp.MustCompile(expr).ReplaceAllString(before, template)
		got, hit, ok := sub.apply(body, mcp.MaxBody)
		if !hit {
			got = body
		}
		if ok != (len(want) <= mcp.MaxBody) || ok && string(got) != want {
			t.Fatalf("%q by %q in %q: got %q %v, want %q", expr, template, body, got, ok, want)
		}
		var m, out mcp.Message
		if mcp.Scan(body, &m) != nil {
			return
		}
		r := &Rule{substitutions: []*substitution{sub}}
		if err := r.Redact(ClientToServer, &m, &out); err != nil {
			if !errors.Is(err, errRedactInvalid) {
				t.Fatal(err)
			}
			return
		}
		var again mcp.Message
		if err := mcp.Scan(out.Body, &again); err != nil {
			t.Fatalf("%q: %v", out.Body, err)
		}
		if what := changedPart(&m, &again); what != "" || len(out.Body) > mcp.MaxBody {
			t.Fatalf("the %s changed from %q to %q", what, body, out.Body)
		}
		if string(m.Body) != before {
			t.Fatal("the message itself was changed")
		}
	})
}
