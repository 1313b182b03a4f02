package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/upstream"
)

// stepTimeout bounds one request of the discovery.
const stepTimeout = 10 * time.Second

// found is the result of the discovery for an upstream.
type found struct {
	scopes []string // that the upstream requires
	server server
}

// server is the metadata of an authorization server (RFC 8414).
type server struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Scopes                []string `json:"scopes_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	Challenges            []string `json:"code_challenge_methods_supported"`
	DocumentClients       bool     `json:"client_id_metadata_document_supported"`
	NamesItself           bool     `json:"authorization_response_iss_parameter_supported"`
}

// protected is the metadata of a protected resource (RFC 9728).
type protected struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// discover finds the authorization server of the upstream. The package oauthex of the official
// SDK does not serve here: its errors repeat what a registration endpoint answers, control characters
// included, and it refuses a resource above the URL and a web page at a well-known path.
func (l *login) discover(ctx context.Context) (*found, error) {
	f := new(found)
	metadata, scopes, err := l.protected(ctx)
	if err != nil {
		return nil, err
	}
	issuer := l.config.AuthorizationServer
	if metadata != nil {
		f.scopes = metadata.Scopes
		if issuer == "" && len(metadata.Servers) > 0 {
			issuer = metadata.Servers[0]
		}
	}
	if len(scopes) > 0 {
		f.scopes = scopes
	}
	f.scopes = slices.DeleteFunc(f.scopes, func(s string) bool { return !scopeForm.MatchString(s) })
	if issuer == "" { // the servers of revision 2025-03-26 are their own authorization servers
		u, err := url.Parse(l.Upstream.URL)
		if err != nil {
			return nil, errors.New("url of the upstream is not valid")
		}
		issuer = u.Scheme + "://" + u.Host
	}
	if err := l.trusted("the authorization server", issuer); err != nil {
		return nil, err
	}
	if f.server, err = l.authorizationServer(ctx, issuer); err != nil {
		return nil, err
	}
	return f, l.usable(&f.server)
}

var scopeForm = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,256}$`)

// parameter matches the parameters of WWW-Authenticate that the login uses.
var parameter = regexp.MustCompile(`(?i)[ ,](resource_metadata|scope)="([^"\\]+)"`)

// protected returns the protected resource metadata of the upstream, nil if it has none, and the
// scopes of its challenge.
func (l *login) protected(ctx context.Context) (*protected, []string, error) {
	challenge, err := l.challenge(ctx)
	if err != nil {
		return nil, nil, err
	}
	at, scopes := "", []string(nil)
	for _, m := range parameter.FindAllStringSubmatch(challenge, 10) {
		if strings.EqualFold(m[1], "scope") {
			scopes = strings.Fields(m[2])
		} else {
			at = m[2]
		}
	}
	u, err := url.Parse(l.Upstream.URL)
	if err != nil {
		return nil, nil, errors.New("url of the upstream is not valid")
	}
	const known = "/.well-known/oauth-protected-resource"
	places := []string{at}
	if at == "" {
		places = slices.Compact([]string{u.Scheme + "://" + u.Host + known + strings.TrimSuffix(u.EscapedPath(), "/"), u.Scheme + "://" + u.Host + known})
	}
	for _, place := range places {
		var p protected
		if err := l.get(ctx, "the metadata of the upstream", place, &p); errors.Is(err, errAbsent) && at == "" {
			continue
		} else if err != nil {
			return nil, nil, err
		}
		if !covers(p.Resource, u) {
			return nil, nil, fmt.Errorf("the upstream names the resource %s, which is not its url: correct url, or ask its operator", upstream.Printable(p.Resource, 200))
		}
		return &p, scopes, nil
	}
	return nil, scopes, nil
}

// covers reports whether a resource covers a URL: it is the same URL or a parent path.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || !strings.EqualFold(r.Scheme, u.Scheme) || !strings.EqualFold(r.Host, u.Host) {
		return false
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(u.EscapedPath(), "/")+"/", above)
}

// challenge sends the upstream a request without credentials and returns the challenge of its
// response.
func (l *login) challenge(ctx context.Context) (string, error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"svc-login","version":"1"}}}`
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Upstream.URL, strings.NewReader(body))
	if err != nil {
		return "", errors.New("url of the upstream is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := l.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("the upstream cannot be reached: %w", late(err))
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return "", fmt.Errorf("the upstream answered status %d%s", resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return "", nil // some upstreams require credentials only for later requests
	}
	return " " + strings.Join(resp.Header.Values("WWW-Authenticate"), ", "), nil
}

// authorizationServer reads the metadata of an issuer, at the well-known paths of RFC 8414 and
// OpenID Connect.
func (l *login) authorizationServer(ctx context.Context, issuer string) (server, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return server{}, errors.New("the authorization server has no valid address")
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	places := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
		origin + path + "/.well-known/openid-configuration",
	}
	for _, place := range slices.Compact(places) {
		var s server
		err := l.get(ctx, "the metadata of the authorization server", place, &s)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return s, err
		}
		if strings.TrimSuffix(s.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
			return s, fmt.Errorf("the authorization server %s names another issuer: %s", upstream.Printable(issuer, 200), upstream.Printable(s.Issuer, 200))
		}
		return s, nil
	}
	return server{}, fmt.Errorf("%s has no metadata of an authorization server: set authorization_server to the issuer that the documentation of the upstream names", upstream.Printable(issuer, 200))
}

// usable returns the reason why a login with an authorization server is not possible, or nil.
func (l *login) usable(s *server) error {
	if !slices.Contains(s.Challenges, "S256") {
		return errors.New("the authorization server does not support PKCE with S256 (code_challenge_methods_supported), without which a code could be stolen")
	}
	for _, e := range []struct {
		what, address string
		optional      bool
	}{
		{"the authorization endpoint", s.AuthorizationEndpoint, false}, {"the token endpoint", s.TokenEndpoint, false},
		{"the registration endpoint", s.RegistrationEndpoint, true}, {"the revocation endpoint", s.RevocationEndpoint, true},
	} {
		if e.optional && e.address == "" {
			continue
		}
		if err := l.trusted(e.what, e.address); err != nil {
			return err
		}
	}
	return nil
}

// trusted returns the reason why an address of a server must not be used, or nil.
func (l *login) trusted(what, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return fmt.Errorf("%s has no valid address", what)
	case u.Scheme == "https", u.Scheme == "http" && l.local && hostname.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s is at %s, and must be https", what, upstream.Printable(upstream.LogURL(address), 200))
}

// errAbsent: there is no document at a path.
var errAbsent = errors.New("there is nothing")

// get reads a JSON document.
func (l *login) get(ctx context.Context, what, address string, into any) error {
	if err := l.trusted(what, address); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%s has no valid address", what)
	}
	req.Header.Set("Accept", "application/json")
	return l.read(req, what, http.StatusOK, into)
}

// read sends a request and decodes the JSON of its response.
func (l *login) read(req *http.Request, what string, status int, into any) error {
	resp, err := l.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", what, late(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", what, late(err))
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var refused struct {
		Code string `json:"error"`
	}
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return errAbsent
	case resp.StatusCode != status && resp.StatusCode != http.StatusOK:
		_ = json.Unmarshal(body, &refused)
		if code := Code(refused.Code); code != "" {
			return fmt.Errorf("%s: status %d and the error %s", what, resp.StatusCode, code)
		}
		return fmt.Errorf("%s: status %d", what, resp.StatusCode)
	case len(body) > MaxAnswer:
		return fmt.Errorf("%s has more than %d bytes", what, MaxAnswer)
	case media != "application/json":
		return errAbsent // web sites respond with a page at every address
	case json.Unmarshal(body, into) != nil:
		return fmt.Errorf("%s is no valid JSON", what)
	}
	return nil
}

// late is err without its URL; after the time of a step it gives that time.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s", stepTimeout)
	}
	return hostname.WithoutURL(err)
}
