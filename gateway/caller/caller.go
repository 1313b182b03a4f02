// Package caller finds out who sends a request, by the credentials in its header: an
// API key, a bearer token or both, or the client's address where nobody is asked. It
// says which answer a request gets that is not let in, and whether a caller who was
// let in still is.
//
// Keys and tokens are verified by package auth. Nothing here reads a body, answers or
// records a request.
package caller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"svc/gateway/auth"
	"svc/gateway/refusal"
	"svc/gateway/views"
)

// ErrRevoked: a caller who was let in is so no longer.
var ErrRevoked = errors.New("the caller is no longer let in")

// ErrTokenRevoked is an ErrRevoked: the bearer token has expired, lacks a scope
// that is required now, or its issuer has withdrawn the key that signed it.
var ErrTokenRevoked = fmt.Errorf("%w: its token is no longer good", ErrRevoked)

// Rules say which credentials are accepted. They are immutable. The zero value asks
// nobody.
type Rules struct {
	header    auth.Header
	challenge string        // of a 401 where bearer tokens are not accepted
	keyring   *auth.Keyring // nil when authentication is off
	tokens    *auth.Tokens  // nil when bearer tokens are not accepted
	// resources are the gateway itself, under the empty name, and its views by theirs; nil
	// too then.
	resources map[string]*auth.Resource
}

// Sources are what rules are made of beside the configuration. They last across its
// reloads.
type Sources struct {
	Verifier *auth.Verifier
	OAuth    *auth.OAuth
	// Listen is the address that is listened on, Secure whether with TLS: without a
	// public URL clients are sent there.
	Listen string
	Secure bool
	// Views are the names of the views.
	Views []string
}

// New makes the rules of a validated configuration. They change nothing that runs
// until they are activated.
func New(cfg auth.Config, identity auth.Identity, s Sources) (*Rules, error) {
	r := &Rules{header: auth.NewHeader(cfg.Header, cfg.Scheme), challenge: cfg.Scheme}
	if r.challenge == "" {
		r.challenge = "Bearer"
	}
	if !cfg.Enabled {
		return r, nil
	}
	var err error
	if r.keyring, err = s.Verifier.Keyring(cfg); err != nil || !cfg.OAuth.Enabled {
		return r, err
	}
	if r.tokens, err = s.OAuth.Tokens(cfg.OAuth, identity); err != nil {
		return nil, fmt.Errorf("auth.oauth: %w", err)
	}
	r.resources = make(map[string]*auth.Resource, 1+len(s.Views))
	for _, view := range append([]string{""}, s.Views...) {
		path := "/mcp"
		if view != "" {
			path = views.PathOf(view)
		}
		if r.resources[view], err = auth.NewResource(cfg.OAuth, s.Listen, s.Secure, path); err != nil {
			return nil, fmt.Errorf("auth.oauth: %w", err)
		}
	}
	return r, nil
}

// Activate puts the rules in force: keys and tokens that were verified by others are
// verified again.
func (r *Rules) Activate() {
	if r.keyring != nil {
		r.keyring.Activate()
	}
	if r.tokens != nil {
		r.tokens.Activate()
	}
}

// Open reports whether nobody is asked for credentials, and the caller is an address.
func (r *Rules) Open() bool { return r.keyring == nil }

// ResourceAt returns what describes the gateway, or a view, to clients that look for a
// token, by the path of its document; nil for other paths, and where bearer tokens are not
// accepted.
func (r *Rules) ResourceAt(path string) *auth.Resource {
	for _, resource := range r.resources {
		if resource.Serves(path) {
			return resource
		}
	}
	return nil
}

// resource describes a view, and the gateway itself where there is no such view.
func (r *Rules) resource(view string) *auth.Resource {
	if of := r.resources[view]; of != nil {
		return of
	}
	return r.resources[""]
}

// TokenStats returns what is known of the token issuer; false where bearer tokens are
// not accepted.
func (r *Rules) TokenStats() (auth.TokenStats, bool) {
	if r.tokens == nil {
		return auth.TokenStats{}, false
	}
	return r.tokens.Stats(), true
}

// Identity is what is known of who sends a request.
type Identity struct {
	auth.Principal
	Key   *auth.Key   // that was presented and is good; nil without one
	Token *auth.Token // likewise
	// ClientName is the name of the OAuth client; empty where it has none.
	ClientName string
}

// Known reports whether it is known who calls; where nobody is asked it is the address.
func (r *Rules) Known(id *Identity) bool { return r.Open() || id.Key != nil || id.Token != nil }

// ByAddress is the identity of a caller of whom nothing else is known.
func ByAddress(address string) Identity {
	return Identity{Principal: auth.Principal{Kind: auth.KindIP, Value: address}}
}

// Authenticate finds out who calls (gateway specification, Authentication). With an
// error the caller is not let in, and Refuse has the answer: its principal is then the
// address, or that of a verified token which lacks scopes. At a view tokens are accepted
// too whose audience is that view.
func (r *Rules) Authenticate(ctx context.Context, header http.Header, address, view string) (Identity, error) {
	id := ByAddress(address)
	if r.keyring == nil {
		return id, nil
	}
	if r.tokens != nil {
		err := r.withTokens(ctx, header, &id, address, view)
		return id, err
	}
	presented, err := r.header.Key(header)
	if err != nil {
		return id, err
	}
	key, err := r.keyring.Verify(ctx, presented)
	if err != nil {
		return id, err
	}
	id.Key, id.Principal = key, key.Principal()
	return id, nil
}

// withTokens authenticates where bearer tokens are accepted beside keys. Where both are
// presented both must be good, and the token is the identity.
func (r *Rules) withTokens(ctx context.Context, header http.Header, id *Identity, address, view string) error {
	presented, err := r.header.Credentials(header)
	var token *auth.Token
	if err == nil && presented.Token != "" {
		resource := ""
		if of := r.resources[view]; view != "" && of != nil {
			resource = of.URL
		}
		token, err = r.tokens.Verify(ctx, presented.Token, resource)
	}
	var key *auth.Key
	if presented.Key != "" && (err == nil || errors.Is(err, auth.ErrScope)) {
		var wrong error
		if key, wrong = r.keyring.Verify(ctx, presented.Key); wrong != nil {
			token, err = nil, wrong // who is not let in is not told of scopes
		}
	}
	if token != nil {
		id.Principal = token.Principal(address)
		if key != nil {
			id.KeyID = key.ID
		}
	} else if key != nil {
		id.Principal = key.Principal()
	}
	if err != nil {
		return err
	}
	id.Key, id.Token = key, token
	if token != nil {
		id.ClientName = r.tokens.ClientName(ctx, token)
	}
	return nil
}

// Refuse returns the answer to a request at a view that Authenticate did not let in. The
// error itself is for the log alone.
func (r *Rules) Refuse(err error, view string) *refusal.Refusal {
	var unavailable *auth.UnavailableError
	switch {
	case errors.Is(err, auth.ErrBusy):
		return refusal.AuthBusy.After(time.Second)
	case r.tokens == nil:
		return refusal.Unauthorized.WithChallenge(r.challenge)
	case errors.As(err, &unavailable):
		return refusal.NoKeySet.After(max(time.Second, unavailable.RetryAfter))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refusal.NoKeySet.After(time.Second)
	case errors.Is(err, auth.ErrScope):
		return refusal.Scope.WithChallenge(r.resource(view).Scope)
	case errors.Is(err, auth.ErrMissing):
		return refusal.Unauthorized.WithChallenge(r.resource(view).Missing)
	}
	return refusal.Unauthorized.WithChallenge(r.resource(view).Invalid)
}

// Check returns nil while the credentials of a caller who was let in are accepted, by
// whatever rules, and afterwards ErrRevoked, or ErrTokenRevoked where it is the token
// that is not.
func (r *Rules) Check(id *Identity) error {
	switch {
	case r.keyring == nil:
		return nil
	case id.Key == nil && id.Token == nil:
		return ErrRevoked // it came without
	case id.Key != nil && r.keyring.Check(id.Key) != nil:
		return ErrRevoked
	case id.Token != nil && (r.tokens == nil || r.tokens.Check(id.Token) != nil):
		return ErrTokenRevoked
	}
	return nil
}

// WarnPublicURL says when clients are sent to an address that most of them cannot
// reach.
func (r *Rules) WarnPublicURL(log *slog.Logger, listen, publicURL string) {
	host, _, err := net.SplitHostPort(listen)
	if r.tokens == nil || err != nil || publicURL != "" {
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		log.Warn("auth.oauth.public_url is not set and the gateway listens on every address: clients elsewhere get a URL that leads nowhere",
			"listen", listen, "fix", "set auth.oauth.public_url to the base URL that clients use")
	}
}
