package auth

import (
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth/authtest"
	"svc/gateway/base/hostname"
)

// drip sends a response without end, a byte at a time.
func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		fmt.Fprint(w, " ")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(10 * time.Millisecond)
	}
}

// With an issuer that sends its keys a byte at a time, without end, callers with known tokens are
// not delayed, others wait at most the time-out of a fetch, and only one fetch is in flight.
func TestSlowLorisIssuer(t *testing.T) {
	t.Parallel()
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	known := r.token(t, nil)
	if _, err := tokens.Verify(t.Context(), known, ""); err != nil {
		t.Fatal(err)
	}
	r.issuer.Answer(drip)
	strange := r.key.Token(t, r.claims(nil), map[string]any{"kid": "strange"})
	type outcome struct {
		err  error
		took time.Duration
	}
	// A gateway without any key returns errKeysUnknown after the fetch has failed.
	cold := NewOAuth(OAuthOptions{Now: r.now})
	defer cold.Close()
	ct, err := cold.Tokens(r.cfg, Identity{"sub", "groups"})
	if err != nil {
		t.Fatal(err)
	}
	without := make(chan outcome, 1)
	go func() {
		began := time.Now()
		_, err := ct.Verify(t.Context(), known, "")
		without <- outcome{err, time.Since(began)}
	}()
	waited := make(chan outcome, 32)
	for range cap(waited) {
		go func() {
			began := time.Now()
			_, err := tokens.Verify(t.Context(), strange, "")
			waited <- outcome{err, time.Since(began)}
		}()
	}
	r.add(r.cfg.JWKSCacheTTL + time.Second) // the known keys have expired too
	for i := range 100 {
		began := time.Now()
		fresh := r.token(t, map[string]any{"jti": fmt.Sprint(i)})
		for _, text := range []string{known, fresh} {
			if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
				t.Fatalf("a token of a known key: %v", err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("two tokens of a known key took %s", took)
		}
	}
	for range cap(waited) {
		if got := <-waited; !errors.Is(got.err, errKeysUnknown) || got.took > 3*fetchTimeout {
			t.Errorf("an unknown key: %v after %s", got.err, got.took)
		}
	}
	if got := <-without; !errors.Is(got.err, errKeysUnknown) || got.took > 2*fetchTimeout {
		t.Errorf("without a key: %v after %s", got.err, got.took)
	}
	if n := r.issuer.Fetches(); n > 4 { // one at a time, of each of the two
		t.Errorf("%d fetches", n)
	}
}

// An issuer that breaks one connection, as when it restarts with a new key: tokens of the new key
// are rejected as unavailable, not as invalid, until the next fetch, a second later; tokens of
// known keys are accepted.
func TestOneBrokenFetchDoesNotHideARotation(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	if _, err := tokens.Verify(t.Context(), r.token(t, nil), ""); err != nil {
		t.Fatal(err)
	}
	next := authtest.NewKey(t, "k2", "ES256")
	fresh := next.Token(t, r.claims(nil), nil)
	r.issuer.Publish(r.key, next)
	r.issuer.Answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := tokens.Verify(t.Context(), fresh, ""); !errors.Is(err, errKeysUnknown) || errors.Is(err, errInvalid) {
		t.Errorf("while the fetch fails: %v", err)
	}
	r.issuer.Answer(nil)
	r.add(time.Second - time.Millisecond)
	_, err := tokens.Verify(t.Context(), fresh, "")
	if e := (*UnavailableError)(nil); !errors.As(err, &e) || e.RetryAfter != time.Millisecond {
		t.Errorf("a millisecond before the next fetch: %v", err)
	}
	if n := r.issuer.Fetches(); n != 2 {
		t.Errorf("%d fetches before a second has passed, want 2", n)
	}
	r.add(time.Millisecond)
	for _, text := range []string{fresh, r.token(t, map[string]any{"jti": "2"})} {
		if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
			t.Errorf("after a second: %v", err)
		}
	}
	// That fetch succeeded, so a key id that is not in it is unknown to the issuer.
	strange := r.key.Token(t, r.claims(nil), map[string]any{"kid": "strange"})
	if _, err := tokens.Verify(t.Context(), strange, ""); !errors.Is(err, errTokenKey) {
		t.Errorf("a name that the new set lacks: %v", err)
	}
	if n := r.issuer.Fetches(); n != 3 {
		t.Errorf("%d fetches, want 3", n)
	}
}

// While fetches fail, an unknown key id causes a fetch after 1, 2, 4, 8 and then each 15 seconds,
// also when tokens of known keys find the key set expired.
func TestFailedFetchesBackOff(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"unknown key names": time.Hour, "an expired set": time.Second} {
		t.Run(name, func(t *testing.T) {
			r := newOAuthRig(t)
			r.cfg.JWKSCacheTTL = ttl
			tokens := r.tokens(t)
			if _, err := tokens.Verify(t.Context(), r.token(t, nil), ""); err != nil {
				t.Fatal(err)
			}
			settled := func() bool {
				tokens.keys.mu.Lock()
				defer tokens.keys.mu.Unlock()
				return tokens.keys.flying == nil
			}
			next := authtest.NewKey(t, "k2", "ES256")
			r.issuer.Publish(next)
			r.issuer.Answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			if ttl == time.Second {
				r.add(ttl)
			}
			var fetches []int
			for _, after := range []time.Duration{0, time.Second - 1, 1, 2*time.Second - 1, 1, 4 * time.Second, 8 * time.Second, 14 * time.Second, time.Second} {
				r.add(after)
				if ttl == time.Hour {
					if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); !errors.Is(err, errKeysUnknown) {
						t.Fatalf("the new key: %v", err)
					}
				} else if _, err := tokens.Verify(t.Context(), r.token(t, map[string]any{"jti": r.now().String()}), ""); err != nil {
					t.Fatalf("a known key: %v", err)
				}
				eventually(t, "the fetch ends", settled)
				fetches = append(fetches, r.issuer.Fetches()-1)
			}
			if want := []int{1, 1, 2, 2, 3, 4, 5, 5, 6}; !slices.Equal(fetches, want) {
				t.Errorf("fetches %v, want %v", fetches, want)
			}
			r.issuer.Answer(nil)
			r.add(unknownPause)
			if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); err != nil {
				t.Errorf("the new key: %v", err)
			}
		})
	}
}

// A set of 10,000 keys is rejected as a whole and the previous keys are kept, so that a failed
// rotation does not lock out all callers.
func TestKeySetOfTenThousandKeys(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	if _, err := tokens.Verify(t.Context(), r.token(t, nil), ""); err != nil {
		t.Fatal(err)
	}
	many := make([]map[string]any, 10_000)
	for i := range many {
		many[i] = map[string]any{"kty": "oct", "k": "AA", "kid": fmt.Sprint(i)}
	}
	next := authtest.NewKey(t, "k2", "ES256")
	many[9_999] = next.JWK()
	r.issuer.PublishRaw(many...)
	if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); !errors.Is(err, errKeysUnknown) {
		t.Errorf("a key of the set: %v", err)
	}
	if _, err := tokens.Verify(t.Context(), r.token(t, map[string]any{"jti": "2"}), ""); err != nil {
		t.Errorf("a key known before: %v", err)
	}
	if n := len(tokens.keys.set.Load().keys); n != 1 {
		t.Errorf("%d keys are kept", n)
	}
}

// Every IPv6 form that embeds an IPv4 address is checked: mapped, compatible, translated, 6to4,
// NAT64, Teredo.
func TestAddressesInsideAddresses(t *testing.T) {
	o := NewOAuth(OAuthOptions{Now: time.Now})
	defer o.Close()
	names := newClientNames(o, cimdDefaults(), nil)
	for _, form := range []string{"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "0:0:0:0:0:ffff:a9fe:a9fe", "::169.254.169.254",
		"::ffff:0:169.254.169.254", "2002:a9fe:a9fe::1", "64:ff9b::169.254.169.254", "64:ff9b:1::a9fe:a9fe", "2001:0:a9fe:a9fe::1", "fe80::1%eth0", "::1%lo"} {
		if _, err := names.dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(form, "443")); !errors.Is(err, hostname.ErrNotPermitted) {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// Further tokens of an attacker, signed or not: nested and encrypted tokens, headers that name keys by
// path or URL, names of members that are the same after unescaping, numbers and forms of claims that no
// issuer writes, and signatures in another encoding. Each is refused with its reason, in a short time, and
// nothing is fetched for its sake but the issuer's keys.
func TestTokensOfAnAttacker(t *testing.T) {
	t.Parallel()
	r := newOAuthRig(t)
	fetched := make(chan string, 8)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fetched <- req.URL.Path
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{r.key.JWK()}})
	}))
	defer elsewhere.Close()
	tokens := r.tokens(t)
	good := r.token(t, nil)
	parts := strings.Split(good, ".")
	exp := r.now().Add(time.Hour).Unix()
	with := func(members string) string {
		return fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"ina","exp":%d%s}`, r.issuer.URL, audience, exp, members)
	}
	raw := func(header, payload string) string { return r.key.Raw(t, header, payload) }
	const header = `{"alg":"ES256","kid":"k1"}`
	replaced := func(name, value string) string {
		doc := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(with("")), &doc); err != nil {
			t.Fatal(err)
		}
		doc[name] = json.RawMessage(value)
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return raw(header, string(text))
	}
	signature, err := unbase64(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token string
		want        error
	}{
		{"a token in a token", raw(`{"alg":"ES256","kid":"k1","cty":"JWT"}`, good), errTokenClaims},
		{"an encrypted token", parts[0] + "." + parts[1] + "." + parts[1] + "." + parts[1] + "." + parts[2], errNoToken},
		{"crit null", raw(`{"alg":"ES256","kid":"k1","crit":null}`, with("")), errTokenCritical},
		{"b64 false, with crit", raw(`{"alg":"ES256","kid":"k1","b64":false,"crit":["b64"]}`, with("")), errTokenCritical},
		{"alg twice, one escaped", raw(`{"alg":"ES256","kid":"k1","\u0061lg":"HS256"}`, with("")), errTokenHeader},
		{"alg a list", raw(`{"alg":["ES256"],"kid":"k1"}`, with("")), errTokenAlgorithm},
		{"alg in small letters", raw(`{"alg":"es256","kid":"k1"}`, with("")), errTokenAlgorithm},
		{"alg of another curve", raw(`{"alg":"ES384","kid":"k1"}`, with("")), errTokenKey},
		{"alg ES256K", raw(`{"alg":"ES256K","kid":"k1"}`, with("")), errTokenAlgorithm},
		{"kid a URL", raw(`{"alg":"ES256","kid":"`+elsewhere.URL+`/keys"}`, with("")), errTokenKey},
		{"kid a URL, with jku, x5u and x5c", raw(`{"alg":"ES256","kid":"`+elsewhere.URL+`","jku":"`+elsewhere.URL+`","x5u":"`+elsewhere.URL+`","x5c":["MIIB"]}`, with("")), errTokenKey},
		{"kid with SQL", raw(`{"alg":"ES256","kid":"k1' UNION SELECT 'x"}`, with("")), errTokenKey},
		{"kid with a NUL", raw(`{"alg":"ES256","kid":"k1\u0000"}`, with("")), errTokenKey},
		{"kid null", raw(`{"alg":"ES256","kid":null}`, with("")), errTokenHeader},
		{"a header of 20 KiB", raw(`{"alg":"ES256","kid":"k1","x":"`+strings.Repeat("x", 20<<10)+`"}`, with("")), nil},
		{"a header with 2,000 members", raw(`{"alg":"ES256","kid":"k1"`+manyMembers(2000)+`}`, with("")), nil},
		{"a header nested 9,000 levels", raw(`{"alg":"ES256","kid":"k1","x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`, with("")), nil},
		{"a header nested beyond all bounds", raw(`{"alg":"ES256","kid":"k1","x":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000)+`}`, with("")), errTokenHeader},
		{"claims nested beyond all bounds", raw(header, with(`,"x":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000))), errTokenClaims},
		{"a claim twice, one escaped", raw(header, with(`,"\u0073ub":"root"`)), errTokenClaims},
		{"a claim twice inside a claim", raw(header, with(`,"realm_access":{"roles":["a"],"roles":["b"]}`)), errTokenClaims},
		{"iss a number", replaced("iss", "7"), errTokenIssuer},
		{"iss an object", replaced("iss", `{"iss":"`+r.issuer.URL+`"}`), errTokenIssuer},
		{"iss with a NUL after it", replaced("iss", `"`+r.issuer.URL+`\u0000"`), errTokenIssuer},
		{"aud a number", replaced("aud", "7"), errTokenAudience},
		{"aud an object", replaced("aud", `{"`+audience+`":true}`), errTokenAudience},
		{"aud a list in a list", replaced("aud", `[["`+audience+`"]]`), errTokenAudience},
		{"aud in other letters", replaced("aud", `"`+strings.ToUpper(audience)+`"`), errTokenAudience},
		{"exp null", replaced("exp", "null"), errTokenNoExpiry},
		{"exp true", replaced("exp", "true"), errTokenNoExpiry},
		{"exp a list", replaced("exp", "[1]"), errTokenNoExpiry},
		{"exp beyond a float", replaced("exp", "1e400"), errTokenNoExpiry},
		{"exp of 5,000 digits", replaced("exp", strings.Repeat("9", 5000)), errTokenNoExpiry},
		{"exp beyond the year 9999", replaced("exp", "253402300800"), errTokenNoExpiry},
		{"exp 0", replaced("exp", "0"), ErrExpired},
		{"exp a tiny fraction", replaced("exp", "1e-400"), ErrExpired},
		{"nbf far away", replaced("nbf", "253402300799"), errTokenNotYet},
		{"nbf beyond a float", replaced("nbf", "1e400"), errTokenClaims},
		{"nbf null", replaced("nbf", "null"), errTokenClaims},
		{"iat a text", replaced("iat", `"now"`), errTokenClaims},
		{"sub an object, and nothing else names the caller", replaced("sub", `{"id":1}`), nil},
		{"sub with an escape sequence of a terminal", replaced("sub", `"ina\u001b[31m"`), errTokenPrincipal},
		{"signature in DER", parts[0] + "." + parts[1] + "." + base64url.EncodeToString(der), errTokenSignature},
		{"signature of zeros", parts[0] + "." + parts[1] + "." + base64url.EncodeToString(make([]byte, 64)), errTokenSignature},
		{"signature with more behind it", parts[0] + "." + parts[1] + "." + base64url.EncodeToString(append(slices.Clone(signature), 0)), errTokenSignature},
		{"signature with other trailing bits", good[:len(good)-1] + "B", errTokenEncoding},
		{"the header of another token", base64url.EncodeToString([]byte(`{"kid":"k1","alg":"ES256"}`)) + "." + parts[1] + "." + parts[2], errTokenSignature},
	} {
		_, err := tokens.Verify(t.Context(), tt.token, "")
		if !errors.Is(err, tt.want) || err == nil && tt.want != nil {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	select {
	case path := <-fetched:
		t.Errorf("a token made the gateway fetch %s of another server", path)
	default:
	}
}

// manyMembers are further members of a JSON object.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":%d`, i, i)
	}
	return b.String()
}
