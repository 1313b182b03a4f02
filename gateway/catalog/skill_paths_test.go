package catalog

import (
	"fmt"
	"testing"

	"svc/gateway/mcp"
)

// What lies below the directory of a skill is a file of it, at its own upstream alone; the last MaxItems
// skills of an upstream are known, and memory is bounded.
func TestSkillPaths(t *testing.T) {
	p := NewSkillPaths()
	for _, message := range []struct{ asked, result string }{
		{mcp.MethodSkillsGet, `{"skill":{"uri":"skill://a/b/SKILL.md"}}`},
		{mcp.MethodSkillsList, `{"skills":[{"uri":"git://x/y/SKILL.md"},{},7,{"uri":"git://x/other.md"}]}`},
		{mcp.MethodToolsCall, `{"skill":{"uri":"skill://tool/SKILL.md"},"skills":[{"uri":"skill://tool/SKILL.md"}]}`},
		{mcp.MethodSkillsList, `{"skills":{}}`},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":`+message.result+`}`), &m); err != nil {
			t.Fatal(err)
		}
		p.LearnEntries("one", message.asked, &m)
	}
	for uri, want := range map[string]bool{
		"skill://a/b/SKILL.md": true, "skill://a/b/c/d.py": true, "skill://a/b/": true, "git://x/y/z": true,
		"skill://a/b": false, "skill://a/bc/d": false, "skill://a/x": false, "git://x/other.md": false, "skill://tool/x": false, "": false, "///": false,
	} {
		if p.Has("one", uri) != want || p.Has("two", uri) || (*SkillPaths)(nil).Has("one", uri) {
			t.Errorf("%s: %v, want %v", uri, !want, want)
		}
	}
	for i := range 3 * MaxItems {
		p.Learn("one", fmt.Sprintf("skill://s%d/SKILL.md", i))
	}
	if p.Has("one", "skill://a/b/c") || !p.Has("one", fmt.Sprintf("skill://s%d/x", 2*MaxItems+1)) || len(p.byUpstream["one"][0])+len(p.byUpstream["one"][1]) > 2*MaxItems {
		t.Error("the bound of the directories")
	}
}
