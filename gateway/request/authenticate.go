package request

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
	"svc/gateway/session"
)

// CallerRules determine which credentials are accepted. They are immutable. The zero value requires no
// credentials.
type CallerRules struct {
	header    auth.Header
	challenge string        // of a 401 if bearer tokens are not accepted
	keyring   *auth.Keyring // nil when authentication is off
	tokens    *auth.Tokens  // nil when bearer tokens are not accepted
	// resources are the gateway itself, under the empty name, and its views by their names; nil
	// if bearer tokens are not accepted.
	resources map[string]*auth.Resource
}

// CallerSources are the inputs of NewCallerRules beside the configuration. They outlive reloads.
type CallerSources struct {
	Verifier *auth.Verifier
	OAuth    *auth.OAuth
	// Listen is the listen address, and Secure whether it uses TLS. Without a public URL the URL
	// for clients is derived from them.
	Listen string
	Secure bool
	// Views are the names of the views.
	Views []string
}

// NewCallerRules compiles the rules of a validated configuration. It has no effect on the running ones until
// Activate.
func NewCallerRules(cfg auth.Config, identity auth.Identity, s CallerSources) (*CallerRules, error) {
	r := &CallerRules{header: auth.NewHeader(cfg.Header, cfg.Scheme), challenge: cfg.Scheme}
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
			path = auth.PathOf(view)
		}
		if r.resources[view], err = auth.NewResource(cfg.OAuth, s.Listen, s.Secure, path); err != nil {
			return nil, fmt.Errorf("auth.oauth: %w", err)
		}
	}
	return r, nil
}

// Activate puts the rules in force: keys and tokens that were verified under other rules are
// verified again.
func (r *CallerRules) Activate() {
	if r.keyring != nil {
		r.keyring.Activate()
	}
	if r.tokens != nil {
		r.tokens.Activate()
	}
}

// Keys returns the accepted API keys; nil when authentication is off.
func (r *CallerRules) Keys() *auth.Keyring { return r.keyring }

// Open reports whether authentication is off, so that a caller is identified by its address.
func (r *CallerRules) Open() bool { return r.keyring == nil }

// ResourceAt returns the protected resource whose metadata document has the path; nil for other
// paths, and if bearer tokens are not accepted.
func (r *CallerRules) ResourceAt(path string) *auth.Resource {
	for _, resource := range r.resources {
		if resource.Serves(path) {
			return resource
		}
	}
	return nil
}

// resource returns the resource of a view, or that of the gateway if there is no such view.
func (r *CallerRules) resource(view string) *auth.Resource {
	if of := r.resources[view]; of != nil {
		return of
	}
	return r.resources[""]
}

// TokenStats returns the state of the token issuer's keys; false if bearer tokens are not
// accepted.
func (r *CallerRules) TokenStats() (auth.TokenStats, bool) {
	if r.tokens == nil {
		return auth.TokenStats{}, false
	}
	return r.tokens.Stats(), true
}

// PresentedID returns the id in the key of a request that was not authenticated, for the log; empty
// without one.
func (r *CallerRules) PresentedID(header http.Header) string {
	presented, err := r.header.Credentials(header)
	if err != nil {
		return ""
	}
	return r.keyring.IDOf(presented.Key)
}

// Identity is the authenticated identity of a request's sender.
type Identity struct {
	auth.Principal
	Key   *auth.Key   // the valid key that was presented; nil without one
	Token *auth.Token // the valid token that was presented; nil without one
	// ClientName is the name of the OAuth client; empty if it has none.
	ClientName string
}

// Known reports whether the caller is identified; when authentication is off, its address
// identifies it.
func (r *CallerRules) Known(id *Identity) bool { return r.Open() || id.Key != nil || id.Token != nil }

// byAddress returns the identity of a caller with no other identification than an address.
func byAddress(address string) Identity {
	return Identity{Principal: auth.Principal{Kind: auth.KindIP, Value: address}}
}

// Authenticate identifies the caller (gateway specification, Authentication). After an error the
// request must be refused with the result of Refuse; the principal of the identity is then the
// address, or that of a verified token which lacks scopes. At a view, tokens with the view as
// audience are accepted too.
func (r *CallerRules) Authenticate(ctx context.Context, header http.Header, address, view string) (Identity, error) {
	id := byAddress(address)
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
	key, err := r.keyring.Verify(ctx, presented, address)
	if err != nil {
		return id, err
	}
	id.Key, id.Principal = key, key.Principal()
	return id, nil
}

// withTokens authenticates when bearer tokens are accepted in addition to keys. If both are
// presented both must be valid, and the token is the identity.
func (r *CallerRules) withTokens(ctx context.Context, header http.Header, id *Identity, address, view string) error {
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
		if key, wrong = r.keyring.Verify(ctx, presented.Key, address); wrong != nil {
			token, err = nil, wrong // a request without valid credentials learns no scopes
		}
	}
	if token != nil {
		id.Principal = token.Principal(address)
		if key != nil {
			id.KeyID, id.KeyN = key.ID, key.N
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

// Refuse returns the response to a request at a view that Authenticate rejected. The error itself
// itself is for the log; only what it says about the size or form of the credential, which the
// caller knows, is in the response.
func (r *CallerRules) Refuse(err error, view string) *refusal.Refusal {
	refused := r.refuse(err, view)
	var form auth.FormError
	if errors.As(err, &form) {
		return refused.WithDetail(form.Error())
	}
	return refused
}

func (r *CallerRules) refuse(err error, view string) *refusal.Refusal {
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

// Check returns nil while the credentials of a caller are valid under these rules, and otherwise
// [auth.ErrRevoked], or [auth.ErrTokenRevoked] if the token is the reason.
func (r *CallerRules) Check(id *Identity) error {
	switch {
	case r.keyring == nil:
		return nil
	case id.Key == nil && id.Token == nil:
		return auth.ErrRevoked // the caller has no credentials
	case id.Key != nil && r.keyring.Check(id.Key) != nil:
		return auth.ErrRevoked
	case id.Token != nil && (r.tokens == nil || r.tokens.Check(id.Token) != nil):
		return auth.ErrTokenRevoked
	}
	return nil
}

// CheckInSession is Check for a caller in a session: it returns auth.ErrRevoked also when the secret
// that opened the session was removed since. Outside of a session the handle is zero.
func (r *CallerRules) CheckInSession(id *Identity, h *session.Handle) error {
	if !r.keyring.Holds(&id.Principal, h.Secret, h.Opened) {
		return auth.ErrRevoked
	}
	return r.Check(id)
}

// WarnPublicURL logs a warning when the URL for clients is an address that most of them cannot
// reach.
func (r *CallerRules) WarnPublicURL(log *slog.Logger, listen, publicURL string) {
	host, _, err := net.SplitHostPort(listen)
	if r.tokens == nil || err != nil || publicURL != "" {
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		log.Warn("auth.oauth.public_url is not set and the gateway listens on every address: clients on other machines get a URL that they cannot reach",
			"listen", listen, "fix", "set auth.oauth.public_url to the base URL that clients use")
	}
}
