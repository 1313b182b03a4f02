// Command oauthclient is the official Go client of MCP for a gateway that requires
// a token: it discovers the provider through the gateway, registers (or uses its
// client metadata document), follows the authorization instead of its user's
// browser, connects, calls a tool and prints the result. oauth.mjs runs it.
//
//	oauthclient URL REDIRECT [CLIENT_METADATA_URL]
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: oauthclient URL REDIRECT [CLIENT_METADATA_URL]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	document := ""
	if len(os.Args) > 3 {
		document = os.Args[3]
	}
	text, err := run(ctx, os.Args[1], os.Args[2], document)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(text)
}

// run connects and calls the tool; it returns the text of the result.
func run(ctx context.Context, url, redirect, document string) (string, error) {
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return approve(ctx, args.URL, redirect)
		},
	}
	if document != "" {
		cfg.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: document}
	} else {
		cfg.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "svc-check", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code"},
			ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	handler, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		return "", err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "svc-check", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, OAuthHandler: handler}, nil)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "tool_echo", Arguments: map[string]any{}})
	if err != nil {
		return "", fmt.Errorf("call: %w", err)
	}
	if len(result.Content) == 1 {
		if t, ok := result.Content[0].(*mcp.TextContent); ok {
			return t.Text, nil
		}
	}
	return "", errors.New("the tool answered without a text")
}

// approve simulates the user's browser, and a user who approves everything.
func approve(ctx context.Context, at, redirect string) (*auth.AuthorizationResult, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	var back *auth.AuthorizationResult
	browser := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			q := req.URL.Query()
			back = &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}
			return http.ErrUseLastResponse
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if back == nil || back.Code == "" {
		return nil, fmt.Errorf("the authorization ended at %s with status %d", resp.Request.URL, resp.StatusCode)
	}
	return back, nil
}
