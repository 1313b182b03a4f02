package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// appServer is a server with tools as JSON, which a test changes.
type appServer struct {
	*upstreamServer
	mu     sync.Mutex
	tools  string
	scope  string // cacheScope; empty for a server with sessions
	broken bool   // lists fail
	called []string
	hosts  []string // the capabilities of clients
}

func newAppServer(t *testing.T, scope, tools string) *appServer {
	s := &appServer{tools: tools, scope: scope}
	s.upstreamServer = newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name         string
				URI          string
				Capabilities json.RawMessage
				Meta         map[string]json.RawMessage `json:"_meta"`
			}
		}
		_ = json.Unmarshal([]byte(body), &m)
		if c := m.Params.Capabilities; c != nil {
			s.hosts = append(s.hosts, m.Method+" "+string(c))
		}
		if c := m.Params.Meta["io.modelcontextprotocol/clientCapabilities"]; c != nil {
			s.hosts = append(s.hosts, m.Method+" "+string(c))
		}
		const offers = `"capabilities":{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
		result := map[string]string{
			"initialize":     `"protocolVersion":"2025-11-25",` + offers,
			"tools/list":     `"tools":[` + s.tools + `]`,
			"resources/list": `"resources":[]`,
			"resources/read": fmt.Sprintf(`"contents":[{"uri":%q,"mimeType":"text/html;profile=mcp-app","text":"<p>page of %s</p>"}]`, m.Params.URI, s.URL),
			"tools/call":     `"content":[{"type":"text","text":"ran"}]`,
		}[m.Method]
		if s.scope != "" {
			if m.Method == "server/discover" {
				result = `"supportedVersions":["2026-07-28"],` + offers
			}
			if result != "" {
				result += `,"resultType":"complete","cacheScope":"` + s.scope + `","ttlMs":0`
			}
		}
		if m.Method == "tools/call" {
			s.called = append(s.called, m.Params.Name+" "+req.Header.Get("Mcp-Name"))
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		case result == "" || s.broken && m.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
		}
	})
	return s
}

func (s *appServer) set(tools string, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.broken = tools, broken
}

func (s *appServer) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	called := s.called
	s.called = nil
	return called
}

func appTool(name, ui string) string {
	return `{"name":"` + name + `","description":"` + name + ` of a board","inputSchema":{"type":"object"},"_meta":{"ui":{` + ui + `}}}`
}

const (
	boardTools = `{"name":"plain","inputSchema":{"type":"object"}},` +
		`{"name":"board","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://board/page"},"ui/resourceUri":"ui://board/page","other":1}},` +
		`{"name":"move","description":"move of a board","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://board/page","visibility":["app"]}}}`
	showsApps = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	noApps    = `{"extensions":{"io.modelcontextprotocol/skills":{}}}`
)

// appClient sends requests of one protocol generation with the capabilities of a client.
type appClient struct {
	*rig
	url, capabilities string
	headers           []string // of a session; nil for 2026-07-28
}

func (r *rig) appClient(path, capabilities string, modern bool) *appClient {
	r.t.Helper()
	c := &appClient{rig: r, url: r.url + path, capabilities: capabilities}
	if !modern {
		opened := r.do(http.MethodPost, c.url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
		c.headers = []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	}
	return c
}

func (c *appClient) send(method, params string) answer {
	c.t.Helper()
	headers := c.headers
	if headers == nil {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.capabilities + `}`
		headers = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		var named struct{ Name, URI string }
		_ = json.Unmarshal([]byte("{"+params+"}"), &named)
		if params != "" {
			headers = append(headers, "Mcp-Name", named.Name+named.URI)
			params += ","
		}
		params += meta
	}
	return c.do(http.MethodPost, c.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params), headers...)
}

// list returns the listed tools, each with its _meta.
func (c *appClient) list() []string {
	c.t.Helper()
	got := c.send("tools/list", "")
	var list struct {
		Result struct {
			Tools []struct {
				Name string
				Meta json.RawMessage `json:"_meta"`
			}
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
		c.t.Fatalf("%d %s", got.status, got.body)
	}
	tools := []string{}
	for _, tool := range list.Result.Tools {
		tools = append(tools, strings.TrimSpace(tool.Name+" "+string(tool.Meta)))
	}
	return tools
}

// call returns the outcome of a call: ran, or the reason of the refusal.
func (c *appClient) call(tool string) string {
	c.t.Helper()
	got := c.send("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
	if strings.Contains(got.body, `"ran"`) {
		return "ran"
	}
	reason, _ := got.rpc(c.t).Error.Data["reason"].(string)
	return reason
}

const appViews = `
views:
  - {name: one, upstreams: [One]}
  - {name: two, upstreams: [two]}
  - {name: part, upstreams: [One], tools: ["*board", "*plain"], resources: none}
  - {name: both, upstreams: [One, two]}
`

// Two servers with the same page address and the same tool for apps alone: at the view of one server
// its app works, elsewhere nobody lists or calls the tool, and no client without apps sees an app.
func TestAppsOfServersBehindOneURL(t *testing.T) {
	for _, scope := range []string{"", "public", "private"} {
		one, two := newAppServer(t, scope, boardTools), newAppServer(t, scope, boardTools)
		r := newRig(t, federated(fmt.Sprintf("  - {name: One, url: %s, prefix: a_}\n  - {name: two, url: %s, prefix: b_}", one.URL, two.URL), appViews+`
policy:
  default_action: allow
  rules:
    - {id: moves, action: allow, when: {tool_name: a_move}}`))
		page := func(name string) string {
			return `{"ui":{"resourceUri":"ui://` + name + `/board/page"},"ui/resourceUri":"ui://` + name + `/board/page","other":1}`
		}
		own := func(name string) string {
			return `{"ui":{"resourceUri":"ui://` + name + `/board/page","visibility":["app"]}}`
		}
		for _, modern := range []bool{false, true} {
			for _, tt := range []struct {
				path, capabilities string
				tools              []string
				calls              map[string]string
			}{
				{"", showsApps, []string{"a_plain", "a_board " + page("one"), "b_plain", "b_board " + page("two")},
					map[string]string{"a_move": "app_only", "b_move": "app_only", "move": "no_route", "a_board": "ran", "board": "no_route"}},
				{"", noApps, []string{"a_plain", `a_board {"other":1}`, "b_plain", `b_board {"other":1}`}, map[string]string{"a_move": "app_only"}},
				{"/v/both", showsApps, []string{"a_plain", "a_board " + page("one"), "b_plain", "b_board " + page("two")}, map[string]string{"a_move": "app_only", "move": "no_route"}},
				{"/v/one", showsApps, []string{"a_plain", "a_board " + page("one"), "a_move " + own("one")},
					map[string]string{"a_move": "ran", "move": "ran", "board": "ran", "b_move": "no_route", "mov": "no_route", "a_a_move": "ran"}},
				{"/v/one", noApps, []string{"a_plain", `a_board {"other":1}`}, map[string]string{"b_move": "no_route"}},
				{"/v/two", showsApps, []string{"b_plain", "b_board " + page("two"), "b_move " + own("two")}, map[string]string{"move": "ran", "a_move": "no_route"}},
				// Neither the tool nor the page is in the view.
				{"/v/part", showsApps, []string{"a_plain", `a_board {"ui":{},"other":1}`}, map[string]string{"move": "no_route", "a_move": "no_route", "board": "ran"}},
			} {
				c := r.appClient(tt.path, tt.capabilities, modern)
				what := fmt.Sprintf("scope %q, modern %v, %q, %s", scope, modern, tt.path, tt.capabilities)
				if got := c.list(); !slices.Equal(got, tt.tools) {
					t.Errorf("%s: listed %q\nwant %q\n%s", what, got, tt.tools, r.logs.String())
				}
				for tool, want := range tt.calls {
					if got := c.call(tool); got != want && (want != "no_route" || got != "") {
						t.Errorf("%s: %s: %q, want %q\n%v", what, tool, got, want, r.lastLine())
					}
				}
			}
		}
		one.calls()
		c := r.appClient("/v/one", showsApps, true)
		if got := c.call("move"); got != "ran" {
			t.Fatal(got)
		}
		if got := one.calls(); !slices.Equal(got, []string{"move move"}) { // the name, and Mcp-Name
			t.Errorf("scope %q: the server got %q", scope, got)
		}
		if line := r.lastLine(); line["tool"] != "a_move" || line["upstream_tool"] != "move" || line["rule_id"] != "moves" {
			t.Errorf("scope %q: line %v", scope, line)
		}
		c = r.appClient("", showsApps, true)
		c.call("a_move")
		if line := r.lastLine(); line["error_kind"] != "app_only" || line["tool"] != "a_move" || line["action"] != "deny" {
			t.Errorf("scope %q: line %v", scope, line)
		}
		if n := strings.Count(r.logs.String(), "tools that are for apps alone are omitted"); n != 2 {
			t.Errorf("scope %q: %d log lines, want one for each upstream", scope, n)
		}
		if got := c.send("server/discover", ""); !strings.Contains(got.body, `"io.modelcontextprotocol/ui"`) {
			t.Errorf("scope %q: the extension is not declared: %s", scope, got.body)
		}
		one.mu.Lock()
		for _, host := range one.hosts {
			if strings.HasPrefix(host, "tools/call") || strings.HasPrefix(host, "initialize") || strings.HasPrefix(host, "tools/list") {
				if !strings.Contains(host, "io.modelcontextprotocol/") {
					t.Errorf("scope %q: no extension in %s", scope, host)
				}
			}
		}
		one.mu.Unlock()
	}
}

// Apps are declared to clients that may use something of a server that declares them.
func TestAppsAreDeclaredToWhoMayUseThem(t *testing.T) {
	one := newAppServer(t, "public", boardTools)
	two := newToolServer(t, "two", true, "plain: Plain")
	for rule, want := range map[string]bool{"{method: resources/read, uri_prefix: \"ui://one/x\"}": true, "{tool_prefix: a_}": false} {
		r := newRig(t, federated(fmt.Sprintf("  - {name: One, url: %s, prefix: a_}\n  - {name: two, url: %s, prefix: b_}", one.URL, two.URL), appViews+`
policy:
  default_action: deny
  rules:
    - {id: a, action: deny, when: `+rule+`}
    - {id: rest, action: allow, when: {method: tools/call}}`))
		for path, has := range map[string]bool{"": want, "/v/one": want, "/v/two": false} {
			c := r.appClient(path, showsApps, true)
			c.list() // waits for the lists
			if got := c.send("server/discover", "").body; strings.Contains(got, "io.modelcontextprotocol/ui") != has {
				t.Errorf("%s, %q: declared %v: %s", rule, path, !has, got)
			}
		}
	}
}

// The page of an app is read although its server does not list it, also where there is one server.
func TestPagesThatAreNotListed(t *testing.T) {
	one := newAppServer(t, "public", boardTools)
	for upstreams, page := range map[string]string{"  - {name: One, url: " + one.URL + "}": "ui://board/page", "  - {name: One, url: " + one.URL + "}\n  - {name: two, prefix: b_, url: " + one.URL + "}": "ui://one/board/page"} {
		r := newRig(t, federated(upstreams, allowEverything))
		for _, modern := range []bool{true, false} {
			c := r.appClient("", showsApps, modern)
			if list := c.list(); !strings.Contains(strings.Join(list, ""), page) {
				t.Errorf("%s: %v", page, list)
			}
			if got := c.send("resources/read", fmt.Sprintf(`"uri":%q`, page)); got.status != 200 || !strings.Contains(got.body, "<p>page of") || !strings.Contains(got.body, page) {
				t.Errorf("%s, %v: %d %s", page, modern, got.status, got.body)
			}
		}
	}
}

// The lists of two sessions of one caller, and of two of its requests, differ by what each declares.
func TestAppsAreForWhoDeclaresThem(t *testing.T) {
	for _, scope := range []string{"public", "private"} {
		one := newAppServer(t, scope, boardTools)
		r := newRig(t, federated("  - {name: One, url: "+one.URL+", prefix: a_}", allowEverything))
		with, without := r.appClient("", showsApps, false), r.appClient("", noApps, false)
		old := r.appClient("", `{}`, false)
		for range 3 {
			for c, want := range map[*appClient]int{
				with: 3, without: 2, old: 2, {rig: r, url: r.url, capabilities: showsApps}: 3, {rig: r, url: r.url, capabilities: noApps}: 2,
				{rig: r, url: r.url, capabilities: `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}`}:                      2,
				{rig: r, url: r.url, capabilities: `{"extensions":{"io.modelcontextprotocol/ui":{}}}`}:                                               3,
				{rig: r, url: r.url, capabilities: `{"extensions":{"io.modelcontextprotocol/ui":null}}`}:                                             2,
				{rig: r, url: r.url, capabilities: `{"extensions":{"io.modelcontextprotocol/UI":{}}}`}:                                               2,
				{rig: r, url: r.url, capabilities: `{"extensions":["io.modelcontextprotocol/ui"]}`}:                                                  2,
				{rig: r, url: r.url, capabilities: `{"experimental":{"extensions":{"io.modelcontextprotocol/ui":{}}}}`}:                              2,
				{rig: r, url: r.url, capabilities: `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x","Text/HTML; profile=mcp-app"]}}}`}: 3,
			} {
				if got := c.list(); len(got) != want || (want == 2) == strings.Contains(strings.Join(got, ""), "ui://") {
					t.Errorf("%s, %s: %q", scope, c.capabilities, got)
				}
			}
		}
		// A request with a session says nothing in its _meta.
		if got := without.send("tools/list", `"_meta":{"io.modelcontextprotocol/clientCapabilities":`+showsApps+`}`); strings.Contains(got.body, "ui://") {
			t.Errorf("%s: %s", scope, got.body)
		}
	}
}

// A tool whose page the rules deny is listed without it, and so is one that refers to another server's
// page, in whatever spelling, or to no page at all.
func TestReferencesToPagesThatMayNotBeRead(t *testing.T) {
	tools := []string{
		appTool("mine", `"resourceUri":"ui://board/page"`), appTool("secret", `"resourceUri":"ui://hidden/page"`),
		appTool("others", `"resourceUri":"ui://two/board/page"`), appTool("file", `"resourceUri":"file:///etc/passwd"`),
		appTool("scheme", `"resourceUri":"UI://two/board/page"`), appTool("dots", `"resourceUri":"ui://../two/board/page"`), appTool("number", `"resourceUri":7`),
		`{"name":"case","inputSchema":{"type":"object"},"_meta":{"UI":{"RESOURCEURI":"ui://two/board/page"}}}`,
		`{"name":"openai","inputSchema":{"type":"object"},"_meta":{"openai/outputTemplate":"ui://hidden/x"}}`,
	}
	one, two := newAppServer(t, "public", strings.Join(tools, ",")), newAppServer(t, "public", boardTools)
	r := newRig(t, federated(fmt.Sprintf("  - {name: one, url: %s, prefix: a_}\n  - {name: two, url: %s, prefix: b_}", one.URL, two.URL), `
policy:
  default_action: allow
  rules:
    - {id: hidden, action: deny, when: {method: resources/read, uri_prefix: "ui://one/hidden/"}}`))
	c := r.appClient("", showsApps, true)
	want := []string{
		`a_mine {"ui":{"resourceUri":"ui://one/board/page"}}`, `a_secret {"ui":{}}`,
		`a_others {"ui":{"resourceUri":"ui://one/two/board/page"}}`, `a_file {"ui":{}}`, `a_scheme {"ui":{}}`, `a_dots {"ui":{}}`, `a_number {"ui":{}}`, `a_case {"UI":{}}`, `a_openai {}`,
	}
	got := slices.DeleteFunc(c.list(), func(tool string) bool { return strings.HasPrefix(tool, "b_") })
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := c.send("resources/read", `"uri":"ui://one/two/board/page"`); !strings.Contains(got.body, "page of "+one.URL) {
		t.Errorf("%d %s", got.status, got.body)
	}
	// Without another upstream the addresses are those of the server.
	r = newRig(t, federated(fmt.Sprintf("  - {name: one, url: %s, prefix: a_}", one.URL), `
policy: {default_action: allow, rules: [{id: hidden, action: deny, when: {method: resources/read, uri_prefix: "ui://hidden/"}}]}`))
	want[0], want[2], want[5] = `a_mine {"ui":{"resourceUri":"ui://board/page"}}`, `a_others {"ui":{"resourceUri":"ui://two/board/page"}}`, `a_dots {"ui":{"resourceUri":"ui://../two/board/page"}}`
	want[7] = `a_case {"UI":{"RESOURCEURI":"ui://two/board/page"}}`
	if got := r.appClient("", showsApps, true).list(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A tool that changes its visibility is called as the last list says. A tool of which no list is known
// is not called; after a complete list, one that is not in it is.
func TestVisibilityThatChangesOrIsUnknown(t *testing.T) {
	for _, scope := range []string{"public", "private"} {
		one, two := newAppServer(t, scope, appTool("move", `"visibility":["app"]`)), newAppServer(t, scope, boardTools)
		one.broken = true
		r := newRig(t, federated(fmt.Sprintf("  - {name: One, url: %s, prefix: a_}\n  - {name: two, url: %s, prefix: b_}", one.URL, two.URL), appViews+allowEverything))
		c := r.appClient("", showsApps, true)
		if got := c.call("a_move"); got == "ran" || got == "" {
			t.Errorf("%s: before a list: %q", scope, got)
		}
		if got := r.appClient("/v/one", showsApps, true).call("a_move"); got != "ran" {
			t.Errorf("%s: at the view: %q", scope, got)
		}
		one.set(appTool("move", `"visibility":["app"]`), false)
		eventually(t, "the lists are not read", func() bool { return len(r.appClient("/v/one", showsApps, true).list()) == 1 })
		if got := c.call("a_move"); got != "app_only" {
			t.Errorf("%s: for apps alone: %q", scope, got)
		}
		if got := c.call("a_unlisted"); got != "ran" {
			t.Errorf("%s: a tool that is not listed: %q", scope, got)
		}
		one.set(appTool("move", `"visibility":["app","model"]`), false)
		eventually(t, "the new visibility is not read", func() bool { return len(c.list()) > 2 && c.call("a_move") == "ran" })
		one.set(appTool("move", `"visibility":[]`), false)
		eventually(t, "the last visibility is not read", func() bool { return len(c.list()) == 2 && c.call("a_move") == "app_only" })
		one.set(appTool("move", `"visibility":[]`), true) // the last list stays in force
		if got := c.call("a_move"); got != "app_only" {
			t.Errorf("%s: after an error: %q", scope, got)
		}
	}
}

// The search finds no tool that is for apps alone, and mcp_call calls none, at a view of one server
// either, where its app still does.
func TestSearchAndToolsForAppsAlone(t *testing.T) {
	const search = "tool_search: {enabled: true, mode: synthesize}\n" + allowEverything
	one, two := newAppServer(t, "public", boardTools), newAppServer(t, "public", boardTools)
	r := newRig(t, federated(fmt.Sprintf("  - {name: One, url: %s, prefix: a_}\n  - {name: two, url: %s, prefix: b_}", one.URL, two.URL), appViews+search))
	calling := func(c *appClient, tool string) string {
		got := c.send("tools/call", `"name":"mcp_call","arguments":{"name":"`+tool+`"}`)
		if strings.Contains(got.body, `"ran"`) {
			return "ran"
		}
		return fmt.Sprint(got.rpc(t).Error.Data["reason"])
	}
	for path, own := range map[string]string{"": "no_route", "/v/one": "ran"} {
		c := r.appClient(path, showsApps, true)
		found := foundIn(t, c.send("tools/call", `"name":"mcp_search","arguments":{"query":"move board plain"}`).body)
		if !slices.Contains(found, "One/a_board") || slices.Contains(found, "One/a_move") {
			t.Errorf("%q: found %q", path, found)
		}
		if got := calling(c, "a_board") + " " + calling(c, "a_move"); got != "ran app_only" {
			t.Errorf("%q: called: %s", path, got)
		}
		if got := c.call("move"); got != own {
			t.Errorf("%q: the app's own call: %q, want %q", path, got, own)
		}
	}
	r = newRig(t, strings.Replace(basic(one.URL), "policy:", "tool_search: {enabled: true, mode: synthesize, call: true}\npolicy:", 1)+"    - {id: all, action: allow, when: {}}\n")
	c := r.appClient("", showsApps, true)
	eventually(t, "the tools are not searchable", func() bool {
		return slices.Contains(foundIn(t, c.send("tools/call", `"name":"mcp_search","arguments":{"query":"board"}`).body), "main/board")
	})
	if got := calling(c, "board") + " " + calling(c, "move") + " " + c.call("move"); got != "ran app_only ran" {
		t.Errorf("without federation: %s", got)
	}
}
