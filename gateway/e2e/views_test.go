package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/session"
)

// viewed are three servers with every kind of item, and two views of them.
func viewed(t *testing.T, stateless bool, rest string) (*rig, map[string]*toolServer) {
	t.Helper()
	servers := map[string]*toolServer{
		"crm":   newToolServer(t, "crm", stateless, "search: Find a customer", "delete: Delete a customer"),
		"web":   newToolServer(t, "web", stateless, "search: Search the web"),
		"files": newToolServer(t, "files", stateless, "read: Read a file", "write: Write a file"),
	}
	for name, s := range servers {
		s.offer(name)
	}
	generation := ""
	if !stateless {
		generation = legacyClients
	}
	r := newRig(t, generation+federated(fmt.Sprintf(`
  - {name: crm, url: %s, prefix: crm_}
  - {name: web, url: %s, prefix: web_}
  - {name: files, url: %s}`, servers["crm"].URL, servers["web"].URL, servers["files"].URL), `
views:
  - {name: support, upstreams: [crm, files], tools: ["crm_s*", "read", "web_*"], prompts: none}
  - {name: Web, upstreams: [web], resources: none}
`+rest))
	eventually(t, "the tools are not listed", func() bool { return len(r.listedTools(r.key)) >= 5 || strings.Contains(rest, "synthesize") })
	return r, servers
}

// A client at a view sees and uses the items of the view; every other item is answered as one
// that does not exist.
func TestAViewIsAPartOfTheLists(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			r, _ := viewed(t, stateless, allowEverything)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, view := range []struct {
				name, tools, prompts, resources, templates, instructions string
				works, fails                                             []string // methods and the items that they name
			}{
				{
					name: "support", tools: "crm_search read", resources: "crm://index files://index", templates: "crm://doc/{id} files://doc/{id}", instructions: "crm files",
					works: []string{"call crm_search", "call read", "read crm://index", "read files://doc/7", "complete crm://doc/{id}"},
					fails: []string{"call web_search", "call crm_delete", "call write", "call search", "prompt crm_greet", "prompt greet", "prompt web_greet", "read web://index", "read web://doc/7", "complete web://doc/{id}"},
				},
				{
					name: "Web", tools: "web_search", prompts: "web_greet", instructions: "web",
					works: []string{"call web_search", "prompt web_greet"},
					fails: []string{"call crm_search", "call read", "prompt greet", "read web://index", "read web://doc/7", "read crm://index", "complete web://doc/{id}"},
				},
			} {
				session := r.connectTo(ctx, r.url+"/v/"+view.name, nil)
				text := session.InitializeResult().Instructions
				for _, upstream := range []string{"crm", "web", "files"} {
					if got := strings.Contains(text, "The secret "+upstream); got != slices.Contains(strings.Fields(view.instructions), upstream) {
						t.Errorf("%s: instructions of %s: %v", view.name, upstream, got)
					}
				}
				if got := visibleItems(ctx, t, session); got != [4]string{view.tools, view.prompts, view.resources, view.templates} {
					t.Errorf("%s: listed %q", view.name, got)
				}
				for _, use := range view.works {
					if err := useItem(ctx, session, use); err != nil {
						t.Errorf("%s: %s: %v", view.name, use, err)
					}
				}
				for _, use := range view.fails {
					method, what, _ := strings.Cut(use, " ")
					err, unknown := useItem(ctx, session, use), useItem(ctx, session, method+" "+strings.Repeat("x", len(what)))
					if err == nil || unknown == nil || strings.ReplaceAll(err.Error(), what, strings.Repeat("x", len(what))) != unknown.Error() {
						t.Errorf("%s: %s: %v; of an item that does not exist: %v", view.name, use, err, unknown)
					}
				}
				status := 200 // in a session
				if session.InitializeResult().ProtocolVersion == "2026-07-28" {
					status = 404
				}
				for _, line := range r.all() {
					if tool := line["tool"]; (tool == "web_search") && line["view"] == "support" && (line["status"] != float64(status) || line["error_kind"] != "no_route" || line["upstream"] != nil) {
						t.Errorf("line %v", line)
					}
				}
			}
			seen := map[any]bool{}
			for _, line := range r.all() {
				seen[line["view"]] = true
			}
			if !seen["support"] || !seen["Web"] || !seen[nil] {
				t.Errorf("views in audit lines: %v", seen)
			}
		})
	}
}

func visibleItems(ctx context.Context, t *testing.T, session *sdk.ClientSession) (names [4]string) {
	t.Helper()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := session.ListPrompts(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := session.ListResources(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	templates, err := session.ListResourceTemplates(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all [4][]string
	for _, it := range tools.Tools {
		all[0] = append(all[0], it.Name)
	}
	for _, it := range prompts.Prompts {
		all[1] = append(all[1], it.Name)
	}
	for _, it := range resources.Resources {
		all[2] = append(all[2], it.URI)
	}
	for _, it := range templates.ResourceTemplates {
		all[3] = append(all[3], it.URITemplate)
	}
	for i := range all {
		names[i] = strings.Join(all[i], " ")
	}
	return names
}

func useItem(ctx context.Context, session *sdk.ClientSession, use string) (err error) {
	method, what, _ := strings.Cut(use, " ")
	switch method {
	case "call":
		_, err = session.CallTool(ctx, &sdk.CallToolParams{Name: what})
	case "prompt":
		_, err = session.GetPrompt(ctx, &sdk.GetPromptParams{Name: what})
	case "read":
		_, err = session.ReadResource(ctx, &sdk.ReadResourceParams{URI: what})
	case "complete":
		_, err = session.Complete(ctx, &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/resource", URI: what}, Argument: sdk.CompleteParamsArgument{Name: "id", Value: "1"}})
		if err != nil && !strings.Contains(err.Error(), "no_route") {
			err = nil // the server, which does not have it, received the request
		}
	}
	return err
}

// Which paths are paths of views. Other spellings get the same response, whether a view with a
// similar name exists or not.
func TestPathsOfViews(t *testing.T) {
	r, _ := viewed(t, true, allowEverything)
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	base := strings.TrimSuffix(r.url, "/mcp")
	for path, want := range map[string]int{
		"/mcp/v/support": 200, "/mcp/v/support/": 200, "/mcp/v/Web": 200, "/mcp/v/support?x=/mcp/v/Web": 200,
		"/mcp/v/Support": 404, "/mcp/v/web": 404, "/mcp/v/suppor%74": 404, "/mcp/%76/support": 404, "/mcp/v%2fsupport": 404, "/mcp/v/support%2f": 404, "/mcp/v/support%2f..%2fWeb": 404,
		"/mcp/v/./support": 404, "/mcp/v/../v/support": 404, "/mcp/v/support/..": 404, "/mcp/v/support/../Web": 404, "/mcp/v//support": 404, "/mcp/v/support//": 404,
		"/mcp/v/": 404, "/mcp/v": 404, "/mcp/v/*": 404, "/mcp/v/support%00": 404, "/mcp/v/support;x=1": 404, "/mcp/v/" + strings.Repeat("s", 5000): 404, "/mcp/V/support": 404, "/mcp/v/nobody": 404,
	} {
		got := r.do(http.MethodPost, base+path, list)
		if got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
		if strings.HasPrefix(path, "/mcp/v/") && want == 404 {
			if e := got.rpc(t); e.Error.Message != "no_route" || string(e.ID) != "1" {
				t.Errorf("%s: %s", path, got.body)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if want != 404 {
				continue // a stream does not end by itself
			}
			if got := r.do(method, base+path, "", "MCP-Protocol-Version", "2025-06-18", "Accept", "text/event-stream"); got.status != 404 {
				t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
			}
		}
		if got := r.do(http.MethodPost, base+path, list, "Authorization", ""); strings.HasPrefix(path, "/mcp/v/") && got.status != 401 {
			t.Errorf("%s without a key: %d %s", path, got.status, got.body)
		}
	}
	for _, line := range r.all() {
		if view, _ := line["view"].(string); view != "" && len(view) > 64 || line["error_kind"] == "unknown_view" && line["status"] != float64(404) {
			t.Errorf("line %v", line)
		}
	}
}

// Handles that a client received at one path are invalid at another: sessions, cursors, stream
// positions, and ids of upstreams that the view does not have.
func TestWhatBelongsToAnotherView(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf("{\"name\":\"t%04d\",\"inputSchema\":{\"type\":\"object\"}}", i)
	}
	up := func(w http.ResponseWriter, body string, req *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(body), &m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "one")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, m.ID, strings.Join(many, ","))
		case "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
	crm, web := newUpstream(t, up), newUpstream(t, up)
	r := newRig(t, legacyClients+federated(fmt.Sprintf("  - {name: crm, url: %s, prefix: crm_}\n  - {name: web, url: %s, prefix: web_}", crm.URL, web.URL), `
default_upstream: web
views:
  - {name: one, upstreams: [crm]}
  - {name: two, upstreams: [crm]}
`+allowEverything))
	eventually(t, "the tools are not listed", func() bool {
		return strings.Contains(r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).body, "nextCursor")
	})
	paths := map[string]string{"": r.url, "one": r.url + "/v/one", "two": r.url + "/v/two"}
	sessions, cursors := map[string]string{}, map[string]string{}
	for view, url := range paths {
		opened := r.do(http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if sessions[view] = opened.header.Get("Mcp-Session-Id"); sessions[view] == "" {
			t.Fatalf("%q: %d %s", view, opened.status, opened.body)
		}
		var list struct{ Result struct{ NextCursor string } }
		got := r.do(http.MethodPost, url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", sessions[view])
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || list.Result.NextCursor == "" {
			t.Fatalf("%q: %d %.300s", view, got.status, got.body)
		}
		cursors[view] = list.Result.NextCursor
	}
	for at, url := range paths {
		for of := range paths {
			want := 404
			if at == of {
				want = 200
			}
			if got := r.do(http.MethodPost, url, call("3", "crm_t0001"), "Mcp-Session-Id", sessions[of]); got.status != want || want == 404 && got.rpc(t).Error.Message != "session_not_found" {
				t.Errorf("the session of %q at %q: %d %.200s", of, at, got.status, got.body)
			}
			if at != of {
				if got := r.do(http.MethodDelete, url, "", "Mcp-Session-Id", sessions[of], "MCP-Protocol-Version", "2025-06-18"); got.status != 404 {
					t.Errorf("the session of %q is ended at %q: %d %.200s", of, at, got.status, got.body)
				}
			}
			got := r.do(http.MethodPost, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":%q}}`, cursors[of]), "Mcp-Session-Id", sessions[at])
			if refused := strings.Contains(got.body, "cursor_invalid"); refused == (at == of) {
				t.Errorf("the cursor of %q at %q: %.200s", of, at, got.body)
			}
		}
	}
	before := len(web.seen())
	post := func(body string, headers ...string) answer {
		return r.do(http.MethodPost, paths["one"], body, append(headers, "Mcp-Session-Id", sessions["one"])...)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":` + string(session.Value("web", []byte("7"))) + `,"result":{}}`,
		`{"jsonrpc":"2.0","id":` + string(session.Value("web", []byte(`"x"`))) + `,"error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":` + string(session.Value("web", []byte("7"))) + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
	} {
		if got := post(body); got.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for method, params := range map[string]string{ // web answers none of them
		"tools/call": `{"name":"web_t0001"}`, "prompts/get": `{"name":"web_x"}`, "resources/read": `{"uri":"x://y"}`, "resources/subscribe": `{"uri":"x://y"}`,
		"tasks/get": `{"taskId":"7"}`, "tasks/list": `{}`, "completion/complete": `{"ref":{"type":"ref/prompt","name":"web_x"},"argument":{"name":"a","value":"b"}}`, "vendor/method": `{}`,
	} {
		const want = 200 // as of a server that has no such item
		if got := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":%q,"params":%s}`, method, params)); got.status != want || got.rpc(t).Error.Message != "no_route" {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	if got := r.do(http.MethodGet, paths["one"], "", "Mcp-Session-Id", sessions["one"], "MCP-Protocol-Version", "2025-06-18", "Accept", "text/event-stream", "Last-Event-ID", "p~web~9"); got.status != http.StatusBadRequest {
		t.Errorf("a stream of another upstream: %d %s", got.status, got.body)
	}
	for _, s := range web.seen()[before:] {
		if !strings.Contains(s.body, "list") {
			t.Errorf("the upstream outside of the view was sent %s %s", s.method, s.body)
		}
	}
}

// default_upstream receives at a view the requests for its items there, and no item of a kind
// that the view does not have, in whatever form the request names it.
func TestTheDefaultUpstreamAtAView(t *testing.T) {
	web := newUpstream(t, echo)
	r := newRig(t, federated(fmt.Sprintf("  - {name: web, url: %s}", web.URL), `
default_upstream: web
views:
  - {name: bare, upstreams: [web], tools: [find], prompts: none, resources: none}
  - {name: whole, upstreams: [web]}
`+allowEverything))
	const none, there = true, false
	for request, want := range map[string][2]bool{ // at bare, at whole
		`"prompts/get","params":{"name":"p"}`: {none, there}, `"resources/read","params":{"uri":"a://b"}`: {none, there}, `"resources/subscribe","params":{"uri":"a://b"}`: {none, there},
		`"prompts/get","params":{}`: {none, none}, `"resources/read","params":{}`: {none, none}, `"completion/complete","params":{"ref":"x"}`: {none, none},
		`"completion/complete","params":{"ref":{"type":"ref/other","uri":"a://b"}}`: {none, none}, `"completion/complete","params":{"ref":{"type":"ref/resource","uri":"a://{b}"}}`: {none, there},
		`"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}`: {none, there}, `"vendor/method","params":{}`: {there, there}, `"tools/call","params":{"name":"other"}`: {none, none},
	} {
		for i, view := range []string{"bare", "whole"} {
			got := r.do(http.MethodPost, r.url+"/v/"+view, `{"jsonrpc":"2.0","id":1,"method":`+request+`}`)
			if strings.Contains(got.body, `"message":"no_route"`) != want[i] {
				t.Errorf("%s at %s: %d %s, want none: %v", request, view, got.status, got.body, want[i])
			}
		}
	}
}

// A subscription at a view is acknowledged for the resources of the view alone.
func TestSubscriptionsAtAView(t *testing.T) {
	r, _ := viewed(t, true, allowEverything)
	for view, want := range map[string]string{"": `"resourceSubscriptions":["web://index","crm://index"]`, "/v/support": `"resourceSubscriptions":["crm://index"]`, "/v/Web": `"notifications":{"toolsListChanged":true}`} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+view, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["web://index","crm://index"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + r.key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1000)
		n, _ := resp.Body.Read(first)
		if text := string(first[:n]); resp.StatusCode != 200 || !strings.Contains(text, want) {
			t.Errorf("%q: %d %s, want %s", view, resp.StatusCode, text, want)
		}
		cancel()
		resp.Body.Close()
	}
}

// An upstream that lost a name to another upstream does not have it at a view without that other
// one, nor through mcp_call.
func TestTheLoserOfAClashAtAView(t *testing.T) {
	first, second := newToolServer(t, "first", true, "search: Search"), newToolServer(t, "second", true, "search: Search", "other: Other")
	r := newRig(t, federated(fmt.Sprintf("  - {name: first, url: %s}\n  - {name: second, url: %s}", first.URL, second.URL), `
views:
  - {name: second, upstreams: [second]}
tool_search: {enabled: true, mode: synthesize}
`+allowEverything))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all, view := r.connect(ctx, nil), r.connectTo(ctx, r.url+"/v/second", nil)
	search := func(session *sdk.ClientSession) string {
		found, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_search", Arguments: map[string]any{"query": "search other"}})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range found.StructuredContent.(map[string]any)["tools"].([]any) {
			names = append(names, fmt.Sprint(tool.(map[string]any)["name"], "@", tool.(map[string]any)["upstream"]))
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := search(all); got != "other@second search@first" {
		t.Errorf("found %q", got)
	}
	if got := search(view); got != "other@second" {
		t.Errorf("found at the view %q", got)
	}
	if got, _ := view.ListTools(ctx, nil); len(got.Tools) != 2 || got.Tools[0].Name != "mcp_search" || got.Tools[1].Name != "mcp_call" {
		t.Errorf("listed at the view: %+v", got.Tools)
	}
	call := func(session *sdk.ClientSession, tool string) error {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_call", Arguments: json.RawMessage(`{"name":"` + tool + `"}`)})
		return err
	}
	if err := call(all, "search"); err != nil {
		t.Error(err)
	}
	if err := call(view, "other"); err != nil {
		t.Error(err)
	}
	if err, unknown := call(view, "search"), call(view, "nobody"); err == nil || unknown == nil || err.Error() != unknown.Error() {
		t.Errorf("%v; of an item that does not exist: %v", err, unknown)
	}
}

// A view is a resource of its own in OAuth: a token for it is valid only there, and one for the
// gateway everywhere. Callers whose claims do not match get 404.
func TestTokensOfViews(t *testing.T) {
	up := newToolServer(t, "main", true, "search: Search")
	o := newOAuthRig(t, up.URL, "", "", allowAll+`
federation: {enabled: true}
views:
  - {name: staff, upstreams: [main], claims: {groups_in: [staff]}}
  - {name: open, upstreams: [main]}`, nil)
	staff := map[string]any{"groups": []string{"staff"}}
	with := func(aud any, more map[string]any) string {
		claims := map[string]any{"aud": aud}
		for k, v := range more {
			claims[k] = v
		}
		return o.token(claims)
	}
	main, atStaff, atOpen := "https://gw.example/mcp", o.base+"/mcp/v/staff", o.base+"/mcp/v/open"
	for _, tt := range []struct {
		name, path, token string
		status            int
		kind              any
	}{
		{"the gateway's audience", "", with(main, staff), 200, nil},
		{"the resource of the gateway, which is not its audience", "", with(o.base+"/mcp", staff), 401, "unauthorized"},
		{"the gateway's audience, at a view", "/v/staff", with(main, staff), 200, nil},
		{"a list of both", "", with([]string{atStaff, main}, staff), 200, nil},
		{"the audience of the view", "/v/staff", with(atStaff, staff), 200, nil},
		{"the audience of the view, with a slash", "/v/staff/", with(atStaff, staff), 200, nil},
		{"that of another view", "/v/staff", with(atOpen, staff), 401, "unauthorized"},
		{"that of a view, at the gateway", "", with(atStaff, staff), 401, "unauthorized"},
		{"that of a view, at the other one", "/v/open", with(atStaff, staff), 401, "unauthorized"},
		{"that of a view, at none", "/v/nobody", with(atStaff, staff), 401, "unauthorized"},
		{"that of a view there is not", "/v/nobody", with(o.base+"/mcp/v/nobody", staff), 401, "unauthorized"},
		{"that of the resource at no view", "/v/nobody", with(o.base+"/mcp", staff), 401, "unauthorized"},
		{"without the claims", "/v/staff", with(main, nil), 404, "view_denied"},
		{"other claims", "/v/staff", with(atStaff, map[string]any{"groups": []string{"Staff"}}), 404, "view_denied"},
		{"an API key", "/v/staff", o.apiKey, 404, "view_denied"},
		{"an API key at a view without claims", "/v/open", o.apiKey, 200, nil},
		{"no view", "/v/nobody", with(main, staff), 404, "unknown_view"},
	} {
		for range 2 { // the second time the token is cached
			got := o.do(http.MethodPost, o.url+tt.path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+tt.token)
			lines := o.all()
			if last := lines[len(lines)-1]; got.status != tt.status || last["error_kind"] != tt.kind {
				t.Errorf("%s: %d %s, line %v; want %d %v", tt.name, got.status, got.body, last, tt.status, tt.kind)
			}
			if tt.status == 404 && got.rpc(t).Error.Data["reason"] != "no_route" {
				t.Errorf("%s: %s", tt.name, got.body)
			}
		}
	}
	for path, want := range map[string]string{
		"": o.base + "/mcp", "/mcp": o.base + "/mcp", "/mcp/v/staff": atStaff, "/mcp/v/staff/": atStaff, "/mcp/v/open": atOpen,
		"/mcp/v/nobody": "", "/mcp/v/Staff": "", "/mcp/v/": "", "/v/staff": "", "/mcp/v/staff/mcp": "",
	} {
		got := o.do(http.MethodGet, o.base+"/.well-known/oauth-protected-resource"+path, "", "Authorization", "")
		var doc struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		_ = json.Unmarshal([]byte(got.body), &doc)
		if doc.Resource != want || want != "" && !slices.Equal(doc.Servers, []string{o.issuer.URL}) || want == "" && got.status != 404 {
			t.Errorf("the document at %q: %d %s, want %q", path, got.status, got.body, want)
		}
	}
	for path, want := range map[string]string{"": "", "/v/open": "/mcp/v/open", "/v/open/": "/mcp/v/open", "/v/nobody": ""} {
		got := o.do(http.MethodPost, o.url+path, "{}", "Authorization", "")
		if challenge := got.header.Get("WWW-Authenticate"); challenge != `Bearer resource_metadata="`+o.base+"/.well-known/oauth-protected-resource"+want+`"` {
			t.Errorf("%q: %d %s", path, got.status, challenge)
		}
	}
}
