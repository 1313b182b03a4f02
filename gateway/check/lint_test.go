package check

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/config"
)

var update = flag.Bool("update", false, "rewrite what lint says in the pages of docs/lint")

// lintNow is the time of every test.
var lintNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// base has the sections that complete the examples of the pages. An example with upstreams also
// has their routes.
var base = []struct{ key, text string }{
	{"listen", "listen: 127.0.0.1:8081\n"},
	{"license", "license: {path: /etc/svc/license.jwt}\n"},
	{"upstreams", "upstreams: [{name: tools, url: \"http://127.0.0.1:3000/mcp\"}]\n" +
		"default_upstream: tools\nroutes: [{match: {tool_name: \"*\"}, upstream: tools}]\n"},
	{"policy", "policy: {default_action: deny}\n"},
	{"audit", "audit: {path: /var/log/svc/audit.jsonl}\n"},
	{"auth", "auth: {enabled: true, oauth: {enabled: true, issuer: https://login.example, audience: https://gateway.example/mcp, jwks_url: https://login.example/jwks}}\n"},
}

// complete completes an example to a valid file.
func complete(example string) string {
	whole := example
	for _, b := range base {
		if !strings.Contains("\n"+example, "\n"+b.key+":") {
			whole += b.text
		}
	}
	return whole
}

// lintRun lints an example under the name of a file.
func lintRun(example string) []diag.Finding {
	getenv := func(string) (string, bool) { return "", false }
	doc := config.ParseDocument("svc.yaml", []byte(complete(example)), config.Options{Getenv: getenv, UnsetIsInfo: true})
	return Lint(doc, lintNow)
}

// TestPages checks each page of docs/lint: the bad example has the warning with the text that the
// page shows, and the good one has no warning at all. -update rewrites the texts.
func TestPages(t *testing.T) {
	for _, code := range codes() {
		t.Run(code, func(t *testing.T) {
			path := filepath.Join("..", "..", "docs", "lint", code+".md")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			page := string(data)
			for _, part := range []string{"# " + code + "\n", "\n## Why\n", "\n## Bad\n", "\n## Good\n"} {
				if !strings.Contains(page, part) {
					t.Errorf("the page has no %q", strings.TrimSpace(part))
				}
			}
			examples := blocks(page, "yaml")
			if len(examples) != 2 {
				t.Fatalf("the page has %d examples, want a bad one and a good one", len(examples))
			}

			var said []diag.Finding
			for _, f := range lintRun(examples[0]) {
				if f.Severity == diag.Error {
					t.Errorf("the bad example: %v", f)
				}
				if f.Code == code {
					said = append(said, f)
				}
			}
			if len(said) == 0 {
				t.Fatal("the bad example has no such finding")
			}
			var out bytes.Buffer
			if err := diag.WriteText(&out, said); err != nil {
				t.Fatal(err)
			}
			shown := blocks(page, "text")
			if len(shown) != 1 {
				t.Fatalf("the page shows %d outputs, want one", len(shown))
			}
			if shown[0] != out.String() {
				if !*update {
					t.Errorf("the page shows\n%s\nlint says (-update rewrites it)\n%s", shown[0], out.String())
				} else if err := os.WriteFile(path, []byte(strings.Replace(page, "```text\n"+shown[0], "```text\n"+out.String(), 1)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range said {
				if f.Pos.Line == 0 || f.Pos.Column == 0 || f.Excerpt == "" || f.Caret == 0 || f.Hint == "" {
					t.Errorf("no place or no advice: %+v", f)
				}
			}
			for _, f := range lintRun(examples[1]) {
				if f.Severity != diag.Info || f.Code == code {
					t.Errorf("the good example: %v [%s]", f, f.Code)
				}
			}
		})
	}
}

// blocks returns the fenced blocks of a language.
func blocks(page, language string) []string {
	var out []string
	for _, part := range strings.Split(page, "```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		out = append(out, text)
	}
	return out
}

// TestEveryPageHasACode: there is no page for a removed warning, and the index lists all.
func TestEveryPageHasACode(t *testing.T) {
	pages, err := filepath.Glob("../../docs/lint/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, path := range pages {
		if name := filepath.Base(path); name != "README.md" && !slices.Contains(codes(), strings.TrimSuffix(name, ".md")) {
			t.Errorf("%s belongs to no warning", path)
		}
	}
	index, err := os.ReadFile("../../docs/lint/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range codes() {
		if row := "| [" + code + "](" + code + ".md) | " + Summary(code) + " |\n"; !strings.Contains(string(index), row) {
			t.Errorf("the index does not have the row %s", row)
		}
	}
}

// TestShippedConfigurations: the shipped configuration files have no warning.
func TestShippedConfigurations(t *testing.T) {
	for _, path := range []string{"../../deploy/etc/svc.yaml", "../../cli/devcmd/dev_gateway.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// svc dev replaces @NAME@ by paths.
		text := strings.NewReplacer("@LICENSE@", "/l", "@PUBLIC_KEY@", "/p", "@AUDIT@", "/a").Replace(string(data))
		doc := config.ParseDocument(path, []byte(text), config.Options{UnsetIsInfo: true})
		for _, f := range Lint(doc, lintNow) {
			if f.Severity != diag.Info {
				t.Error(f)
			}
		}
	}
}

// FuzzRun: for every file lint terminates, its positions are in the file, and it reports no error
// that start-up does not.
func FuzzRun(f *testing.F) {
	for _, code := range codes() {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lint", code+".md"))
		if err != nil {
			f.Fatal(err)
		}
		for _, example := range blocks(string(page), "yaml") {
			f.Add(complete(example))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc := config.ParseDocument("svc.yaml", []byte(text), config.Options{UnsetIsInfo: true})
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 4
		errors := 0
		for _, found := range Lint(doc, lintNow) {
			if found.Severity == diag.Error {
				errors++
			}
			if found.Pos.Line > lines+strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029") {
				t.Fatalf("%v is not in the file", found)
			}
		}
		if (errors == 0) != (doc.File() != nil) {
			t.Fatalf("%d errors, and file %v", errors, doc.File() != nil)
		}
	})
}

// codes returns the codes of all warnings, sorted.
func codes() []string {
	list := []string{codeDirective}
	for _, c := range checks() {
		list = append(list, c.code)
	}
	slices.Sort(list)
	return list
}

// A deny for everything is reported if a call above it may cause a server request, and no rule
// above it decides on answers.
func TestCatchAllDeny(t *testing.T) {
	const tools, rest = "    - {id: tools, action: allow, when: {tool_glob: \"*\"}}\n", "    - {id: rest, action: deny, when: {}}\n"
	for _, c := range []struct {
		name, rules string
		want        bool
	}{
		{"below an allow", tools + rest, true},
		{"written as a tool name", tools + "    - {id: rest, action: deny, when: {tool_name: \"*\"}}\n", true},
		{"for both directions", tools + "    - {id: rest, action: deny, when: {direction: \"\"}}\n", true},
		{"for some callers", tools + "    - {id: rest, action: deny, when: {claims: {groups: [guests]}}}\n", true},
		{"alone", rest, false},
		{"below denies", "    - {id: no, action: deny, when: {tool_name: rm}}\n" + rest, false},
		{"below an allow for everything", "    - {id: all, action: allow, when: {}}\n" + rest, false},
		{"for tools", tools + "    - {id: rest, action: deny, when: {tool_glob: \"rm*\"}}\n", false},
		{"for a method", tools + "    - {id: rest, action: deny, when: {method: tasks/get}}\n", false},
		{"for answers of servers", tools + "    - {id: rest, action: deny, when: {direction: server_to_client}}\n", false},
		{"tried out", tools + "    - {id: rest, action: deny, mode: observe, when: {}}\n", false},
	} {
		found := lintRun("policy:\n  default_action: deny\n  rules:\n" + c.rules)
		got := slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Code == "catch-all-deny" })
		if got != c.want {
			t.Errorf("%s: reported %v, want %v: %v", c.name, got, c.want, found)
		}
	}
}

// Keys whose ids differ only by a suffix that people give a new key of a client are reported, and
// the keys of several clients are not.
func TestKeysWhoseIDsDifferOnlyByASuffix(t *testing.T) {
	const hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E"
	for _, row := range []struct {
		ids  string
		want int
	}{
		{"ci ci-2", 1},
		{"ci-2 ci", 1},
		{"ci-1 ci-2", 1},
		{"ci ci2", 1},
		{"ci ci-old", 1},
		{"ci-old ci-new", 1},
		{"ci ci_v2", 1},
		{"ci-v1 ci-v2", 1},
		{"ci ci-2026-12-01", 1},
		{"ci-2024 ci-2025 ci-2026", 2},
		{"ci-1 ci-1-new", 1},
		{"ci ci-1 ci-2 ci-3", 3},
		{"worker-1 worker-2 worker-3", 0},
		{"team1 team2", 0},
		{"1 12", 0},
		{"ci cistern", 0},
		{"ci ci-deploy", 0},
		{"renew re", 0},
		{"gold-2 silver-2", 0},
	} {
		var b strings.Builder
		b.WriteString("auth:\n  enabled: true\n  keys:\n")
		for id := range strings.FieldsSeq(row.ids) {
			fmt.Fprintf(&b, "    - {id: %q, hash: %s}\n", id, "'"+hash+"'")
		}
		got := 0
		for _, f := range lintRun(b.String()) {
			if f.Code == "key-new-principal" {
				got++
			}
		}
		if got != row.want {
			t.Errorf("%s: %d warnings, want %d", row.ids, got, row.want)
		}
	}
}

// An ID token for another client than that of the identity provider is warned of, unless a variable
// decides.
func TestIDTokensForAnotherClient(t *testing.T) {
	for _, tt := range []struct {
		audience, client string
		want             bool
	}{
		{"svc-gateway", "svc-gateway", false},
		{"https://gateway.example/mcp", "svc-gateway", true},
		{"${AUDIENCE}", "svc-gateway", false},
		{"svc-gateway", "${CLIENT}", false},
		{"${CLIENT}", "${CLIENT}", false},
	} {
		found := lintRun(fmt.Sprintf(`auth: {enabled: true, oauth: {enabled: true, issuer: https://idp.example, audience: "%s", jwks_url: https://idp.example/jwks}}
upstreams:
  - {name: mail, url: https://mail.example/mcp, credentials: {id_jag: {idp: {token_url: https://idp.example/t, client_id: "%s", client_secret: "${S}"}, token_url: https://mail.example/t, client_id: a, client_secret: "${S}", audience: https://mail.example, resource: https://mail.example/mcp}}}
default_upstream: mail
routes: [{match: {tool_name: "*"}, upstream: mail}]
`, tt.audience, tt.client))
		warned := false
		for _, f := range found {
			if f.Severity == diag.Error {
				t.Errorf("%v", f)
			}
			warned = warned || f.Code == "id-jag-audience"
		}
		if warned != tt.want {
			t.Errorf("%q, %q: %v", tt.audience, tt.client, found)
		}
	}
}

// Rules that redact answers about skills alone are warned of. Rules for all answers are named where skills of
// an upstream are pinned, and rules that see no entry or file are not.
func TestRulesThatRedactSkills(t *testing.T) {
	const named, pinned = "warning", "info"
	for _, tt := range []struct{ rule, want string }{
		{`when: {method: skills/get, direction: server_to_client}`, named},
		{`when: {uri_prefix: "Skill://docs/", direction: ""}`, named},
		{`when: {method: skills/get}`, ""},
		{`mode: observe, when: {method: skills/get, direction: server_to_client}`, ""},
		{`when: {direction: server_to_client}`, pinned},
		{`when: {method: resources/read, direction: server_to_client}`, pinned},
		{`when: {direction: server_to_client, upstream: [docs, shop]}`, pinned},
		{`when: {direction: server_to_client, upstream: [shop]}`, ""},
		{`when: {direction: server_to_client, method: tools/call}`, ""},
		{`when: {direction: server_to_client, tool_prefix: shop_}`, ""},
		{`when: {direction: server_to_client, uri_prefix: "file:"}`, ""},
		{`when: {direction: client_to_server}`, ""},
	} {
		found := lintRun(`federation: {enabled: true}
upstreams:
  - {name: docs, url: https://docs.example/mcp, prefix: docs_, pin_skills: block}
  - {name: shop, url: https://shop.example/mcp, prefix: shop_}
policy:
  default_action: deny
  rules:
    - {id: r, action: redact, redact: [{regex: Ann, replacement: NAME}], ` + tt.rule + `}
`)
		got := ""
		for _, f := range found {
			if f.Code == "skill-redacted" {
				got += f.Severity.String()
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q: %v", tt.rule, got, tt.want, found)
		}
	}
}
