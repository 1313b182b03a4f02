package peers

//lint:file-ignore SA1019 the generation before 2026-07-28 is tested too

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// startMCPGoSkills serves a skill and an app on mcp-go, which has no methods of others: those of skills are
// answered before it.
func startMCPGoSkills(t *testing.T, name string) string {
	const document, page = "skill://refunds/SKILL.md", "ui://board/page"
	text := "---\nname: refunds\ndescription: Refunds\n---\n# of " + name
	s := server.NewMCPServer(name, "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(false, true),
		server.WithExtensions(map[string]any{"io.modelcontextprotocol/skills": map[string]any{}, "io.modelcontextprotocol/ui": map[string]any{}}))
	for uri, content := range map[string]string{document: text, page: "<p>" + name} {
		s.AddResource(mcpgo.NewResource(uri, "f"), func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			return []mcpgo.ResourceContents{mcpgo.TextResourceContents{URI: uri, Text: content}}, nil
		})
	}
	move := mcpgo.NewTool("move")
	move.Meta = &mcpgo.Meta{AdditionalFields: map[string]any{"ui": map[string]any{"resourceUri": page, "visibility": []string{"app"}}}}
	s.AddTool(move, func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText("moved at " + name), nil
	})
	entry := fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":"refunds","description":"Refunds"},"resources":[{"uri":%[1]q,"digest":"sha256:%x","size":%d}]}`, document, sha256.Sum256([]byte(text)), len(text))
	next := server.NewStreamableHTTPServer(s, server.WithStateful(false))
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		result := map[string]string{"skills/list": `"skills":[` + entry + `]`, "skills/get": `"skill":` + entry}[m.Method]
		if result == "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s,"resultType":"complete","ttlMs":1000,"cacheScope":"public"}}`, m.ID, result)
	}))
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	return up.URL + "/mcp"
}

// mcp-go clients of either generation list, get and verify the skills of two servers behind one URL, and use an
// app at the view of its server as its page does.
func TestMCPGoUsesSkillsAndApps(t *testing.T) {
	g := startGateway(t, fmt.Sprintf("federation: {enabled: true}\nupstreams:\n  - {name: one, url: %q, prefix: one_}\n  - {name: two, url: %q, prefix: two_}\nviews: [{name: two, upstreams: [two]}]\nauth: {enabled: false}\npolicy: {default_action: allow}\n",
		startMCPGoSkills(t, "one"), startMCPGoSkills(t, "two")))
	for _, legacy := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		connect := func(url string) *client.Client {
			over, err := transport.NewStreamableHTTP(url)
			if err != nil {
				t.Fatal(err)
			}
			extensions := map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}}
			options := []client.ClientOption{client.WithClientCapabilities(mcpgo.ClientCapabilities{Extensions: extensions})}
			hello := mcpgo.InitializeRequest{}
			if legacy {
				options = append(options, client.WithLegacyProtocolOnly())
				hello.Params.ProtocolVersion = "2025-11-25"
			}
			c := client.NewClient(over, options...)
			t.Cleanup(func() { _ = c.Close() })
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			hello.Params.ClientInfo, hello.Params.Capabilities.Extensions = mcpgo.Implementation{Name: "check", Version: "1"}, extensions
			if _, err := c.Initialize(ctx, hello); err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := connect(g.url)
		if c.GetServerCapabilities().Extensions["io.modelcontextprotocol/skills"] == nil {
			t.Errorf("legacy %v: %v\n%s", legacy, c.GetServerCapabilities().Extensions, g.log)
		}
		// The client has no method for requests of extensions, but its transport has.
		ask := func(method, uri string, into any) {
			t.Helper()
			params := map[string]any{}
			if uri != "" {
				params["uri"] = uri
			}
			header := http.Header{}
			if !legacy {
				params["_meta"] = map[string]any{mcpgo.MetaKeyProtocolVersion: c.ProtocolVersion(), mcpgo.MetaKeyClientCapabilities: map[string]any{}, mcpgo.MetaKeyClientInfo: map[string]any{"name": "check", "version": "1"}}
				encoded, _ := json.Marshal(params)
				for name, value := range mcpgo.StandardHeaders(c.ProtocolVersion(), mcpgo.MCPMethod(method), encoded) {
					header.Set(name, value)
				}
			}
			got, err := c.GetTransport().SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: mcpgo.JSONRPC_VERSION, ID: mcpgo.NewRequestId("x"), Method: method, Params: params, Header: header})
			if err != nil || got.Error != nil || json.Unmarshal(got.Result, into) != nil {
				t.Fatalf("legacy %v: %s: %+v %v", legacy, method, got, err)
			}
		}
		type skill struct {
			URI       string
			Resources []struct{ URI, Digest string }
		}
		var list struct{ Skills []skill }
		var one struct{ Skill skill }
		read := func(c *client.Client, uri string) string {
			t.Helper()
			request := mcpgo.ReadResourceRequest{}
			request.Params.URI = uri
			got, err := c.ReadResource(ctx, request)
			if err != nil || len(got.Contents) != 1 {
				t.Fatalf("legacy %v: %s: %v", legacy, uri, err)
			}
			return got.Contents[0].(mcpgo.TextResourceContents).Text
		}
		ask("skills/list", "", &list)
		if len(list.Skills) != 2 || list.Skills[0].URI != "skill://one/refunds/SKILL.md" || list.Skills[1].URI != "skill://two/refunds/SKILL.md" {
			t.Fatalf("legacy %v: %v", legacy, list)
		}
		for _, s := range list.Skills {
			if ask("skills/get", s.URI, &one); one.Skill.URI != s.URI {
				t.Errorf("legacy %v: %v", legacy, one)
			}
			if text := read(c, s.URI); fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) != s.Resources[0].Digest {
				t.Errorf("legacy %v: %s is %q", legacy, s.URI, text)
			}
		}
		app := connect(strings.Replace(g.url, "/mcp", "/mcp/v/two", 1))
		tools, err := app.ListTools(ctx, mcpgo.ListToolsRequest{})
		if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "two_move" {
			t.Fatalf("legacy %v: %v %v", legacy, tools, err)
		}
		ui, _ := tools.Tools[0].Meta.AdditionalFields["ui"].(map[string]any)
		if text := read(app, fmt.Sprint(ui["resourceUri"])); text != "<p>two" {
			t.Errorf("legacy %v: %v is %q", legacy, ui, text)
		}
		call := func(c *client.Client, name string) string {
			request := mcpgo.CallToolRequest{}
			request.Params.Name = name
			got, err := c.CallTool(ctx, request)
			if err != nil {
				return err.Error()
			}
			content, _ := mcpgo.AsTextContent(got.Content[0])
			return content.Text
		}
		if got := call(app, "move"); got != "moved at two" {
			t.Errorf("legacy %v: %s", legacy, got)
		}
		if got := call(c, "two_move"); !strings.Contains(got, "policy_denied") {
			t.Errorf("legacy %v: outside of the view: %s", legacy, got)
		}
	}
	g.stop()
}
