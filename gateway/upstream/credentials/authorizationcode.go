package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// AuthorizationCode provides tokens for the account of an operator, who has logged in at the
// authorization server of the upstream with 'svc upstream login'. It is safe for concurrent use,
// also by several processes.
type AuthorizationCode struct {
	config   *upstream.Config
	file     File
	client   *http.Client
	now      func() time.Time
	token    held
	rejected atomic.Pointer[string] // the last value that the upstream rejected
}

var _ upstream.Credentials = (*AuthorizationCode)(nil)

func newAuthorizationCode(c *upstream.Config, o Options) *AuthorizationCode {
	return &AuthorizationCode{config: c, file: FileOf(o.StateDir, c.Name), client: NewClient(), now: o.Now}
}

// resourceOf returns the resource indicator (RFC 8707) of an upstream with authorization_code:
// its URL, if the configuration names none.
func resourceOf(c *upstream.Config) string {
	return cmp.Or(c.Credentials.AuthorizationCode.Resource, c.URL)
}

// Superseded returns the reason why a login is not one of the configuration, or "". Its token is
// then not sent to the upstream, and the client secret of the configuration not to its server.
func Superseded(c *upstream.Config, g *Grant) string {
	a := c.Credentials.AuthorizationCode
	switch {
	case g.URL != c.URL || g.Resource != resourceOf(c):
		return "the login is for another url or resource than the configuration has now"
	case a.AuthorizationServer != "" && strings.TrimSuffix(a.AuthorizationServer, "/") != strings.TrimSuffix(g.Issuer, "/"):
		return "the login is at another authorization server than the configuration has now"
	case a.ClientID == "" && !g.Registered:
		return "the login is incomplete, or of a client_id that the configuration no longer has: it does not say that the gateway registered itself; log in again"
	case a.ClientID != g.ClientID && a.ClientID != "":
		return "the login is of another client_id than the configuration has now"
	}
	return ""
}

// EndpointOf returns the token endpoint of a login. It has the client secret of the configuration
// only if the login is one of the configuration.
func EndpointOf(c *upstream.Config, g *Grant, client *http.Client, now func() time.Time) *Endpoint {
	secret := g.ClientSecret
	if !g.Registered && Superseded(c, g) == "" {
		secret = c.Credentials.AuthorizationCode.ClientSecret
	}
	return &Endpoint{URL: g.TokenEndpoint, ID: g.ClientID, Secret: secret, Method: g.AuthMethod, Client: client, Now: now}
}

// Fields implements upstream.Credentials. The token is the operator's, for every caller.
func (a *AuthorizationCode) Fields(ctx context.Context, _ *upstream.Caller) ([]mcp.Field, error) {
	fields, err := a.token.get(ctx, a.now, a.ask)
	if err != nil {
		return nil, failed(a.config.Name, kindOf(err), err)
	}
	return fields, nil
}

// Rejected implements upstream.Credentials.
func (a *AuthorizationCode) Rejected(_ context.Context, _ *upstream.Caller, fields []mcp.Field) bool {
	if !a.token.rejected(fields, a.now()) {
		return false
	}
	if len(fields) == 1 {
		a.rejected.Store(&fields[0].Value)
	}
	return true
}

// errLogin returns an error that requires a new login.
func errLogin(why string) error { return &loginError{why} }

type loginError struct{ why string }

func (e *loginError) Error() string { return e.why }
func (e *loginError) Unwrap() error { return upstream.ErrLoginRequired }

// ask returns the token of the grant, and replaces it when it has expired. Another process may
// have replaced it already.
func (a *AuthorizationCode) ask(ctx context.Context) (*token, error) {
	// Without a grant there is nothing to lock, and the folder may not exist.
	if _, err := a.file.Read(); errors.Is(err, ErrNone) {
		return nil, errLogin(err.Error())
	}
	unlock, err := a.file.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	g, err := a.file.Read()
	switch {
	case errors.Is(err, ErrNone):
		return nil, errLogin(err.Error())
	case err != nil:
		return nil, err
	case g.Ended:
		return nil, errLogin("the authorization server ended the login")
	}
	if why := Superseded(a.config, g); why != "" {
		return nil, errLogin(why)
	}
	t := newToken(g.AccessToken, g.Issued, g.Expires.Sub(g.Issued))
	if rejected := a.rejected.Load(); a.now().Before(t.until) && (rejected == nil || *rejected != t.fields[0].Value) {
		return t, nil
	}
	return a.refresh(ctx, g)
}

// refresh replaces the token of a grant. The caller holds its lock.
func (a *AuthorizationCode) refresh(ctx context.Context, g *Grant) (*token, error) {
	if g.RefreshToken == "" {
		return nil, errLogin("the token has ended, and the authorization server issued none to renew it with")
	}
	e := EndpointOf(a.config, g, a.client, a.now)
	// A refresh token may be valid only once: it is not used if the next one cannot be saved.
	if err := a.file.Write(g); err != nil {
		return nil, fmt.Errorf("the login cannot be saved, so that its token is not renewed: %w", err)
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.RefreshToken}, "resource": {g.Resource}}
	answer, err := e.Ask(ctx, form)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "invalid_grant" {
		g.Ended = true
		if err := a.file.Write(g); err != nil {
			return nil, err
		}
		return nil, errLogin("the authorization server ended the login (invalid_grant)")
	}
	if err != nil {
		return nil, err
	}
	g.Take(answer)
	if err := a.file.Write(g); err != nil {
		return nil, fmt.Errorf("the new token was not saved: %w", err)
	}
	return newToken(g.AccessToken, g.Issued, answer.Valid), nil
}
