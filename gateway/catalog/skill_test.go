package catalog

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// skillEntry returns an entry of skill://a/b/refunds with some members replaced.
func skillEntry(replace ...string) string {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	return strings.NewReplacer(replace...).Replace(`{"uri":"skill://a/b/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"},"resources":[` +
		`{"uri":"skill://a/b/refunds/SKILL.md","digest":"` + digest + `","size":3},{"uri":"skill://a/b/refunds/x/y.md","digest":"` + digest + `","size":0}]}`)
}

func TestSkillEntries(t *testing.T) {
	many := func(n, size int) string {
		file := skillEntry()[strings.Index(skillEntry(), `{"uri":"skill://a/b/refunds/x/y.md"`) : len(skillEntry())-2]
		var files []string
		for i := range n {
			files = append(files, strings.NewReplacer("y.md", fmt.Sprint(i), `"size":0`, fmt.Sprintf(`"size":%d`, size)).Replace(file))
		}
		return skillEntry(file, strings.Join(files, ","))
	}
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	for name, tt := range map[string]struct{ entry, problem string }{
		"complete":               {skillEntry(), ""},
		"dynamic":                {`{"uri":"github://o/r/daily/SKILL.md","frontmatter":{"name":"daily","description":"d","license":"x"},"resources":"dynamic"}`, ""},
		"file":                   {`{"uri":"file:///srv/daily/SKILL.md","frontmatter":{"name":"daily","description":"d"},"resources":"dynamic"}`, ""},
		"nested frontmatter":     {skillEntry(`"description":"d"`, `"description":"d","metadata":`+deep), ""},
		"at the bounds":          {many(511, 0), ""},
		"no file":                {skillEntry(`"skill://a/b/refunds/SKILL.md","f`, `"skill://a/b/refunds","f`), "uri is not the absolute address"},
		"query":                  {`{"uri":"skill://a?/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"},"resources":"dynamic"}`, "uri is not"},
		"dots":                   {`{"uri":"skill://a/../refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"},"resources":"dynamic"}`, "uri is not"},
		"expression":             {`{"uri":"skill://{a}/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"d"},"resources":"dynamic"}`, "uri is not"},
		"no name":                {skillEntry(`"name":"refunds",`, ""), "frontmatter.name is not 1 to 64"},
		"no description":         {skillEntry(`,"description":"d"`, ""), "frontmatter.description is missing"},
		"no frontmatter":         {skillEntry(`"frontmatter"`, `"front"`), "frontmatter is no object"},
		"two frontmatters":       {skillEntry(`"resources":`, `"Frontmatter":{},"resources":`), "beside frontmatter"},
		"other directory":        {skillEntry(`"name":"refunds"`, `"name":"daily"`), "not the name of the directory"},
		"end of the directory":   {skillEntry(`"name":"refunds"`, `"name":"funds"`), "not the name of the directory"},
		"upper case":             {skillEntry("refunds", "Refunds"), "frontmatter.name is not 1 to 64"},
		"no resources":           {skillEntry(`"resources"`, `"files"`), "neither an array"},
		"word":                   {skillEntry(`"resources":`, `"resources":"static","files":`), "neither an array"},
		"file outside":           {skillEntry("skill://a/b/refunds/x/y.md", "skill://a/b/other/y.md"), "resources/1/uri is not"},
		"file beside":            {skillEntry("skill://a/b/refunds/x/y.md", "skill://a/b/refunds.md"), "resources/1/uri is not"},
		"file above":             {skillEntry("skill://a/b/refunds/x/y.md", "skill://a/b/refunds/%2e%2E/y.md"), "resources/1/uri is not"},
		"listed twice":           {skillEntry("x/y.md", "SKILL.md"), "resources/1/uri is listed twice"},
		"no SKILL.md":            {skillEntry(`{"uri":"skill://a/b/refunds/SKILL.md","d`, `{"uri":"skill://a/b/refunds/z.md","d`), "does not list SKILL.md"},
		"short digest":           {skillEntry("aa\",\"size\":3", "\",\"size\":3"), "resources/0/digest"},
		"upper case digest":      {skillEntry("sha256:a", "sha256:A"), "resources/0/digest"},
		"no size":                {skillEntry(`,"size":3`, ""), "resources/0/size"},
		"negative size":          {skillEntry(`"size":3`, `"size":-3`), "resources/0/size"},
		"fraction":               {skillEntry(`"size":3`, `"size":3.0`), "resources/0/size"},
		"too many files":         {many(512, 0), "over 512 files"},
		"too large":              {many(2, 8<<20), "over 16777216 bytes"},
		"larger than an int":     {many(2, 1<<62), "over 16777216 bytes"},
		"file that is no object": {skillEntry(`"resources":[`, `"resources":["x",`), "resources/0: is no object"},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(`{"jsonrpc":"2.0","id":1,"result":{"skills":[` + tt.entry + `]}}`)
			var m mcp.Message
			if err := mcp.Scan(body, &m); err != nil {
				t.Fatal(err)
			}
			c := Build(nil, memoryOwners(t), nil, []Listing{{Upstream: "a", Items: [mcp.NumListKinds][][]byte{mcp.Skill: {[]byte(tt.entry)}}}})
			if tt.problem == "" {
				if len(c.LeftOut()) != 0 || len(c.Items(mcp.Skill)) != 1 || string(c.Items(mcp.Skill)[0].Form(true)) != tt.entry {
					t.Errorf("left out: %+v", c.LeftOut())
				}
				return
			}
			if left := c.LeftOut(); len(left) != 1 || left[0].Reason != ReasonSkill || !strings.Contains(left[0].Problem, tt.problem) {
				t.Errorf("left out: %+v, want %q", left, tt.problem)
			}
		})
	}
}

// An upstream owns what lies below the directory of its skill, also before another one lists it.
func TestSkillsOwnTheirDirectories(t *testing.T) {
	names, err := NewNames([]Naming{{Upstream: "a"}, {Upstream: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	o := memoryOwners(t)
	entry := []byte(strings.ReplaceAll(skillEntry(), "skill://", "github://"))
	resource := []byte(`{"uri":"github://a/b/refunds/x/y.md","name":"y"}`)
	c := Build(names, o, nil, []Listing{
		{Upstream: "a", Items: [mcp.NumListKinds][][]byte{mcp.Skill: {entry, entry}}},
		{Upstream: "b", Items: [mcp.NumListKinds][][]byte{mcp.Skill: {entry}, mcp.Resource: {resource}}},
	})
	var reasons []string
	for _, left := range c.LeftOut() {
		reasons = append(reasons, fmt.Sprint(left.Upstream, " ", left.Kind, " ", left.Reason, " ", left.Owner))
	}
	if got, want := strings.Join(reasons, ", "), "a skill listed_twice , b skill tool_claimed a, b resource tool_claimed a"; got != want {
		t.Errorf("left out: %s, want %s", got, want)
	}
	for _, uri := range []string{"github://a/b/refunds/SKILL.md", "github://a/b/refunds/new.md"} {
		if owner, _ := names.Owner(o, mcp.Resource, uri); owner != "a" {
			t.Errorf("the owner of %s is %q", uri, owner)
		}
	}
	if owner, ok := names.Owner(o, mcp.Resource, "github://a/b/other/x.md"); ok {
		t.Errorf("the owner of another directory is %q", owner)
	}
	if n, err := o.Release("a", "github://a/b/refunds/SKILL.md"); n != 1 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
}

// Skills are read from upstreams that declare the extension, in both generations. What is wrong with their
// list is no reason to lose the tools.
func TestReadSkills(t *testing.T) {
	const declares = `{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`
	page := func(next string) string { return `"result":{"skills":[` + skillEntry() + `]` + next + `}` }
	for name, tt := range map[string]struct {
		capabilities string
		pages        map[string]string // by cursor
		skills       int
		cut          string
	}{
		"two pages":        {declares, map[string]string{"": page(`,"nextCursor":"2"`), "2": page("")}, 2, "<nil>"},
		"a cycle":          {declares, map[string]string{"": page(`,"nextCursor":"2"`), "2": page(`,"nextCursor":"2"`)}, 2, ErrCycle.Error()},
		"an error":         {declares, map[string]string{"": `"error":{"code":-32603,"message":"m"}`}, 0, "refused"},
		"no list":          {declares, map[string]string{"": `"result":{"skills":{}}`}, 0, "no usable result"},
		"nested too deep":  {declares, map[string]string{"": `"result":{"skills":[` + strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000) + `]}`}, 0, "no usable result"},
		"not an extension": {`{"tools":{},"resources":{},"skills":{}}`, nil, 0, "<nil>"},
		"nothing declared": {`{}`, nil, 0, "<nil>"},
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " legacy ", legacy), func(t *testing.T) {
				s := newServer(t, func(method, cursor string, _ *http.Request) (int, string) {
					switch method {
					case "server/discover":
						if legacy {
							return 404, `"error":{"code":-32601,"message":"m"}`
						}
						return 200, strings.Replace(discovered, `{"tools":{}}`, tt.capabilities, 1)
					case "initialize":
						return 200, strings.Replace(initialized, `{"tools":{}}`, tt.capabilities, 1)
					case "tools/list":
						return 200, pagesOf("", "x")
					case "skills/list":
						return 200, tt.pages[cursor]
					}
					return 200, `"result":{"resources":[],"resourceTemplates":[],"prompts":[]}`
				})
				o, err := s.lister(t, "").lister.Read(t.Context(), mcp.ListKinds[:]...)
				if err != nil {
					t.Fatal(err)
				}
				skills := o.List(mcp.Skill)
				if len(o.List(mcp.Tool).Items) != 1 || len(skills.Items) != tt.skills || !strings.Contains(fmt.Sprint(skills.Cut), tt.cut) {
					t.Errorf("%d tools, %d skills, %v", len(o.List(mcp.Tool).Items), len(skills.Items), skills.Cut)
				}
				if asked := strings.Contains(s.order(), "skills/list"); asked != (tt.pages != nil) {
					t.Errorf("requests: %s", s.order())
				}
			})
		}
	}
}
