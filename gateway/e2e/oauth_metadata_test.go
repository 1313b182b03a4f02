package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func TestProtectedResourceMetadata(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "    required_scopes: [mcp, read]", "", allowAll, nil)
	path := "/.well-known/oauth-protected-resource"
	want := map[string]any{
		"resource": o.base + "/mcp", "authorization_servers": []any{o.issuer.URL},
		"scopes_supported": []any{"mcp", "read"}, "bearer_methods_supported": []any{"header"},
	}
	tests := []struct {
		name, method, path string
		status             int
	}{
		{"GET", http.MethodGet, path, 200},
		{"GET, the form with the path of the resource", http.MethodGet, path + "/mcp", 200},
		{"HEAD", http.MethodHead, path, 200},
		{"POST", http.MethodPost, path, 405},
		{"a path below", http.MethodGet, path + "/x", 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := o.do(tt.method, o.base+tt.path, "", "Authorization", "", "Mcp-Protocol-Version", "2025-06-18")
			if got.status != tt.status {
				t.Fatalf("status %d", got.status)
			}
			if tt.status == 405 && got.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow %q", got.header.Get("Allow"))
			}
			if tt.status != 200 || tt.method == http.MethodHead {
				return
			}
			var doc map[string]any
			if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, doc); diff != "" {
				t.Error(diff)
			}
		})
	}
	if lines := o.all(); len(lines) != 0 {
		t.Errorf("audit lines %v", lines)
	}
	o.edit("    enabled: true\n    issuer", "    enabled: false\n    issuer")
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.do(http.MethodGet, o.base+path, ""); got.status != 404 {
		t.Errorf("switched off: status %d", got.status)
	}
	if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(map[string]any{"scope": "mcp read"})); got.status != 401 {
		t.Errorf("switched off, a token: status %d", got.status)
	}
}

// The input rate limit applies to the metadata document too.
func TestMetadataStandsBehindTheInputLimit(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
	o.edit("default_upstream", "input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 2}\ndefault_upstream")
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 3 {
		got = append(got, o.do(http.MethodGet, o.base+"/.well-known/oauth-protected-resource", "").status)
	}
	if diff := cmp.Diff([]int{200, 200, 429}, got); diff != "" {
		t.Error(diff)
	}
}

// The warning when public_url is unset on 0.0.0.0.
func TestPublicURLWarning(t *testing.T) {
	up := newUpstream(t, echo)
	for _, tt := range []struct {
		listen, public string
		want           bool
	}{
		{"0.0.0.0:8081", "", true}, {"'[::]:8081'", "", true}, {"':8081'", "", true},
		{"127.0.0.1:8081", "", false}, {"0.0.0.0:8081", "https://gw.example", false},
	} {
		t.Run(tt.listen+" "+tt.public, func(t *testing.T) {
			o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
			o.stop()
			o.edit("public_url: "+o.base, "public_url: '"+tt.public+"'")
			o.edit("listen: 127.0.0.1:0", "listen: "+tt.listen)
			o.start()
			if got := strings.Contains(o.logs.String(), "auth.oauth.public_url is not set"); got != tt.want {
				t.Errorf("warned: %v", got)
			}
		})
	}
}

// The official Go client discovers the issuer through the gateway, gets a token with the scope of
// the challenge, and calls with it.
func TestGoSDKDiscoversTheIssuerThroughTheGateway(t *testing.T) {
	up := newSDKServer(t, "up", nil)
	o := newOAuthRig(t, up.URL, "    required_scopes: [mcp]", "", allowAll, nil)
	serve := func(doc any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc)
		}
	}
	o.issuer.Handle("/.well-known/oauth-authorization-server", serve(map[string]any{
		"issuer": o.issuer.URL, "authorization_endpoint": o.issuer.URL + "/authorize", "token_endpoint": o.issuer.URL + "/token",
		"jwks_uri": o.issuer.JWKSURL(), "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	}))
	var mu sync.Mutex
	var asked url.Values
	o.issuer.Handle("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		mu.Lock()
		defer mu.Unlock()
		serve(map[string]any{"access_token": o.token(map[string]any{"scope": asked.Get("scope")}), "token_type": "Bearer", "expires_in": 3600})(w, r)
	})
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: "sdk"},
		RedirectURL:         "http://127.0.0.1/callback",
		AuthorizationCodeFetcher: func(_ context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			u, err := url.Parse(args.URL)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			asked = u.Query()
			return &sdkauth.AuthorizationResult{Code: "c", State: asked.Get("state")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: o.url, OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": "hello"}}); err != nil || got.Content[0].(*sdk.TextContent).Text != "up: hello" {
		t.Errorf("got %v, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked.Get("scope") != "mcp" || asked.Get("resource") != o.url {
		t.Errorf("the client requested %v", asked)
	}
}
