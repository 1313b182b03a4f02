package credentials

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/upstream"
)

// Options are the dependencies of New.
type Options struct {
	// StateDir is the directory with the logins of operators.
	StateDir string
	Now      func() time.Time
}

// New returns the credentials of an upstream with a validated configuration. It reads the keys of
// clients, and sends no request.
func New(c upstream.Config, o Options) (upstream.Credentials, error) {
	s := c.Credentials
	if s == nil {
		return upstream.StaticHeaders{}, nil
	}
	if s.AuthorizationCode != nil {
		return newAuthorizationCode(&c, o), nil
	}
	var endpoints []*Endpoint
	var failure error
	s.TokenClients(diag.At{}, func(_ diag.At, t *upstream.TokenClient) {
		key, err := ReadClientKey(t)
		if err != nil && failure == nil {
			failure = fmt.Errorf("upstream %q: client_key_file: %s %w", c.Name, t.ClientKeyFile, err)
		}
		endpoints = append(endpoints, &Endpoint{URL: t.TokenURL, ID: t.ClientID, Secret: t.ClientSecret, Key: key, Client: NewClient(), Now: o.Now})
	})
	switch {
	case failure != nil:
		return nil, failure
	case s.TokenExchange != nil:
		return newPerCaller(c.Name, o.Now, (&exchange{*s.TokenExchange, endpoints[0]}).ask), nil
	case s.IDJAG != nil:
		return newPerCaller(c.Name, o.Now, (&idJAG{*s.IDJAG, endpoints[0], endpoints[1]}).ask), nil
	}
	return &ClientCredentials{upstream: c.Name, config: *s.ClientCredentials, endpoint: endpoints[0]}, nil
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
