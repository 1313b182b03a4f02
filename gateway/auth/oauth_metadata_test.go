package auth

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResource(t *testing.T) {
	tests := []struct {
		name      string
		publicURL string
		listen    string
		secure    bool
		base      string
	}{
		{"public_url", "https://gw.example", "127.0.0.1:8081", false, "https://gw.example"},
		{"public_url with a slash at the end", "https://gw.example/", "127.0.0.1:8081", false, "https://gw.example"},
		{"public_url with a path", "https://gw.example/team", "127.0.0.1:8081", false, "https://gw.example/team"},
		{"derived from listen", "", "127.0.0.1:8081", false, "http://127.0.0.1:8081"},
		{"derived from listen with TLS", "", "gw.example:443", true, "https://gw.example:443"},
		{"derived from every address", "", "0.0.0.0:8081", false, "http://localhost:8081"},
		{"derived from every address, IPv6", "", "[::]:8081", false, "http://localhost:8081"},
		{"derived from a port alone", "", ":8081", false, "http://localhost:8081"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cfg OAuthConfig
			cfg.SetDefaults()
			cfg.Issuer, cfg.PublicURL, cfg.RequiredScopes = "https://issuer.example", tt.publicURL, []string{"read", "write"}
			r, err := NewResource(cfg, tt.listen, tt.secure, "/mcp")
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(r.Document, &doc); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"resource": tt.base + "/mcp", "authorization_servers": []any{"https://issuer.example"},
				"scopes_supported": []any{"read", "write"}, "bearer_methods_supported": []any{"header"},
			}
			if diff := cmp.Diff(want, doc); diff != "" {
				t.Error(diff)
			}
			found := `Bearer resource_metadata="` + tt.base + `/.well-known/oauth-protected-resource"`
			if diff := cmp.Diff([]string{
				found + `, scope="read write"`,
				found + `, error="invalid_token", scope="read write"`,
				found + `, error="insufficient_scope", scope="read write"`,
			}, []string{r.Missing, r.Invalid, r.Scope}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQuoted(t *testing.T) {
	if got := quoted("a\"b\\c\r\nd\x00é"); got != `a\"b\\cd` {
		t.Errorf("got %s", got)
	}
}
