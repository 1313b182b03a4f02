package catalog

import (
	"errors"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

func TestAddressSegment(t *testing.T) {
	for name, want := range map[string]string{
		"My_Docs": "my-docs", "docs": "docs", "docs.v2": "docs.v2", "a b/c": "a-b-c", "Bücher": "b-cher",
		".": "-", "..": "--", ".a.": "-a-", "a..b": "a--b", "x@y:80": "x-y-80", "[::1]": "---1-", "127.0.0.1": "127.0.0.1", "\xff": "-",
	} {
		if got := addressSegment(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// An address of an upstream becomes that of clients and, where clients may use it, back again.
func TestAddresses(t *testing.T) {
	a := NewAddresses([]string{"My_Docs", "b", "c_d", "c-d"})
	for _, test := range []struct{ own, visible, problem string }{
		{"skill://git-workflow/SKILL.md", "skill://my-docs/git-workflow/SKILL.md", ""},
		{"ui://x/page", "ui://my-docs/x/page", ""},
		{"SKILL://A/b", "SKILL://my-docs/A/b", ""},
		{"Ui://x", "Ui://my-docs/x", ""},
		{"ui://my-docs/x", "ui://my-docs/my-docs/x", ""},
		{"ui://b/x", "ui://my-docs/b/x", ""}, // the address of another upstream is one of its own
		{"ui:///x", "ui://my-docs//x", ""},
		{"ui://", "ui://my-docs/", ""},
		{"ui://x/a%20b/ü", "ui://my-docs/x/a%20b/ü", ""},
		{"ui://x/a@b:c", "ui://my-docs/x/a@b:c", ""},
		{"ui://x/100%", "ui://my-docs/x/100%", ""},
		{"ui://x/100%25", "ui://my-docs/x/100%25", ""},
		{"ui://x/...", "ui://my-docs/x/...", ""},
		{"ui://x/..a", "ui://my-docs/x/..a", ""},
		{"ui://../b/x", "ui://my-docs/../b/x", "dot segment"},
		{"ui://x/./y", "ui://my-docs/x/./y", "dot segment"},
		{"ui://x/..", "ui://my-docs/x/..", "dot segment"},
		{"ui://x/..;v/y", "ui://my-docs/x/..;v/y", "dot segment"},
		{"ui://x/%2e%2E/y", "ui://my-docs/x/%2e%2E/y", `escape of "."`},
		{"ui://x/a%2eb", "ui://my-docs/x/a%2eb", `escape of "."`},
		{"ui://x/a%252Eb", "ui://my-docs/x/a%252Eb", `escape of "."`},
		{"ui://x/a%25%32%65b", "ui://my-docs/x/a%25%32%65b", `escape of "."`},
		{"ui://x%2fy", "ui://my-docs/x%2fy", `escape of "/"`},
		{"ui://x/%252525252Fy", "ui://my-docs/x/%252525252Fy", "escapes of escapes"},
		{"ui://x%5Cy", "ui://my-docs/x%5Cy", `escape of`},
		{`ui://x\y`, `ui://my-docs/x\y`, "backslash"},
		{"ui://x/\n", "ui://my-docs/x/\n", "control"},
		{"ui://x/%00", "ui://my-docs/x/%00", "control"},
		{"ui://x/\u0085", "ui://my-docs/x/\u0085", "control"},
		{"ui://x/%c0%ae", "ui://my-docs/x/%c0%ae", "UTF-8"},
		{"ui://x/y ", "ui://my-docs/x/y ", "space"},
		{"ui://me@x/y", "ui://my-docs/me@x/y", "user information"},
		{"ui://me%40x/y", "ui://my-docs/me%40x/y", "user information"},
		{"ui://x:80/y", "ui://my-docs/x:80/y", "port"},
		{"ui://[::1]/y", "ui://my-docs/[::1]/y", "port"},
		{"ui://x/y?z", "ui://my-docs/x/y?z", "query"},
		{"ui://x/y#z", "ui://my-docs/x/y#z", "fragment"},
		{"ui://" + strings.Repeat("x", MaxKey), "ui://my-docs/" + strings.Repeat("x", MaxKey), ""},
		{"ui://" + strings.Repeat("x", MaxKey+1), "ui://my-docs/" + strings.Repeat("x", MaxKey+1), "longer"},
		// What only a lenient parser takes for an address.
		{" ui://b/x", "ui://my-docs/ ui://b/x", "port"},
		{"\tui://b/x", "ui://my-docs/\tui://b/x", "control"},
		{"u\ni://b/x", "ui://my-docs/u\ni://b/x", "control"},
		{"\ufeffskill://b/x", "skill://my-docs/\ufeffskill://b/x", "port"},
		{"u%69://b/x", "ui://my-docs/u%69://b/x", "port"},
		{"%2575i://b/x", "ui://my-docs/%2575i://b/x", "port"},
		{"ui%3a//b/x", "ui://my-docs/ui%3a//b/x", "port"},
		{"ui:/b/x", "ui://my-docs/ui:/b/x", "port"},
		{"ｕｉ://b/x", "ui://my-docs/ｕｉ://b/x", "port"},
		{"ſkill://b/x", "skill://my-docs/ſkill://b/x", "port"},
		{"ui:b", "ui://my-docs/ui:b", "port"},
		{`ui:\\b\x`, `ui://my-docs/ui:\\b\x`, "backslash"},
		// Other schemes.
		{"file:///x", "file:///x", "-"},
		{"uix://x", "uix://x", "-"},
		{"https://b/ui://b/x", "https://b/ui://b/x", "-"},
		{"ui", "ui", "-"},
		{"", "", "-"},
	} {
		visible := a.Visible("My_Docs", test.own)
		if visible != test.visible {
			t.Errorf("%q is seen as %q, want %q", test.own, visible, test.visible)
			continue
		}
		upstream, own, ok, err := a.Own(visible)
		switch {
		case test.problem == "-":
			if ok || err != nil {
				t.Errorf("%q: ok %t, error %v for another scheme", visible, ok, err)
			}
		case test.problem == "":
			if !ok || err != nil || upstream != "My_Docs" || own != test.own {
				t.Errorf("%q: %q at %q (%t), error %v, want %q", visible, own, upstream, ok, err, test.own)
			}
		case !ok || !errors.As(err, new(*AddressError)) || !strings.Contains(err.Error(), test.problem):
			t.Errorf("%q: ok %t, error %v, want one with %q", visible, ok, err, test.problem)
		}
	}
	for _, uri := range []string{
		"ui://", "ui:///x", "ui://my-docs", "ui://My-Docs/x", "ui://my_docs/x", "ui://My_Docs/x", "ui://m%79-docs/x", "ui://unknown/x", "ui://[::1]/x",
		"ui://me@my-docs/x", "ui://my-docs:80/x", "ui://my-docs?/x", "ui://my-docs#/x", `ui://my-docs\x`, "ui:/my-docs/x", "ui:my-docs/x",
		" ui://my-docs/x", "u%69://my-docs/x", "ui%3A//my-docs/x", "ui:////my-docs/x", "ui://my-docs\x00/x", "ui://c-d/x",
	} {
		if upstream, own, ok, err := a.Own(uri); !ok || err == nil {
			t.Errorf("%q is %q at %q", uri, own, upstream)
		}
	}
	if other := a.Ambiguous("c_d"); other != "c-d" {
		t.Errorf("c_d has the segment of %q", other)
	}
	if other := a.Ambiguous("b"); other != "" {
		t.Errorf("b has the segment of %q", other)
	}
}

func TestAddressTemplates(t *testing.T) {
	a := NewAddresses([]string{"a", "b"})
	for template, want := range map[string]string{
		"ui://a/x/{name}": "ui://x/{name}", "ui://a/{host}/x{?q,r}{#f}": "ui://{host}/x{?q,r}{#f}", "ui://a/{+path}": "ui://{+path}",
		"ui://a/{x}/../y": "", "ui://a/x?q={q}": "", "ui://a/x{?q": "", "ui://{up}/x": "",
	} {
		_, own, ok, err := a.OwnTemplate(template)
		if own != want || !ok || (err == nil) != (want != "") {
			t.Errorf("%q: %q, ok %t, error %v, want %q", template, own, ok, err, want)
		}
	}
}

// The addresses of a single upstream stay as they are.
func TestAddressesOfOneUpstream(t *testing.T) {
	a := NewAddresses([]string{"a"})
	if _, _, ok, err := a.Own("ui://a/x"); ok || err != nil {
		t.Errorf("ok %t, error %v", ok, err)
	}
	if got := a.Visible("a", "ui://x"); got != "ui://x" || a.Ambiguous("a") != "" {
		t.Errorf("ui://x is seen as %q", got)
	}
}

// No spelling that an upstream chooses becomes an address of another upstream, and every address that
// clients can use comes from exactly one.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{"ui://b/x", "skill://x/SKILL.md", " ui://b/x", "u%69://b/x", "UI:/b/x", "ui:\\\\b", "ui://../b/x", "file:///x", "\ufeffui://b", "ui:%2f%2fb/x"} {
		f.Add(seed)
	}
	a := NewAddresses([]string{"a", "b"})
	f.Fuzz(func(t *testing.T, uri string) {
		upstream, own, ok, err := a.Own(a.Visible("a", uri))
		if !ok && a.Visible("a", uri) != uri {
			t.Fatalf("%q is seen as %q, which is none of the schemes", uri, a.Visible("a", uri))
		}
		if ok && err == nil && (upstream != "a" || own != uri) {
			t.Fatalf("%q of a is %q of %q", uri, own, upstream)
		}
		if upstream, own, ok, err = a.Own(uri); ok && err == nil && a.Visible(upstream, own) != uri {
			t.Fatalf("%q is %q of %q, which is seen as %q", uri, own, upstream, a.Visible(upstream, own))
		}
	})
}

// Addresses are rewritten where the protocol has them, and everything else passes byte for byte.
func TestAddressesInMessages(t *testing.T) {
	a := NewAddresses([]string{"a", "b"})
	for name, test := range map[string]struct{ asked, body, want string }{
		"links and embedded resources": {"tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{ "content":[{"type":"resource_link","uri":"ui://b/x","name":"ui://n"},{"type":"resource","resource":{"uri":"skill://s/SKILL.md","text":"ui://t"}},{"type":"text","text":"ui://t"}] ,"structuredContent":{"uri":"ui://s"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{ "content":[{"type":"resource_link","uri":"ui://a/b/x","name":"ui://n"},{"type":"resource","resource":{"uri":"skill://a/s/SKILL.md","text":"ui://t"}},{"type":"text","text":"ui://t"}] ,"structuredContent":{"uri":"ui://s"}}}`},
		"escapes of JSON": {"tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","\u0075ri":"\u0075i\u003a\/\/b\/x","name":"\u00e9"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","\u0075ri":"ui://a/b/x","name":"\u00e9"}]}}`},
		"contents": {"resources/read",
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"UI://x","text":"ui://x"},{"uri":"file:///x","text":""}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"UI://a/x","text":"ui://x"},{"uri":"file:///x","text":""}]}}`},
		"nested in a question": {"tools/call",
			`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"ui://i","content":[{"type":"resource_link","uri":"ui://x","name":"x"}]}]}],"maxTokens":1}}`,
			`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"tool_result","toolUseId":"ui://i","content":[{"type":"resource_link","uri":"ui://a/x","name":"x"}]}]}],"maxTokens":1}}`},
		"nested in an input request": {"tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://x","name":"x"}}]}}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://a/x","name":"x"}}]}}}}}`},
		"prompt": {"prompts/get",
			`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://x","name":"x"}},{"role":"user","content":[{"type":"resource_link","uri":"ui://y","name":"y"}]}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://a/x","name":"x"}},{"role":"user","content":[{"type":"resource_link","uri":"ui://a/y","name":"y"}]}]}}`},
		"notification": {"",
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"ui://x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"ui://a/x"}}`},
		"task": {"subscriptions/listen",
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","status":"completed","result":{"content":[{"type":"resource_link","uri":"ui://x","name":"x"}]}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","status":"completed","result":{"content":[{"type":"resource_link","uri":"ui://a/x","name":"x"}]}}}`},
		"error": {"resources/read",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no ui://x","data":{"uri":"ui://x"}}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no ui://x","data":{"uri":"ui://a/x"}}}`},
		"pages in _meta": {"tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"openai/outputTemplate":"ui://o","ui":{"x":"ui://x","resourceUri":"ui://p"},"ui/resourceUri":"ui://q","uri":"ui://r"},"content":[{"type":"text","text":"","_meta":{"ui":{"resourceUri":"ui://c"}}}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"openai/outputTemplate":"ui://a/o","ui":{"x":"ui://x","resourceUri":"ui://a/p"},"ui/resourceUri":"ui://a/q","uri":"ui://r"},"content":[{"type":"text","text":"","_meta":{"ui":{"resourceUri":"ui://a/c"}}}]}}`},
		"values of other kinds": {"tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"ui":"ui://x","ui/resourceUri":["ui://q"]},"content":{"type":"text","uri":"ui://x"}}}`, ""},
		"a result of an unknown request": {"",
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"ui://x","text":""}],"resourceTemplates":[{"uriTemplate":"ui://{x}","name":"x"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"ui://a/x","text":""}],"resourceTemplates":[{"uriTemplate":"ui://a/{x}","name":"x"}]}}`},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(test.body), &m); err != nil {
			t.Fatal(err)
		}
		if test.want == "" {
			test.want = test.body
		}
		if ok := a.Apply("a", test.asked, &m); !ok || string(m.Body) != test.want {
			t.Errorf("%s: %s\nwant %s", name, m.Body, test.want)
		}
		before := string(m.Body)
		if NewAddresses([]string{"a"}).Apply("a", test.asked, &m); string(m.Body) != before {
			t.Errorf("%s: one upstream: %s", name, m.Body)
		}
	}
}

// Many addresses in one message cost a single pass.
func TestManyAddressesInAMessage(t *testing.T) {
	const n = 10_000
	body := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"resource_link","uri":"ui://x","name":"x"},`, n), ",") + `]}}`)
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil {
		t.Fatal(err)
	}
	a := NewAddresses([]string{"a", "b"})
	if !a.Apply("a", "tools/call", &m) || strings.Count(string(m.Body), `"ui://a/x"`) != n || len(m.Body) != len(body)+n*len("a/") {
		t.Errorf("%d of %d addresses", strings.Count(string(m.Body), `"ui://a/x"`), n)
	}
}

// A long message is searched for the same signs as a short one.
func TestSignsOfAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		`"ui://x"`: true, `"ui:\/\/x"`: true, `"\u0075i"`: true, `"ui:%2f"`: true, `"a:b"`: false, `"a/b%20c\n"`: false, `"/:/"`: true, `"\\u0"`: false,
	} {
		for _, filler := range []string{"", strings.Repeat(" ", 2<<10)} {
			if got := mayHaveAddress([]byte(filler + text)); got != want {
				t.Errorf("%s after %d bytes: %t, want %t", text, len(filler), got, want)
			}
		}
	}
}

// A message without an address costs no allocation.
func TestMessagesWithoutAddresses(t *testing.T) {
	var m mcp.Message
	if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"plain"}]}}`), &m); err != nil {
		t.Fatal(err)
	}
	a := NewAddresses([]string{"a", "b"})
	if n := testing.AllocsPerRun(100, func() { a.Apply("a", "tools/call", &m) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAddressesInInstructions(t *testing.T) {
	a := NewAddresses([]string{"My_Docs", "b"})
	for text, want := range map[string]string{
		"Read skill://x/SKILL.md, then `SKILL://b/y`.": "Read skill://my-docs/x/SKILL.md, then `SKILL://my-docs/b/y`.",
		"skill://x":                                "skill://my-docs/x",
		"(skill://{name}/SKILL.md)":                "(skill://my-docs/{name}/SKILL.md)",
		"addresses such as skill:// or `skill://`": "addresses such as skill:// or `skill://`",
		"myskill://x, ui://x, skill.md":            "myskill://x, ui://x, skill.md",
	} {
		if got := a.Instructions("My_Docs", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The definition of a tool or resource has the addresses that clients see, and what no client may use is
// left out. The owner of an address is decided by its form: neither a template nor an earlier owner takes it.
func TestAddressesInMergedLists(t *testing.T) {
	var naming []Naming
	for _, name := range []string{"a", "b", "c_d", "c-d"} {
		naming = append(naming, Naming{Upstream: name, Prefix: strings.ReplaceAll(name, "-", "") + "_"})
	}
	names, err := NewMergedNames(naming)
	if err != nil {
		t.Fatal(err)
	}
	owners, _ := OpenOwners("", nil)
	owners.claim(mcp.Resource, "ui://b/x", "a") // before there were several upstreams
	raw := func(list ...string) (items [][]byte) {
		for _, one := range list {
			items = append(items, []byte(one))
		}
		return items
	}
	tool := `{"name":"t","_meta":{"ui":{"resourceUri":"ui://x"},"openai/outputTemplate":"ui://x"},"inputSchema":{"type":"object","default":{"uri":"ui://x"}}}`
	var first, second, third Listing
	first.Upstream, second.Upstream, third.Upstream = "a", "b", "c_d"
	first.Items[mcp.Template] = raw(`{"uriTemplate":"{+any}","name":"x"}`, `{"uriTemplate":"s{x}ill://b/{y}","name":"x"}`, `{"uriTemplate":"ui://b/{id}","name":"ui://n"}`, `{"uriTemplate":"ui:{+x}","name":"x"}`)
	first.Items[mcp.Tool] = raw(tool)
	second.Items[mcp.Resource] = raw(`{"_meta":{"ui":{"resourceUri":"ui://y"}},"uri":"ui://x","name":"x"}`, `{"uri":"ui://../a/x","name":"x"}`, `{"uri":" ui://a/x","name":"x"}`, `{"uri":"ui://x#y","name":"x"}`)
	third.Items[mcp.Resource] = raw(`{"uri":"ui://x","name":"x"}`, `{"uri":"file:///x","name":"x"}`)
	c := Build(names, owners, nil, []Listing{first, second, third})
	for _, test := range []struct {
		kind      mcp.ListKind
		key, want string
	}{
		{mcp.Tool, "a_t", `{"name":"a_t","_meta":{"ui":{"resourceUri":"ui://a/x"},"openai/outputTemplate":"ui://a/x"},"inputSchema":{"type":"object","default":{"uri":"ui://x"}}}`},
		{mcp.Template, "ui://a/b/{id}", `{"uriTemplate":"ui://a/b/{id}","name":"ui://n"}`},
		{mcp.Resource, "ui://b/x", `{"_meta":{"ui":{"resourceUri":"ui://b/y"}},"uri":"ui://b/x","name":"x"}`},
		{mcp.Resource, "file:///x", `{"uri":"file:///x","name":"x"}`},
	} {
		if it, ok := c.Item(test.kind, test.key); !ok || string(it.JSON) != test.want {
			t.Errorf("%s: %+v, want %s", test.key, it, test.want)
		}
	}
	if n := len(c.Items(mcp.Resource)); n != 2 {
		t.Errorf("%d resources", n)
	}
	problems := map[string]string{}
	for _, left := range c.LeftOut() {
		if left.Reason == ReasonAddress {
			problems[left.Upstream+" "+left.Own] = left.Problem
		}
	}
	for item, want := range map[string]string{
		"a {+any}": "expression in its scheme", "a s{x}ill://b/{y}": "expression in its scheme", "a ui:{+x}": "port", "b ui://../a/x": "dot segment", "b  ui://a/x": "port", "b ui://x#y": "fragment", "c_d ui://x": "stands for two upstreams",
	} {
		if !strings.Contains(problems[item], want) {
			t.Errorf("%s: left out because it %q, want one with %q", item, problems[item], want)
		}
	}
	if by, ok := names.Owner(owners, mcp.Resource, "ui://b/x"); by != "b" || !ok {
		t.Errorf("ui://b/x belongs to %q", by)
	}
	if by, ok := owners.Of(mcp.Resource, "ui://b/y"); ok {
		t.Errorf("an address is stored for %q", by)
	}
}

// No spelling of JSON or of an address lets an upstream name an address of another one in a message.
func FuzzAddressesInMessages(f *testing.F) {
	for _, seed := range []string{`ui://b/x`, `\u0075i:\/\/b\/x`, `ui\u003a//b`, `\tui://b/x`, `u%69:\/\/b`, `ui:\\\\b`, `\ufeffui://b`, `ui://../b/x`, `SKILL://b/x`} {
		f.Add(seed)
	}
	a := NewAddresses([]string{"a", "b"})
	f.Fuzz(func(t *testing.T, text string) {
		var m mcp.Message
		if mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"`+text+`"}]}}`), &m) != nil {
			return
		}
		before := mcp.URIs(&m, mcp.MethodResourcesRead)
		own := make([]string, len(before))
		for i, at := range before {
			own[i], _ = mcp.StringValue(at.Of(m.Body))
		}
		if !a.Apply("a", mcp.MethodResourcesRead, &m) {
			t.Fatalf("%q cannot be rewritten", text)
		}
		after := mcp.URIs(&m, mcp.MethodResourcesRead)
		if len(after) != len(before) {
			t.Fatalf("%q: %d addresses became %d", text, len(before), len(after))
		}
		for i, at := range after {
			visible, _ := mcp.StringValue(at.Of(m.Body))
			if by, back, ok, err := a.Own(visible); ok && err == nil && (by != "a" || back != own[i]) {
				t.Fatalf("%q is %q of %q", text, back, by)
			}
			if plain := strings.TrimSpace(visible); strings.HasPrefix(plain, "ui://b/") || strings.HasPrefix(plain, "skill://b/") {
				t.Fatalf("%q is seen as %q", text, visible)
			}
		}
	})
}
