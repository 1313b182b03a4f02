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
	// AuthorizationCode uses the login of an operator at a hosted server, which 'svc
	// upstream login' performs. Every caller uses the server with the operator's account.
	AuthorizationCode *AuthorizationCode `yaml:"authorization_code"`
}

// TokenEndpoint is a token endpoint, with the gateway's credentials there.
type TokenEndpoint struct {
	// TokenURL is the token endpoint: https, except on loopback. Redirects are not
	// followed.
	TokenURL string `yaml:"token_url" env:"true"`
	// ClientID identifies the gateway at the token endpoint.
	ClientID string `yaml:"client_id" env:"true"`
	// ClientSecret is sent with it, as HTTP Basic.
	ClientSecret string `yaml:"client_secret" env:"true" secret:"true"`
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
func (c *Config) PerCaller() bool {
	return c.Credentials != nil && c.Credentials.TokenExchange != nil
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
		if c.SharedLists {
			at.Hint("remove shared_lists").Errorf("per-caller-lists", "the lists of this upstream belong to each caller, so shared_lists cannot be set")
		}
	}
	if a := c.Credentials.AuthorizationCode; a != nil {
		set = append(set, "authorization_code")
		a.validate(at.Field("authorization_code"))
	}
	switch len(set) {
	case 0:
		at.Hint("as in credentials: {client_credentials: {token_url: …, client_id: …, client_secret: …}}, or credentials: {authorization_code: {}}").
			Errorf("required", "needs client_credentials, token_exchange or authorization_code")
	case 1:
	default:
		at.Hint("keep one of them").Errorf("two-credentials", "has %s, of which an upstream can have one", strings.Join(set, " and "))
	}
}

func (cc *TokenEndpoint) validate(at diag.At) {
	if cc.TokenURL == "" {
		at.Field("token_url").Errorf("required", "needs the address of the token endpoint")
	} else {
		validateEndpoint(at.Field("token_url"), cc.TokenURL, "as in https://login.example.com/oauth/token")
	}
	if cc.ClientID == "" {
		at.Field("client_id").Errorf("required", "needs the id of the gateway at the token endpoint")
	}
	if cc.ClientSecret == "" {
		at.Field("client_secret").Hint("as in ${NAME}").Errorf("required", "needs the secret of the gateway at the token endpoint")
	}
	validateScopes(at.Field("scopes"), cc.Scopes)
	validateResource(at.Field("resource"), cc.Resource)
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
