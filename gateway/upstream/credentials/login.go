package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/upstream"
)

// LoginOptions are the parameters of a login.
type LoginOptions struct {
	// Upstream has credentials.authorization_code, and is validated.
	Upstream *upstream.Config
	// LastIssuer is the issuer of the login that this one replaces; empty if there is none.
	LastIssuer string
	// Accept is called before the gateway registers itself and before Show; an error of it ends
	// the login.
	Accept func(context.Context, *Servers) error
	// Show shows the operator the authorization URL to open, and the redirect URI.
	Show func(address, redirect string)
	// Pasted may hold the address to which a browser on another machine was redirected, in one
	// line; nil for none.
	Pasted io.Reader
	Now    func() time.Time
}

// login is the state of one login.
type login struct {
	LoginOptions
	config *upstream.AuthorizationCode
	client *http.Client
	local  bool // the upstream is on loopback, so that other servers may be too
}

// Run logs in and returns the grant, which is not saved yet. It ends with the context.
func Run(ctx context.Context, o LoginOptions) (*Grant, error) {
	l := &login{LoginOptions: o, config: o.Upstream.Credentials.AuthorizationCode, client: NewClient()}
	u, err := url.Parse(o.Upstream.URL)
	if err != nil {
		return nil, errors.New("url of the upstream is not valid")
	}
	l.local = hostname.IsLoopback(u.Hostname())
	found, err := l.discover(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := l.servers(found)
	if err != nil {
		return nil, err
	}
	if err := o.Accept(ctx, servers); err != nil {
		return nil, err
	}
	back, err := listen(l.config.RedirectPort, l.callbackPath(found))
	if err != nil {
		return nil, err
	}
	defer back.close()
	account, err := l.account(ctx, found, back.redirect)
	if err != nil {
		return nil, err
	}
	verifier, state := random(), random()
	scopes := servers.Scopes
	address, err := authorization(found, account, back.redirect, verifier, state, scopes, resourceOf(o.Upstream))
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

// callbackPath returns the path of the redirect URI. A gateway that registers itself has a path for
// each issuer (RFC 9700, section 4.4.2.2): the server may return the client id of another client at
// another authorization server, which then has no such redirect URI.
func (l *login) callbackPath(f *found) string {
	if l.config.ClientID != "" {
		return callbackPath
	}
	sum := sha256.Sum256([]byte(f.server.Issuer))
	return callbackPath + "/" + hex.EncodeToString(sum[:8])
}

// exchange exchanges the code for tokens.
func (l *login) exchange(ctx context.Context, f *found, a *account, redirect, code, verifier string, scopes []string) (*Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	resource := resourceOf(l.Upstream)
	e := Endpoint{URL: f.server.TokenEndpoint, ID: a.id, Secret: a.secret, Method: a.method, Client: l.client, Now: l.Now}
	answer, err := e.Ask(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}, "resource": {resource},
	})
	if err != nil {
		return nil, fmt.Errorf("the code of the login was not exchanged for a token: %w", err)
	}
	g := &Grant{
		Upstream: l.Upstream.Name, URL: l.Upstream.URL, Resource: resource, Issuer: f.server.Issuer,
		TokenEndpoint: f.server.TokenEndpoint, RevocationEndpoint: f.server.RevocationEndpoint,
		ClientID: a.id, AuthMethod: a.method, Scopes: scopes, LoggedIn: l.Now(),
	}
	if a.registered {
		g.Registered, g.ClientSecret = true, a.secret
	}
	g.Take(answer)
	return g, nil
}
