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

	"svc/gateway/mcp"
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
func loggedIn(t *testing.T, endpointURL, dir string, c *clock) File {
	t.Helper()
	f := FileOf(dir, "up/../x")
	err := f.Write(&Grant{
		Upstream: "up/../x", URL: "https://up/mcp", Resource: "https://up/mcp", TokenEndpoint: endpointURL, ClientID: "gw", Registered: true, AuthMethod: None,
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
	old := []mcp.Field{{Name: "Authorization", Value: "Bearer token-0"}}
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
	required(newAuthorizationCode(hosted(func(c *upstream.Config) {
		c.Credentials.AuthorizationCode.AuthorizationServer = "https://login.other.example"
	}), Options{StateDir: dir, Now: c.now}), "another authorization server")

	g, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"gw", ""} { // without registered, while the configuration has no client_id
		incomplete := *g
		incomplete.ClientID, incomplete.Registered = id, false
		if err := f.Write(&incomplete); err != nil {
			t.Fatal(err)
		}
		required(newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now}), "the login is incomplete, or of a client_id that the configuration no longer has")
	}
	if err := f.Write(g); err != nil {
		t.Fatal(err)
	}

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

// The client secret of the configuration is not sent to the server of an earlier login, which
// another authorization server issued or another client_id has, and a secret of a login not to a
// revocation endpoint on another host.
func TestTheSecretOfAClientStaysAtItsServer(t *testing.T) {
	const secret = "planted-client-secret"
	for _, tt := range []struct {
		name string
		edit func(*Grant)
		why  string
	}{
		{"the same", func(*Grant) {}, ""},
		{"another issuer", func(g *Grant) { g.Issuer = "https://mcp.evil.example" }, "another authorization server"},
		{"another client", func(g *Grant) { g.ClientID = "other" }, "another client_id"},
		{"a client that registered itself", func(g *Grant) { g.ClientID, g.Registered = "issued", true }, "another client_id"},
	} {
		c := hosted(func(c *upstream.Config) {
			*c.Credentials.AuthorizationCode = upstream.AuthorizationCode{ClientID: "gw", ClientSecret: secret, AuthorizationServer: "https://login.corp.example/"}
		})
		g := &Grant{URL: c.URL, Resource: c.URL, Issuer: "https://login.corp.example", ClientID: "gw", TokenEndpoint: "https://login.corp.example/token", AuthMethod: Basic}
		tt.edit(g)
		if why := Superseded(c, g); (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q", tt.name, why)
		}
		if e := EndpointOf(c, g, nil, time.Now); (e.Secret == secret) != (tt.why == "") {
			t.Errorf("%s: secret %q", tt.name, e.Secret)
		}
	}

	reached := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer other.Close()
	e := Endpoint{URL: "http://127.0.0.1:1/token", ID: "gw", Secret: secret, Client: NewClient(), Now: time.Now}
	if err := e.Revoke(t.Context(), other.URL+"/revoke", "refresh"); err == nil || !strings.Contains(err.Error(), "another host") || reached != 0 {
		t.Errorf("%v, %d requests", err, reached)
	}
	e.URL = other.URL + "/token"
	if err := e.Revoke(t.Context(), other.URL+"/revoke", "refresh"); err != nil || reached != 1 {
		t.Errorf("%v, %d requests", err, reached)
	}
}
