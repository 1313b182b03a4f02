package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"svc/gateway/auth/authtest"
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
	// A gateway without any key returns ErrNoKeys after the fetch has failed.
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
		if got := <-waited; !errors.Is(got.err, ErrNoKeys) || got.took > 3*fetchTimeout {
			t.Errorf("an unknown key: %v after %s", got.err, got.took)
		}
	}
	if got := <-without; !errors.Is(got.err, ErrNoKeys) || got.took > 2*fetchTimeout {
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
	if _, err := tokens.Verify(t.Context(), fresh, ""); !errors.Is(err, ErrNoKeys) || errors.Is(err, ErrInvalid) {
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
					if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); !errors.Is(err, ErrNoKeys) {
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
	if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); !errors.Is(err, ErrNoKeys) {
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
		if a := netip.MustParseAddr(form); names.permitted(a) {
			t.Errorf("%s may be dialled", form)
		}
	}
}
