package verdict

import (
	"testing"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// A step may rewrite a message unless it changes an entry or a file of a skill: in answers of every method, and
// where the request of an answer is not known. Spelling is no change.
func TestRewritesOfSkills(t *testing.T) {
	skills := catalog.NewSkillPaths()
	skills.Learn("up", "skill://a/SKILL.md")
	const file = `{"uri":"skill://a/x","text":"Ann"}`
	for name, tt := range map[string]struct {
		asked, before, after string
		refused              bool
		want                 string // the result, after if empty
	}{
		"a file":                       {mcp.MethodResourcesRead, `{"contents":[` + file + `]}`, `{"contents":[{"uri":"skill://a/x","text":"B"}]}`, true, ""},
		"its address":                  {mcp.MethodResourcesRead, `{"contents":[` + file + `]}`, `{"contents":[{"uri":"skill://a/y","text":"Ann"}]}`, true, ""},
		"no contents":                  {mcp.MethodResourcesRead, `{"contents":[` + file + `]}`, `{"contents":[]}`, true, ""},
		"a file, spelled otherwise":    {mcp.MethodResourcesRead, `{"contents":[` + file + `]}`, `{"contents":[{"text":"\u0041nn","uri":"skill://a/x"}],"_meta":{}}`, false, ""},
		"another resource":             {mcp.MethodResourcesRead, `{"contents":[{"uri":"x:y","text":"Ann"}]}`, `{"contents":[{"uri":"x:y","text":"B"}]}`, false, ""},
		"embedded in a result":         {mcp.MethodToolsCall, `{"content":[{"type":"resource","resource":` + file + `}]}`, `{"content":[{"type":"resource","resource":{"uri":"skill://a/x","text":"B"}}]}`, true, ""},
		"beside a file":                {mcp.MethodToolsCall, `{"content":[{"type":"text","text":"Ann"},{"type":"resource","resource":` + file + `}]}`, `{"content":[{"type":"text","text":"B"},{"type":"resource","resource":` + file + `}]}`, false, ""},
		"an entry":                     {mcp.MethodSkillsGet, `{"skill":{"frontmatter":{"a":"Ann"}}}`, `{"skill":{"frontmatter":{"a":"B"}}}`, true, ""},
		"an entry, nothing in it":      {mcp.MethodSkillsGet, `{"skill":{"a":1.0},"_meta":{"x":"Ann"}}`, `{"skill":{"a":1},"_meta":{"x":"B"}}`, false, ""},
		"one entry of a list":          {mcp.MethodSkillsList, `{"skills":[{"a":"Ann"}, {"a":"\u0043"}],"x":"Ann"}`, `{"skills":[{"a":"B"},{"a":"C"}],"x":"B"}`, false, `{"skills":[{"a":"\u0043"}],"x":"B"}`},
		"fewer entries":                {mcp.MethodSkillsList, `{"skills":[{"a":"Ann"},{"a":"C"}]}`, `{"skills":[{"a":"C"}]}`, true, ""},
		"no list":                      {mcp.MethodSkillsList, `{"skills":[{"a":"Ann"}]}`, `{"skills":"B"}`, true, ""},
		"unknown request, an entry":    {"", `{"skill":{"a":"Ann"}}`, `{"skill":{"a":"B"}}`, true, ""},
		"unknown request, a file":      {"", `{"contents":[` + file + `]}`, `{"contents":[{"uri":"skill://a/x","text":"B"}]}`, true, ""},
		"unknown request, another one": {"", `{"content":[{"type":"text","text":"Ann"}]}`, `{"content":[{"type":"text","text":"B"}]}`, false, ""},
	} {
		in := Input{Direction: policy.ServerToClient, Upstream: "up", Skills: skills, Asked: &mcp.Message{Method: tt.asked}, Resumed: tt.asked == ""}
		message := func(result string) *mcp.Message { return scan(t, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`) }
		m, r := message(tt.before), Result{}
		in.rewrite(m, message(tt.after), "r", &r)
		want := tt.after
		switch {
		case tt.refused:
			want = tt.before
		case tt.want != "":
			want = tt.want
		}
		if got := string(m.Spans.Result.Of(m.Body)); got != want || (r.Refused != nil) != tt.refused || (len(r.LeftOut) == 1) != (tt.want != "") {
			t.Errorf("%s: %s, refused %v, left out %v", name, got, r.Refused, r.LeftOut)
		}
	}
}
