package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/auth/authtest"
)

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eventually waits for a condition that another goroutine fulfills.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 500 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("did not happen:", what)
}

// With an unavailable key set no token is accepted, with an error other than that of bad tokens,
// and the fetch is soon repeated.
func TestColdStartFailsClosed(t *testing.T) {
	huge := strings.Repeat(" ", maxSetBytes+1)
	many := make([]map[string]any, 10_000)
	key := authtest.NewKey(t, "k1", "ES256")
	for i := range many {
		many[i] = map[string]any{"kty": "oct", "k": "AA"}
	}
	many[0] = key.JWK()
	var elsewhere *authtest.Issuer
	tests := []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"500", authtest.Fail(500)},
		{"404", authtest.Fail(404)},
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>login</body></html>") }},
		{"10,000 keys", func(w http.ResponseWriter, _ *http.Request) { w.Write(mustJSON(t, map[string]any{"keys": many})) }},
		{"a body over the bound", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, huge) }},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.JWKSURL(), http.StatusFound)
		}},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"members twice", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[],"keys":[]}`) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newOAuthRig(t)
			elsewhere = authtest.NewIssuer(t, r.key)
			r.issuer.Answer(tt.answer)
			tokens := r.tokens(t)
			text := r.token(t, nil)
			for range 20 {
				if _, err := tokens.Verify(t.Context(), text, ""); !errors.Is(err, errKeysUnknown) {
					t.Fatalf("got %v", err)
				}
			}
			if n := r.issuer.Fetches(); n != 1 {
				t.Errorf("%d fetches at one moment", n)
			}
			if n := elsewhere.Fetches(); n != 0 {
				t.Error("the redirect was followed")
			}
			logs := r.logs.String()
			if !strings.Contains(logs, "fetching the key set") {
				t.Error("nobody was told")
			}
			if tt.name == "a redirect" && !strings.Contains(logs, "status 302, which redirects to "+elsewhere.JWKSURL()+":") {
				t.Error("the log does not name the target of the redirect:", logs)
			}
			r.issuer.Answer(nil)
			r.add(coldPause)
			if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
				t.Error("after the issuer came back:", err)
			}
		})
	}
}

func TestRotationRefetchesOnce(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	old := r.token(t, nil)
	if _, err := tokens.Verify(t.Context(), old, ""); err != nil {
		t.Fatal(err)
	}
	next := authtest.NewKey(t, "k2", "ES256")
	r.issuer.Publish(next)
	if _, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), ""); err != nil {
		t.Fatal("a token of the new key:", err)
	}
	if n := r.issuer.Fetches(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	// The old key is withdrawn: its tokens are no longer valid, cached or not.
	if _, err := tokens.Verify(t.Context(), old, ""); !errors.Is(err, errTokenKey) {
		t.Errorf("a token of the withdrawn key: %v", err)
	}
}

func TestUnknownKidMakesOneRefetchIn15Seconds(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	if _, err := tokens.Verify(t.Context(), r.token(t, nil), ""); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	started := time.Now()
	for i := range 1000 {
		text := r.key.Token(t, r.claims(nil), map[string]any{"kid": fmt.Sprint("bogus", i)})
		wg.Go(func() {
			if _, err := tokens.Verify(context.Background(), text, ""); !errors.Is(err, errInvalid) && !errors.Is(err, ErrBusy) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if d := time.Since(started); d > 4*time.Second {
		t.Errorf("took %s", d)
	}
	if n := r.issuer.Fetches(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	r.add(unknownPause - time.Nanosecond)
	unknown := r.key.Token(t, r.claims(nil), map[string]any{"kid": "x"})
	_, _ = tokens.Verify(t.Context(), unknown, "")
	if n := r.issuer.Fetches(); n != 2 {
		t.Errorf("%d fetches before 15 s had passed", n)
	}
	r.add(time.Nanosecond)
	_, _ = tokens.Verify(t.Context(), unknown, "")
	if n := r.issuer.Fetches(); n != 3 {
		t.Errorf("%d fetches after 15 s", n)
	}
}

func TestNoRequestWaitsLongerThanItsOwnDeadline(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	known := r.token(t, nil)
	if _, err := tokens.Verify(t.Context(), known, ""); err != nil {
		t.Fatal(err)
	}
	r.issuer.Answer(authtest.Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err := tokens.Verify(ctx, r.key.Token(t, r.claims(nil), map[string]any{"kid": "x"}), "")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(started) > 2*time.Second {
		t.Errorf("after %s: %v", time.Since(started), err)
	}
	// Known tokens and known keys are not delayed by expired keys.
	r.add(r.cfg.JWKSCacheTTL + time.Second)
	for _, text := range []string{known, r.token(t, map[string]any{"sub": "bob"})} {
		started = time.Now()
		if _, err := tokens.Verify(t.Context(), text, ""); err != nil || time.Since(started) > time.Second {
			t.Errorf("after %s: %v", time.Since(started), err)
		}
	}
}

func TestStaleKeysAreKeptThroughAnOutage(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	if _, err := tokens.Verify(t.Context(), r.token(t, nil), ""); err != nil {
		t.Fatal(err)
	}
	r.issuer.Answer(authtest.Fail(503))
	for range 20 { // 20 minutes
		r.add(time.Minute)
		if _, err := tokens.Verify(t.Context(), r.token(t, map[string]any{"jti": r.now().String()}), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := r.issuer.Fetches(); n < 2 || n > 21 {
		t.Errorf("%d fetches during the outage", n)
	}
	next := authtest.NewKey(t, "k2", "ES256")
	r.issuer.Publish(next)
	r.add(unknownPause)
	eventually(t, "the outage ends", func() bool {
		r.add(unknownPause)
		_, err := tokens.Verify(t.Context(), next.Token(t, r.claims(nil), nil), "")
		return err == nil
	})
}

// jwks_cache_ttl: keys are fetched again in the background, and withdrawn keys are dropped
// without a request with an unknown key.
func TestCacheTTL(t *testing.T) {
	r := newOAuthRig(t)
	r.cfg.JWKSCacheTTL = time.Minute
	tokens := r.tokens(t)
	text := r.token(t, nil)
	token, err := tokens.Verify(t.Context(), text, "")
	if err != nil {
		t.Fatal(err)
	}
	r.add(time.Minute - time.Second)
	_, _ = tokens.Verify(t.Context(), text, "")
	if n := r.issuer.Fetches(); n != 1 {
		t.Errorf("%d fetches within the time to live", n)
	}
	r.issuer.Publish(authtest.NewKey(t, "k2", "ES256"))
	r.add(time.Second)
	eventually(t, "the token of a withdrawn key is refused", func() bool {
		_, err := tokens.Verify(t.Context(), text, "")
		return errors.Is(err, errTokenKey)
	})
	if err := tokens.Check(token); err == nil {
		t.Error("a stream of a withdrawn key continues")
	}
}

// A gateway that was idle for long does not accept tokens by keys that were not refreshed for a
// long time.
func TestKeysOfLongAgoAreFetchedBeforeTheyAreUsed(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	text := r.token(t, nil)
	if _, err := tokens.Verify(t.Context(), text, ""); err != nil {
		t.Fatal(err)
	}
	r.issuer.Publish(authtest.NewKey(t, "k2", "ES256"))
	r.add(2 * r.cfg.JWKSCacheTTL)
	if _, err := tokens.Verify(t.Context(), text, ""); !errors.Is(err, errTokenKey) {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsFetches(t *testing.T) {
	r := newOAuthRig(t)
	r.issuer.Answer(authtest.Hang)
	r.tokens(t).Activate()
	eventually(t, "the fetch begins", func() bool { return r.issuer.Fetches() == 1 })
	started := time.Now()
	r.oauth.Close()
	if d := time.Since(started); d > 2*time.Second {
		t.Errorf("took %s", d)
	}
	if _, err := r.tokens(t).Verify(t.Context(), r.token(t, nil), ""); !errors.Is(err, errKeysUnknown) {
		t.Errorf("after the end: %v", err)
	}
}
