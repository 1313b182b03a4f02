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
	var server *sdk.Server
	server = sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{
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

// Two servers with the same addresses are used through one URL, in both protocol generations, translated
// and on stdio: every address that a client sees has the name of its upstream in front, and only such an
// address reaches one. Nothing else changes.
func TestAddressesOfSeveralUpstreams(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, stateless bool, rest string) string {
		var lines string
		for _, name := range []string{"Pages_A", "pages_b"} {
			server := pageServer(strings.ToLower(name))
			at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			lines += fmt.Sprintf("  - {name: %s, url: %q, prefix: %s_%s}\n", name, at.URL, strings.ToLower(name), rest)
		}
		return lines
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
			s := r.connect(ctx, &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) {
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
