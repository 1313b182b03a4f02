package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/auth/authtest"
	"svc/gateway/refusal"
)

const (
	address  = "192.0.2.7"
	audience = "https://gateway.example/mcp"
)

// callerSite has the sources of rules: two keys, and an issuer of tokens.
type callerSite struct {
	cfg     auth.Config
	sources CallerSources
	issuer  *authtest.Issuer
	signer  *authtest.Key
	ci, old string // the texts of keys; that of old has expired
}

func callerNewSite(t *testing.T) *callerSite {
	t.Helper()
	s := &callerSite{signer: authtest.NewKey(t, "k1", "ES256")}
	s.issuer = authtest.NewIssuer(t, s.signer)
	oauth := auth.NewOAuth(auth.OAuthOptions{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(oauth.Close)
	s.sources = CallerSources{Verifier: auth.NewVerifier(time.Now), OAuth: oauth, Listen: "127.0.0.1:8080"}
	s.cfg = auth.Config{Enabled: true, Header: "X-Api-Key"}
	s.cfg.OAuth.SetDefaults()
	s.cfg.OAuth.Issuer, s.cfg.OAuth.Audience, s.cfg.OAuth.JWKSURL = s.issuer.URL, audience, s.issuer.JWKSURL()
	s.ci, s.old = s.addKey(t, "ci", time.Time{}), s.addKey(t, "old", time.Now().Add(-time.Hour))
	return s
}

func (s *callerSite) addKey(t *testing.T, id string, expires time.Time) string {
	t.Helper()
	text, err := auth.NewKey(id)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash(text, auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.cfg.Keys = append(s.cfg.Keys, auth.KeyConfig{ID: id, Hash: hash, ExpiresAt: expires})
	return text
}

// token is a bearer token of alice with changes: nil removes a claim.
func (s *callerSite) token(t *testing.T, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": s.issuer.URL, "aud": audience, "sub": "alice", "scope": "tools", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return s.signer.Token(t, claims, nil)
}

func (s *callerSite) rules(t *testing.T) *CallerRules {
	t.Helper()
	r, err := NewCallerRules(s.cfg, auth.Identity{PrincipalClaim: "sub", GroupsClaim: "groups"}, s.sources)
	if err != nil {
		t.Fatal(err)
	}
	r.Activate()
	return r
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestWhoSendsARequestIsFoundByItsHeader(t *testing.T) {
	s := callerNewSite(t)
	keys := s.rules(t)
	s.cfg.Scheme = "ApiKey"
	scheme := s.rules(t)
	s.cfg.Scheme, s.cfg.OAuth.Enabled, s.cfg.OAuth.RequiredScopes = "", true, []string{"tools"}
	both := s.rules(t)
	open, err := NewCallerRules(auth.Config{}, auth.Identity{}, s.sources)
	if err != nil {
		t.Fatal(err)
	}
	good := "Bearer " + s.token(t, nil)
	narrow := "Bearer " + s.token(t, map[string]any{"scope": "mail"})
	nobody := "Bearer " + s.token(t, map[string]any{"sub": nil})
	stranger := "Bearer " + authtest.NewKey(t, "k1", "ES256").Token(t, map[string]any{"iss": s.issuer.URL}, nil)
	const found = `Bearer resource_metadata="http://127.0.0.1:8080/.well-known/oauth-protected-resource"`
	tests := []struct {
		name   string
		rules  *CallerRules
		header http.Header
		who    string // kind:value/key id
		kind   string // of the refusal; empty when the caller is accepted
		status int
		asks   string // WWW-Authenticate
	}{
		{"nobody is asked", open, header("X-Api-Key", "wrong"), "ip:192.0.2.7/", "", 0, ""},
		{"a key", keys, header("X-Api-Key", s.ci), "key:ci/ci", "", 0, ""},
		{"no key", keys, nil, "ip:192.0.2.7/", "unauthorized", 401, "Bearer"},
		{"no key, with a scheme", scheme, nil, "ip:192.0.2.7/", "unauthorized", 401, "ApiKey"},
		{"an expired key", keys, header("X-Api-Key", s.old), "ip:192.0.2.7/", "unauthorized", 401, "Bearer"},
		{"two keys", keys, header("X-Api-Key", s.ci, "X-Api-Key", s.ci), "ip:192.0.2.7/", "unauthorized", 401, "Bearer"},
		{"a token where there are only keys", keys, header("Authorization", good), "ip:192.0.2.7/", "unauthorized", 401, "Bearer"},
		{"a token", both, header("Authorization", good), "oauth:alice/", "", 0, ""},
		{"a token without a name", both, header("Authorization", nobody), "ip:192.0.2.7/", "", 0, ""},
		{"a key beside tokens", both, header("X-Api-Key", s.ci), "key:ci/ci", "", 0, ""},
		{"a key and a token", both, header("X-Api-Key", s.ci, "Authorization", good), "oauth:alice/ci", "", 0, ""},
		{"neither", both, nil, "ip:192.0.2.7/", "unauthorized", 401, found + `, scope="tools"`},
		{"a forged token", both, header("Authorization", stranger), "ip:192.0.2.7/", "unauthorized", 401, found + `, error="invalid_token", scope="tools"`},
		{"a wrong key and a valid token", both, header("X-Api-Key", "wrong", "Authorization", good), "ip:192.0.2.7/", "unauthorized", 401, found + `, error="invalid_token", scope="tools"`},
		{"a valid key and a forged token", both, header("X-Api-Key", s.ci, "Authorization", stranger), "ip:192.0.2.7/", "unauthorized", 401, found + `, error="invalid_token", scope="tools"`},
		{"a token without the scope", both, header("Authorization", narrow), "oauth:alice/", "insufficient_scope", 403, found + `, error="insufficient_scope", scope="tools"`},
		{"a wrong key and a token without the scope", both, header("X-Api-Key", "wrong", "Authorization", narrow), "ip:192.0.2.7/", "unauthorized", 401, found + `, error="invalid_token", scope="tools"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := tt.rules.Authenticate(t.Context(), tt.header, address, "")
			if who := fmt.Sprintf("%s:%s/%s", id.Kind, id.Value, id.KeyID); who != tt.who {
				t.Errorf("it is %s, want %s", who, tt.who)
			}
			if (err == nil) != (tt.kind == "") {
				t.Fatalf("error %v, want refusal %q", err, tt.kind)
			}
			if known := tt.rules.Known(&id); known != (err == nil) {
				t.Errorf("known: %v with error %v", known, err)
			}
			if err == nil {
				if err := tt.rules.Check(&id); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				return
			}
			refused := tt.rules.Refuse(err, "")
			if refused.Kind != tt.kind || refused.Status != tt.status || refused.Challenge != tt.asks {
				t.Errorf("refused with %s, %d, %s\nwant %s, %d, %s", refused.Kind, refused.Status, refused.Challenge, tt.kind, tt.status, tt.asks)
			}
			if id.Key != nil || id.Token != nil {
				t.Error("credentials are in the identity of a caller who is rejected")
			}
		})
	}
}

// A credential that is refused by its size or form has the reason in the response; one that is
// looked up has none, so that the response does not reveal whether it exists.
func TestARefusalBySizeOrFormHasItsReason(t *testing.T) {
	s := callerNewSite(t)
	keys := s.rules(t)
	s.cfg.OAuth.Enabled = true
	both := s.rules(t)
	for _, tt := range []struct {
		name   string
		rules  *CallerRules
		header http.Header
		want   string
	}{
		{"a key over 8 KiB", keys, header("X-Api-Key", strings.Repeat("k", 8<<10+1)), "an API key has at most 8192 bytes"},
		{"a key with a space", keys, header("X-Api-Key", "two words"), "a credential consists of visible ASCII characters without spaces"},
		{"two keys", keys, http.Header{"X-Api-Key": {s.ci, s.ci}}, "the header with the credential occurs more than once"},
		{"a token over 32 KiB", both, header("Authorization", "Bearer "+s.token(t, map[string]any{"pad": strings.Repeat("x", 32<<10)})), "a bearer token has at most 32768 bytes"},
		{"no JSON Web Token", both, header("Authorization", "Bearer opaque"), "the bearer token is not a JSON Web Token"},
		{"a wrong key", keys, header("X-Api-Key", "wrong"), ""},
		{"a token of another issuer", both, header("Authorization", "Bearer "+s.token(t, map[string]any{"iss": "https://other.example"})), ""},
	} {
		_, err := tt.rules.Authenticate(t.Context(), tt.header, address, "")
		if err == nil {
			t.Errorf("%s is accepted", tt.name)
			continue
		}
		refused := tt.rules.Refuse(err, "")
		if refused.Status != 401 || refused.Kind != "unauthorized" || refused.Detail != tt.want {
			t.Errorf("%s: %d %s, detail %q, want %q", tt.name, refused.Status, refused.Kind, refused.Detail, tt.want)
		}
	}
}

// An error that the caller did not cause has a Retry-After, and never a challenge for other
// credentials.
func TestWhoCannotBeVerifiedNowIsAskedToComeAgain(t *testing.T) {
	s := callerNewSite(t)
	keys := s.rules(t)
	s.cfg.OAuth.Enabled = true
	both := s.rules(t)
	for _, tt := range []struct {
		name  string
		rules *CallerRules
		err   error
		want  *refusal.Refusal
	}{
		{"busy", keys, auth.ErrBusy, refusal.AuthBusy.After(time.Second)},
		{"busy, with tokens", both, fmt.Errorf("slot: %w", auth.ErrBusy), refusal.AuthBusy.After(time.Second)},
		{"no keys of the issuer", both, &auth.UnavailableError{RetryAfter: 7 * time.Second}, refusal.NoKeySet.After(7 * time.Second)},
		{"no keys of the issuer, tried again soon", both, &auth.UnavailableError{}, refusal.NoKeySet.After(time.Second)},
		{"the caller left", both, context.Canceled, refusal.NoKeySet.After(time.Second)},
	} {
		got := tt.rules.Refuse(tt.err, "")
		if got.Kind != tt.want.Kind || got.Status != tt.want.Status || got.RetryAfter != tt.want.RetryAfter || got.Challenge != "" {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// The credentials of an accepted caller are checked again, by the current rules.
func TestACallerIsCheckedByTheRulesOfTheMoment(t *testing.T) {
	s := callerNewSite(t)
	s.cfg.OAuth.Enabled = true
	before := s.rules(t)
	withKey, err := before.Authenticate(t.Context(), header("X-Api-Key", s.ci), address, "")
	if err != nil {
		t.Fatal(err)
	}
	withToken, err := before.Authenticate(t.Context(), header("Authorization", "Bearer "+s.token(t, nil)), address, "")
	if err != nil {
		t.Fatal(err)
	}
	without := byAddress(address)
	check := func(when string, r *CallerRules, key, token, none error) {
		t.Helper()
		for _, tt := range []struct {
			name string
			id   *Identity
			want error
		}{{"key", &withKey, key}, {"token", &withToken, token}, {"nothing", &without, none}} {
			if err := r.Check(tt.id); !errors.Is(err, tt.want) || errors.Is(err, auth.ErrTokenRevoked) != errors.Is(tt.want, auth.ErrTokenRevoked) {
				t.Errorf("%s, %s: %v, want %v", when, tt.name, err, tt.want)
			}
		}
	}
	check("the same rules", before, nil, nil, auth.ErrRevoked)

	s.cfg.OAuth.RequiredScopes = []string{"admin"}
	check("another scope is required", s.rules(t), nil, auth.ErrTokenRevoked, auth.ErrRevoked)

	s.cfg.OAuth.Enabled = false
	check("tokens are not accepted", s.rules(t), nil, auth.ErrTokenRevoked, auth.ErrRevoked)

	s.cfg.Keys = s.cfg.Keys[1:]
	check("the key is gone", s.rules(t), auth.ErrRevoked, auth.ErrTokenRevoked, auth.ErrRevoked)

	s.cfg.Enabled = false
	check("nobody is asked", s.rules(t), nil, nil, nil)
}

func TestTheMetadataDocumentIsReadByGETAndHEADAlone(t *testing.T) {
	s := callerNewSite(t)
	if s.rules(t).ResourceAt(s.cfg.OAuth.MetadataPath) != nil {
		t.Error("a document without tokens")
	}
	s.cfg.OAuth.Enabled = true
	resource := s.rules(t).ResourceAt(s.cfg.OAuth.MetadataPath)
	for _, tt := range []struct {
		method string
		status int
		body   bool
	}{{"GET", 200, true}, {"HEAD", 200, false}, {"POST", 405, false}, {"DELETE", 405, false}} {
		w := httptest.NewRecorder()
		resource.ServeHTTP(w, httptest.NewRequest(tt.method, resource.Path, nil))
		if w.Code != tt.status || bytes.Equal(w.Body.Bytes(), resource.Document) != tt.body {
			t.Errorf("%s: %d %s", tt.method, w.Code, w.Body)
		}
		if allow := w.Header().Get("Allow"); (allow == "GET, HEAD") != (tt.status == 405) {
			t.Errorf("%s: Allow %q", tt.method, allow)
		}
	}
}

func TestAPublicURLThatNobodyReachesIsLogged(t *testing.T) {
	s := callerNewSite(t)
	keys := s.rules(t)
	s.cfg.OAuth.Enabled = true
	both := s.rules(t)
	for _, tt := range []struct {
		name, listen, public string
		rules                *CallerRules
		warns                bool
	}{
		{"every address", "0.0.0.0:8080", "", both, true},
		{"every address, in short", ":8080", "", both, true},
		{"one address", "192.0.2.1:8080", "", both, false},
		{"a public URL", ":8080", "https://gateway.example", both, false},
		{"no tokens", ":8080", "", keys, false},
	} {
		var log strings.Builder
		tt.rules.WarnPublicURL(slog.New(slog.NewTextHandler(&log, nil)), tt.listen, tt.public)
		if warned := strings.Contains(log.String(), "auth.oauth.public_url is not set"); warned != tt.warns {
			t.Errorf("%s: %q", tt.name, log.String())
		}
	}
}
