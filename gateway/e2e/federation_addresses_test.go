package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/mcp"
)

// pages is the part of the name of a program that makes it a server of pageServer.
const pages = "pages_"

// pageServer is a server with a skill and the page of an app, which are at the same addresses in each. It
// also names the address that clients see of the page of another server.
func pageServer(name string) *sdk.Server {
	const page, skill = "ui://x/page", "skill://a/SKILL.md"
	foreign := "ui://pages-a/x/page"
	if strings.HasSuffix(name, "a") {
		foreign = "ui://pages-b/x/page"
	}
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{
		Instructions: "Read " + skill + " and " + page + " first.",
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope, c.TTLMs = "public", 60_000 },
		CompletionHandler: func(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{name + " completes " + req.Params.Ref.URI}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	read := func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, Text: name + " has " + req.Params.URI}}}, nil
	}
	server.AddResource(&sdk.Resource{Name: "page", URI: page}, read)
	server.AddResource(&sdk.Resource{Name: "skill", URI: skill}, read)
	server.AddResource(&sdk.Resource{Name: "plain", URI: "plain://" + name}, read)
	server.AddResource(&sdk.Resource{Name: "foreign", URI: foreign}, read)
	server.AddResource(&sdk.Resource{Name: "unreadable", URI: "ui://x/page?theme=dark"}, read)
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "pages", URITemplate: "ui://x/{id}"}, read)
	meta := func() sdk.Meta {
		return sdk.Meta{"ui": map[string]any{"resourceUri": page, "other": page}, "ui/resourceUri": page, "openai/outputTemplate": foreign, "else": page}
	}
	blocks := func() []sdk.Content {
		return []sdk.Content{
			&sdk.ResourceLink{URI: page, Name: page}, &sdk.ResourceLink{URI: foreign, Name: "foreign"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: skill, Text: "see " + skill}}, &sdk.TextContent{Text: "see " + page},
		}
	}
	sdk.AddTool(server, &sdk.Tool{Name: "show", Meta: meta()}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: page})
		return &sdk.CallToolResult{Meta: meta(), Content: blocks()}, map[string]any{"uri": page}, nil
	})
	server.AddPrompt(&sdk.Prompt{Name: "look"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		var messages []*sdk.PromptMessage
		for _, b := range blocks() {
			messages = append(messages, &sdk.PromptMessage{Role: "user", Content: b})
		}
		return &sdk.GetPromptResult{Messages: messages}, nil
	})
	return server
}

// servePages serves a pageServer for each name, and returns their lines of the configuration.
func servePages(t *testing.T, stateless bool, rest string, names ...string) (lines string) {
	t.Helper()
	for i, name := range names {
		server := pageServer(strings.ToLower(name))
		at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless, JSONResponse: stateless}))
		t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
		prefix := strings.ToLower(name) + "_"
		if i > 1 {
			prefix = fmt.Sprintf("p%d_", i)
		}
		lines += fmt.Sprintf("  - {name: %s, url: %q, prefix: %s%s}\n", name, at.URL, prefix, rest)
	}
	return lines
}

// Two servers with the same addresses are used through one URL, in both protocol generations, translated
// and on stdio: every address that a client sees has the name of its upstream in front, and only such an
// address reaches one. Nothing else changes.
func TestAddressesOfSeveralUpstreams(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, stateless bool, rest string) string {
		return servePages(t, stateless, rest, "Pages_A", "pages_b")
	}
	for name, config := range map[string]func(t *testing.T) string{
		"2026-07-28": func(t *testing.T) string { return federated(serve(t, true, ""), allowEverything) },
		"2025-11-25": func(t *testing.T) string { return legacyClients + federated(serve(t, false, ""), allowEverything) },
		"2026-07-28 to servers of 2025-11-25": func(t *testing.T) string {
			return federated(serve(t, false, `, protocol: "2025-11-25"`), allowEverything)
		},
		"2025-11-25 to servers of 2026-07-28": func(t *testing.T) string {
			return legacyClients + federated(serve(t, true, `, protocol: "2026-07-28"`), allowEverything)
		},
		"stdio": func(*testing.T) string {
			return federated(stdioUpstream("pages_a", ", prefix: pages_a_")+stdioUpstream("pages_b", ", prefix: pages_b_"), allowEverything)
		},
		"stdio, 2025-11-25": func(*testing.T) string {
			return legacyClients + federated(stdioUpstream("pages_a", ", prefix: pages_a_")+stdioUpstream("pages_b", ", prefix: pages_b_"), allowEverything)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, config(t))
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			updated := make(chan string, 16)
			host := &sdk.ClientCapabilities{Extensions: map[string]any{"io.modelcontextprotocol/ui": map[string]any{}}}
			s := r.connect(ctx, &sdk.ClientOptions{Capabilities: host, ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) {
				select {
				case updated <- req.Params.URI:
				default:
				}
			}})
			for _, letter := range []string{"a", "b"} {
				useAddresses(ctx, t, s, letter, updated)
			}
			for _, uri := range []string{"ui://x/page", "skill://a/SKILL.md", "ui://pages_a/x/page", "ui://pages-a/x/../x/page", "ui://pages-a/x/%2e%2e/page", "ui://pages-c/x/page", "u%69://pages-a/x/page"} {
				if got, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri}); err == nil {
					t.Errorf("%s is read: %+v", uri, got)
				}
			}
			resources, err := s.ListResources(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			var uris []string
			for _, one := range resources.Resources {
				uris = append(uris, one.URI)
			}
			want := []string{
				"plain://pages_a", "plain://pages_b", "skill://pages-a/a/SKILL.md", "skill://pages-b/a/SKILL.md",
				"ui://pages-a/pages-b/x/page", "ui://pages-a/x/page", "ui://pages-b/pages-a/x/page", "ui://pages-b/x/page",
			}
			if slices.Sort(uris); !slices.Equal(uris, want) {
				t.Errorf("resources: %q, want %q", uris, want)
			}
			if text := s.InitializeResult().Instructions; !strings.Contains(text, "Read skill://pages-a/a/SKILL.md and ui://x/page first.") || !strings.Contains(text, "skill://pages-b/a/") {
				t.Errorf("instructions: %s", text)
			}
			if logs := r.logs.String(); strings.Count(logs, "with its name in front") != 2 || !strings.Contains(logs, "has a query or a fragment") {
				t.Errorf("log: %s", logs)
			}
		})
	}
}

// useAddresses uses every address of the server whose name ends with a letter.
func useAddresses(ctx context.Context, t *testing.T, s *sdk.ClientSession, letter string, updated chan string) {
	t.Helper()
	page, skill, name := "ui://pages-"+letter+"/x/page", "skill://pages-"+letter+"/a/SKILL.md", "pages_"+letter
	foreign := "ui://pages-" + letter + "/pages-" + map[string]string{"a": "b", "b": "a"}[letter] + "/x/page"
	for uri, own := range map[string]string{page: "ui://x/page", skill: "skill://a/SKILL.md", "ui://pages-" + letter + "/x/9": "ui://x/9", "plain://" + name: "plain://" + name} {
		got, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil || got.Contents[0].URI != uri || got.Contents[0].Text != name+" has "+own {
			t.Errorf("%s: %+v, %v", uri, got, err)
		}
	}
	templates, err := s.ListResourceTemplates(ctx, nil)
	if err != nil || !slices.ContainsFunc(templates.ResourceTemplates, func(one *sdk.ResourceTemplate) bool { return one.URITemplate == "ui://pages-"+letter+"/x/{id}" }) {
		t.Errorf("templates: %+v, %v", templates, err)
	}
	completed, err := s.Complete(ctx, &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/resource", URI: "ui://pages-" + letter + "/x/{id}"}, Argument: sdk.CompleteParamsArgument{Name: "id", Value: "p"}})
	if err != nil || completed.Completion.Values[0] != name+" completes ui://x/{id}" {
		t.Errorf("completion: %+v, %v", completed, err)
	}
	meta := map[string]any{"ui": map[string]any{"resourceUri": page, "other": "ui://x/page"}, "ui/resourceUri": page, "openai/outputTemplate": foreign, "else": "ui://x/page"}
	hasMeta := func(what string, got sdk.Meta) {
		t.Helper()
		for key, want := range meta {
			if fmt.Sprint(got[key]) != fmt.Sprint(want) {
				t.Errorf("%s: _meta[%q] is %v, want %v", what, key, got[key], want)
			}
		}
	}
	hasBlocks := func(what string, got ...sdk.Content) {
		t.Helper()
		text, _ := json.Marshal(got)
		want, _ := json.Marshal([]sdk.Content{
			&sdk.ResourceLink{URI: page, Name: "ui://x/page"}, &sdk.ResourceLink{URI: foreign, Name: "foreign"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: skill, Text: "see skill://a/SKILL.md"}}, &sdk.TextContent{Text: "see ui://x/page"},
		})
		if string(text) != string(want) {
			t.Errorf("%s: %s\nwant %s", what, text, want)
		}
	}
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if tool.Name == name+"_show" {
			hasMeta(tool.Name, tool.Meta)
		}
	}
	if err := s.Subscribe(ctx, &sdk.SubscribeParams{URI: page}); err != nil {
		t.Errorf("subscribe: %v", err)
	}
	awaitUpdate := func() bool {
		until := time.NewTimer(time.Second)
		defer until.Stop()
		select {
		case uri := <-updated:
			if uri != page {
				t.Errorf("%q was updated, want %q", uri, page)
			}
			return true
		case <-until.C:
			return false
		}
	}
	for seen := false; !seen && ctx.Err() == nil; seen = awaitUpdate() { // a subscription of 2026-07-28 begins some time after the answer
		shown, err := s.CallTool(ctx, &sdk.CallToolParams{Name: name + "_show"})
		if err != nil {
			t.Fatal(err)
		}
		hasBlocks("result", shown.Content...)
		hasMeta("result", shown.Meta)
		if got := fmt.Sprint(shown.StructuredContent); got != "map[uri:ui://x/page]" {
			t.Errorf("structured content: %s", got)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("no notification of %s", page)
	}
	if err := s.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: page}); err != nil {
		t.Errorf("unsubscribe: %v", err)
	}
	for drained := false; !drained; {
		select {
		case <-updated:
		default:
			drained = true
		}
	}
	looked, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: name + "_look"})
	if err != nil {
		t.Fatal(err)
	}
	var blocks []sdk.Content
	for _, m := range looked.Messages {
		blocks = append(blocks, m.Content)
	}
	hasBlocks("prompt", blocks...)
}

// Rules, labels and views decide by the address that clients see, and what is no address of an upstream
// of the caller is the error -32602, whether another caller may use the upstream or not.
func TestAddressesAreJudgedAsClientsSeeThem(t *testing.T) {
	t.Parallel()
	lines := servePages(t, true, "", "pages_a", "pages_b")
	r := newRig(t, federated(lines, `
views: [{name: only, upstreams: [pages_a]}]
data_flow: {labels: [{name: seen, uri_prefix: "skill://pages-a/"}, {name: never, uri_prefix: "skill://a/"}]}
policy:
  default_action: allow
  rules:
    - {id: visible, action: deny, when: {method: resources/read, uri_prefix: "skill://pages-b/"}}
    - {id: own, action: deny, when: {method: resources/read, uri_prefix: "ui://x/"}}`))
	read := func(r *rig, path, uri string) rpcError {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":` + string(mcp.AppendString(nil, uri)) + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		return r.do(http.MethodPost, r.url+path, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", mcp.EncodeHeader(uri)).rpc(t)
	}
	if e := read(r, "", "ui://pages-b/x/page").Error; e.Code != 0 {
		t.Errorf("ui://pages-b/x/page: %+v", e)
	}
	if e := read(r, "", "skill://pages-b/a/SKILL.md").Error; e.Code != mcp.CodePolicyDenied {
		t.Errorf("a rule denies the address: %+v", e)
	}
	if e := read(r, "", "skill://pages-a/a/SKILL.md").Error; e.Code != 0 {
		t.Errorf("skill://pages-a/a/SKILL.md: %+v", e)
	}
	if e := read(r, "/v/only", "ui://pages-a/x/page").Error; e.Code != 0 {
		t.Errorf("the page at the view: %+v", e)
	}
	var sets []any
	for _, line := range r.all() {
		if list, ok := line["sets"].([]any); ok {
			sets = append(sets, list...)
		}
	}
	if fmt.Sprint(sets) != "[seen]" {
		t.Errorf("labels that were set: %v", sets)
	}
	plain := newRig(t, federated(lines, allowEverything))
	hidden, unknown := read(r, "/v/only", "ui://pages-b/x/page").Error, read(r, "/v/only", "ui://nobody/x/page").Error
	hidden.Data["request_id"], unknown.Data["request_id"] = nil, nil
	hidden.Data["uri"], unknown.Data["uri"] = nil, nil
	if hidden.Code != -32602 || fmt.Sprint(hidden) != fmt.Sprint(unknown) {
		t.Errorf("an upstream outside of the view: %+v, one that does not exist: %+v", hidden, unknown)
	}
	for _, uri := range []string{
		"ui://x/page", "UI://x/page", "ui://", "ui:///page", "ui://pages-a", "ui:pages-a/x", "ui:/pages-a/x", `ui:\\pages-a\x`, "ui://PAGES-A/x", "ui://pages_a/x", "ui://pages-a./x",
		"ui://pages%2da/x", "u%69://pages-a/x", "ui%3a//pages-a/x", " ui://pages-a/x", "\tui://pages-a/x", "ui://pages-a/../pages-b/x", "ui://pages-a/%2E%2e/x", "ui://pages-a/%252e/x",
		"ui://pages-a/x%2Fy", "ui://pages-a/x%5cy", `ui://pages-a\x`, "ui://pages-a/x\u0000", "ui://me@pages-a/x", "ui://pages-a:80/x", "ui://[::1]/x", "ui://pages-a/[::1]/x", "ui://pages-a/x?y",
		"ui://pages-a/x#y", "ui://pages-a/" + strings.Repeat("x", 5000), "ui://" + strings.Repeat("x", 60000) + "/x",
	} {
		if e := read(plain, "", uri).Error; e.Code != -32602 || e.Message != "invalid_params" && e.Data["message"] == nil {
			t.Errorf("%.80q: %+v", uri, e)
		}
	}
	for name, header := range map[string]string{"without a session": "", "in a session": plain.begin()} {
		e := plain.post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ui://x/page"}}`, "MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", header)
		if e.status != 200 || e.rpc(t).Error.Code != -32602 {
			t.Errorf("2025-11-25 %s: %d %s", name, e.status, e.body)
		}
	}
}

// Two upstreams whose names are the same in addresses have none that clients can use, and say so.
func TestAddressesOfEqualNames(t *testing.T) {
	t.Parallel()
	lines := servePages(t, true, "", "pages_a", "other", "Pages-A")
	r := newRig(t, federated(lines, allowEverything))
	s := r.connect(t.Context(), nil)
	resources, err := s.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range resources.Resources {
		if strings.HasPrefix(one.URI, "ui://pages-a/") || strings.HasPrefix(one.URI, "skill://pages-a/") {
			t.Errorf("%s is listed", one.URI)
		}
	}
	if got, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "ui://pages-a/x/page"}); err == nil {
		t.Errorf("read: %+v", got)
	}
	if got, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "ui://other/x/page"}); err != nil {
		t.Errorf("the page of an upstream of another name: %+v, %v", got, err)
	}
	if got, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "plain://pages_a"}); err != nil {
		t.Errorf("a resource of another scheme: %+v, %v", got, err)
	}
	if logs := r.logs.String(); strings.Count(logs, "the name of another upstream is the same in addresses") != 2 {
		t.Errorf("log: %s", logs)
	}
}

// A second upstream in the file changes the addresses of the first one with the restart that it needs, not
// before.
func TestASecondUpstreamChangesAddresses(t *testing.T) {
	t.Parallel()
	one, second := servePages(t, true, "", "pages_a"), servePages(t, true, "", "second")
	r := newRig(t, federated(one, allowEverything))
	reads := func(uri string) bool {
		_, err := r.connect(t.Context(), nil).ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		return err == nil
	}
	if !reads("ui://x/page") || reads("ui://pages-a/x/page") {
		t.Error("the addresses of one upstream are not its own")
	}
	r.edit(one, one+second)
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !reads("ui://x/page") {
		t.Error("a reload has changed the addresses")
	}
	r.stop()
	r.start()
	if reads("ui://x/page") || !reads("ui://pages-a/x/page") || !reads("ui://second/x/page") {
		t.Errorf("the addresses of two upstreams: %s", r.logs.String())
	}
}

// A call through the tool search has the addresses of a call.
func TestAddressesInCallsThroughTheSearch(t *testing.T) {
	t.Parallel()
	r := newRig(t, federated(servePages(t, true, "", "pages_a", "pages_b"), "tool_search: {enabled: true, mode: synthesize}\n"+allowEverything))
	got, err := r.connect(t.Context(), nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "mcp_call", Arguments: map[string]any{"name": "pages_b_show", "arguments": map[string]any{}}})
	if err != nil || got.IsError {
		t.Fatalf("%+v, %v", got, err)
	}
	if link := got.Content[0].(*sdk.ResourceLink).URI; link != "ui://pages-b/x/page" || got.Meta["ui/resourceUri"] != link {
		t.Errorf("link %s, _meta %v", link, got.Meta)
	}
}
