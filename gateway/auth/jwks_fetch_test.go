package auth

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A fetch of a key set counts its usable keys, and distinguishes a document of another kind from
// a server that cannot be reached.
func TestFetchKeysTellsWhatAnIssuerPublishes(t *testing.T) {
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	defer s.Close()
	o := NewOAuth(OAuthOptions{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	defer o.Close()
	for _, tt := range []struct {
		name, body string
		keys       int
		notKeys    bool
	}{
		{"a key", `{"keys":[{"kty":"EC","crv":"P-256","kid":"a","use":"sig","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`, 1, false},
		{"none that is usable", `{"keys":[{"kty":"oct","k":"AA"}]}`, 0, false},
		{"a web page", `<html>`, 0, true},
	} {
		body = tt.body
		keys, err := o.FetchKeys(t.Context(), s.URL)
		if keys != tt.keys || errors.Is(err, ErrKeySet) != tt.notKeys || err != nil && !tt.notKeys {
			t.Errorf("%s: %d keys, %v", tt.name, keys, err)
		}
	}
	s.Close()
	if _, err := o.FetchKeys(t.Context(), s.URL); err == nil || errors.Is(err, ErrKeySet) {
		t.Errorf("an unreachable server: %v", err)
	}
}
