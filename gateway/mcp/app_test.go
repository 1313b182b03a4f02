package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStripApp(t *testing.T) {
	const text, ui = `{"type":"text","text":"t"}`, `{"type":"ui","x":[{}]}`
	result := func(members string) string { return `{"jsonrpc":"2.0","id":1,"result":{` + members + `}}` }
	for _, c := range []struct {
		name, in       string
		legacy, modern string // the result's members, "" for an unchanged body
		stripped       int
	}{
		{"nothing to strip", `"content":[` + text + `],"x":1`, "", "", 0},
		{"type ui first", `"content":[` + ui + ` , ` + text + `]`, `"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"type ui last", `"content":[` + text + ` , ` + ui + `]`, `"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"type ui between", `"content":[` + text + `, ` + ui + `,` + ui + ` ,` + text + ` ]`, `"content":[` + text + ` ,` + text + ` ]`, `"content":[` + text + ` ,` + text + ` ]`, 2},
		{"type ui escaped", `"content":[` + text + `,{"typ\u0065":"\u0075i"}]`, `"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"all stripped, only member", `"content":[` + ui + `]`, ` `, `"content":[]`, 1},
		{"all stripped, first member", `"content": [` + ui + `] , "isError":false`, `"isError":false`, `"content": [] , "isError":false`, 1},
		{"all stripped, last member", `"isError":false , "content":[` + ui + `,` + ui + `] `, `"isError":false `, `"isError":false , "content":[] `, 2},
		{"all stripped, member between", `"a":1, "content":[` + ui + `], "b":2`, `"a":1, "b":2`, `"a":1, "content":[], "b":2`, 1},
		{"resource of a community type", `"content":[{"type":"resource","resource":{"uri":"ui://x","mimeType":"application/vnd.mcp-ui.remote-dom+javascript; framework=react"}},` + text + `]`,
			`"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"link of a community type, other case", `"content":[{"type":"resource_link","mimeType":"Application/VND.MCP-UI+json"},` + text + `]`,
			`"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"text/html with the profile", `"content":[{"type":"resource","resource":{"mimeType":"text/html;profile=mcp-app"}},` + text + `]`,
			`"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"text/html with the profile, written otherwise", `"content":[{"type":"resource","resource":{"mimeType":"Text/HTML; charset=utf-8; Profile=\"MCP-App\""}},` + text + `]`,
			`"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"type ui in another case", `"content":[{"type":"UI"},{"type":" ui "},` + text + `]`, `"content":[` + text + `]`, `"content":[` + text + `]`, 2},
		{"a block that is one in any case", `"content":[{"type":"ui","Type":"text","mimeType":"; ;"},` + text + `]`, `"content":[` + text + `]`, `"content":[` + text + `]`, 1},
		{"types that a client may not know stay", `"content":[{"type":"text","mimeType":"markdown"},{"mimeType":""},{"mimeType":7},{"mimeType":"image/png; x"}]`, "", "", 0},
		{"plain text/html stays", `"content":[{"type":"resource","resource":{"mimeType":"text/html"}},` + text + `]`, "", "", 0},
		{"text/html with another profile stays", `"content":[{"type":"resource","resource":{"mimeType":"text/html;profile=x;y=mcp-app"}}]`, "", "", 0},
		{"ui inside the text stays", `"content":[{"type":"text","text":"\"type\":\"ui\"","annotations":{"type":"ui"}}]`, "", "", 0},
		{"content that is no list stays", `"content":{"type":"ui"}`, "", "", 0},
		{"elements that are no objects stay", `"content":["ui",1,[{"type":"ui"}]]`, "", "", 0},
		{"empty list stays", `"content":[]`, "", "", 0},
		{"structured content and _meta stay", `"structuredContent":{"content":[` + ui + `]},"_meta":{"ui":{"resourceUri":"ui://x"}},"content":[` + text + `]`, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustScan(t, result(c.in))
			for modern, want := range map[bool]string{false: c.legacy, true: c.modern} {
				if want == "" {
					want = c.in
				}
				got, n, ok := StripApp(m, modern)
				if strings.TrimSpace(want) == "" {
					want = ""
				}
				if !ok || string(got) != result(want) || n != c.stripped {
					t.Errorf("modern %v: stripped %d\ngot  %s\nwant %s", modern, n, got, result(want))
				}
				var again Message
				if err := Scan(got, &again); err != nil {
					t.Errorf("modern %v: %s is not a message: %v", modern, got, err)
				}
			}
		})
	}
	request := mustScan(t, call(`{"name":"a","content":[`+ui+`]}`))
	if got, n, ok := StripApp(request, false); !ok || n != 0 || !bytes.Equal(got, request.Body) {
		t.Errorf("a request was stripped: %s", got)
	}
}

// For all kinds of blocks of a result, exactly the blocks that a decoder of the
// result finds interactive are stripped, and the rest is equal. Every spelling of
// the profile is found; a result that cannot be parsed, or with members that
// peers read differently, is withheld.
func TestStripAppIsNotEvadedBySpelling(t *testing.T) {
	blocks := func(block string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t"},` + block + `]}}`
	}
	typed := func(mime string) []string {
		quoted := string(AppendString(nil, mime))
		return []string{`{"type":"resource_link","mimeType":` + quoted + `}`, `{"type":"resource","resource":{"uri":"u","mimeType":` + quoted + `}}`}
	}
	var stripped, refused []string
	for _, mime := range []string{
		`text/html;profile*=utf-8''mcp-app`, `text/html;profile*=UTF-8'en'mcp%2Dapp`, `text/html;profile="mcp\-app"`, `text/html;profile="\m\c\p-\a\p\p"`, `text/html; profile*0=mcp-; profile*1=app`,
		`text/html;profile="other MCP-App"`, `text/html;profile=" mcp-app "`, "\u00a0TEXT/HTML ;\tPROFILE=mcp-app ", ` application/vnd.MCP-UI.x`,
	} {
		stripped = append(stripped, typed(mime)...)
	}
	for _, mime := range []string{
		`text/html;profile*=iso-8859-1''mcp-app`, `text/html;profile="mcp-app`, `text/html;profile=x;profile=mcp-app`, `text / html;profile=mcp-app`, `text/html,text/html;profile=mcp-app`,
		`text/html;;profile mcp-app`, `text/html;profile=mcp-app;x y`, `application / vnd.mcp-ui`, `;profile=mcp-app`, "text/html\x00;profile=mcp-app",
	} {
		refused = append(refused, typed(mime)...)
	}
	refused = append(refused, `{"Type":"ui"}`, `{"type":"text","TYPE":"ui"}`, `{"type":"text","mimetype":"text/plain"}`, `{"type":"text","MimeType":"text/html;profile=mcp-app"}`,
		`{"type":"resource","Resource":{}}`, `{"type":"resource","resource":{"mimetype":"text/plain"}}`, `{"type":"resource","re\u017fource":{}}`, `{"\u0054ype":"ui"}`)
	for i, list := range [][]string{stripped, refused} {
		for _, block := range list {
			m := mustScan(t, blocks(block))
			got, n, ok := StripApp(m, true)
			if ok != (i == 0) || i == 0 && (n != 1 || string(got) != `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t"}]}}`) || i == 1 && !bytes.Equal(got, m.Body) {
				t.Errorf("%s: stripped %d, %v: %s", block, n, ok, got)
			}
			outcome := mustScan(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"t","status":"completed","result":{"content":[`+block+`]}}}`)
			if _, n, ok := StripOutcome(outcome); ok != (i == 0) || i == 0 && n != 1 {
				t.Errorf("%s as the outcome of a task: stripped %d, %v", block, n, ok)
			}
		}
	}
}

func TestStripAppModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"type":"text","text":"a, b"}`, `{"type":"ui"}`, ` {"a":[1,{"b":"]}"}]} `, `{"mimeType":"application/vnd.mcp-ui"}`, `"s"`, `null`, `-1`,
		}), 0, 6).Draw(t, "blocks")
		before := rapid.SampledFrom([]string{"", `"a":{"content":[]},`}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", `,"z":[[]]`}).Draw(t, "after")
		body := []byte(`{"jsonrpc":"2.0","id":1,"result":{` + before + `"content":[` + strings.Join(blocks, ",") + `]` + after + `}}`)
		var m Message
		if err := Scan(body, &m); err != nil {
			t.Fatal(err)
		}
		want := []any{}
		for _, b := range blocks {
			if !strings.Contains(b, `"ui"`) && !strings.Contains(b, "mcp-ui") {
				var v any
				if err := json.Unmarshal([]byte(b), &v); err != nil {
					t.Fatal(err)
				}
				want = append(want, v)
			}
		}
		got, n, _ := StripApp(&m, rapid.Bool().Draw(t, "modern"))
		var decoded struct{ Result map[string]any }
		if err := json.Unmarshal(got, &decoded); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if n != len(blocks)-len(want) {
			t.Fatalf("stripped %d of %d, want %d left", n, len(blocks), len(want))
		}
		content, ok := decoded.Result["content"]
		if !ok {
			content = []any{}
		}
		if d := cmp.Diff(want, content); d != "" {
			t.Fatalf("content (-want +got):\n%s", d)
		}
		if (after != "") != (decoded.Result["z"] != nil) || (before != "") != (decoded.Result["a"] != nil) {
			t.Fatalf("other members changed: %s", got)
		}
	})
}
