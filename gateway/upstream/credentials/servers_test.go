package credentials

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"svc/gateway/upstream"
)

// An upstream that names itself as the authorization server, with the login page of another one,
// gets no code (authorization server mix-up): the login is refused, or the operator has to accept
// servers whose hosts differ and scopes that a server proposes.
func TestServersOfALogin(t *testing.T) {
	const up, beside = "https://mcp.crm.example", "https://login.crm.example"
	for _, tt := range []struct {
		name                 string
		config               upstream.AuthorizationCode
		issuer, page, tokens string
		proposed             []string
		named                bool // the server returns iss
		last                 string
		refused              string
		reasons              []string
		scopes               bool // are to be accepted
	}{
		{name: "one host", issuer: up, page: up, tokens: up},
		{name: "the default port", issuer: up + ":443", page: up, tokens: up},
		{name: "a host beside", issuer: beside, page: beside, tokens: beside, reasons: []string{"authorization server is at login.crm", "page is at login.crm", "token endpoint is at login.crm"}},
		{name: "the page of another", issuer: up, page: "https://login.corp.example", tokens: up, refused: "sends the browser to login.corp.example"},
		{name: "the page of another on a public suffix", issuer: "https://evil.github.io", page: "https://corp.github.io", tokens: "https://evil.github.io", refused: "another domain"},
		{name: "the page of another on an address", issuer: "http://127.0.0.1:1", page: "http://127.0.0.1:2", tokens: "http://127.0.0.1:1", refused: "another domain"},
		{name: "the page of another, with iss", issuer: up, page: "https://login.corp.example", tokens: up, named: true, reasons: []string{"page is at login.corp.example"}},
		{name: "the page of another, for a configured client", config: upstream.AuthorizationCode{ClientID: "gw", AuthorizationServer: up}, issuer: up, page: "https://login.corp.example", tokens: up, reasons: []string{"page is at login.corp.example"}},
		{name: "a token endpoint elsewhere", issuer: up, page: up, tokens: "https://tokens.corp.example", reasons: []string{"token endpoint is at tokens.corp.example"}},
		{name: "proposed scopes", issuer: up, page: up, tokens: up, proposed: []string{"everything"}, scopes: true},
		{name: "configured scopes", config: upstream.AuthorizationCode{Scopes: []string{"read"}}, issuer: up, page: up, tokens: up, proposed: []string{"everything"}},
		{name: "the same issuer again", issuer: up, page: up, tokens: up, last: up},
		{name: "another issuer than the last time", issuer: up, page: up, tokens: up, last: beside, reasons: []string{"last login was at " + beside}},
	} {
		l := &login{LoginOptions: LoginOptions{Upstream: &upstream.Config{URL: up + "/mcp"}, LastIssuer: tt.last}, config: &tt.config}
		s, err := l.servers(&found{scopes: tt.proposed, server: server{Issuer: tt.issuer, AuthorizationEndpoint: tt.page + "/a", TokenEndpoint: tt.tokens + "/t", NamesItself: tt.named}})
		if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if len(s.Reasons) != len(tt.reasons) || s.Proposed != tt.scopes || len(s.Hosts) == 0 {
			t.Errorf("%s: %+v", tt.name, s)
			continue
		}
		for i, want := range tt.reasons {
			if !strings.Contains(s.Reasons[i], want) {
				t.Errorf("%s: %q, want %q", tt.name, s.Reasons[i], want)
			}
		}
	}
}

// Without consent the gateway is not registered and no browser is needed.
func TestALoginThatIsNotAccepted(t *testing.T) {
	p := newProvider(t)
	refused := errors.New("not accepted")
	_, err := Run(t.Context(), LoginOptions{
		Upstream: &upstream.Config{Name: "mail", URL: p.URL + "/mcp", Credentials: &upstream.CredentialsConfig{AuthorizationCode: new(upstream.AuthorizationCode)}},
		Accept: func(_ context.Context, s *Servers) error {
			if s.Page != p.URL+"/auth" || !s.Proposed || len(s.Reasons) != 0 || len(s.Hosts) != 1 {
				t.Errorf("%+v", s)
			}
			return refused
		},
		Show: func(string, string) { t.Error("the browser was needed") }, Now: time.Now,
	})
	if !errors.Is(err, refused) || p.registered != nil {
		t.Errorf("%v, registered %v", err, p.registered)
	}
}

// A gateway that registers itself has a redirect URI for each issuer: a client of another
// authorization server has no such redirect URI. A configured client has the documented one.
func TestTheRedirectURIOfALogin(t *testing.T) {
	paths := map[string]bool{}
	for range 2 {
		p := newProvider(t)
		if _, err := p.login(t, new(upstream.AuthorizationCode), nil); err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(p.registered["redirect_uris"].([]any)[0].(string))
		paths[u.Path] = true
	}
	p := newProvider(t)
	if _, err := p.login(t, &upstream.AuthorizationCode{ClientID: "mine", AuthorizationServer: p.URL}, nil); err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(p.asked.Get("redirect_uri"))
	if len(paths) != 2 || paths["/callback"] || u.Path != "/callback" {
		t.Errorf("%v %s", paths, u.Path)
	}
}

// Metadata of the upstream may be on another host, which gets no credential.
func TestMetadataOnAnotherHostGetsNoCredential(t *testing.T) {
	p := newProvider(t)
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("%v", r.Header)
		}
		p.serve(w, r)
	}))
	defer other.Close()
	p.challenge = `Bearer resource_metadata="` + other.URL + `/prm"`
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Run(ctx, LoginOptions{
		Upstream: &upstream.Config{
			Name: "mail", URL: p.URL + "/mcp", Headers: map[string]string{"X-Key": "planted"},
			Credentials: &upstream.CredentialsConfig{AuthorizationCode: &upstream.AuthorizationCode{ClientID: "mine", ClientSecret: "planted", AuthorizationServer: p.URL}},
		},
		Accept: accept, Show: p.browser(t, nil), Now: time.Now,
	})
	if err != nil || asked != 1 {
		t.Errorf("%v, %d requests", err, asked)
	}
}
