package credentials

import (
	"context"
	"net/url"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// ClientCredentials provides tokens of the gateway itself, by the OAuth grant client_credentials
// (RFC 6749, section 4.4). It is safe for concurrent use.
type ClientCredentials struct {
	upstream string
	config   upstream.ClientCredentials
	endpoint *Endpoint
	token    held
}

var _ upstream.Credentials = (*ClientCredentials)(nil)

// Fields implements upstream.Credentials. The token is the gateway's own, for every caller.
func (c *ClientCredentials) Fields(ctx context.Context, _ *upstream.Caller) ([]mcp.Field, error) {
	fields, err := c.token.get(ctx, c.endpoint.Now, c.ask)
	if err != nil {
		return nil, failed(c.upstream, kindOf(err), err)
	}
	return fields, nil
}

// Rejected implements upstream.Credentials.
func (c *ClientCredentials) Rejected(_ context.Context, _ *upstream.Caller, fields []mcp.Field) bool {
	return c.token.rejected(fields, c.endpoint.Now())
}

// ask requests one token.
func (c *ClientCredentials) ask(ctx context.Context) (*token, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	addTarget(form, &c.config.TokenEndpoint)
	a, err := c.endpoint.Ask(ctx, form)
	if err != nil {
		return nil, err
	}
	return newToken(a.AccessToken, a.Asked, a.Valid), nil
}
