package credentials

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// The names of RFC 8693.
const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// maxExchanged bounds the number of cached tokens; each belongs to one token of a caller.
const maxExchanged = 4096

// TokenExchange provides tokens of the callers for an upstream, which a token endpoint issues in
// exchange for the callers' own tokens (RFC 8693). It is safe for concurrent use.
type TokenExchange struct {
	upstream string
	config   upstream.TokenExchange
	endpoint *Endpoint

	mu    sync.Mutex
	kept  map[digest]*list.Element
	order *list.List // of *exchanged, the least recently used first
}

// digest is the SHA-256 of a caller's token.
type digest [sha256.Size]byte

// exchanged is the cache entry for one token of a caller.
type exchanged struct {
	of digest
	held
}

var _ upstream.Credentials = (*TokenExchange)(nil)

func newTokenExchange(name string, c *upstream.TokenExchange, now func() time.Time) *TokenExchange {
	return &TokenExchange{
		upstream: name, config: *c, endpoint: newEndpoint(&c.TokenEndpoint, now),
		kept: map[digest]*list.Element{}, order: list.New(),
	}
}

// subjectOf returns the verified token of a caller; empty if it has none.
func subjectOf(c *upstream.Caller) string {
	if c == nil || c.Token == nil {
		return ""
	}
	return auth.BearerToken(c.Header)
}

// Fields implements upstream.Credentials. The token belongs to the caller alone.
func (x *TokenExchange) Fields(ctx context.Context, c *upstream.Caller) ([]mcp.Field, error) {
	subject := subjectOf(c)
	if subject == "" {
		return nil, failed(x.upstream, upstream.ErrNoSubject, nil)
	}
	expires := c.Token.ExpiresAt
	if !x.endpoint.Now().Before(expires) {
		return nil, failed(x.upstream, upstream.ErrCredentials, errors.New("the token of the caller has expired"))
	}
	fields, err := x.of(sha256.Sum256([]byte(subject))).get(ctx, x.endpoint.Now, func(ctx context.Context) (*token, error) {
		return x.ask(ctx, subject, expires)
	})
	if err != nil {
		return nil, failed(x.upstream, kindOf(err), err)
	}
	return fields, nil
}

// Rejected implements upstream.Credentials.
func (x *TokenExchange) Rejected(_ context.Context, c *upstream.Caller, fields []mcp.Field) bool {
	subject := subjectOf(c)
	return subject != "" && x.of(sha256.Sum256([]byte(subject))).rejected(fields, x.endpoint.Now())
}

// of returns the entry for a caller's token, and creates it, with eviction of the least recently
// used entry, if it is new.
func (x *TokenExchange) of(d digest) *held {
	x.mu.Lock()
	defer x.mu.Unlock()
	if at := x.kept[d]; at != nil {
		x.order.MoveToBack(at)
		return &at.Value.(*exchanged).held
	}
	if x.order.Len() >= maxExchanged {
		oldest := x.order.Front()
		delete(x.kept, x.order.Remove(oldest).(*exchanged).of)
	}
	e := &exchanged{of: d}
	x.kept[d] = x.order.PushBack(e)
	return &e.held
}

// ask exchanges one token. The result expires no later than the caller's token.
func (x *TokenExchange) ask(ctx context.Context, subject string, expires time.Time) (*token, error) {
	form := url.Values{
		"grant_type":           {grantExchange},
		"subject_token":        {subject},
		"subject_token_type":   {typeAccessToken},
		"requested_token_type": {typeAccessToken},
	}
	addTarget(form, &x.config.TokenEndpoint)
	if x.config.Audience != "" {
		form.Set("audience", x.config.Audience)
	}
	a, err := x.endpoint.Ask(ctx, form)
	switch {
	case err != nil:
		return nil, err
	case a.IssuedTokenType == "":
		return nil, errors.New("the token endpoint does not name the type of the token it issued (issued_token_type): it may not support token exchange")
	case a.IssuedTokenType != typeAccessToken && a.IssuedTokenType != typeJWT:
		return nil, errors.New("the token endpoint issued another type of token (issued_token_type) than an access token")
	case a.AccessToken == subject:
		return nil, errors.New("the token endpoint issued the caller's own token, which is never passed on")
	}
	return newToken(a.AccessToken, a.Asked, min(a.Valid, expires.Sub(a.Asked))), nil
}
