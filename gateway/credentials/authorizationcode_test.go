package credentials

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/credentials/endpoint"
	"svc/gateway/credentials/grant"
	"svc/gateway/upstream"
)

// rotating is a token endpoint whose refresh tokens are valid once: reuse of one ends the login,
// as authorization servers do.
type rotating struct {
	mu      sync.Mutex
	current string
	n       int
	ended   bool
	broken  bool
}

func (s *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case s.broken:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"temporarily_unavailable"}`)
	case s.ended || r.PostFormValue("refresh_token") != s.current || r.PostFormValue("grant_type") != "refresh_token" || r.PostFormValue("resource") != "https://up/mcp" || r.PostFormValue("client_id") != "gw":
		s.ended = true
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"planted"}`)
	default:
		s.n++
		s.current = fmt.Sprintf("refresh-%d", s.n)
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600,"refresh_token":%q}`, s.n, s.current)
	}
}

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(c.at.Load(), 0) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d.Seconds())) }
func newClock() *clock                   { c := new(clock); c.at.Store(1_800_000_000); return c }
func hosted(edit func(*upstream.Config)) *upstream.Config {
	c := &upstream.Config{Name: "up/../x", URL: "https://up/mcp", Credentials: &upstream.CredentialsConfig{AuthorizationCode: new(upstream.AuthorizationCode)}}
	if edit != nil {
		edit(c)
	}
	return c
}

// loggedIn writes a grant, and returns the credentials of a process with it.
func loggedIn(t *testing.T, endpointURL, dir string, c *clock) grant.File {
	t.Helper()
	f := grant.FileOf(dir, "up/../x")
	err := f.Write(&grant.Grant{
		Upstream: "up/../x", URL: "https://up/mcp", Resource: "https://up/mcp", TokenEndpoint: endpointURL, ClientID: "gw", AuthMethod: endpoint.None,
		RefreshToken: "refresh-0", AccessToken: "token-0", Issued: c.now(), Expires: c.now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Processes that share a state_dir refresh a token once, although reuse of a refresh token ends
// the login.
func TestProcessesShareALogin(t *testing.T) {
	s := &rotating{current: "refresh-0"}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, c := t.TempDir(), newClock()
	f := loggedIn(t, server.URL, dir, c)
	var processes []*AuthorizationCode
	for range 4 {
		processes = append(processes, newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now}))
	}
	for round := range 5 {
		var wg sync.WaitGroup
		for _, p := range processes {
			for range 8 {
				wg.Go(func() {
					fields, err := p.Fields(t.Context(), nil)
					if err != nil || fields[0].Value != fmt.Sprintf("Bearer token-%d", round) {
						t.Errorf("round %d: %v %v", round, fields, err)
					}
				})
			}
		}
		wg.Wait()
		c.advance(time.Hour)
	}
	if s.n != 4 || s.ended {
		t.Errorf("%d renewals, ended %v", s.n, s.ended)
	}
	if info, err := os.Stat(string(f)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
}

// A token that the upstream rejects is refreshed before it expires; if another process has
// refreshed it meanwhile, that token is used.
func TestARejectedTokenOfALoginIsRenewed(t *testing.T) {
	s := &rotating{current: "refresh-0"}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, c := t.TempDir(), newClock()
	loggedIn(t, server.URL, dir, c)
	one, two := newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now}), newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now})
	for _, p := range []*AuthorizationCode{one, two} {
		if _, err := p.Fields(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(time.Minute)
	old := []upstream.Field{{Name: "Authorization", Value: "Bearer token-0"}}
	for _, p := range []*AuthorizationCode{one, two} {
		if !p.Rejected(t.Context(), nil, old) {
			t.Error("no other token is promised")
		}
		if fields, err := p.Fields(t.Context(), nil); err != nil || fields[0].Value != "Bearer token-1" {
			t.Errorf("%v %v", fields, err)
		}
	}
	if s.n != 1 {
		t.Errorf("%d renewals", s.n)
	}
}

// Without a login, and with one that is for another server or has ended, a login is required. A
// new login is used without a restart.
func TestALoginIsRequired(t *testing.T) {
	s := &rotating{current: "another"}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, c := t.TempDir(), newClock()
	required := func(p *AuthorizationCode, why string) {
		t.Helper()
		_, err := p.Fields(t.Context(), nil)
		if !errors.Is(err, upstream.ErrLoginRequired) || !errors.Is(err, upstream.ErrCredentials) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), "refresh-") {
			t.Errorf("%v, want %s", err, why)
		}
	}
	p := newAuthorizationCode(hosted(nil), Options{StateDir: dir + "/none", Now: c.now})
	required(p, "nobody is logged in")
	p = newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now})
	required(p, "nobody is logged in")
	f := loggedIn(t, server.URL, dir, c)
	c.advance(failureTime)
	if _, err := p.Fields(t.Context(), nil); err != nil {
		t.Errorf("after the login: %v", err)
	}
	required(newAuthorizationCode(hosted(func(c *upstream.Config) { c.URL = "https://evil/mcp" }), Options{StateDir: dir, Now: c.now}), "another url")
	required(newAuthorizationCode(hosted(func(c *upstream.Config) { c.Credentials.AuthorizationCode.Resource = "https://evil" }), Options{StateDir: dir, Now: c.now}), "another url or resource")

	c.advance(time.Hour)
	required(p, "invalid_grant")
	if g, err := f.Read(); err != nil || !g.Ended {
		t.Errorf("%+v %v", g, err)
	}
	c.advance(failureTime)
	required(p, "ended the login")
	loggedIn(t, server.URL, dir, c)
	c.advance(failureTime)
	if _, err := p.Fields(t.Context(), nil); err != nil {
		t.Errorf("after another login: %v", err)
	}
}

// An endpoint that is briefly unavailable does not end a login, and a damaged file is an error
// other than a missing login.
func TestALoginOutlastsItsServer(t *testing.T) {
	s := &rotating{current: "refresh-0", broken: true}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, c := t.TempDir(), newClock()
	f := loggedIn(t, server.URL, dir, c)
	p := newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now})
	c.advance(time.Hour)
	if _, err := p.Fields(t.Context(), nil); !errors.Is(err, upstream.ErrCredentials) || errors.Is(err, upstream.ErrLoginRequired) {
		t.Errorf("%v", err)
	}
	s.mu.Lock()
	s.broken = false
	s.mu.Unlock()
	c.advance(failureTime)
	if fields, err := p.Fields(t.Context(), nil); err != nil || fields[0].Value != "Bearer token-1" {
		t.Errorf("%v %v", fields, err)
	}
	for _, text := range []string{"", "{", `{"version":2}`, strings.Repeat("x", 300<<10)} {
		if err := os.WriteFile(string(f), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Hour)
		if _, err := p.Fields(t.Context(), nil); !errors.Is(err, upstream.ErrCredentials) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
