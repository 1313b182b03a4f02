package upstream

import (
	"strings"
	"testing"

	"svc/gateway/base/diag"
)

// exchanging makes client_credentials a token_exchange.
func exchanging(c *Config) {
	c.Credentials = &CredentialsConfig{TokenExchange: &TokenExchange{TokenEndpoint: c.Credentials.ClientCredentials.TokenEndpoint, Audience: "up"}}
}

// granting makes client_credentials an id_jag.
func granting(c *Config) *IDJAG {
	j := &IDJAG{
		IDP:           TokenClient{TokenURL: "https://idp.example/token", ClientID: "gw-at-idp", ClientSecret: "s3cret"},
		TokenEndpoint: c.Credentials.ClientCredentials.TokenEndpoint, Audience: "https://login.example",
	}
	c.Credentials = &CredentialsConfig{IDJAG: j}
	return j
}

func TestValidateCredentials(t *testing.T) {
	good := ClientCredentials{TokenEndpoint{TokenClient: TokenClient{TokenURL: "https://login.example/token", ClientID: "gw", ClientSecret: "s3cret"}, Scopes: []string{"a:b", "c"}, Resource: "https://up/mcp"}}
	for _, tt := range []struct {
		name string
		edit func(c *Config)
		want string // part of a finding; empty for none
	}{
		{"good", func(*Config) {}, ""},
		{"loopback", func(c *Config) { c.Credentials.ClientCredentials.TokenURL = "http://127.0.0.1:9/token" }, ""},
		{"plain http", func(c *Config) { c.Credentials.ClientCredentials.TokenURL = "http://login.example/token" }, "must be https"},
		{"no endpoint", func(c *Config) { c.Credentials.ClientCredentials.TokenURL = "" }, "needs the address"},
		{"no id", func(c *Config) { c.Credentials.ClientCredentials.ClientID = "" }, "needs the id"},
		{"no secret", func(c *Config) { c.Credentials.ClientCredentials.ClientSecret = "" }, "needs the secret"},
		{"two scopes in one", func(c *Config) { c.Credentials.ClientCredentials.Scopes = []string{"a b"} }, "not a scope"},
		{"resource", func(c *Config) { c.Credentials.ClientCredentials.Resource = "up" }, "absolute URI"},
		{"empty section", func(c *Config) { c.Credentials = &CredentialsConfig{} }, "needs client_credentials"},
		{"two credentials", func(c *Config) { c.Headers = map[string]string{"authorization": "Bearer s3cret"} }, "an Authorization already"},
		{"two of them", func(c *Config) {
			c.Credentials.TokenExchange = &TokenExchange{TokenEndpoint: c.Credentials.ClientCredentials.TokenEndpoint}
		}, "client_credentials and token_exchange"},
		{"exchange", exchanging, ""},
		{"exchange without an endpoint", func(c *Config) { exchanging(c); c.Credentials.TokenExchange.TokenURL = "" }, "needs the address"},
		{"exchange with shared lists", func(c *Config) { exchanging(c); c.SharedLists = true }, "belong to each caller"},
		{"grant", func(c *Config) { granting(c) }, ""},
		{"grant with keys", func(c *Config) {
			j := granting(c)
			j.ClientSecret, j.ClientKeyFile, j.IDP.ClientSecret, j.IDP.ClientKeyFile, j.IDP.ClientKeyID = "", "/etc/svc/a.pem", "", "/etc/svc/b.pem", "k1"
		}, ""},
		{"grant without an identity provider", func(c *Config) { granting(c).IDP = TokenClient{} }, "credentials.id_jag.idp.token_url: needs the address"},
		{"grant with a secret in the open", func(c *Config) { granting(c).IDP.TokenURL = "http://idp.example/token" }, "credentials.id_jag.idp.token_url: must be https"},
		{"grant without an account at the identity provider", func(c *Config) { granting(c).IDP.ClientSecret = "" }, "credentials.id_jag.idp.client_secret: needs the secret"},
		{"grant without an account at the upstream's server", func(c *Config) { granting(c).ClientID = "" }, "credentials.id_jag.client_id: needs the id"},
		{"grant without an audience", func(c *Config) { granting(c).Audience = "" }, "credentials.id_jag.audience: needs the issuer"},
		{"grant without a resource", func(c *Config) { granting(c).Resource = "" }, "credentials.id_jag.resource: needs the identifier"},
		{"grant with a resource that is none", func(c *Config) { granting(c).Resource = "up" }, "credentials.id_jag.resource: must be an absolute URI"},
		{"grant of one server for itself", func(c *Config) { j := granting(c); j.TokenURL = j.IDP.TokenURL }, "must not accept a grant of its own"},
		{"grant with shared lists", func(c *Config) { granting(c); c.SharedLists = true }, "belong to each caller"},
		{"grant beside a header", func(c *Config) { granting(c); c.Headers = map[string]string{"Authorization": "Bearer s3cret"} }, "an Authorization already"},
		{"grant and exchange", func(c *Config) {
			x := &TokenExchange{TokenEndpoint: c.Credentials.ClientCredentials.TokenEndpoint}
			granting(c)
			c.Credentials.TokenExchange = x
		}, "token_exchange and id_jag"},
		{"key", func(c *Config) {
			c.Credentials.ClientCredentials.ClientSecret, c.Credentials.ClientCredentials.ClientKeyFile = "", "/etc/svc/a.pem"
		}, ""},
		{"key and secret", func(c *Config) { c.Credentials.ClientCredentials.ClientKeyFile = "/etc/svc/a.pem" }, "client_secret is set too"},
		{"the id of no key", func(c *Config) { c.Credentials.ClientCredentials.ClientKeyID = "k1" }, "so client_key_file is needed"},
		{"the audience of no key", func(c *Config) { c.Credentials.ClientCredentials.ClientKeyAudience = "https://login.example" }, "so client_key_file is needed"},
		{"login", func(c *Config) { c.Credentials = &CredentialsConfig{AuthorizationCode: new(AuthorizationCode)} }, ""},
		{"login with a secret alone", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{ClientSecret: "s3cret"}}
		}, "client_id is needed"},
		{"login of a client without its server", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{ClientID: "gw", ClientSecret: "s3cret"}}
		}, "authorization_server is needed"},
		{"login of a public client without its server", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{ClientID: "gw"}}
		}, "authorization_server is needed"},
		{"login of a client at its server", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{ClientID: "gw", ClientSecret: "s3cret", AuthorizationServer: "https://login.example"}}
		}, ""},
		{"login at a server in the open", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{AuthorizationServer: "http://login.example"}}
		}, "must be https"},
		{"login with a port that is none", func(c *Config) {
			c.Credentials = &CredentialsConfig{AuthorizationCode: &AuthorizationCode{RedirectPort: 70000}}
		}, "is no port"},
		{"another header beside", func(c *Config) { c.Headers = map[string]string{"X-Team": "a"} }, ""},
		{"program", func(c *Config) { c.URL, c.Command = "", []string{"x"} }, "has no effect on a program"},
	} {
		cc := good
		c := Config{}
		c.SetDefaults()
		c.Name, c.URL, c.Credentials = "up", "https://up/mcp", &CredentialsConfig{ClientCredentials: &cc}
		tt.edit(&c)
		report := diag.New()
		c.Validate(report.Root())
		var text []string
		for _, f := range report.Findings() {
			text = append(text, f.Error())
		}
		all := strings.Join(text, "\n")
		if (tt.want == "") != (all == "") || !strings.Contains(all, tt.want) || strings.Contains(all, "s3cret") {
			t.Errorf("%s: %q, want %q", tt.name, all, tt.want)
		}
	}
}
