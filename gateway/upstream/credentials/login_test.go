package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"svc/gateway/upstream"
)

// provider is a server that is a protected resource and its authorization server.
type provider struct {
	*httptest.Server
	resource, metadata map[string]any // changes to its metadata
	challenge          string         // challenge of its 401; empty for that of RFC 9728
	registered         map[string]any
	issued             string // response of the token endpoint
	paths              map[string]http.HandlerFunc
	pkce               string // PKCE challenge of the authorization
	asked              url.Values
}

func newProvider(t *testing.T) *provider {
	p := &provider{resource: map[string]any{}, metadata: map[string]any{}, paths: map[string]http.HandlerFunc{},
		issued: `{"access_token":"planted-access","token_type":"Bearer","expires_in":3600,"refresh_token":"planted-refresh"}`}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	if h := p.paths[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	with := func(all, changes map[string]any) {
		for name, value := range changes {
			if value == nil {
				delete(all, name)
			} else {
				all[name] = value
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all)
	}
	switch r.URL.Path {
	case "/mcp":
		challenge := p.challenge
		if challenge == "" {
			challenge = `Bearer error="invalid_token", resource_metadata="` + p.URL + `/prm", scope="mail.read mail.send"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
	case "/prm", "/.well-known/oauth-protected-resource/mcp":
		with(map[string]any{"resource": p.URL + "/mcp", "authorization_servers": []string{p.URL}}, p.resource)
	case "/.well-known/oauth-authorization-server":
		with(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "scopes_supported": []string{"mail.read", "offline_access"},
			"authorization_response_iss_parameter_supported": true,
		}, p.metadata)
	case "/register":
		_ = json.NewDecoder(r.Body).Decode(&p.registered)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"client_id":"issued-id","token_endpoint_auth_method":"none"}`)
	case "/token":
		_ = r.ParseForm()
		p.asked = r.PostForm
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		w.Header().Set("Content-Type", "application/json")
		if base64.RawURLEncoding.EncodeToString(sum[:]) != p.pkce || r.PostFormValue("code") != "planted-code" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		fmt.Fprint(w, p.issued)
	default:
		http.NotFound(w, r)
	}
}

// browser answers an authorization request with the valid response as changed by edit.
func (p *provider) browser(t *testing.T, edit func(q url.Values)) func(address, redirect string) {
	return func(address, redirect string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Error(err)
			return
		}
		q := u.Query()
		p.pkce = q.Get("code_challenge")
		back := url.Values{"code": {"planted-code"}, "state": {q.Get("state")}, "iss": {p.URL}}
		if q.Get("redirect_uri") != redirect || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 40 {
			t.Errorf("%v", q)
		}
		if edit != nil {
			edit(back)
		}
		go func() {
			// A web page that the operator visits redirects the browser here too.
			for _, query := range []string{"code=evil&state=evil", "", back.Encode()} {
				if resp, err := http.Get(redirect + "?" + query); err == nil {
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					if strings.Contains(string(body), "planted") || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
						t.Errorf("%s", body)
					}
				}
			}
		}()
	}
}

func (p *provider) login(t *testing.T, c *upstream.AuthorizationCode, edit func(q url.Values)) (*Grant, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Run(ctx, LoginOptions{
		Upstream: &upstream.Config{Name: "mail", URL: p.URL + "/mcp", Credentials: &upstream.CredentialsConfig{AuthorizationCode: c}},
		Show:     p.browser(t, edit), Accept: accept, Now: time.Now,
	})
}

// accept accepts every login.
func accept(context.Context, *Servers) error { return nil }

// An empty section is sufficient: the servers' metadata have the authorization server and the
// scopes, and the gateway registers itself.
func TestLogin(t *testing.T) {
	p := newProvider(t)
	g, err := p.login(t, new(upstream.AuthorizationCode), nil)
	if err != nil {
		t.Fatal(err)
	}
	if g.ClientID != "issued-id" || g.RefreshToken != "planted-refresh" || g.Resource != p.URL+"/mcp" || g.Issuer != p.URL || g.AuthMethod != "none" || g.Expires.Sub(g.Issued) != time.Hour {
		t.Errorf("%+v", g)
	}
	if strings.Join(g.Scopes, " ") != "mail.read mail.send offline_access" {
		t.Errorf("scopes %v", g.Scopes)
	}
	if p.asked.Get("resource") != p.URL+"/mcp" || p.asked.Get("client_id") != "issued-id" || p.asked.Get("redirect_uri") == "" {
		t.Errorf("%v", p.asked)
	}
	if p.registered["token_endpoint_auth_method"] != "none" || p.registered["application_type"] != "native" {
		t.Errorf("%v", p.registered)
	}
}

// The configuration takes precedence over the servers' metadata.
func TestLoginWithAConfiguredClient(t *testing.T) {
	p := newProvider(t)
	p.metadata["registration_endpoint"] = nil
	p.metadata["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
	g, err := p.login(t, &upstream.AuthorizationCode{ClientID: "mine", ClientSecret: "planted-secret", Scopes: []string{"x"}, Resource: p.URL, AuthorizationServer: p.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g.ClientID != "mine" || g.ClientSecret != "" || g.AuthMethod != "client_secret_post" || p.asked.Get("client_secret") != "planted-secret" || p.asked.Get("resource") != p.URL || p.registered != nil {
		t.Errorf("%+v %v", g, p.asked)
	}
}

// Servers that could misdirect the operator or the tokens are refused, and a response that does
// not belong to this login is ignored.
func TestLoginsThatAreRefused(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.Repeat(" ", 70<<10))
	}
	redirects := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}
	answers := func(status int, media, text string) func(p *provider) {
		return func(p *provider) {
			p.paths["/register"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				w.WriteHeader(status)
				fmt.Fprint(w, text)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		edit  func(p *provider)
		reply func(q url.Values)
		want  string
	}{
		{"another resource", func(p *provider) { p.resource["resource"] = "https://bank.example/mcp" }, nil, "which is not its url"},
		{"a resource beside", func(p *provider) { p.resource["resource"] = p.URL + "/mc" }, nil, "which is not its url"},
		{"another issuer", func(p *provider) { p.metadata["issuer"] = "https://bank.example" }, nil, "names another issuer"},
		{"no PKCE", func(p *provider) { p.metadata["code_challenge_methods_supported"] = []string{"plain"} }, nil, "does not support PKCE"},
		{"a token endpoint without TLS", func(p *provider) { p.metadata["token_endpoint"] = "http://bank.example/token" }, nil, "must be https"},
		{"a page that is no address", func(p *provider) { p.metadata["authorization_endpoint"] = "javascript:alert(1)" }, nil, "no valid address"},
		{"an authorization server without TLS", func(p *provider) { p.resource["authorization_servers"] = []string{"http://bank.example"} }, nil, "must be https"},
		{"metadata without TLS", func(p *provider) { p.challenge = `Bearer resource_metadata="http://bank.example/x"` }, nil, "must be https"},
		{"metadata of a file", func(p *provider) { p.challenge = `Bearer resource_metadata="file:///etc/passwd"` }, nil, "no valid address"},
		{"huge metadata", func(p *provider) { p.paths["/prm"] = page }, nil, "more than 65536 bytes"},
		{"redirects", func(p *provider) { p.paths["/.well-known/oauth-authorization-server"] = redirects }, nil, "status 302"},
		{"an upstream that redirects", func(p *provider) { p.paths["/mcp"] = redirects }, nil, "which redirects to /elsewhere"},
		{"no authorization server", func(p *provider) { p.paths["/.well-known/oauth-authorization-server"] = http.NotFound }, nil, "set authorization_server"},
		{"a registration that answers a page", answers(http.StatusOK, "text/html", "planted"), nil, "does not answer as one"},
		{"a registration that answers control characters", answers(http.StatusForbidden, "text/plain", "planted \x1b]0;planted\a"), nil, "status 403"},
		{"a registration with an error", answers(http.StatusBadRequest, "application/json", `{"error":"invalid_client_metadata","error_description":"planted"}`), nil, "the error invalid_client_metadata"},
		{"a huge registration", answers(http.StatusCreated, "application/json", `{"client_id":"planted"`+strings.Repeat(" ", 70<<10)+"}"), nil, "more than 65536 bytes"},
		{"a registration without an id", answers(http.StatusCreated, "application/json", "{}"), nil, "without an id"},
		{"no registration", func(p *provider) { p.metadata["registration_endpoint"] = nil }, nil, "set client_id"},
		{"only documents", func(p *provider) {
			p.metadata["registration_endpoint"] = nil
			p.metadata["client_id_metadata_document_supported"] = true
		}, nil, "metadata document"},
		{"a refusal", nil, func(q url.Values) {
			q.Del("code")
			q.Set("error", "access_denied")
			q.Set("error_description", "planted")
		}, "refused the login: access_denied"},
		{"another server's answer", nil, func(q url.Values) { q.Set("iss", "https://evil.example") }, "not of the authorization server"},
		{"an answer without its server", nil, func(q url.Values) { q.Del("iss") }, "not of the authorization server"},
		{"another code", nil, func(q url.Values) { q.Set("code", "planted-other") }, "invalid_grant"},
		{"another kind of token", func(p *provider) { p.issued = `{"access_token":"planted","token_type":"DPoP"}` }, nil, "another type than Bearer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			if tt.edit != nil {
				tt.edit(p)
			}
			_, err := p.login(t, new(upstream.AuthorizationCode), tt.reply)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "planted") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A server of the revision without protected resource metadata is its own authorization server, also
// one that answers a web page at every path. A resource may be above the URL.
func TestLoginAtAServerWithoutMetadata(t *testing.T) {
	for name, edit := range map[string]func(p *provider){
		"nothing": func(p *provider) {
			p.challenge = "Bearer"
			p.paths["/.well-known/oauth-protected-resource/mcp"] = http.NotFound
		},
		"a page": func(p *provider) {
			p.challenge = "Bearer"
			p.paths["/.well-known/oauth-protected-resource/mcp"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
			}
		},
		"a resource above": func(p *provider) { p.resource["resource"] = p.URL },
	} {
		p := newProvider(t)
		edit(p)
		if _, err := p.login(t, new(upstream.AuthorizationCode), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A browser on another machine cannot reach the callback; its redirect address can be pasted.
func TestThePastedAddressOfABrowser(t *testing.T) {
	p := newProvider(t)
	r, w := io.Pipe()
	defer w.Close()
	g, err := Run(t.Context(), LoginOptions{
		Upstream: &upstream.Config{Name: "mail", URL: p.URL + "/mcp", Credentials: &upstream.CredentialsConfig{AuthorizationCode: new(upstream.AuthorizationCode)}},
		Pasted:   r, Accept: accept, Now: time.Now,
		Show: func(address, redirect string) {
			u, _ := url.Parse(address)
			p.pkce = u.Query().Get("code_challenge")
			go fmt.Fprintf(w, "what?\n\n%s?code=planted-code&iss=%s&state=%s\n", redirect, url.QueryEscape(p.URL), u.Query().Get("state"))
		},
	})
	if err != nil || g.RefreshToken == "" {
		t.Errorf("%v", err)
	}
}

// The time for a login is bounded.
func TestNobodyLogsIn(t *testing.T) {
	p := newProvider(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, LoginOptions{
		Upstream: &upstream.Config{Name: "mail", URL: p.URL + "/mcp", Credentials: &upstream.CredentialsConfig{AuthorizationCode: new(upstream.AuthorizationCode)}},
		Show:     func(string, string) { cancel() }, Accept: accept, Now: time.Now,
	})
	if err == nil || !strings.Contains(err.Error(), "no login within the time limit") {
		t.Errorf("%v", err)
	}
}
