package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/policy"
)

// ErrScope: the token is good, and lacks a scope that is required. It is
// answered 403 insufficient_scope.
var ErrScope = errors.New("the bearer token lacks a required scope")

// OAuthOptions are what an [OAuth] is made of.
type OAuthOptions struct {
	// Now tells the time.
	Now func() time.Time
	// Logger receives what an operator should know; discards when nil.
	Logger *slog.Logger
	// Roots are the authorities that fetches trust; those of the system when nil.
	Roots *x509.CertPool
}

// OAuth is what verifying tokens needs across reloads: the key set of the
// issuer, and the bound on signatures under way. It is safe for concurrent use
// and must be closed.
type OAuth struct {
	now      func() time.Time
	log      *slog.Logger
	roots    *x509.CertPool
	digester *digester
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	slots   chan struct{} // signature checks under way
	waiting atomic.Int64
	checks  atomic.Uint64
	gen     atomic.Uint64

	mu     sync.Mutex
	closed bool
	keys   *issuerKeys // of the URL that was asked for last
}

// NewOAuth returns an OAuth. It fetches nothing before a token has to be
// verified or a configuration is activated.
func NewOAuth(opts OAuthOptions) *OAuth {
	o := &OAuth{
		now: opts.Now, log: opts.Logger, roots: opts.Roots, digester: newDigester(newSecret()),
		slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Close ends fetches under way and waits for them.
func (o *OAuth) Close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cancel()
	o.wg.Wait()
}

func (o *OAuth) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.roots}
}

// Identity names the claims that say who a caller is (gateway specification,
// identity).
type Identity struct{ PrincipalClaim, GroupsClaim string }

// Tokens verifies the bearer tokens of one configuration snapshot. What it
// remembers goes with it, so that a reload judges every token anew. It is safe
// for concurrent use.
type Tokens struct {
	oauth    *OAuth
	keys     *issuerKeys
	cfg      OAuthConfig
	identity Identity
	gen      uint64
	verified [tokenShards]*lru[digest, *Token]
	refused  *refused
	clients  *clientNames // nil when cimd is off
}

// Bounds on remembered tokens.
const (
	tokenShards    = 16
	tokensPerShard = 512
)

// Tokens builds the verification of a checked configuration. Nothing that is
// running changes, so a reload may still be refused after it.
func (o *OAuth) Tokens(cfg OAuthConfig, identity Identity) (*Tokens, error) {
	t := &Tokens{oauth: o, cfg: cfg, identity: identity, gen: o.gen.Add(1), refused: newRefused()}
	for i := range t.verified {
		t.verified[i] = newLRU[digest, *Token](tokensPerShard)
	}
	if cfg.CIMD.Enabled {
		allowed, err := parseNetworks(cfg.CIMD.AllowedNetworks)
		if err != nil {
			return nil, err
		}
		t.clients = newClientNames(o, cfg.CIMD, allowed)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil || o.keys.url != cfg.JWKSURL {
		o.keys = newIssuerKeys(o, cfg.JWKSURL)
	}
	t.keys = o.keys
	return t, nil
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		networks = append(networks, p.Masked())
	}
	return networks, nil
}

// Activate tells that the configuration is the one in use: the keys are fetched
// now, so that the first caller need not wait.
func (t *Tokens) Activate() {
	if t.keys.set.Load() == nil {
		t.keys.refresh()
	}
}

// Verify returns the token that was presented. It errs with [ErrMissing],
// [ErrInvalid], [ErrExpired], [ErrScope] (then the token is returned too),
// [ErrNoKeys] or [ErrBusy], or with the context's error when that ends while
// keys are fetched. A token that was verified before costs one HMAC.
func (t *Tokens) Verify(ctx context.Context, presented string) (*Token, error) {
	if presented == "" {
		return nil, ErrMissing
	}
	if !presentable(presented) || len(presented) > MaxTokenBytes || !LooksLikeToken(presented) {
		return nil, errTokenForm
	}
	d := t.oauth.digester.sum(presented)
	now := t.oauth.now()
	shard := t.verified[d[0]%tokenShards]
	if token, ok := shard.get(d, now); ok {
		set, err := t.keys.current(ctx, t.cfg.JWKSCacheTTL)
		if err != nil {
			return nil, err
		}
		if set.has(token.signer) {
			return token, t.scoped(token)
		}
		shard.drop(d)
	}
	if err := t.refused.get(d, t.gen, now); err != nil {
		return nil, err
	}
	token, err := t.verify(ctx, presented)
	if err != nil {
		if errors.Is(err, errTokenSignature) {
			t.refused.put(d, t.gen, now, err)
		}
		return nil, err
	}
	shard.put(d, token, token.ExpiresAt.Add(t.cfg.Leeway))
	return token, t.scoped(token)
}

// Check tells whether a token that was verified under this or an earlier
// snapshot is still good. Long streams ask it for each frame, of the current
// snapshot. The error is as that of Verify.
func (t *Tokens) Check(token *Token) error {
	if token.principal.Issuer != "" && token.principal.Issuer != t.cfg.Issuer {
		return ErrInvalid
	}
	if !t.oauth.now().Before(token.ExpiresAt.Add(t.cfg.Leeway)) {
		return ErrExpired
	}
	// Streams bring no requests: somebody has to notice that keys are withdrawn.
	if set := t.keys.set.Load(); set == nil || !set.has(token.signer) {
		return ErrInvalid
	}
	if age := time.Duration(t.oauth.now().UnixNano() - t.keys.fetched.Load()); age >= t.cfg.JWKSCacheTTL {
		t.keys.refresh()
	}
	return t.scoped(token)
}

// TokenStats is how the verification of tokens fares.
type TokenStats struct {
	// Keys counts the keys of the issuer that are known and usable.
	Keys int
	// Fetched is when the issuer last answered with usable keys; zero for never.
	Fetched time.Time
	// Fetches counts attempts to get the keys of this issuer, Signatures the
	// signature checks of the process.
	Fetches, Signatures uint64
	// Failing tells that the last attempt failed: the keys known before stay in
	// use.
	Failing bool
}

// Stats returns the state of the issuer's keys.
func (t *Tokens) Stats() TokenStats {
	s := TokenStats{Fetches: t.keys.fetches.Load(), Signatures: t.oauth.checks.Load()}
	if set := t.keys.set.Load(); set != nil {
		s.Keys = len(set.keys)
	}
	if at := t.keys.fetched.Load(); at != 0 {
		s.Fetched = time.Unix(0, at)
	}
	t.keys.mu.Lock()
	defer t.keys.mu.Unlock()
	s.Failing = t.keys.failing
	return s
}

// ClientName returns the client_name of the token's client metadata document;
// empty where there is none, and whenever it cannot be had.
func (t *Tokens) ClientName(ctx context.Context, token *Token) string {
	if t.clients == nil {
		return ""
	}
	return t.clients.name(ctx, token.ClientID)
}

// scoped tells whether the token has every required scope.
func (t *Tokens) scoped(token *Token) error {
	for _, s := range t.cfg.RequiredScopes {
		if !slices.Contains(token.principal.Claims.Scopes, s) {
			return ErrScope
		}
	}
	return nil
}

// verify judges a token that is not remembered: first all that needs no key.
func (t *Tokens) verify(ctx context.Context, presented string) (*Token, error) {
	p, err := parseToken(presented)
	if err != nil {
		return nil, err
	}
	expires, err := p.check(t.cfg.Issuer, t.cfg.Audience, t.oauth.now(), t.cfg.Leeway)
	if err != nil {
		return nil, err
	}
	token, err := t.token(p, expires)
	if err != nil {
		return nil, err
	}
	set, err := t.keys.current(ctx, t.cfg.JWKSCacheTTL)
	if err != nil {
		return nil, err
	}
	if p.kid != "" && !set.names(p.kid) {
		if set, err = t.keys.unknown(ctx, set); err != nil {
			return nil, err
		}
		if set == nil {
			return nil, errTokenKey
		}
	}
	candidates := set.candidates(p.kid, p.alg)
	if len(candidates) == 0 {
		return nil, errTokenKey
	}
	if err := t.oauth.enter(ctx); err != nil {
		return nil, err
	}
	defer t.oauth.leave()
	for _, s := range candidates {
		t.oauth.checks.Add(1)
		if p.method.Verify(p.signed, p.signature, s.key) == nil {
			token.signer = s.print
			return token, nil
		}
	}
	return nil, errTokenSignature
}

// token is what the claims say, in the terms of the gateway.
func (t *Tokens) token(p *parsed, expires time.Time) (*Token, error) {
	subject, _ := text(p.claims["sub"])
	token := &Token{
		ClientID: p.name("client_id"), ExpiresAt: expires,
		principal: Principal{
			Kind: KindOAuth, Issuer: t.cfg.Issuer, Value: p.name(t.identity.PrincipalClaim),
			Claims: &policy.Claims{Subject: subject, Groups: texts(p.claims[t.identity.GroupsClaim]), Scopes: p.scopes()},
		},
	}
	if token.principal.Value == "" {
		token.principal.Value = token.ClientID
	}
	if token.principal.Value == "" {
		token.principal.Kind, token.principal.Issuer = KindIP, ""
	}
	if !recordable(token.principal.Value) {
		return nil, errTokenPrincipal
	}
	if token.ClientID == "" {
		token.ClientID = p.name("azp")
	}
	return token, nil
}

// maxSignatures bounds the requests that wait for a signature check.
const maxSignatures = 256

// enter takes the right to check signatures: at most half the processors do at
// one time, so that a flood of new tokens leaves room for the others.
func (o *OAuth) enter(ctx context.Context) error {
	select {
	case o.slots <- struct{}{}:
		return nil
	default:
	}
	if o.waiting.Add(1) > maxSignatures {
		o.waiting.Add(-1)
		return ErrBusy
	}
	defer o.waiting.Add(-1)
	select {
	case o.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *OAuth) leave() { <-o.slots }
