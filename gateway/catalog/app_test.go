package catalog

import (
	"slices"
	"testing"

	"svc/gateway/mcp"
)

// A tool is for apps alone unless every reader of its visibility finds "model" in it, or none.
func TestToolsForAppsAlone(t *testing.T) {
	for _, tt := range []struct {
		meta string
		apps bool
	}{
		{``, false},
		{`{}`, false},
		{`null`, false},
		{`"ui"`, false},
		{`{"ui":null}`, false},
		{`{"ui":true}`, false},
		{`{"ui":{"resourceUri":"ui://a/page"}}`, false},
		{`{"ui":{"visibility":null}}`, false},
		{`{"ui":{"visibility":["model"]}}`, false},
		{`{"ui":{"visibility":["model","app"]}}`, false},
		{`{"ui":{"visibility":["app","model"]}}`, false},
		{`{"ui":{"visibility":["later","mod\u0065l"]}}`, false},
		{`{"ui":{"visibility":["app"]}}`, true},
		{`{"ui":{"visibility":[]}}`, true},
		{`{"ui":{"visibility":["Model"]}}`, true},
		{`{"ui":{"visibility":["model ",""]}}`, true},
		{`{"ui":{"visibility":["model",1]}}`, true},
		{`{"ui":{"visibility":["model",null]}}`, true},
		{`{"ui":{"visibility":[["model"]]}}`, true},
		{`{"ui":{"visibility":"model"}}`, true},
		{`{"ui":{"visibility":"app"}}`, true},
		{`{"ui":{"visibility":{"model":true}}}`, true},
		{`{"ui":{"visibility":7}}`, true},
		{`{"ui":{"visibility":false}}`, true},
		// Go's decoder, for one, ignores case.
		{`{"ui":{"Visibility":["app"]}}`, true},
		{`{"UI":{"visibility":["app"]}}`, true},
		{`{"ui":{"visibility":["model"],"VISIBILITY":["app"]}}`, true},
		{`{"ui":{"visibility":["model"]},"Ui":{"visibility":["app"]}}`, true},
		{`{"ui/visibility":["app"]}`, false},
		{`{"other":{"visibility":["app"]}}`, false},
	} {
		raw := `{"name":"t","inputSchema":{"type":"object"}}`
		if tt.meta != "" {
			raw = `{"_meta":` + tt.meta + `,"name":"t","inputSchema":{"type":"object"}}`
		}
		if got := isForApps([]byte(raw)); got != tt.apps {
			t.Errorf("%s: for apps alone %v, want %v", tt.meta, got, tt.apps)
		}
		it, ok := (*Names)(nil).Item("a", mcp.Tool, []byte(raw))
		offer := Offer{Lists: []List{{Kind: mcp.Tool, Items: [][]byte{[]byte(raw)}}}}
		offer.noteTools()
		if apps, listed := offer.tool("t"); !ok || it.ForApps != tt.apps || apps != tt.apps || !listed {
			t.Errorf("%s: the item says %v, the offer %v", tt.meta, it.ForApps, apps)
		}
	}
	if !isForApps([]byte(`{"_Meta":{"ui":{"visibility":[]}}}`)) {
		t.Error("_Meta is not read")
	}
	twice := Offer{Lists: []List{{Kind: mcp.Tool, Items: [][]byte{[]byte(`{"name":"t","_meta":{"ui":{"visibility":["app"]}}}`), []byte(`{"name":"t"}`)}}}}
	if twice.noteTools(); !twice.forApps["t"] {
		t.Error("a tool that is listed twice, once for apps alone, is not for apps alone")
	}
}

// What a tool has for apps is taken off, the rest stays byte for byte.
func TestToolsWithoutApps(t *testing.T) {
	for _, tt := range []struct{ tool, page, app string }{
		{`{"name":"t"}`, `{"name":"t"}`, `{"name":"t"}`},
		{`{"_meta":7,"name":"t"}`, `{"_meta":7,"name":"t"}`, `{"_meta":7,"name":"t"}`},
		{`{"_meta":{"x": 1},"name":"t"}`, `{"_meta":{"x":1},"name":"t"}`, `{"_meta":{"x":1},"name":"t"}`},
		{`{"name":"t","_meta":{"ui":{"resourceUri":"ui://a/p","visibility":["model"]},"x":{"ui":1}}}`,
			`{"name":"t","_meta":{"ui":{"visibility":["model"]},"x":{"ui":1}}}`, `{"name":"t","_meta":{"x":{"ui":1}}}`},
		{`{"_meta":{"ui/resourceUri":"ui://a/p","openai/outputTemplate":"ui://a/q"}}`, `{"_meta":{}}`, `{"_meta":{}}`},
		{`{"_meta":{"UI":{"ResourceURI":"ui://a/p"},"ui":"x","OpenAI/outputTemplate":1}}`, `{"_meta":{"UI":{},"ui":"x"}}`, `{"_meta":{}}`},
		{`{"_meta":{"\u0075i":{"resource\u0055ri":"ui://a/p"}}}`, `{"_meta":{"\u0075i":{}}}`, `{"_meta":{}}`},
	} {
		if got := string(WithoutPage([]byte(tt.tool))); got != tt.page {
			t.Errorf("%s without its page: %s", tt.tool, got)
		}
		if got := string(WithoutApp([]byte(tt.tool))); got != tt.app {
			t.Errorf("%s without its app: %s", tt.tool, got)
		}
		if pages := Pages([]byte(tt.page)); len(pages) > 0 {
			t.Errorf("%s: pages %q", tt.page, pages)
		}
		if has := hasApp([]byte(tt.tool)); has != (tt.tool != tt.app && tt.tool != `{"_meta":{"x": 1},"name":"t"}`) {
			t.Errorf("%s has an app: %v", tt.tool, has)
		}
	}
	tool := `{"_meta":{"ui":{"resourceUri":"ui://a/p"},"ui/resourceUri":"https://a/p","openai/outputTemplate":7}}`
	if got := Pages([]byte(tool)); !slices.Equal(got, []string{"ui://a/p", "", ""}) {
		t.Errorf("%q", got)
	}
}
