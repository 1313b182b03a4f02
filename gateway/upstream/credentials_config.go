package upstream

import (
	"net/url"
	"regexp"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
)

// CredentialsConfig is upstreams[].credentials: how the gateway gets a token for an
// upstream. Exactly one of its members is set.
type CredentialsConfig struct {
	// ClientCredentials requests tokens for the gateway itself from a token endpoint, with
	// the OAuth grant of this name.
	ClientCredentials *ClientCredentials `yaml:"client_credentials"`
	// TokenExchange requests a token for each caller from a token endpoint, in exchange for
	// the token that the caller presented at the gateway (RFC 8693). Callers without a
	// token get 403 no_subject_token.
	TokenExchange *TokenExchange `yaml:"token_exchange"`
	// IDJAG requests a token for each caller from the authorization server of the upstream,
	// with a grant (Identity Assertion JWT Authorization Grant, ID-JAG) that the identity
	// provider of the callers issues in exchange for the ID token that the caller presented
	// at the gateway. Callers without an ID token get 403 no_subject_token.
	IDJAG *IDJAG `yaml:"id_jag"`
	// AuthorizationCode uses the login of an operator at a hosted server, which 'svc
	// upstream login' performs. Every caller uses the server with the operator's account.
	AuthorizationCode *AuthorizationCode `yaml:"authorization_code"`
}

// TokenClient is a token endpoint, with the client account of the gateway there. It has a
// client_secret or a client_key_file.
type TokenClient struct {
	// TokenURL is the token endpoint: https, except on loopback. Redirects are not
	// followed.
	TokenURL string `yaml:"token_url" env:"true"`
	// ClientID identifies the gateway at the token endpoint.
	ClientID string `yaml:"client_id" env:"true"`
	// ClientSecret is sent with it, as HTTP Basic.
	ClientSecret string `yaml:"client_secret" env:"true" secret:"true"`
	// ClientKeyFile is a private key in PEM, in place of client_secret: the gateway
	// authenticates with assertions that are signed with it (private_key_jwt): EdDSA for
	// Ed25519, ES256 for P-256, RS256 for RSA with 2048 bits or more. Its mode must not let
	// others read it. A change needs a restart.
	ClientKeyFile string `yaml:"client_key_file" env:"true"`
	// ClientKeyID is the kid of these assertions, for servers that know several keys of the
	// client. Empty sends none.
	ClientKeyID string `yaml:"client_key_id" env:"true"`
	// ClientKeyAudience is the aud of these assertions; empty is token_url. Servers that
	// follow the update of RFC 7523 accept only their issuer.
	ClientKeyAudience string `yaml:"client_key_audience" env:"true"`
}

// TokenEndpoint is a token endpoint that issues the tokens for an upstream.
type TokenEndpoint struct {
	TokenClient `yaml:",inline"`
	// Scopes are requested; if empty, the endpoint chooses.
	Scopes []string `yaml:"scopes"`
	// Resource is the resource indicator (RFC 8707) of the request; usually the URL of the
	// upstream. Empty sends none.
	Resource string `yaml:"resource" env:"true"`
}

// ClientCredentials is upstreams[].credentials.client_credentials.
type ClientCredentials struct {
	TokenEndpoint `yaml:",inline"`
}

// TokenExchange is upstreams[].credentials.token_exchange.
type TokenExchange struct {
	TokenEndpoint `yaml:",inline"`
	// Audience is the name of the upstream at the token endpoint, for endpoints that expect
	// it instead of resource. Empty sends none.
	Audience string `yaml:"audience" env:"true"`
}

// IDJAG is upstreams[].credentials.id_jag. Its token endpoint is that of the authorization
// server of the upstream; scopes and the required resource are sent to the identity provider,
// which writes them into the grant.
type IDJAG struct {
	// IDP is the identity provider at which the callers log in. Its account authenticates
	// the exchange of their ID tokens; client_id must be in their aud.
	IDP           TokenClient `yaml:"idp"`
	TokenEndpoint `yaml:",inline"`
	// Audience is the issuer of the authorization server of the upstream, or the name that
	// the identity provider has for it. Required.
	Audience string `yaml:"audience" env:"true"`
}

// AuthorizationCode is upstreams[].credentials.authorization_code. An empty section is
// enough for most servers: missing values are discovered at the server (RFC 9728, RFC
// 8414).
type AuthorizationCode struct {
	// Scopes are requested; if empty, the scopes that the server names.
	Scopes []string `yaml:"scopes"`
	// Resource is the resource indicator (RFC 8707) of the server; empty is its URL.
	Resource string `yaml:"resource" env:"true"`
	// ClientID identifies the gateway at the authorization server: an id that was
	// registered there, or the https URL of a client metadata document. Empty registers the
	// gateway at each login, if the server supports dynamic registration. Requires
	// authorization_server.
	ClientID string `yaml:"client_id" env:"true"`
	// ClientSecret belongs to client_id, if that has one.
	ClientSecret string `yaml:"client_secret" env:"true" secret:"true"`
	// AuthorizationServer is the issuer for the login; if empty, the first one that the
	// server names. A change needs a new login.
	AuthorizationServer string `yaml:"authorization_server" env:"true"`
	// RedirectPort is the loopback port to which the browser returns after the login, for
	// clients that are registered with one; 0 uses a free port.
	RedirectPort int `yaml:"redirect_port"`
}

func (a *AuthorizationCode) validate(at diag.At) {
	validateScopes(at.Field("scopes"), a.Scopes)
	validateResource(at.Field("resource"), a.Resource)
	if a.ClientSecret != "" && a.ClientID == "" {
		at.Field("client_id").Errorf("required", "client_secret is set, so client_id is needed")
	}
	if (a.ClientID != "" || a.ClientSecret != "") && a.AuthorizationServer == "" {
		// The upstream would name the server that gets the id and the secret.
		at.Field("authorization_server").Hint("as in authorization_server: https://login.example.com, the issuer at which client_id is registered").
			Errorf("required", "client_id or client_secret is set, so authorization_server is needed: otherwise the upstream chooses the server that they are sent to")
	}
	if a.AuthorizationServer != "" {
		validateEndpoint(at.Field("authorization_server"), a.AuthorizationServer, "as in https://login.example.com")
	}
	if a.RedirectPort < 0 || a.RedirectPort > 65535 {
		at.Field("redirect_port").Errorf("range", "is no port")
	}
}

// PerCaller reports whether requests to the upstream always need the token of a caller.
func (c *Config) PerCaller() bool { return c.Credentials.PerCaller() != "" }

// PerCaller returns the name of the section that needs the token of a caller; empty for none.
func (c *CredentialsConfig) PerCaller() string {
	switch {
	case c == nil:
		return ""
	case c.TokenExchange != nil:
		return "token_exchange"
	case c.IDJAG != nil:
		return "id_jag"
	}
	return ""
}

// TokenClients calls f for each configured token endpoint, with its position.
func (c *CredentialsConfig) TokenClients(at diag.At, f func(at diag.At, t *TokenClient)) {
	if c == nil {
		return
	}
	if cc := c.ClientCredentials; cc != nil {
		f(at.Field("client_credentials"), &cc.TokenClient)
	}
	if x := c.TokenExchange; x != nil {
		f(at.Field("token_exchange"), &x.TokenClient)
	}
	if j := c.IDJAG; j != nil {
		f(at.Field("id_jag").Field("idp"), &j.IDP)
		f(at.Field("id_jag"), &j.TokenClient)
	}
}

// scopeToken is one scope of OAuth.
var scopeToken = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,256}$`)

// validateCredentials reports the errors of the section of an upstream with a url.
func (c *Config) validateCredentials(at diag.At) {
	if c.Credentials == nil {
		return
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			at.Hint("remove one of them").Errorf("two-credentials", "headers of this upstream have an Authorization already")
		}
	}
	var set []string
	if cc := c.Credentials.ClientCredentials; cc != nil {
		set = append(set, "client_credentials")
		cc.validate(at.Field("client_credentials"))
	}
	if x := c.Credentials.TokenExchange; x != nil {
		set = append(set, "token_exchange")
		x.validate(at.Field("token_exchange"))
	}
	if j := c.Credentials.IDJAG; j != nil {
		set = append(set, "id_jag")
		j.validate(at.Field("id_jag"))
	}
	if c.PerCaller() && c.SharedLists {
		at.Hint("remove shared_lists").Errorf("per-caller-lists", "the lists of this upstream belong to each caller, so shared_lists cannot be set")
	}
	if a := c.Credentials.AuthorizationCode; a != nil {
		set = append(set, "authorization_code")
		a.validate(at.Field("authorization_code"))
	}
	switch len(set) {
	case 0:
		at.Hint("as in credentials: {client_credentials: {token_url: …, client_id: …, client_secret: …}}, or credentials: {authorization_code: {}}").
			Errorf("required", "needs client_credentials, token_exchange, id_jag or authorization_code")
	case 1:
	default:
		at.Hint("keep one of them").Errorf("two-credentials", "has %s, of which an upstream can have one", strings.Join(set, " and "))
	}
}

func (c *TokenClient) validate(at diag.At) {
	if c.TokenURL == "" {
		at.Field("token_url").Errorf("required", "needs the address of the token endpoint")
	} else {
		validateEndpoint(at.Field("token_url"), c.TokenURL, "as in https://login.example.com/oauth/token")
	}
	if c.ClientID == "" {
		at.Field("client_id").Errorf("required", "needs the id of the gateway at the token endpoint")
	}
	switch {
	case c.ClientKeyFile == "" && c.ClientSecret == "":
		at.Field("client_secret").Hint("as in ${NAME}").Errorf("required", "needs the secret of the gateway at the token endpoint, or client_key_file")
	case c.ClientKeyFile != "" && c.ClientSecret != "":
		at.Field("client_key_file").Hint("remove client_secret or client_key_file").Errorf("two-credentials", "client_secret is set too, and the gateway authenticates in one way")
	case c.ClientKeyFile == "" && c.ClientKeyID+c.ClientKeyAudience != "":
		at.Field("client_key_file").Errorf("required", "client_key_id or client_key_audience is set, so client_key_file is needed")
	}
}

func (cc *TokenEndpoint) validate(at diag.At) {
	cc.TokenClient.validate(at)
	validateScopes(at.Field("scopes"), cc.Scopes)
	validateResource(at.Field("resource"), cc.Resource)
}

func (j *IDJAG) validate(at diag.At) {
	j.IDP.validate(at.Field("idp"))
	j.TokenEndpoint.validate(at)
	if j.Audience == "" {
		at.Field("audience").Hint("as in https://login.upstream.example, the issuer in its metadata").Errorf("required", "needs the issuer of the authorization server of the upstream")
	}
	if j.Resource == "" {
		at.Field("resource").Hint("the resource in its metadata (RFC 9728), usually the URL of the upstream").Errorf("required", "needs the identifier of the upstream as a resource")
	}
	if j.TokenURL != "" && j.TokenURL == j.IDP.TokenURL {
		at.Field("token_url").Hint("use token_exchange where one server issues both tokens").
			Errorf("same-server", "is the token endpoint of the identity provider too, which must not accept a grant of its own")
	}
}

// validateEndpoint checks the address of a server that receives secrets.
func validateEndpoint(at diag.At, address, example string) {
	if u, err := parseURL(address); err != nil {
		at.Hint("%s", example).Errorf("url", "%s", err)
	} else if u.Scheme != "https" && !hostname.IsLoopback(u.Hostname()) {
		at.Errorf("url", "must be https: secrets would be sent in the open")
	}
}

func validateScopes(at diag.At, scopes []string) {
	for i, scope := range scopes {
		if !scopeToken.MatchString(scope) {
			at.Index(i).Hint("write each scope as an element of its own").Errorf("scope", "is not a scope")
		}
	}
}

func validateResource(at diag.At, resource string) {
	if resource == "" {
		return
	}
	if u, err := url.Parse(resource); err != nil || !u.IsAbs() || u.Fragment != "" {
		at.Errorf("url", "must be an absolute URI without a fragment")
	}
}
