package flow

import (
	"fmt"
	"strings"
	"testing"
)

func text(s string) *string { return &s }

func TestSets(t *testing.T) {
	score := 0.8
	c := &Config{Labels: []LabelConfig{
		{Name: "a", ToolNameIn: []string{"crm_find", "files_read"}},
		{Name: "b", ToolGlob: text("web_*_get")},
		{Name: "c", ToolPrefix: text("web_")},
		{Name: "d", Upstreams: []string{"mail"}},
		{Name: "e", URIPrefix: text("file:///srv/docs/")},
		{Name: "f", InjectionScore: &score},
		{Name: "g", ToolRegex: text("x|y")},
		{Name: "h", ToolName: text("crm_find")},
	}}
	table, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	in := `{"type":"resource_link","uri":"FILE:///srv/docs/a"}`
	for _, c := range []struct {
		name   string
		answer Answer
		want   string
	}{
		{"no label", Answer{Upstream: "db", Asked: "tools/call", Tool: "db_find"}, ""},
		{"names", Answer{Asked: "tools/call", Tool: "crm_find"}, "a h"},
		{"glob and prefix", Answer{Asked: "tools/call", Tool: "web_page_get"}, "b c"},
		{"regex", Answer{Asked: "tools/call", Tool: "y"}, "g"},
		{"regex is whole", Answer{Asked: "tools/call", Tool: "yy"}, ""},
		{"upstream", Answer{Upstream: "mail", Asked: "tools/call", Tool: "mail_read"}, "d"},
		{"standalone stream", Answer{Upstream: "mail"}, "d"},
		{"resources/list", Answer{Upstream: "mail", Asked: "resources/list"}, "d"},
		{"completion", Answer{Upstream: "mail", Asked: "completion/complete"}, "d"},
		{"initialize", Answer{Upstream: "mail", Asked: "initialize"}, ""},
		{"server/discover", Answer{Upstream: "mail", Asked: "server/discover"}, ""},
		{"tools/list", Answer{Upstream: "mail", Asked: "tools/list"}, ""},
		{"prompts/list", Answer{Upstream: "mail", Asked: "prompts/list"}, ""},
		{"resources/templates/list", Answer{Upstream: "mail", Asked: "resources/templates/list"}, ""},
		{"unknown", Answer{Upstream: "mail", Unknown: true}, "a b c d e g h"},
		{"unknown of another", Answer{Upstream: "db", Unknown: true, Asked: "tools/list"}, "a b c e g h"},
		{"score", Answer{Score: 0.8}, "f"},
		{"lower score", Answer{Score: 0.79}, ""},
		{"requested uri", Answer{Asked: "resources/read", URI: "file:///srv/x/../docs"}, "e"},
		{"unclear uri", Answer{Asked: "resources/read", URI: `file:///srv\docs`}, "e"},
		{"another uri", Answer{Asked: "resources/read", URI: "file:///srv"}, ""},
		{"contents", Answer{Body: []byte(` {"result":{"contents":[{"uri":"file:///x"},{"uri":"file:\/\/\/srv/docs/a","text":"t"}]}}`)}, "e"},
		{"link", Answer{Body: []byte(`{"result":{"content":[` + in + `]}}`)}, "e"},
		{"embedded", Answer{Body: []byte(`{"result":{"content":[{"type":"resource","resource":{"uri":"file:///srv/docs"}}]}}`)}, "e"},
		{"prompt", Answer{Body: []byte(`{"result":{"messages":[{"role":"user","content":` + in + `}]}}`)}, "e"},
		{"result of a task", Answer{Body: []byte(`{"result":{"taskId":"1","result":{"content":[` + in + `]}}}`)}, "e"},
		{"notification of a task", Answer{Body: []byte(`{"method":"notifications/tasks","params":{"result":{"content":[` + in + `]}}}`)}, "e"},
		{"question", Answer{Body: []byte(`{"result":{"inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"content":[` + in + `]}]}}}}}`)}, "e"},
		{"result of a tool in a question", Answer{Body: []byte(`{"params":{"messages":[{"content":[{"type":"tool_result","content":[` + in + `]}]}]}}`)}, "e"},
		{"repeated member", Answer{Body: []byte(`{"result":{"contents":[{"uri":"x:y","uri":"file:///srv/docs"}]}}`)}, "e"},
		{"no string", Answer{Body: []byte(`{"result":{"contents":[{"uri":1}]}}`)}, "e"},
		{"list", Answer{Asked: "resources/list", Body: []byte(`{"result":{"resources":[` + in + `]}}`)}, ""},
		{"list of skills", Answer{Asked: "skills/list", Body: []byte(`{"result":{"skills":[{"uri":"https://h/SKILL.md"},{"uri":"file:///srv/docs/a/SKILL.md"}]}}`)}, "e"},
		{"a skill", Answer{Asked: "skills/get", Body: []byte(`{"result":{"skill":{"uri":"file:///srv/docs/a/SKILL.md"}}}`)}, "e"},
		{"files of a skill", Answer{Asked: "skills/list", Body: []byte(`{"result":{"skills":[{"uri":"https://h/SKILL.md","resources":[` + in + `]}]}}`)}, ""},
		{"structured content", Answer{Body: []byte(`{"result":{"content":[],"structuredContent":{"content":[` + in + `]}}}`)}, ""},
		{"other uris", Answer{Body: []byte(`{"result":{"content":[{"type":"resource_link","uri":"https://h/"},{"type":"text","text":"file:///srv/docs/"}]}}`)}, ""},
		{"too many", Answer{Body: []byte(`{"result":{"contents":[` + strings.Repeat(`{"uri":"x:y"},`, maxCost/64) + `{"uri":"x:y"}]}}`)}, "e"},
		{"too deep", Answer{Body: []byte(strings.Repeat(`{"result":`, 20) + `{}` + strings.Repeat(`}`, 20))}, "e"},
		{"no object", Answer{Body: []byte(`[]`)}, ""},
	} {
		if got := strings.Join(table.Names().In(table.Sets(&c.answer)), " "); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	if !table.Scores() {
		t.Error("does not score")
	}
	if none, err := Compile(&Config{}); none != nil || err != nil || none.Scores() || none.Names().Every() != 0 || none.Sets(&Answer{Unknown: true}) != 0 {
		t.Error("a section without labels sets some")
	}
}

// Without entries with uri_prefix the body is not read, and nothing is allocated.
func TestSetsAllocatesNothing(t *testing.T) {
	c := &Config{}
	for i := range 256 {
		c.Labels = append(c.Labels, LabelConfig{Name: fmt.Sprint("n", i%MaxNames), ToolPrefix: text(fmt.Sprint("p", i, "_"))})
	}
	table, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{Upstream: "u", Asked: "tools/call", Tool: "p255_x", Body: []byte(`{"result":`)}
	if n := testing.AllocsPerRun(100, func() { _ = table.Sets(&a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
