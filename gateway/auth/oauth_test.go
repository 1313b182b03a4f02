package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"svc/gateway/auth/authtest"
)

const audience = "https://gateway.example/mcp"

// oauthRig verifies tokens of an issuer with one key.
type oauthRig struct {
	*clock
	issuer *authtest.Issuer
	key    *authtest.Key
	oauth  *OAuth
	cfg    OAuthConfig
	logs   *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newOAuthRig(t testing.TB) *oauthRig {
	r := &oauthRig{clock: newClock(), key: authtest.NewKey(t, "k1", "ES256"), logs: &lockedBuffer{}}
	r.issuer = authtest.NewIssuer(t, r.key)
	r.oauth = NewOAuth(OAuthOptions{Now: r.now, Logger: slog.New(slog.NewTextHandler(r.logs, nil))})
	t.Cleanup(r.oauth.Close)
	r.cfg.SetDefaults()
	r.cfg.Enabled, r.cfg.Issuer, r.cfg.Audience, r.cfg.JWKSURL = true, r.issuer.URL, audience, r.issuer.JWKSURL()
	return r
}

func (r *oauthRig) tokens(t testing.TB) *Tokens {
	t.Helper()
	tokens, err := r.oauth.Tokens(r.cfg, Identity{"sub", "groups"})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// claims are valid claims with changes: nil removes a claim.
func (r *oauthRig) claims(changes map[string]any) map[string]any {
	c := map[string]any{"iss": r.issuer.URL, "aud": audience, "sub": "alice", "exp": r.now().Add(time.Hour).Unix()}
	for name, value := range changes {
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
	}
	return c
}

func (r *oauthRig) token(t testing.TB, changes map[string]any) string {
	t.Helper()
	return r.key.Token(t, r.claims(changes), nil)
}

func TestTokenClaims(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	now := r.now()
	at := func(d time.Duration) any { return now.Add(d).Unix() }
	tests := []struct {
		name    string
		changes map[string]any
		want    error
	}{
		{"good", nil, nil},
		{"exp missing", map[string]any{"exp": nil}, errTokenNoExpiry},
		{"exp a string", map[string]any{"exp": "1e10"}, errTokenNoExpiry},
		{"exp with a fraction", map[string]any{"exp": float64(now.Unix()) + 0.5}, nil},
		{"exp 1e300", map[string]any{"exp": 1e300}, errTokenNoExpiry},
		{"exp negative", map[string]any{"exp": -1}, errTokenNoExpiry},
		{"exp past, within the leeway", map[string]any{"exp": at(-29 * time.Second)}, nil},
		{"exp past, at the leeway", map[string]any{"exp": at(-30 * time.Second)}, ErrExpired},
		{"nbf future, at the leeway", map[string]any{"nbf": at(30 * time.Second)}, nil},
		{"nbf future, beyond the leeway", map[string]any{"nbf": at(31 * time.Second)}, errTokenNotYet},
		{"nbf of a wrong type", map[string]any{"nbf": "now"}, errTokenClaims},
		{"iat future", map[string]any{"iat": at(time.Hour)}, nil},
		{"iat of a wrong type", map[string]any{"iat": []int{1}}, errTokenClaims},
		{"iss another", map[string]any{"iss": "https://evil.example"}, errTokenIssuer},
		{"iss with a slash at the end", map[string]any{"iss": r.issuer.URL + "/"}, errTokenIssuer},
		{"iss missing", map[string]any{"iss": nil}, errTokenIssuer},
		{"iss a list", map[string]any{"iss": []string{r.issuer.URL}}, errTokenIssuer},
		{"aud a list", map[string]any{"aud": []string{"x", audience}}, nil},
		{"aud a list without us", map[string]any{"aud": []string{"x"}}, errTokenAudience},
		{"aud an empty list", map[string]any{"aud": []string{}}, errTokenAudience},
		{"aud a list of other things too", map[string]any{"aud": []any{audience, 1}}, errTokenAudience},
		{"aud missing", map[string]any{"aud": nil}, errTokenAudience},
		{"aud a prefix", map[string]any{"aud": "https://gateway.example"}, errTokenAudience},
		{"sub with a line break", map[string]any{"sub": "a\nb"}, errTokenPrincipal},
		{"sub too long", map[string]any{"sub": strings.Repeat("a", maxPrincipalBytes+1)}, errTokenPrincipal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tokens.Verify(t.Context(), r.token(t, tt.changes), "")
			if !errors.Is(err, tt.want) || err == nil && tt.want != nil {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestTokenHeadersAndHostileTokens(t *testing.T) {
	r := newOAuthRig(t)
	rsaKey := authtest.NewKey(t, "rsa", "RS256")
	r.issuer.Publish(r.key, rsaKey)
	tokens := r.tokens(t)
	good := r.token(t, nil)
	claims := r.claims(nil)
	payload := fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"alice","exp":%d}`, r.issuer.URL, audience, r.now().Add(time.Hour).Unix())
	b64 := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims))
		token.Header["kid"] = "rsa"
		s, err := token.SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	parts := strings.Split(good, ".")
	tests := []struct {
		name, token string
		want        error
	}{
		{"good", good, nil},
		{"alg none", b64(`{"alg":"none"}`) + "." + b64(payload) + ".", errTokenAlgorithm},
		{"alg none with a signature", b64(`{"alg":"none","kid":"k1"}`) + "." + b64(payload) + "." + parts[2], errTokenAlgorithm},
		{"alg None", b64(`{"alg":"None"}`) + "." + b64(payload) + "." + parts[2], errTokenAlgorithm},
		{"alg missing", b64(`{"kid":"k1"}`) + "." + b64(payload) + "." + parts[2], errTokenAlgorithm},
		{"alg twice", r.key.Raw(t, `{"alg":"ES256","kid":"k1","alg":"none"}`, payload), errTokenHeader},
		{"HS256 with the public key in PEM", hmac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), errTokenAlgorithm},
		{"HS256 with the public key in DER", hmac(der), errTokenAlgorithm},
		{"ES256 under the name of an RSA key", r.key.Token(t, claims, map[string]any{"kid": "rsa"}), errTokenKey},
		{"RS256 under the name of an EC key", rsaKey.Token(t, claims, map[string]any{"kid": "k1"}), errTokenKey},
		{"RS256", rsaKey.Token(t, claims, nil), nil},
		{"crit", r.key.Token(t, claims, map[string]any{"crit": []string{"exp"}}), errTokenCritical},
		{"crit empty", r.key.Token(t, claims, map[string]any{"crit": []string{}}), errTokenCritical},
		{"kid missing", r.key.Token(t, claims, map[string]any{"kid": nil}), nil},
		{"kid unknown", r.key.Token(t, claims, map[string]any{"kid": "other"}), errTokenKey},
		{"kid a path", r.key.Token(t, claims, map[string]any{"kid": "../../etc/passwd"}), errTokenKey},
		{"kid of 1 KiB", r.key.Token(t, claims, map[string]any{"kid": strings.Repeat("k", 1024)}), errTokenHeader},
		{"kid of 10 KiB", r.key.Token(t, claims, map[string]any{"kid": strings.Repeat("k", 10<<10)}), errTokenHeader},
		{"kid a number", r.key.Token(t, claims, map[string]any{"kid": 1}), errTokenHeader},
		{"typ at+jwt", r.key.Token(t, claims, map[string]any{"typ": "at+jwt"}), nil},
		{"typ application/at+JWT", r.key.Token(t, claims, map[string]any{"typ": "application/at+JWT"}), nil},
		{"typ missing", r.key.Token(t, claims, map[string]any{"typ": nil}), nil},
		{"typ dpop+jwt", r.key.Token(t, claims, map[string]any{"typ": "dpop+jwt"}), errTokenType},
		{"another payload", parts[0] + "." + b64(strings.Replace(payload, "alice", "mallory", 1)) + "." + parts[2], errTokenSignature},
		{"no signature", parts[0] + "." + parts[1] + ".", errTokenEncoding},
		{"a signature cut short", good[:len(good)-4], errInvalid},
		{"four parts", good + ".x", errNoToken},
		{"padding", good + "==", errTokenEncoding},
		{"a line break inside", good[:20] + "\n" + good[20:], errCharacters},
		{"claims twice", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, strings.Replace(payload, `"sub":"alice"`, `"sub":"alice","sub":"root"`, 1)), errTokenClaims},
		{"claims a list", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, `[]`), errTokenClaims},
		{"claims null", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, `null`), errTokenClaims},
		{"claims of another case", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, strings.Replace(payload, `"iss"`, `"Iss"`, 1)), errTokenIssuer},
		{"invalid UTF-8", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, strings.Replace(payload, "alice", "al\xffce", 1)), errTokenClaims},
		{"trailing data", r.key.Raw(t, `{"alg":"ES256","kid":"k1"}`, payload+"{}"), errTokenClaims},
		{"200 groups, as Entra ID writes them", r.token(t, map[string]any{"groups": groupIDs(200)}), nil},
		{"24 KiB of claims, 32 KiB encoded", r.token(t, map[string]any{"pad": strings.Repeat("x", 23<<10)}), nil},
		{"over 32 KiB", r.token(t, map[string]any{"pad": strings.Repeat("x", 24<<10)}), errTokenSize},
		{"10 MB", strings.Repeat("eyJhb.", 10<<20/6), errTokenSize},
		{"a gateway key", "svc_gw_a_" + strings.Repeat("x", 43), errNoToken},
		{"nothing", "", ErrMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tokens.Verify(t.Context(), tt.token, "")
			if !errors.Is(err, tt.want) || err == nil && tt.want != nil {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// Keys that jku, x5u or jwk of the header refer to are never fetched.
func TestKeysThatTheTokenBringsAreIgnored(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	evil := authtest.NewKey(t, "k1", "ES256")
	attacker := authtest.NewIssuer(t, evil)
	token := evil.Token(t, r.claims(nil), map[string]any{"jwk": evil.JWK(), "jku": attacker.JWKSURL(), "x5u": attacker.URL})
	if _, err := tokens.Verify(t.Context(), token, ""); !errors.Is(err, errTokenSignature) {
		t.Errorf("got %v", err)
	}
	if n := attacker.Fetches(); n != 0 {
		t.Errorf("the attacker's server received %d requests", n)
	}
}

func TestAlgorithms(t *testing.T) {
	r := newOAuthRig(t)
	algs := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	keys := make([]*authtest.Key, len(algs))
	for i, alg := range algs {
		keys[i] = authtest.NewKey(t, alg, alg)
	}
	r.issuer.Publish(keys...)
	tokens := r.tokens(t)
	for i, alg := range algs {
		if _, err := tokens.Verify(t.Context(), keys[i].Token(t, r.claims(nil), nil), ""); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestKeysOfASet(t *testing.T) {
	r := newOAuthRig(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	small := &authtest.Key{Kid: "small", Method: jwt.SigningMethodRS256, Private: weak}
	strong := authtest.NewKey(t, "strong", "RS256")
	change := func(k *authtest.Key, name string, value any) map[string]any {
		j := k.JWK()
		j[name] = value
		return j
	}
	noUse := r.key.JWK()
	delete(noUse, "use")
	twin := authtest.NewKey(t, "k1", "ES256")
	tests := []struct {
		name string
		keys []map[string]any
		sign *authtest.Key
		want error
	}{
		{"use sig", []map[string]any{r.key.JWK()}, r.key, nil},
		{"use absent", []map[string]any{noUse}, r.key, nil},
		{"use enc", []map[string]any{change(r.key, "use", "enc"), strong.JWK()}, r.key, errTokenKey},
		{"key_ops without verify", []map[string]any{change(r.key, "key_ops", []string{"encrypt"}), strong.JWK()}, r.key, errTokenKey},
		{"alg as the token's", []map[string]any{change(strong, "alg", "RS256")}, strong, nil},
		{"alg mismatch", []map[string]any{change(strong, "alg", "PS256")}, strong, errTokenKey},
		{"alg RSA-OAEP", []map[string]any{change(strong, "alg", "RSA-OAEP"), r.key.JWK()}, strong, errTokenKey},
		{"RSA of 1024 bits", []map[string]any{small.JWK(), r.key.JWK()}, small, errTokenKey},
		{"RSA with exponent 1", []map[string]any{change(strong, "e", "AQ"), r.key.JWK()}, strong, errTokenKey},
		{"RSA of 16,384 bits, which takes long to verify", []map[string]any{change(strong, "n", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 2048))), r.key.JWK()}, strong, errTokenKey},
		{"RSA with an exponent of 8 bytes", []map[string]any{change(strong, "e", "AAAAAAABAAE"), r.key.JWK()}, strong, nil},
		{"alg none", []map[string]any{change(r.key, "alg", "none"), strong.JWK()}, r.key, errTokenKey},
		{"alg HS256", []map[string]any{change(r.key, "alg", "HS256"), strong.JWK()}, r.key, errTokenKey},
		{"a private key", []map[string]any{change(r.key, "d", "AAAA")}, r.key, nil},
		{"an RSA key as an EC key", []map[string]any{change(strong, "kty", "EC"), r.key.JWK()}, strong, errTokenKey},
		{"an EC key as an RSA key", []map[string]any{change(r.key, "kty", "RSA"), strong.JWK()}, r.key, errTokenKey},
		{"kid a number", []map[string]any{change(r.key, "kid", 1), strong.JWK()}, r.key, errTokenKey},
		{"kid of 300 bytes", []map[string]any{change(r.key, "kid", strings.Repeat("k", 300)), strong.JWK()}, r.key, errTokenKey},
		{"a point off the curve", []map[string]any{change(r.key, "y", base64.RawURLEncoding.EncodeToString(make([]byte, 32))), strong.JWK()}, r.key, errTokenKey},
		{"a symmetric key beside", []map[string]any{{"kty": "oct", "kid": "k1", "k": "AAAA"}, r.key.JWK()}, r.key, nil},
		{"a member of a wrong type beside", []map[string]any{{"kty": 1}, r.key.JWK()}, r.key, nil},
		{"a kid twice, the second signs", []map[string]any{twin.JWK(), r.key.JWK()}, r.key, nil},
		{"no usable key", []map[string]any{{"kty": "oct", "k": "AAAA"}}, r.key, errKeysUnknown},
		{"an empty set", []map[string]any{}, r.key, errKeysUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.issuer.PublishRaw(tt.keys...)
			o := NewOAuth(OAuthOptions{Now: r.now})
			defer o.Close()
			tokens, err := o.Tokens(r.cfg, Identity{"sub", "groups"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = tokens.Verify(t.Context(), tt.sign.Token(t, r.claims(nil), nil), "")
			if !errors.Is(err, tt.want) || err == nil && tt.want != nil {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestTokenVerifiedBeforeCostsNoSignature(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	text := r.token(t, nil)
	for range 100 {
		if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.oauth.checks.Load(); n != 1 {
		t.Errorf("%d signature checks", n)
	}
	r.add(time.Hour + 29*time.Second)
	if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
		t.Error("within the leeway:", err)
	}
	r.add(time.Second)
	if _, err := tokens.Verify(t.Context(), text, ""); !errors.Is(err, ErrExpired) {
		t.Error("a cached token was accepted after it expired:", err)
	}
	// A reload starts with an empty cache.
	fresh := r.token(t, nil)
	for range 2 {
		if _, err := r.tokens(t).Verify(t.Context(), fresh, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.oauth.checks.Load(); n != 3 {
		t.Errorf("%d signature checks, want one more for each reload", n)
	}
}

func TestFloodOfBadTokensIsCheap(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	good := r.token(t, nil)
	if _, err := tokens.Verify(t.Context(), good, ""); err != nil {
		t.Fatal(err)
	}
	other := authtest.NewKey(t, "k1", "ES256")
	forged := other.Token(t, r.claims(nil), nil)
	foreign := other.Token(t, r.claims(map[string]any{"iss": "https://elsewhere.example"}), nil)
	for range 1000 {
		for _, text := range []string{forged, foreign} {
			if _, err := tokens.Verify(t.Context(), text, ""); !errors.Is(err, errInvalid) {
				t.Fatal(err)
			}
		}
	}
	if n := r.oauth.checks.Load(); n != 2 {
		t.Errorf("%d signature checks, want one for the good and one for the forged token", n)
	}
	if n := r.issuer.Fetches(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

func TestCredentials(t *testing.T) {
	key := "svc_gw_ci_" + strings.Repeat("x", 43)
	token := "eyJhbGciOiJFUzI1NiJ9.e30.AAAA"
	tests := []struct {
		name   string
		header Header
		in     map[string][]string
		want   Credentials
		err    error
	}{
		{"one header: a key", NewHeader("Authorization", "Bearer"), map[string][]string{"Authorization": {"Bearer " + key}}, Credentials{Key: key}, nil},
		{"one header: a token", NewHeader("Authorization", "Bearer"), map[string][]string{"Authorization": {"Bearer " + token}}, Credentials{Token: token}, nil},
		{"one header: lower-case scheme, spaces", NewHeader("Authorization", "Bearer"), map[string][]string{"Authorization": {"bearer   " + token}}, Credentials{Token: token}, nil},
		{"one header: twice", NewHeader("Authorization", "Bearer"), map[string][]string{"Authorization": {"Bearer " + token, "Bearer " + key}}, Credentials{}, errInvalid},
		{"one header: none", NewHeader("Authorization", "Bearer"), nil, Credentials{}, ErrMissing},
		{"one header: Basic", NewHeader("Authorization", "Bearer"), map[string][]string{"Authorization": {"Basic YTpi"}}, Credentials{}, ErrMissing},
		{"one header, keys under another scheme: a key", NewHeader("Authorization", "ApiKey"), map[string][]string{"Authorization": {"ApiKey " + key}}, Credentials{Key: key}, nil},
		{"one header, keys under another scheme: a token", NewHeader("Authorization", "ApiKey"), map[string][]string{"Authorization": {"Bearer " + token}}, Credentials{Token: token}, nil},
		{"one header, raw: a key", NewHeader("Authorization", ""), map[string][]string{"Authorization": {key}}, Credentials{Key: key}, nil},
		{"one header, raw: a token", NewHeader("Authorization", ""), map[string][]string{"Authorization": {"Bearer " + token}}, Credentials{Token: token}, nil},
		{"two headers: both", NewHeader("X-Api-Key", ""), map[string][]string{"Authorization": {"Bearer " + token}, "X-Api-Key": {key}}, Credentials{Key: key, Token: token}, nil},
		{"two headers: a key", NewHeader("X-Api-Key", ""), map[string][]string{"X-Api-Key": {key}}, Credentials{Key: key}, nil},
		{"two headers: a token", NewHeader("X-Api-Key", ""), map[string][]string{"Authorization": {"Bearer " + token}}, Credentials{Token: token}, nil},
		{"two headers: a key where tokens are read", NewHeader("X-Api-Key", ""), map[string][]string{"Authorization": {"Bearer " + key}}, Credentials{Token: key}, nil},
		{"two headers: a good token, two keys", NewHeader("X-Api-Key", ""), map[string][]string{"Authorization": {"Bearer " + token}, "X-Api-Key": {key, key}}, Credentials{}, errInvalid},
		{"two headers: none", NewHeader("X-Api-Key", ""), nil, Credentials{}, ErrMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.header.Credentials(http.Header(tt.in))
			if !errors.Is(err, tt.err) || err == nil && tt.err != nil || err == nil && got != tt.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestStreamsAreCutWhenTheTokenIsNoLongerGood(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	token, err := tokens.Verify(t.Context(), r.token(t, map[string]any{"scope": "read"}), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Check(token); err != nil {
		t.Error("good:", err)
	}
	stricter := r.cfg
	stricter.RequiredScopes = []string{"write"}
	after, err := r.oauth.Tokens(stricter, Identity{"sub", "groups"})
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Check(token); !errors.Is(err, ErrScope) {
		t.Error("a reload that requires another scope:", err)
	}
	r.add(time.Hour + 30*time.Second)
	if err := tokens.Check(token); !errors.Is(err, ErrExpired) {
		t.Error("past its time:", err)
	}
}

func FuzzParseToken(f *testing.F) {
	r := newOAuthRig(f)
	f.Add(r.token(f, map[string]any{"scope": []any{"a", 1}, "groups": "x", "nbf": 1.5}))
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add(r.key.Raw(f, `{"alg":"ES256","crit":null}`, `{"exp":1e999}`))
	tokens := r.tokens(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxTokenBytes || !looksLikeToken(text) {
			return // refused before
		}
		p, err := parseToken(text)
		if err != nil {
			return
		}
		if algorithms[p.alg] == nil {
			t.Errorf("%q was read", text)
		}
		if _, err := p.check(r.issuer.URL, []string{audience}, epoch, 0); err != nil {
			return
		}
		if token, _, err := tokens.token(p, epoch); err == nil && !recordable(token.principal.Value) {
			t.Errorf("principal %q", token.principal.Value)
		}
	})
}

func FuzzParseKeySet(f *testing.F) {
	for _, alg := range []string{"RS256", "ES256", "ES512", "EdDSA"} {
		k := authtest.NewKey(f, "k", alg)
		f.Add(fmt.Appendf(nil, `{"keys":[%s]}`, mustJSON(f, k.JWK())))
	}
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"","e":""}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		set, err := parseKeySet(body)
		if err != nil {
			return
		}
		for _, k := range set.keys {
			if k.key == nil || len(k.algs) == 0 || !set.has(k.print) {
				t.Errorf("key %+v", k)
			}
			// Verification of a signature terminates for every key.
			_ = algorithms[k.algs[0]].Verify("a.b", []byte("not a signature"), k.key)
		}
	})
}

func BenchmarkKnownToken(b *testing.B) {
	r := newOAuthRig(b)
	tokens := r.tokens(b)
	text := r.token(b, map[string]any{"scope": "read"})
	ctx := context.Background()
	if _, err := tokens.Verify(ctx, text, ""); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(ctx, text, ""); err != nil {
			b.Fatal(err)
		}
	}
}
