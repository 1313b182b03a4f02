package federation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

const (
	withSkills = `,"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}`
	withFolder = `,"resources":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true},"io.example/x":{}}`
)

// skillOf returns the entry of a skill without files that are known.
func skillOf(directory string) string {
	name := directory[strings.LastIndexByte(directory, '/')+1:]
	return fmt.Sprintf(`{"uri":"%s/SKILL.md","frontmatter":{"name":%q,"description":"d"},"resources":"dynamic"}`, directory, name)
}

// skills returns the URIs of a page of skills and the cursor of the next one.
func (b *bed) skills(caller *upstream.Caller, revision, cursor string) (uris []string, next, body string) {
	b.t.Helper()
	_, body, _ = b.post(caller, revision, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{%s"_meta":{%q:%q,%q:{}}}}`, cursor, mcp.MetaProtocolVersion, revision, mcp.MetaClientCapabilities))
	var list struct {
		Result struct {
			Skills     []struct{ URI string }
			NextCursor string
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range list.Result.Skills {
		uris = append(uris, s.URI)
	}
	return uris, list.Result.NextCursor, body
}

// Skills of all upstreams are one list, in pages, with the members that the extension requires in every
// revision; entries that no host may load are left out, and the log has the reason.
func TestMergedSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &server{modern: true, scope: "public", tools: []string{"x"}, capabilities: withSkills, skills: []string{`{"uri":"x:///no"}`}}
		for i := range 1100 {
			one.skills = append(one.skills, skillOf(fmt.Sprintf("git://one/s%d", i)))
		}
		two := &server{tools: []string{"y"}, capabilities: withFolder, skills: []string{skillOf("git://two/s")}}
		b := start(t, "", nil, one, two, &server{tools: []string{"z"}})
		defer b.stop()
		for _, revision := range []string{mcp.Revision20260728, mcp.Revision20251125} {
			first, next, body := b.skills(key("k"), revision, "")
			second, end, _ := b.skills(key("k"), revision, `"cursor":"`+next+`",`)
			if len(first) != 1000 || len(second) != 101 || end != "" || first[0] != "git://one/s0/SKILL.md" || second[100] != "git://two/s/SKILL.md" {
				t.Errorf("%s: %d, then %d skills, %q", revision, len(first), len(second), end)
			}
			for _, want := range []string{`"resultType":"complete"`, `"cacheScope":"private"`, `"ttlMs":60000`} {
				if !strings.Contains(body, want) {
					t.Errorf("%s: the list lacks %s", revision, want)
				}
			}
			method := mcp.MethodInitialize
			if mcp.Modern(revision) {
				method = mcp.MethodDiscover
			}
			if _, body := b.ask(key("k"), revision, method); !strings.Contains(body, `"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}`) {
				t.Errorf("%s declares %s", revision, body)
			}
		}
		if log := b.logs.String(); !strings.Contains(log, `kind=skill name=x:///no`) || !strings.Contains(log, "problem=\"uri is not the absolute address") {
			t.Errorf("the log: %s", log)
		}
	})
}

// A page ends before it gets too large.
func TestPagesOfLargeSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &server{tools: []string{"x"}, capabilities: withSkills}
		for i := range 20 {
			one.skills = append(one.skills, strings.Replace(skillOf(fmt.Sprintf("git://one/s%d", i)), `"name"`, `"x":"`+strings.Repeat("x", 900<<10)+`","name"`, 1))
		}
		b := start(t, "", nil, one)
		defer b.stop()
		pages := 0
		for cursor, next := "", ""; pages == 0 || next != ""; pages++ {
			if _, next, _ = b.skills(key("k"), mcp.Revision20251125, cursor); next != "" {
				cursor = `"cursor":"` + next + `",`
			}
		}
		if pages != 2 {
			t.Errorf("%d pages of 18 MiB", pages)
		}
	})
}

// The extension is declared to a caller who may use a skill of an upstream that declares it.
func TestWhoIsOfferedSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &server{tools: []string{"x"}, capabilities: withSkills, skills: []string{skillOf("git://one/s")}}
		two := &server{tools: []string{"y"}, capabilities: withFolder, skills: []string{`{"uri":"x:///no"}`}}
		for name, tt := range map[string]struct {
			view   *auth.ViewConfig
			denied string // upstream whose skills the rules deny
			want   string
		}{
			"both":                         {nil, "", `{"directoryRead":true}`},
			"rules without one":            {nil, "b", `{}`},
			"a view of one":                {&auth.ViewConfig{Name: "v", Upstreams: []string{"a"}, Resources: auth.All}, "", `{}`},
			"a view without resources":     {&auth.ViewConfig{Name: "v", Upstreams: []string{"a", "b"}, Resources: auth.None}, "", ``},
			"a view of one that is denied": {&auth.ViewConfig{Name: "v", Upstreams: []string{"a"}, Resources: auth.All}, "a", ``},
		} {
			b := start(t, "", func(o *setup) {
				o.May = func(_ *upstream.Caller, kind mcp.ListKind, upstream, _ string) bool {
					return kind != mcp.Skill || upstream != tt.denied
				}
			}, one, two)
			caller := key("k")
			if tt.view != nil {
				caller.View = auth.New([]auth.ViewConfig{*tt.view}).Named("v")
			}
			_, body := b.ask(caller, mcp.Revision20260728, mcp.MethodDiscover)
			want := `"extensions":{"io.modelcontextprotocol/skills":` + tt.want + `}`
			if tt.want == "" && strings.Contains(body, "extensions") || tt.want != "" && !strings.Contains(body, want) {
				t.Errorf("%s: %s", name, body)
			}
			if _, _, body := b.skills(caller, mcp.Revision20260728, ""); strings.Contains(body, "-32601") != (tt.want == "") {
				t.Errorf("%s: %s", name, body)
			}
			b.stop()
		}
	})
}

// A rule about some addresses does not hide skills beside them: not those of a list that only the caller gets,
// and not those of a server that lists none.
func TestSkillsAreOfferedBesideThoseThatRulesDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := skillOf("git://one/s")
		for name, tt := range map[string]struct {
			scope, skills string
			may           func(uri string) bool
			want          bool
		}{
			"private, one is allowed":        {"private", allowed, func(uri string) bool { return uri == "git://one/s/SKILL.md" }, true},
			"private, all are denied":        {"private", allowed, func(uri string) bool { return uri == "git://two/s/SKILL.md" }, false},
			"none is listed":                 {"public", `{"uri":"x:///no"}`, func(uri string) bool { return strings.HasPrefix(uri, "skill://a/") }, true},
			"none is listed, all are denied": {"public", `{"uri":"x:///no"}`, func(string) bool { return false }, false},
		} {
			own := &server{modern: true, scope: tt.scope, tools: []string{"x"}, capabilities: withSkills, skills: []string{tt.skills}}
			b := start(t, "", func(o *setup) {
				o.May = func(_ *upstream.Caller, kind mcp.ListKind, _, uri string) bool {
					return kind != mcp.Skill || tt.may(uri)
				}
			}, own, &server{modern: true, scope: "public", tools: []string{"y"}})
			if _, body := b.ask(key("k"), mcp.Revision20260728, mcp.MethodDiscover); strings.Contains(body, mcp.ExtensionSkills) != tt.want {
				t.Errorf("%s: %s", name, body)
			}
			if uris, _, body := b.skills(key("k"), mcp.Revision20260728, ""); strings.Contains(body, "-32601") == tt.want || (len(uris) > 0) != (tt.want && tt.skills == allowed) {
				t.Errorf("%s: %s", name, body)
			}
			b.stop()
		}
	})
}

// Requests for a skill or a directory go to its owner. What no upstream has is an invalid parameter, and
// without skills the method does not exist.
func TestWhereSkillsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &server{tools: []string{"x"}, capabilities: withSkills, skills: []string{skillOf("git://one/a/s")}}
		two := &server{modern: true, tools: []string{"y"}, capabilities: withFolder, skills: []string{skillOf("git://two/b/s")}}
		none := &server{tools: []string{"z"}, capabilities: `,"resources":{}`, templates: []string{"git://none/{path}"}}
		b := start(t, "", func(o *setup) { o.Fallback = "c" }, one, two, none)
		defer b.stop()
		b.skills(key("k"), mcp.Revision20251125, "")
		for name, tt := range map[string]struct{ message, at, code string }{
			"a skill":                 {`"skills/get","params":{"uri":"git://one/a/s/SKILL.md"}`, "a", ""},
			"a nested skill":          {`"skills/get","params":{"uri":"git://two/b/s/t/SKILL.md"}`, "b", ""},
			"a file":                  {`"resources/read","params":{"uri":"git://two/b/s/x.md"}`, "b", ""},
			"its directory":           {`"resources/directory/read","params":{"uri":"git://two/b/s"}`, "b", ""},
			"a directory above":       {`"resources/directory/read","params":{"uri":"git://two"}`, "b", ""},
			"one without directories": {`"resources/directory/read","params":{"uri":"git://one/a/s"}`, Name, "-32602"},
			"no skill":                {`"skills/get","params":{"uri":"git://three/SKILL.md"}`, Name, "-32602"},
			"at one without skills":   {`"skills/get","params":{"uri":"git://none/s/SKILL.md"}`, Name, "-32602"},
			"no directory":            {`"resources/directory/read","params":{"uri":"git://three"}`, Name, "-32602"},
			"no uri":                  {`"skills/get","params":{}`, Name, "-32602"},
		} {
			for _, revision := range []string{mcp.Revision20251125, mcp.Revision20260728} {
				var m mcp.Message
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%s}`, tt.message)
				if mcp.Modern(revision) {
					body = strings.TrimSuffix(body, "}}") + fmt.Sprintf(`%s"_meta":{%q:%q,%q:{}}}}`, map[bool]string{true: "", false: ","}[strings.HasSuffix(body, "{}}")], mcp.MetaProtocolVersion, revision, mcp.MetaClientCapabilities)
				}
				if err := mcp.Scan([]byte(body), &m); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				if found := b.Route(t.Context(), key("k"), &m, ""); found.Upstream != tt.at {
					t.Errorf("%s goes to %q, want %q", name, found.Upstream, tt.at)
				}
				if tt.code == "" {
					continue
				}
				status, answer, _ := b.post(key("k"), revision, body)
				if want := map[bool]int{false: http.StatusOK, true: http.StatusBadRequest}[mcp.Modern(revision)]; status != want || !strings.Contains(answer, `"code":`+tt.code) {
					t.Errorf("%s: %d %s", name, status, answer)
				}
			}
		}
	})
}

// The only upstream has all skill:// and ui:// addresses, listed or not: servers do not list the pages of their
// apps.
func TestAddressesOfTheOnlyUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, "", nil, &server{tools: []string{"x"}, capabilities: withSkills, skills: []string{skillOf("git://one/s")}})
		defer b.stop()
		b.skills(key("k"), mcp.Revision20251125, "")
		without := key("k")
		without.View = auth.New([]auth.ViewConfig{{Name: "v", Upstreams: []string{"a"}, Resources: auth.None}}).Named("v")
		for message, at := range map[string]string{
			`"resources/read","params":{"uri":"ui://board/page"}`:                            "a",
			`"resources/read","params":{"uri":"Skill://x/y.md"}`:                             "a",
			`"skills/get","params":{"uri":"skill://x/SKILL.md"}`:                             "a",
			`"resources/directory/read","params":{"uri":"skill://x"}`:                        Name, // not declared
			`"resources/subscribe","params":{"uri":"ui://board/page"}`:                       "a",
			`"resources/read","params":{"uri":"ui:board/page"}`:                              Name,
			`"resources/read","params":{"uri":"other://board/page"}`:                         Name,
			`"completion/complete","params":{"ref":{"type":"ref/prompt","name":"ui://x/y"}}`: Name,
		} {
			var m mcp.Message
			if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":`+message+`}`), &m); err != nil {
				t.Fatal(err)
			}
			if found := b.Route(t.Context(), key("k"), &m, ""); found.Upstream != at || found.Own != "" {
				t.Errorf("%s goes to %+v, want %q", message, found, at)
			}
			if found := b.Route(t.Context(), without, &m, ""); found.Upstream != Name {
				t.Errorf("%s goes to %+v at a view without resources", message, found)
			}
		}
		_, body, _ := b.post(without, mcp.Revision20251125, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ui://board/page"}}`)
		if !strings.Contains(body, "no server has a resource of this URI") {
			t.Errorf("a view without resources: %s", body)
		}
	})
}

func TestUnroutedExtensions(t *testing.T) {
	got := UnroutedExtensions([]byte(`{"extensions":{"z/x":{},"io.modelcontextprotocol/skills":{},"a/b":{}}}`))
	if !slices.Equal(got, []string{"a/b", "z/x"}) || UnroutedExtensions([]byte(`[]`)) != nil {
		t.Errorf("%v", got)
	}
}
