package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/refusal"
	"svc/gateway/streams"
)

// buildOAuth makes the part of a snapshot that is about bearer tokens, nothing
// when they are off.
func (g *Gateway) buildOAuth(l *live) error {
	cfg := &l.cfg.Auth.OAuth
	if !l.cfg.Auth.Enabled || !cfg.Enabled {
		return nil
	}
	var err error
	identity := auth.Identity{PrincipalClaim: l.cfg.Identity.PrincipalClaim, GroupsClaim: l.cfg.Identity.GroupsClaim}
	if l.tokens, err = g.oauth.Tokens(*cfg, identity); err != nil {
		return err
	}
	l.resource, err = auth.NewResource(*cfg, g.listen, g.tls != nil)
	return err
}

// warnPublicURL says when clients are sent to an address that most of them
// cannot reach.
func (g *Gateway) warnPublicURL(cfg *config.File) {
	host, _, err := net.SplitHostPort(g.listen)
	if err != nil || cfg.Auth.OAuth.PublicURL != "" {
		return
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		g.log.Warn("auth.oauth.public_url is not set and the gateway listens on every address: clients elsewhere are told a URL that leads nowhere",
			"listen", g.listen, "fix", "set auth.oauth.public_url to the base URL that clients use")
	}
}

// authenticateOAuth finds out who calls where bearer tokens are accepted beside
// keys. Where both are presented both must be good, and the token is the
// identity.
func (ex *exchange) authenticateOAuth() *refusal.Refusal {
	presented, err := ex.g.header.Credentials(ex.r.Header)
	var token *auth.Token
	if err == nil && presented.Token != "" {
		token, err = ex.live.tokens.Verify(ex.ctx, presented.Token)
	}
	var key *auth.Key
	if presented.Key != "" && (err == nil || errors.Is(err, auth.ErrScope)) {
		var wrong error
		if key, wrong = ex.live.keyring.Verify(ex.ctx, presented.Key); wrong != nil {
			token, err = nil, wrong // who is not let in is not told of scopes
		}
	}
	if token != nil {
		ex.who = token.Principal(ex.address)
		if key != nil {
			ex.who.KeyID = key.ID
		}
	} else if key != nil {
		ex.who = key.Principal()
	}
	if err != nil {
		return ex.refuseCredentials(err)
	}
	ex.key, ex.token = key, token
	if token != nil {
		ex.rec.OAuthClientName = ex.live.tokens.ClientName(ex.ctx, token)
	}
	return nil
}

// refuseCredentials turns what was wrong with the credentials into an answer.
// The reason is for the log alone.
func (ex *exchange) refuseCredentials(err error) *refusal.Refusal {
	var unavailable *auth.UnavailableError
	switch {
	case errors.Is(err, auth.ErrBusy):
		return refusal.AuthBusy.After(time.Second)
	case errors.As(err, &unavailable):
		return refusal.NoKeySet.After(max(time.Second, unavailable.RetryAfter))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refusal.NoKeySet.After(time.Second)
	case errors.Is(err, auth.ErrScope):
		return refusal.Scope.WithChallenge(ex.live.resource.Scope)
	}
	challenge := ex.live.resource.Invalid
	if errors.Is(err, auth.ErrMissing) {
		challenge = ex.live.resource.Missing
	}
	ex.g.log.Debug("request is not let in", "request_id", ex.rec.RequestID, "reason", err)
	return refusal.Unauthorized.WithChallenge(challenge)
}

// accepts reports whether the credentials of a request, of which either may be nil,
// are still valid in this snapshot. The error is streams.ErrRevoked, or streams.ErrTokenRevoked where
// it is the token that is not.
func (l *live) accepts(key *auth.Key, token *auth.Token) error {
	switch {
	case l.keyring == nil:
		return nil
	case key == nil && token == nil:
		return streams.ErrRevoked // it came without
	case key != nil && l.keyring.Check(key) != nil:
		return streams.ErrRevoked
	case token != nil && (l.tokens == nil || l.tokens.Check(token) != nil):
		return streams.ErrTokenRevoked
	}
	return nil
}

// serveOther answers the paths that are not fixed: the metadata document of the
// protected resource, which anyone may read (gateway specification, Endpoints).
func (g *Gateway) serveOther(w http.ResponseWriter, r *http.Request) {
	l := g.live.Load()
	if l.resource == nil || !l.resource.Serves(r.URL.Path) {
		notFound(w)
		return
	}
	h := w.Header()
	l.origins.AllowOrigin(h, r)
	if in := &l.cfg.InputRateLimit; in.Enabled {
		addr := g.clientAddr(r)
		ok, _, err := g.limits.Allow(r.Context(), inputKey(addr, addr.String()), in.RequestsPerSecond, in.Burst, g.now())
		if err != nil && !l.cfg.RateLimitStore.FailOpen || err == nil && !ok {
			h["Retry-After"] = []string{"1"}
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	if l.origins.IsPreflight(r) && l.origins.Permit(r) {
		l.origins.AllowRequest(h, r)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h["Allow"] = []string{"GET, HEAD"}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(l.resource.Document))}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		w.Write(l.resource.Document)
	}
}
