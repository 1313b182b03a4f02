package auth

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
	"svc/gateway/mcp"
)

// Config is the auth section of the gateway file (gateway specification, auth).
type Config struct {
	// Enabled turns authentication on; when false, /mcp accepts every caller. Reloads.
	Enabled bool `yaml:"enabled"`
	// Header is the request header that contains the key. Needs a restart.
	Header string `yaml:"header"`
	// Scheme is the prefix before the key, compared without regard to case; empty means
	// the raw header value. Needs a restart.
	Scheme string `yaml:"scheme"`
	// Keys are the accepted API keys. Reloads.
	Keys []KeyConfig `yaml:"keys"`
	// OAuth accepts bearer tokens in addition to the keys.
	OAuth OAuthConfig `yaml:"oauth"`
}

// KeyConfig is one entry of auth.keys.
type KeyConfig struct {
	// ID identifies the key in audit lines and spans; unique. Keys of `svc keygen`
	// contain their id (svc_gw_ID_…), and are rejected under another id.
	ID string `yaml:"id"`
	// Hash is the argon2id hash of the whole key text, in PHC form; a key has either hash or
	// hashes.
	Hash string `yaml:"hash" env:"true"`
	// Hashes are up to 4 secrets of the same client, of which each is accepted: while a key is
	// rotated, the old one and the one of svc keygen --rotate.
	Hashes []HashConfig `yaml:"hashes"`
	// WithoutID is true for a key text that does not contain the id, as svc keygen --key-stdin
	// accepts it. Such a key is compared with the hashes of these entries first, and with at
	// most 16 in all.
	WithoutID bool `yaml:"without_id"`
	// Owner is the person behind the client, by the user id or e-mail address that the control
	// plane knows: this person does not decide about approvals of the client's calls (not_self). At
	// most 512 bytes.
	Owner string `yaml:"owner"`
	// Scopes are recorded and not enforced.
	Scopes []string `yaml:"scopes"`
	// CreatedAt is informational.
	CreatedAt time.Time `yaml:"created_at"`
	// ExpiresAt is the time from which the key is no longer valid; zero means never.
	ExpiresAt time.Time `yaml:"expires_at"`
}

// HashConfig is one entry of auth.keys[].hashes.
type HashConfig struct {
	// N is the number of the secret, 1 to 999999999, which the key text contains
	// (svc_gw_ID.N_…); an entry without it is for a key text without a number. A number is
	// never used again for another secret.
	N int `yaml:"n"`
	// Hash is the argon2id hash of the whole key text, in PHC form.
	Hash string `yaml:"hash" env:"true"`
	// ExpiresAt is the time from which this secret is no longer valid; zero means never.
	ExpiresAt time.Time `yaml:"expires_at"`
}

// secrets returns the secrets of the key, hash or hashes. Each expires when its entry or the
// whole key does.
func (k *KeyConfig) secrets() []HashConfig {
	if len(k.Hashes) == 0 {
		return []HashConfig{{Hash: k.Hash, ExpiresAt: k.ExpiresAt}}
	}
	list := slices.Clone(k.Hashes)
	for i := range list {
		if end := &list[i].ExpiresAt; end.IsZero() || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(*end) {
			*end = k.ExpiresAt
		}
	}
	return list
}

// secretAt returns the place of the hash of a secret below that of its key.
func (k *KeyConfig) secretAt(at diag.At, i int) diag.At {
	if len(k.Hashes) == 0 {
		return at.Field("hash")
	}
	return at.Field("hashes").Index(i).Field("hash")
}

// OAuthConfig is auth.oauth (gateway specification, auth.oauth).
type OAuthConfig struct {
	// Enabled accepts RFC 6750 bearer tokens. Reloads; switched on together with a change of
	// issuer, audience or jwks_url it needs a restart.
	Enabled bool `yaml:"enabled"`
	// Issuer is compared with the claim iss. Needs a restart.
	Issuer string `yaml:"issuer" env:"true"`
	// Audience is compared with the claim aud. Needs a restart.
	Audience string `yaml:"audience" env:"true"`
	// JWKSURL is the URL of the issuer's key set. Needs a restart.
	JWKSURL string `yaml:"jwks_url" env:"true"`
	// RequiredScopes must all be in the token; empty requires none. Reloads.
	RequiredScopes []string `yaml:"required_scopes"`
	// JWKSCacheTTL is the time after which fetched keys are fetched again. Reloads.
	JWKSCacheTTL time.Duration `yaml:"jwks_cache_ttl"`
	// Leeway is the clock skew that is allowed for exp and nbf. Reloads.
	Leeway time.Duration `yaml:"leeway"`
	// MetadataPath is the path of the RFC 9728 document. Needs a restart.
	MetadataPath string `yaml:"metadata_path"`
	// PublicURL is the base URL that clients use; derived from listen when empty. Needs a
	// restart.
	PublicURL string `yaml:"public_url" env:"true"`
	// CIMD fetches client metadata documents. Reloads.
	CIMD CIMDConfig `yaml:"cimd"`
}

// CIMDConfig is auth.oauth.cimd: client-metadata documents.
type CIMDConfig struct {
	// Enabled allows fetches.
	Enabled bool `yaml:"enabled"`
	// Timeout bounds one fetch.
	Timeout time.Duration `yaml:"timeout"`
	// MaxBodyBytes bounds one document, in bytes.
	MaxBodyBytes int64 `yaml:"max_body_bytes"`
	// CacheTTL is the time after which a document is fetched again.
	CacheTTL time.Duration `yaml:"cache_ttl"`
	// AllowedNetworks are CIDRs that may be fetched from although they are not public
	// (loopback, private, link-local); empty allows none.
	AllowedNetworks []string `yaml:"allowed_networks"`
}

// SetDefaults sets the specified defaults of absent fields.
func (c *Config) SetDefaults() {
	c.Header = "Authorization"
	c.Scheme = "Bearer"
	c.OAuth.SetDefaults()
}

// SetDefaults sets the specified defaults of absent fields.
func (c *OAuthConfig) SetDefaults() {
	c.JWKSCacheTTL = 5 * time.Minute
	c.Leeway = 30 * time.Second
	c.MetadataPath = "/.well-known/oauth-protected-resource"
	c.CIMD.SetDefaults()
}

// SetDefaults sets the specified defaults of absent fields.
func (c *CIMDConfig) SetDefaults() {
	c.Timeout = 5 * time.Second
	c.MaxBodyBytes = 64 << 10
	c.CacheTTL = time.Hour
}

// framingHeaders cannot carry a key, because HTTP defines another meaning for them.
var framingHeaders = map[string]bool{
	"connection": true, "content-length": true, "content-type": true, "host": true,
	"keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"mcp-session-id": true, "mcp-protocol-version": true, "last-event-id": true,
}

// Validate reports the errors of the section. It opens no file and reads no clock: an
// expired key is valid configuration.
func (c *Config) Validate(at diag.At) {
	switch {
	case !mcp.IsToken(c.Header):
		at.Field("header").Errorf("auth-header", "%q is not a header name", c.Header)
	case framingHeaders[strings.ToLower(c.Header)]:
		at.Field("header").Hint("use Authorization, or a header of your own such as X-Api-Key").
			Errorf("auth-header", "HTTP or MCP defines another meaning for %s, so it cannot carry a key", c.Header)
	}
	if c.Scheme != "" && !mcp.IsToken(c.Scheme) {
		at.Field("scheme").Hint(`use one word such as Bearer, or "" to read the raw header value`).
			Errorf("auth-scheme", "%q is not an authentication scheme", c.Scheme)
	}
	if c.Enabled && len(c.Keys) == 0 && !c.OAuth.Enabled {
		at.Field("keys").Hint("make a key with `svc keygen`, or set auth.enabled to false").
			Errorf("auth-keys-empty", "authentication is enabled and no key is listed, so every request would be rejected")
	}
	ids := make(map[string]int, len(c.Keys))
	hashes := make(map[string]string)
	withoutID := 0
	for i := range c.Keys {
		k, here := &c.Keys[i], at.Field("keys").Index(i)
		k.validate(here)
		if first, twice := ids[k.ID]; twice && k.ID != "" {
			here.Field("id").Errorf("auth-key-duplicate", "id %q is already used by keys[%d]", k.ID, first)
		} else {
			ids[k.ID] = i
		}
		for j, secret := range k.secrets() {
			place := k.secretAt(here, j)
			if first, twice := hashes[secret.Hash]; twice && secret.Hash != "" {
				place.Hint("make a separate key for each id with `svc keygen --id NAME`").
					Warnf("auth-hash-duplicate", "the hash is the same as in %s: one key has two entries", first)
			} else {
				hashes[secret.Hash] = place.Path()
			}
			if k.WithoutID && secret.N == 0 {
				if withoutID++; withoutID == maxTried+1 {
					place.Hint("give these clients keys of `svc keygen --id NAME`, which contain their id").
						Errorf("auth-keys-without-id", "is hash %d of keys without_id, and a key without an id is compared with %d: it would never be accepted", withoutID, maxTried)
				}
			}
		}
	}
	if c.OAuth.Enabled && !c.Enabled {
		at.Field("oauth").Field("enabled").Hint("set auth.enabled to true").
			Errorf("oauth-needs-auth", "auth.oauth requires auth.enabled")
	}
	c.OAuth.Validate(at.Field("oauth"))
}

func (k *KeyConfig) validate(at diag.At) {
	if k.ID == "" {
		at.Field("id").Errorf("auth-key-id", "is required")
	} else if !ValidID(k.ID) {
		at.Field("id").Errorf("auth-key-id", "must be 1 to %d visible ASCII characters without spaces", MaxIDBytes)
	}
	switch {
	case k.Hashes == nil && k.Hash == "":
		at.Field("hash").Hint("`svc keygen` prints a key and its hash").Errorf("auth-key-hash", "is required")
	case k.Hashes != nil && k.Hash != "":
		at.Field("hashes").Hint("move hash into the list, as - {hash: …}").Errorf("auth-key-hashes", "a key has hash or hashes, not both")
	case k.Hashes != nil && (len(k.Hashes) == 0 || len(k.Hashes) > MaxHashes):
		at.Field("hashes").Hint("remove the secrets that no client uses any more").
			Errorf("auth-key-hashes", "must have 1 to %d entries, has %d", MaxHashes, len(k.Hashes))
	}
	numbers := make(map[int]int, len(k.Hashes))
	for i, secret := range k.secrets() {
		here := k.secretAt(at, i)
		if _, err := parsePHC(secret.Hash); err != nil && (secret.Hash != "" || len(k.Hashes) > 0) {
			here.Hint("`svc keygen` prints a key and its hash").Errorf("auth-key-hash", "%v", err)
		}
		first, twice := numbers[secret.N]
		switch n := at.Field("hashes").Index(i).Field("n"); {
		case secret.N < 0 || secret.N > MaxN:
			n.Errorf("auth-key-n", "must be 1 to %d, is %d", MaxN, secret.N)
		case secret.N != 0 && twice:
			n.Hint("`svc keygen --rotate ID --config FILE` makes a key with the next number").Errorf("auth-key-n", "%d is already the number of hashes[%d]", secret.N, first)
		default:
			numbers[secret.N] = i
		}
	}
	if !recordable(k.Owner) || k.Owner != strings.TrimSpace(k.Owner) {
		at.Field("owner").Hint("use the user id or the e-mail address of a person").
			Errorf("auth-key-owner", "must be at most %d bytes without control characters, and without blanks around it", maxPrincipalBytes)
	}
	if !k.CreatedAt.IsZero() && !k.ExpiresAt.IsZero() && !k.CreatedAt.Before(k.ExpiresAt) {
		at.Field("expires_at").Warnf("auth-key-expiry", "is not after created_at: the key was never valid")
	}
}

// Validate reports the errors of the section; required fields are checked only when it is
// enabled.
func (c *OAuthConfig) Validate(at diag.At) {
	for _, f := range []struct {
		name, value string
		required    bool
	}{
		{"issuer", c.Issuer, true}, {"jwks_url", c.JWKSURL, true}, {"public_url", c.PublicURL, false},
	} {
		if f.value == "" {
			if f.required && c.Enabled {
				at.Field(f.name).Errorf("oauth-required", "is required when auth.oauth is enabled")
			}
			continue
		}
		u, err := url.Parse(f.value)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			at.Field(f.name).Errorf("oauth-url", "must be an http or https URL with a host")
		case u.User != nil:
			at.Field(f.name).Errorf("oauth-url", "must not carry a user name or password")
		case f.name == "public_url" && (u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(f.value, "?#\"\\ ") || !visible(f.value)):
			at.Field(f.name).Errorf("oauth-url", "must not carry a query or fragment, nor characters that a URL has to escape")
		case f.name == "jwks_url" && u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()):
			at.Field(f.name).Hint("an attacker who can change the key set can sign any token").
				Errorf("oauth-url-insecure", "must be https unless the host is loopback")
		}
	}
	if c.Enabled && c.Audience == "" {
		at.Field("audience").Errorf("oauth-required", "is required when auth.oauth is enabled")
	}
	for i, s := range c.RequiredScopes {
		if strings.ContainsAny(s, "\"\\") || !visible(s) {
			at.Field("required_scopes").Index(i).Errorf("oauth-scope", "%q is not an OAuth scope", s)
		}
	}
	positive(at.Field("jwks_cache_ttl"), c.JWKSCacheTTL)
	if c.Leeway < 0 || c.Leeway > 10*time.Minute {
		at.Field("leeway").Errorf("oauth-leeway", "must be between 0s and 10m, is %s", c.Leeway)
	}
	switch p := c.MetadataPath; {
	case !strings.HasPrefix(p, "/") || p == "/" || strings.ContainsAny(p, "?#{}%\"\\") || !visible(p):
		at.Field("metadata_path").Errorf("oauth-metadata-path", "must be an absolute path without characters that a URL has to escape")
	case p == mainPath || p == mainPath+"/" || strings.HasPrefix(p, mainPath+"/v/") || p == "/healthz" || p == "/readyz":
		at.Field("metadata_path").Errorf("oauth-metadata-path", "the gateway already serves another resource at %s", p)
	}
	positive(at.Field("cimd").Field("timeout"), c.CIMD.Timeout)
	positive(at.Field("cimd").Field("cache_ttl"), c.CIMD.CacheTTL)
	if c.CIMD.MaxBodyBytes <= 0 || c.CIMD.MaxBodyBytes > 16<<20 {
		at.Field("cimd").Field("max_body_bytes").Errorf("oauth-range", "must be between 1 and %d", 16<<20)
	}
	for i, s := range c.CIMD.AllowedNetworks {
		if _, err := netip.ParsePrefix(s); err != nil {
			at.Field("cimd").Field("allowed_networks").Index(i).Hint("as in 10.20.0.0/16").Errorf("cidr", "must be a CIDR")
		}
	}
}

func positive(at diag.At, d time.Duration) {
	if d <= 0 {
		at.Errorf("oauth-range", "must be above zero, is %s", d)
	}
}
