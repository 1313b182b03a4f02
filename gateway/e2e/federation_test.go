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

	"svc/gateway/catalog/federation"
)

// offer adds a prompt, a resource and a template to a tool server.
func (s *toolServer) offer(scheme string) {
	s.mcp.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "who"}}}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: s.name + " greets " + req.Params.Arguments["who"]}}}}, nil
	})
	read := func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, Text: s.name + " has " + req.Params.URI}}}, nil
	}
	s.mcp.AddResource(&sdk.Resource{Name: "index", URI: scheme + "://index"}, read)
	s.mcp.AddResourceTemplate(&sdk.ResourceTemplate{Name: "doc", URITemplate: scheme + "://doc/{id}"}, read)
}

// federated is a configuration with federation of upstreams, given as lines of YAML.
func federated(upstreams, rest string) string {
	return fmt.Sprintf(`
federation: {enabled: true, refresh_interval: 1s, list_timeout: 20s}
upstreams:
%s
%s
`, upstreams, rest)
}

const allowEverything = `policy: {default_action: allow, rules: []}`

// connect opens a session of the official client.
func (r *rig) connect(ctx context.Context, options *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	return r.connectTo(ctx, r.url, options)
}

// connectTo opens a session at a URL of the gateway.
func (r *rig) connectTo(ctx context.Context, url string, options *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = session.Close() })
	return session
}

// The official client uses every feature of three servers through one URL, in both protocol
// generations, without a sign of the upstreams.
func TestOneClientUsesEverythingOfAllUpstreams(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			crm := newToolServer(t, "crm", stateless, "search: Find a customer", "delete: Delete a customer")
			web := newToolServer(t, "web", stateless, "search: Search the web", "very_long_name: Fetch a page", "admin_stop: Stop the server")
			files := newToolServer(t, "files", stateless, "read: Read a file")
			for _, s := range []*toolServer{crm, web, files} {
				s.offer(s.name)
			}
			generation := ""
			if !stateless {
				generation = legacyClients
			}
			r := newRig(t, generation+federated(fmt.Sprintf(`
  - {name: crm, url: %s, prefix: crm_}
  - {name: web, url: %s, prefix: web_, tools: {deny: ["admin_*"], rename: {very_long_name: fetch}}}
  - {name: files, url: %s}`, crm.URL, web.URL, files.URL), `
policy:
  default_action: allow
  rules:
    - {id: no-delete, action: deny, when: {tool_name: crm_delete}}`))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session := r.connect(ctx, nil)
			if info := session.InitializeResult().ServerInfo; info == nil || info.Name != "svc" || info.Version != "test" {
				t.Errorf("the server is %+v, want the gateway with its version", info)
			}

			tools, err := session.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			if want := []string{"crm_search", "web_search", "web_fetch", "read"}; !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
				t.Fatalf("tools: %v, want %v\n%s", names, want, r.logs.String())
			}
			for tool, want := range map[string]string{
				"crm_search": "crm/search: hello", "web_search": "web/search: hello", "web_fetch": "web/very_long_name: hello", "read": "files/read: hello",
			} {
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"text": "hello"}})
				if err != nil || got.Content[0].(*sdk.TextContent).Text != want {
					t.Errorf("%s: %+v, %v", tool, got, err)
				}
			}
			for _, tool := range []string{"search", "very_long_name", "web_very_long_name", "web_admin_stop", "admin_stop", "crm_read", "files_read", "crm_delete"} {
				if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool}); err == nil {
					t.Errorf("%s can be called: %+v", tool, got)
				}
			}

			prompts, err := session.ListPrompts(ctx, nil)
			if err != nil || len(prompts.Prompts) != 3 {
				t.Fatalf("prompts: %+v, %v", prompts, err)
			}
			for prompt, want := range map[string]string{"crm_greet": "crm greets you", "web_greet": "web greets you", "greet": "files greets you"} {
				got, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: prompt, Arguments: map[string]string{"who": "you"}})
				if err != nil || got.Messages[0].Content.(*sdk.TextContent).Text != want {
					t.Errorf("%s: %+v, %v", prompt, got, err)
				}
			}
			resources, err := session.ListResources(ctx, nil)
			if err != nil || len(resources.Resources) != 3 {
				t.Fatalf("resources: %+v, %v", resources, err)
			}
			templates, err := session.ListResourceTemplates(ctx, nil)
			if err != nil || len(templates.ResourceTemplates) != 3 {
				t.Fatalf("templates: %+v, %v", templates, err)
			}
			for uri, want := range map[string]string{"crm://index": "crm has crm://index", "web://doc/7": "web has web://doc/7", "files://doc/x": "files has files://doc/x"} {
				got, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
				if err != nil || got.Contents[0].Text != want {
					t.Errorf("%s: %+v, %v", uri, got, err)
				}
			}
			if err := session.Ping(ctx, nil); err != nil && !stateless {
				t.Errorf("ping: %v", err)
			}
			var audited []string
			for _, line := range r.all() {
				if line["kind"] == "request" && line["tool"] == "web_fetch" {
					audited = append(audited, fmt.Sprint(line["upstream"], " ", line["upstream_tool"]))
				}
			}
			if !slices.Equal(audited, []string{"web very_long_name"}) {
				t.Errorf("audit lines of web_fetch: %q", audited)
			}
		})
	}
}

// An upstream that is down, and one whose cursors form a cycle, do not affect the lists of the
// others.
func TestABrokenUpstreamHarmsNoOther(t *testing.T) {
	good := newToolServer(t, "good", true, "read: Read")
	circle := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(body), &m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"again","inputSchema":{"type":"object"}},{"name":"odd","inputSchema":7},{"name":"read","inputSchema":{"type":"object"}}],"nextCursor":"same"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	r := newRig(t, federated(fmt.Sprintf(`
  - {name: down, url: "http://127.0.0.1:1/mcp", prefix: down_}
  - {name: good, url: %s}
  - {name: circle, url: %s}`, good.URL, circle.URL), allowEverything))
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct {
			Tools []struct{ Name string }
			Meta  map[string][]string `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"read", "again"}) {
		t.Errorf("%v", names)
	}
	if !slices.Equal(list.Result.Meta["svc/unavailable"], []string{"down"}) {
		t.Errorf("unavailable: %v", list.Result.Meta)
	}
	for _, want := range []string{"reason=tool_claimed owner=good", "/inputSchema is no object", "leads to a page before"} {
		if !strings.Contains(r.logs.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.logs.String())
		}
	}
	call := r.post(call("2", "down_anything"))
	if call.status != http.StatusBadGateway || !strings.Contains(call.body, "upstream_unreachable") {
		t.Errorf("a call of an upstream that is down: %d %s", call.status, call.body)
	}
}

// A request with invalid members of _meta gets an error with the id of the request, and an audit
// line with its error_kind; the log has the cause.
func TestRubbishInMetaOfRequestsThatTheGatewayAnswers(t *testing.T) {
	r := newRig(t, federated("  - {name: one, url: "+newToolServer(t, "one", true, "a: A").URL+"}", allowEverything))
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":`, `"io.modelcontextprotocol/clientCapabilities":`
	deep := strings.Repeat(`{"a":`, 120) + "1" + strings.Repeat("}", 120)
	for _, tt := range []struct {
		name, header, meta string
		status             int
		kind               any
	}{
		{"fine", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `{}}`, 200, nil},
		{"fine, and deep", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `{"experimental":` + deep + `}}`, 200, nil},
		{"fine, and large", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `{},"x":"` + strings.Repeat("x", 1<<20) + `"}`, 200, nil},
		{"of another type", "2026-07-28", `[]`, 400, "invalid_meta"},
		{"null", "2026-07-28", `null`, 400, "missing_protocol_version"},
		{"empty", "2026-07-28", `{}`, 400, "missing_protocol_version"},
		{"a revision that is a number", "2026-07-28", `{` + version + `20260728}`, 400, "invalid_protocol_version"},
		{"a revision twice", "2026-07-28", `{` + version + `"2026-07-28",` + version + `"2025-06-18",` + capabilities + `{}}`, 400, "duplicate_member"},
		{"capabilities twice", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `{},` + capabilities + `{}}`, 400, "duplicate_member"},
		{"no capabilities", "2026-07-28", `{` + version + `"2026-07-28"}`, 400, "client_capabilities"},
		{"capabilities that are null", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `null}`, 400, "client_capabilities"},
		{"too deep", "2026-07-28", `{` + version + `"2026-07-28",` + capabilities + `{"a":` + deep + `,"b":` + strings.Replace(deep, "1", deep, 1) + `}}`, 400, "nesting_too_deep"},
		{"another revision than the header", "2025-06-18", `{` + version + `"2026-07-28",` + capabilities + `{}}`, 400, "header_mismatch_version"},
		{"an unknown protocol revision", "9999-01-01", `{` + version + `"9999-01-01",` + capabilities + `{}}`, 400, "unsupported_protocol_version"},
		{"the same without capabilities", "9999-01-01", `{` + version + `"9999-01-01"}`, 400, "unsupported_protocol_version"},
		{"an empty revision, which declares none", "", `{` + version + `"",` + capabilities + `{}}`, 200, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, method := range []string{"server/discover", "tools/list"} {
				got := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"me","method":%q,"params":{"_meta":%s}}`, method, tt.meta), "MCP-Protocol-Version", tt.header, "Mcp-Method", method)
				if got.status != tt.status || string(got.rpc(t).ID) != `"me"` {
					t.Errorf("%s: %d %.300s", method, got.status, got.body)
				}
				lines := r.all()
				if last := lines[len(lines)-1]; last["error_kind"] != tt.kind || last["status"] != float64(tt.status) {
					t.Errorf("%s: line %v", method, last)
				}
			}
		})
	}
	for _, want := range []string{"_meta lacks io.modelcontextprotocol/clientCapabilities, an object", "the request declares an unknown protocol revision"} {
		eventually(t, "the log lacks "+want, func() bool { return strings.Contains(r.logs.String(), want) })
	}
	if strings.Contains(r.logs.String(), "panic") {
		t.Error(r.logs.String())
	}
}

// A request for an item that does not exist gets the error of a server without the item, in every
// generation; the audit line has no_route. In a session it has never the status 404, after which
// clients take their session for ended.
func TestWhatNobodyHas(t *testing.T) {
	r := newRig(t, federated("  - {name: one, url: "+newToolServer(t, "one", true, "a: A").URL+", prefix: one_}", allowEverything))
	session := r.begin()
	for _, tt := range []struct {
		method, params       string
		legacy, modern       int // statuses
		legacyCode, nextCode int
		data                 string // of both
	}{
		{"resources/read", `"uri":"a://\"b"`, 200, 400, -32002, -32602, `"uri":"a://\"b"`},
		{"resources/subscribe", `"uri":"a://b"`, 200, 404, -32002, -32601, ``},
		{"prompts/get", `"name":"x"`, 200, 400, -32602, -32602, `"message":"no server has a prompt of this name"`},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}`, 200, 400, -32602, -32602, ``},
		{"completion/complete", `"ref":7`, 200, 400, -32602, -32602, ``},
		{"tools/call", `"name":"b"`, 404, 404, -32601, -32601, ``},
		{"tasks/get", `"taskId":"b"`, 404, 404, -32601, -32601, ``}, // no server has tasks
		{"tasks/list", `"x":1`, 404, 404, -32601, -32601, ``},
		{"vendor/method", `"x":1`, 404, 404, -32601, -32601, ``},
	} {
		inSession, want := tt.legacyCode, 200
		switch tt.method {
		case "resources/read", "resources/subscribe", "tools/call":
			inSession = -32602
		}
		got := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, tt.method, tt.params), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
		if e := got.rpc(t).Error; got.status != want || e.Code != inSession || e.Message != "no_route" || e.Data["reason"] != "no_route" || !strings.Contains(got.body, tt.data) {
			t.Errorf("%s %s in a session: %d %s, want %d %d", tt.method, tt.params, got.status, got.body, want, inSession)
		}
		if line := r.lastLine(); line["error_kind"] != "no_route" || line["status"] != float64(want) {
			t.Errorf("%s in a session: line %v", tt.method, line)
		}
		// A notification gets no result or error that means success, and no 404 either.
		got = r.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, tt.method, tt.params), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
		if got.status != 202 && (got.status != 400 || string(got.rpc(t).ID) != `""`) {
			t.Errorf("%s %s as a notification in a session: %d %s", tt.method, tt.params, got.status, got.body)
		}
		name := map[string]string{"resources/read": `a://"b`, "prompts/get": "x", "tools/call": "b", "tasks/get": "b"}[tt.method]
		for i, got := range []answer{
			r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, tt.method, tt.params)),
			r.post(modern("1", tt.method, tt.params), append(modernHeaders(tt.method), "Mcp-Name", name)...),
		} {
			status, code := tt.legacy, tt.legacyCode
			if i == 1 {
				status, code = tt.modern, tt.nextCode
			}
			if got.status != status || got.rpc(t).Error.Code != code || got.rpc(t).Error.Message != "no_route" || !strings.Contains(got.body, tt.data) {
				t.Errorf("%s %s: %d %s, want %d %d", tt.method, tt.params, got.status, got.body, status, code)
			}
			lines := r.all()
			if line := lines[len(lines)-2+i]; line["error_kind"] != "no_route" {
				t.Errorf("%s: line %v", tt.method, line)
			}
		}
	}
}

// A GET or DELETE that names no session is refused at the gateway's own endpoint, at views too: a
// client that opens its stream before initialize opens it again afterwards. Revisions without
// sessions have no such streams; the upstreams are not asked.
func TestAStreamNeedsASession(t *testing.T) {
	up := newToolServer(t, "one", true, "a: A")
	r := newRig(t, federated("  - {name: one, url: "+up.URL+", prefix: one_}", "views: [{name: all, upstreams: [one]}]\n"+allowEverything))
	for _, path := range []string{"", "/v/all"} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			for _, version := range []string{"", "2025-03-26", "2025-11-25"} {
				got := r.do(method, r.url+path, "", "MCP-Protocol-Version", version, "Accept", "text/event-stream")
				if e := got.rpc(t); got.status != 400 || e.Error.Code != -32600 || e.Error.Message != "session required" || e.Error.Data["reason"] != "session_required" || string(e.ID) != `""` {
					t.Errorf("%s %s %q: %d %s", method, path, version, got.status, got.body)
				}
				if line := r.lastLine(); line["error_kind"] != "session_required" || line["status"] != float64(400) {
					t.Errorf("%s %s %q: line %v", method, path, version, line)
				}
			}
			if got := r.do(method, r.url+path, "", "MCP-Protocol-Version", "2026-07-28"); got.status != 405 {
				t.Errorf("%s %s of 2026-07-28: %d", method, path, got.status)
			}
		}
	}
	if opened := r.open(http.MethodGet, "", "Mcp-Session-Id", r.begin()); opened.StatusCode != 200 {
		t.Errorf("a stream of a session: %d", opened.StatusCode)
	}
}

// A session that names a revision that does not exist gets 400; without a session an earlier date
// is read as a revision with sessions, as before.
func TestASessionHasARevisionThatExists(t *testing.T) {
	r := newRig(t, federated("  - {name: one, url: "+newToolServer(t, "one", true, "a: A").URL+", prefix: one_}", allowEverything))
	session := r.begin()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		}
		got := r.do(method, r.url, body, "Mcp-Session-Id", session, "MCP-Protocol-Version", "1998-02-03", "Accept", "text/event-stream, application/json")
		if e := got.rpc(t).Error; got.status != 400 || e.Code != -32022 || e.Data["reason"] != "unsupported_protocol_version" || !strings.Contains(got.body, `"2025-11-25"`) {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	for _, version := range []string{"", "2025-03-26", "2025-11-25"} {
		if got := r.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", session, "MCP-Protocol-Version", version); got.status != 200 {
			t.Errorf("%q: %d %s", version, got.status, got.body)
		}
	}
	if got := r.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", "1998-02-03"); got.status != 200 {
		t.Errorf("without a session: %d %s", got.status, got.body)
	}
}

// An upstream without sessions that answers 404 does not end the session at the gateway: clients
// take any 404 for its end.
func TestA404OfAnUpstreamDoesNotEndASession(t *testing.T) {
	for name, tt := range map[string]struct {
		contentType, body string
		code              int
	}{
		"a JSON-RPC error": {"application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`, -32601},
		"plain text":       {"text/plain", "no such method", -32600},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
				switch {
				case strings.Contains(body, `"initialize"`):
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"jsonrpc":"2.0","id":"svc-initialize","result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
					return
				case !strings.Contains(body, `"tools/call"`):
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, tt.body)
			})
			r := newRig(t, federated("  - {name: one, url: "+up.URL+", prefix: one_}", allowEverything))
			got := r.post(call("1", "one_x"), "Mcp-Session-Id", r.begin(), "MCP-Protocol-Version", "2025-11-25")
			if got.status != 200 || got.rpc(t).Error.Code != tt.code {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

// The configuration cannot use the name of the virtual upstream.
func TestNoUpstreamHasTheNameOfTheFederation(t *testing.T) {
	if federation.Name != "svc" {
		t.Errorf("audit lines and documents name the upstream svc, not %q", federation.Name)
	}
}
