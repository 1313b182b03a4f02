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

// ErrScope: the token is valid, and lacks a required scope. The response is 403
// insufficient_scope.
var ErrScope = errors.New("the bearer token lacks a required scope")

// OAuthOptions are the parameters of an [OAuth].
type OAuthOptions struct {
	// Now returns the current time.
	Now func() time.Time
	// Logger receives messages for the operator; nil discards them.
	Logger *slog.Logger
	// Roots are the certificate authorities for fetches; nil means those of the system.
	Roots *x509.CertPool
}

// OAuth is the state of token verification that outlives reloads: the key set of the
// issuer, and the limit on concurrent signature checks. It is safe for concurrent use and
// must be closed.
type OAuth struct {
	now      func() time.Time
	log      *slog.Logger
	roots    *x509.CertPool
	digester *digester
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	slots   chan struct{} // signature checks in flight
	waiting atomic.Int64
	checks  atomic.Uint64
	gen     atomic.Uint64

	noGroups struct{ absent, form, elsewhere atomic.Uint64 }

	mu     sync.Mutex
	closed bool
	keys   *issuerKeys // of the URL that was used last
}

// NewOAuth returns an OAuth. It fetches nothing until a token is verified or a
// configuration is activated.
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

// Close cancels the fetches in flight and waits for their end.
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

// Identity names the claims that identify a caller (gateway specification, identity): the names
// of top-level claims, or JSON Pointers to nested ones.
type Identity struct{ PrincipalClaim, GroupsClaim string }

// Tokens verifies the bearer tokens of one configuration snapshot. Its cache belongs to
// the snapshot, so that each token is verified again after a reload. It is safe for
// concurrent use.
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

// Bounds of the cache of tokens.
const (
	tokenShards    = 16
	tokensPerShard = 512
)

// Tokens builds the verification for a validated configuration. It has no effect on the
// running one, so that a reload may still be rejected afterwards.
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

// Activate marks the configuration as the current one and fetches the keys, so that the
// first caller need not wait.
func (t *Tokens) Activate() {
	if t.keys.set.Load() == nil {
		t.keys.refresh()
	}
}

// Verify verifies the presented token. A token may be for the audience of the configuration,
// or for resource, the requested view; empty for none. The error is [ErrMissing], errInvalid,
// [ErrExpired], [ErrScope] (then the token is returned too), errKeysUnknown or [ErrBusy], or
// the context's error when the context ends while keys are fetched. A token that was
// verified before costs one HMAC.
func (t *Tokens) Verify(ctx context.Context, presented, resource string) (*Token, error) {
	if presented == "" {
		return nil, ErrMissing
	}
	switch {
	case len(presented) > maxTokenBytes:
		return nil, errTokenSize
	case !visible(presented):
		return nil, errCharacters
	case !looksLikeToken(presented):
		return nil, errNoToken
	}
	d := t.oauth.digester.sum(presented)
	now := t.oauth.now()
	// A token that is for the resource alone is kept under another digest, so that it is
	// accepted nowhere else.
	kept, n := [2]digest{d}, 1
	if resource != "" {
		kept[1], n = t.oauth.digester.sum(resource+" "+presented), 2
	}
	for _, d := range kept[:n] {
		token, err := t.known(ctx, d, now)
		if err != nil {
			return nil, err
		}
		if token != nil {
			return token, t.scoped(token)
		}
	}
	if err := t.refused.get(d, t.gen, now); err != nil {
		return nil, err
	}
	token, err := t.verify(ctx, presented, resource)
	if err != nil {
		if errors.Is(err, errTokenSignature) {
			t.refused.put(d, t.gen, now, err)
		}
		return nil, err
	}
	if token.elsewhere {
		d = kept[1]
	}
	t.verified[d[0]%tokenShards].putCost(d, token, token.ExpiresAt.Add(t.cfg.Leeway), 1+len(presented)/tokenUnit)
	return token, t.scoped(token)
}

// known returns a token that was verified before; nil for none.
func (t *Tokens) known(ctx context.Context, d digest, now time.Time) (*Token, error) {
	shard := t.verified[d[0]%tokenShards]
	token, ok := shard.get(d, now)
	if !ok {
		return nil, nil
	}
	set, err := t.keys.current(ctx, t.cfg.JWKSCacheTTL)
	if err != nil {
		return nil, err
	}
	if !set.has(token.signer) {
		shard.drop(d)
		return nil, nil
	}
	return token, nil
}

// Check reports whether a token that was verified under this or an earlier snapshot is
// still valid. Long streams call it for each frame, with the current snapshot. The
// error is as that of Verify.
func (t *Tokens) Check(token *Token) error {
	if token.principal.Issuer != "" && token.principal.Issuer != t.cfg.Issuer {
		return errInvalid
	}
	if !t.oauth.now().Before(token.ExpiresAt.Add(t.cfg.Leeway)) {
		return ErrExpired
	}
	// A stream causes no requests, so that this call must refresh the keys to detect
	// withdrawn ones.
	if set := t.keys.set.Load(); set == nil || !set.has(token.signer) {
		return errInvalid
	}
	if age := time.Duration(t.oauth.now().UnixNano() - t.keys.fetched.Load()); age >= t.cfg.JWKSCacheTTL {
		t.keys.refresh()
	}
	return t.scoped(token)
}

// NoGroups counts verified tokens without groups by the reason: they have no such claim, or one
// of another form, or only a reference to groups that are not in the token.
type NoGroups struct{ Absent, Form, Elsewhere uint64 }

// TokenStats is the state of token verification.
type TokenStats struct {
	// Keys is the number of usable keys of the issuer.
	Keys int
	// Fetched is the time when the issuer last returned usable keys; zero for never.
	Fetched time.Time
	// Fetches counts attempts to fetch the keys of this issuer, Signatures the signature
	// checks of the process.
	Fetches, Signatures uint64
	// NoGroups counts the verified tokens of the process that gave their callers no groups.
	NoGroups NoGroups
	// Failing is set when the last attempt failed: the previous keys stay in use.
	Failing bool
}

// Stats returns the state of the issuer's keys.
func (t *Tokens) Stats() TokenStats {
	s := TokenStats{Fetches: t.keys.fetches.Load(), Signatures: t.oauth.checks.Load()}
	n := &t.oauth.noGroups
	s.NoGroups = NoGroups{Absent: n.absent.Load(), Form: n.form.Load(), Elsewhere: n.elsewhere.Load()}
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

// ClientName returns the client_name of the token's client metadata document; empty if
// there is none or it cannot be fetched.
func (t *Tokens) ClientName(ctx context.Context, token *Token) string {
	if t.clients == nil {
		return ""
	}
	return t.clients.name(ctx, token.ClientID)
}

// scoped reports whether the token has every required scope.
func (t *Tokens) scoped(token *Token) error {
	for _, s := range t.cfg.RequiredScopes {
		if !slices.Contains(token.principal.Claims.Scopes, s) {
			return ErrScope
		}
	}
	return nil
}

// verify verifies a token that is not cached: first the checks that need no key.
func (t *Tokens) verify(ctx context.Context, presented, resource string) (*Token, error) {
	p, err := parseToken(presented)
	if err != nil {
		return nil, err
	}
	audiences := []string{t.cfg.Audience}
	if resource != "" {
		audiences = append(audiences, resource)
	}
	expires, err := p.check(t.cfg.Issuer, audiences, t.oauth.now(), t.cfg.Leeway)
	if err != nil {
		return nil, err
	}
	token, noGroups, err := t.token(p, expires)
	if err != nil {
		return nil, err
	}
	token.elsewhere = !p.hasAudience(t.cfg.Audience)
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
	if err := t.oauth.acquireSlot(ctx); err != nil {
		return nil, err
	}
	defer t.oauth.leave()
	for _, s := range candidates {
		t.oauth.checks.Add(1)
		if p.method.Verify(p.signed, p.signature, s.key) == nil {
			token.signer = s.print
			t.countGroups(token, noGroups)
			return token, nil
		}
	}
	return nil, errTokenSignature
}

// countGroups counts and logs a verified token without groups, and logs other claims of rules that
// cannot be read. It is called once for a token, not for each request. The first token of the
// process whose groups cannot be read is a warning: callers with such tokens are denied by all rules
// that depend on groups.
func (t *Tokens) countGroups(token *Token, why string) {
	level := slog.LevelDebug
	switch why {
	case groupsAbsent:
		t.oauth.noGroups.absent.Add(1)
	case groupsForm:
		if t.oauth.noGroups.form.Add(1) == 1 {
			level = slog.LevelWarn
		}
	case groupsElsewhere:
		if t.oauth.noGroups.elsewhere.Add(1) == 1 {
			level = slog.LevelWarn
		}
	}
	if why != "" {
		t.oauth.log.Log(context.Background(), level, "a verified token gives its caller no groups", "principal", token.principal.Value, "claim", t.identity.GroupsClaim, "reason", why)
	}
	if u := token.principal.Claims.Unreadable &^ policy.UnreadableGroups; u != 0 {
		t.oauth.log.Debug("claims of a verified token cannot be read", "principal", token.principal.Value, "claims", u.String())
	}
}

// token converts the claims to a Token. The text is the reason why it has no groups, if any.
func (t *Tokens) token(p *parsed, expires time.Time) (*Token, string, error) {
	claims, noGroups := p.identity(t.identity.GroupsClaim)
	token := &Token{
		ClientID: p.name("client_id"), ExpiresAt: expires, Rights: rightsOf(p.claims), Persons: p.persons(),
		principal: Principal{
			Kind: KindOAuth, Issuer: t.cfg.Issuer, Value: p.name(t.identity.PrincipalClaim),
			Claims: claims,
		},
	}
	if token.principal.Value == "" {
		token.principal.Value = token.ClientID
	}
	if token.principal.Value == "" {
		token.principal.Kind, token.principal.Issuer = KindIP, ""
	}
	if !recordable(token.principal.Value) {
		return nil, "", errTokenPrincipal
	}
	if token.ClientID == "" {
		token.ClientID = p.name("azp")
	}
	return token, noGroups, nil
}

// maxSignatures bounds the number of requests that wait for a signature check.
const maxSignatures = 256

// acquireSlot waits for the permission to check signatures: at most half of the
// processors check at one time, so that a flood of new tokens leaves processors for other
// requests.
func (o *OAuth) acquireSlot(ctx context.Context) error {
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
