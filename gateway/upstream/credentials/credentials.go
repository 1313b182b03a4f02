package credentials

import (
	"net/url"
	"strings"
	"time"

	"svc/gateway/upstream"
)

// Options are the dependencies of New.
type Options struct {
	// StateDir is the directory with the logins of operators.
	StateDir string
	Now      func() time.Time
}

// New returns the credentials of an upstream with a validated configuration. It sends no request.
func New(c upstream.Config, o Options) upstream.Credentials {
	switch s := c.Credentials; {
	case s == nil:
		return upstream.StaticHeaders{}
	case s.TokenExchange != nil:
		return newTokenExchange(c.Name, s.TokenExchange, o.Now)
	case s.AuthorizationCode != nil:
		return newAuthorizationCode(&c, o)
	default:
		return newClientCredentials(c.Name, s.ClientCredentials, o.Now)
	}
}

// newEndpoint returns a token endpoint of the configuration.
func newEndpoint(c *upstream.TokenEndpoint, now func() time.Time) *Endpoint {
	return &Endpoint{URL: c.TokenURL, ID: c.ClientID, Secret: c.ClientSecret, Client: NewClient(), Now: now}
}

// addTarget adds the scopes and the resource of the requested token.
func addTarget(form url.Values, c *upstream.TokenEndpoint) {
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	if c.Resource != "" {
		form.Set("resource", c.Resource)
	}
}

// failed returns the error of an upstream without a token.
func failed(name string, kind, err error) error {
	return &upstream.Error{Upstream: name, Op: "credentials", Kind: kind, Err: err}
}
