// Package login logs an operator in at the authorization server of an upstream: it discovers the
// server (RFC 9728, RFC 8414), registers the gateway there if it has no client account (RFC
// 7591), requests an authorization with PKCE (RFC 7636) for one resource (RFC 8707), waits on
// loopback for the redirect of the browser (RFC 8252) and exchanges the code for tokens.
//
// Its input comes from external servers: every response is bounded, redirects are not followed,
// and only https addresses are used, or loopback ones if the upstream is on loopback.
package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/gateway/credentials"
	"svc/gateway/credentials/endpoint"
	"svc/gateway/credentials/grant"
	"svc/gateway/upstream"
)

// Options are the parameters of a login.
type Options struct {
	// Upstream has credentials.authorization_code, and is validated.
	Upstream *upstream.Config
	// Show shows the operator the authorization URL to open, and the redirect URI.
	Show func(address, redirect string)
	// Pasted may hold the address to which a browser on another machine was redirected, in one
	// line; nil for none.
	Pasted io.Reader
	Now    func() time.Time
}

// login is the state of one login.
type login struct {
	Options
	config *upstream.AuthorizationCode
	client *http.Client
	local  bool // the upstream is on loopback, so that other servers may be too
}

// Run logs in and returns the grant, which is not saved yet. It ends with the context.
func Run(ctx context.Context, o Options) (*grant.Grant, error) {
	l := &login{Options: o, config: o.Upstream.Credentials.AuthorizationCode, client: endpoint.NewClient()}
	u, err := url.Parse(o.Upstream.URL)
	if err != nil {
		return nil, errors.New("url of the upstream is not valid")
	}
	l.local = upstream.IsLoopback(u)
	found, err := l.discover(ctx)
	if err != nil {
		return nil, err
	}
	back, err := listen(l.config.RedirectPort)
	if err != nil {
		return nil, err
	}
	defer back.close()
	account, err := l.account(ctx, found, back.redirect)
	if err != nil {
		return nil, err
	}
	verifier, state := random(), random()
	scopes := l.scopes(found)
	address, err := authorization(found, account, back.redirect, verifier, state, scopes, credentials.ResourceOf(o.Upstream))
	if err != nil {
		return nil, err
	}
	o.Show(address, back.redirect)
	code, err := back.wait(ctx, o.Pasted, state, found)
	if err != nil {
		return nil, err
	}
	return l.exchange(ctx, found, account, back.redirect, code, verifier, scopes)
}

// random returns 256 random bits.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// scopes returns the scopes to request: those of the configuration, else those that the server
// requires, with the scope for a refresh token if the server has it.
func (l *login) scopes(f *found) []string {
	scopes := slices.Clone(l.config.Scopes)
	if len(scopes) == 0 {
		scopes = slices.Clone(f.scopes)
	}
	if slices.Contains(f.server.Scopes, offline) && !slices.Contains(scopes, offline) {
		scopes = append(scopes, offline)
	}
	return scopes
}

// offline is the scope of OpenID Connect for refresh tokens.
const offline = "offline_access"

// authorization returns the authorization URL that the operator opens.
func authorization(f *found, a *account, redirect, verifier, state string, scopes []string, resource string) (string, error) {
	u, err := url.Parse(f.server.AuthorizationEndpoint)
	if err != nil {
		return "", errors.New("the authorization endpoint has no valid address")
	}
	challenge := sha256.Sum256([]byte(verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": a.id, "redirect_uri": redirect, "state": state, "resource": resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if len(scopes) > 0 {
		q.Set("scope", strings.Join(scopes, " "))
	}
	if slices.Contains(scopes, offline) {
		q.Set("prompt", "consent") // otherwise OpenID providers ignore the scope
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// exchange exchanges the code for tokens.
func (l *login) exchange(ctx context.Context, f *found, a *account, redirect, code, verifier string, scopes []string) (*grant.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, endpoint.Timeout)
	defer cancel()
	resource := credentials.ResourceOf(l.Upstream)
	e := endpoint.Endpoint{URL: f.server.TokenEndpoint, ID: a.id, Secret: a.secret, Method: a.method, Client: l.client, Now: l.Now}
	answer, err := e.Ask(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}, "resource": {resource},
	})
	if err != nil {
		return nil, fmt.Errorf("the code of the login was not exchanged for a token: %w", err)
	}
	g := &grant.Grant{
		Upstream: l.Upstream.Name, URL: l.Upstream.URL, Resource: resource, Issuer: f.server.Issuer,
		TokenEndpoint: f.server.TokenEndpoint, RevocationEndpoint: f.server.RevocationEndpoint,
		ClientID: a.id, AuthMethod: a.method, Scopes: scopes, LoggedIn: l.Now(),
	}
	if a.registered {
		g.ClientSecret = a.secret
	}
	g.Take(answer)
	return g, nil
}
