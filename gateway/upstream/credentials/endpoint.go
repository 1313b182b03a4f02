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
	"strings"
	"time"

	"svc/gateway/base/hostname"
)

const (
	// Timeout bounds one request to a token endpoint.
	Timeout = 10 * time.Second
	// MaxAnswer bounds the response of a token endpoint, in bytes.
	MaxAnswer = 64 << 10
	// maxToken bounds a token, in bytes.
	maxToken = 32 << 10
	// noExpiry is the lifetime of a token whose endpoint returns no expires_in.
	noExpiry = 10 * time.Minute
	// maxExpiry bounds the lifetime of a token, whatever the endpoint returns.
	maxExpiry = 24 * time.Hour
	// maxConnections bounds the connections to one endpoint: further requests wait.
	maxConnections = 64
)

// The client authentication methods (RFC 7591, token_endpoint_auth_method).
const (
	Basic = "client_secret_basic"
	Post  = "client_secret_post"
	None  = "none"
)

// Endpoint is a token endpoint with the gateway's client account. It is safe for concurrent use.
type Endpoint struct {
	URL, ID, Secret string
	// Method is the client authentication method; empty means Basic.
	Method string
	// Key authenticates the client in place of a secret, if it is set.
	Key    *ClientKey
	Client *http.Client
	Now    func() time.Time
}

// NewClient returns a client that follows no redirects.
func NewClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxConnsPerHost, t.IdleConnTimeout = 4, maxConnections, 30*time.Second
	t.MaxResponseHeaderBytes = MaxAnswer
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Answer is a token that an endpoint issued.
type Answer struct {
	AccessToken     string       `json:"access_token"`
	RefreshToken    string       `json:"refresh_token"`
	TokenType       string       `json:"token_type"`
	IssuedTokenType string       `json:"issued_token_type"`
	Scope           string       `json:"scope"`
	ExpiresIn       *json.Number `json:"expires_in"`
	Code            string       `json:"error"`

	// Asked is the time of the request, and Valid is the lifetime of the token from then on.
	Asked time.Time     `json:"-"`
	Valid time.Duration `json:"-"`
}

// Error is an error response of a token endpoint.
type Error struct {
	Status int
	// Code is the OAuth error code; empty if there is none.
	Code string
}

// Error returns the status and the code.
func (e *Error) Error() string {
	text := fmt.Sprintf("the token endpoint answered with status %d", e.Status)
	if e.Code != "" {
		text += " and the error " + e.Code
	}
	return text
}

// Revoke revokes a refresh token at the revocation endpoint of the same server (RFC 7009). An
// address on another host than the token endpoint is an error: that host has neither the token nor
// the secret of the client.
func (e *Endpoint) Revoke(ctx context.Context, address, token string) error {
	at, err := url.Parse(address)
	tokens, err2 := url.Parse(e.URL)
	if err != nil || err2 != nil || at.Scheme != tokens.Scheme || !strings.EqualFold(at.Host, tokens.Host) {
		return errors.New("the revocation endpoint is on another host than the token endpoint: end the login at the authorization server")
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := e.request(ctx, address, url.Values{"token": {token}, "token_type_hint": {"refresh_token"}})
	if err != nil {
		return err
	}
	resp, err := e.Client.Do(req)
	if err != nil {
		return unanswered(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the revocation endpoint answered with status %d", resp.StatusCode)
	}
	return nil
}

// request returns a request with the client authentication.
func (e *Endpoint) request(ctx context.Context, address string, form url.Values) (*http.Request, error) {
	if e.Method == Post || e.Method == None || e.Key != nil {
		form.Set("client_id", e.ID)
	}
	if e.Key != nil {
		assertion, err := e.Key.assertion(e.ID, e.URL, e.Now())
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion_type", typeAssertion)
		form.Set("client_assertion", assertion)
	}
	if e.Method == Post {
		form.Set("client_secret", e.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the address of the token endpoint is not valid")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if e.Key == nil && (e.Method == Basic || e.Method == "") {
		req.SetBasicAuth(url.QueryEscape(e.ID), url.QueryEscape(e.Secret))
	}
	return req, nil
}

// Ask requests an access token.
func (e *Endpoint) Ask(ctx context.Context, form url.Values) (*Answer, error) {
	a, err := e.AskGrant(ctx, form)
	if err == nil && !strings.EqualFold(a.TokenType, "Bearer") {
		return nil, errors.New("the token endpoint issued a token of another type than Bearer")
	}
	return a, err
}

// AskGrant requests a token that is presented at another token endpoint: its token_type has no
// meaning (RFC 8693, section 2.2.1).
func (e *Endpoint) AskGrant(ctx context.Context, form url.Values) (*Answer, error) {
	req, err := e.request(ctx, e.URL, form)
	if err != nil {
		return nil, err
	}
	asked := e.Now()
	resp, err := e.Client.Do(req)
	if err != nil {
		return nil, unanswered(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, unanswered(err)
	}
	a, err := read(resp, body)
	if err != nil {
		return nil, err
	}
	a.Asked = asked
	return a, nil
}

// read parses and checks a response.
func read(resp *http.Response, body []byte) (*Answer, error) {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, fmt.Errorf("the token endpoint answered status %d%s", resp.StatusCode, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
	}
	if len(body) > MaxAnswer {
		return nil, fmt.Errorf("the answer of the token endpoint has more than %d bytes", MaxAnswer)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var a Answer
	if media != "application/json" || json.Unmarshal(body, &a) != nil {
		return nil, fmt.Errorf("the token endpoint answered with status %d and no JSON", resp.StatusCode)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, &Error{Status: resp.StatusCode, Code: Code(a.Code)}
	case a.AccessToken == "" || !presentable(a.AccessToken):
		return nil, errors.New("the token endpoint issued no token that fits into a header")
	case !presentable(a.RefreshToken):
		return nil, errors.New("the token endpoint issued a refresh token that is none")
	}
	a.Valid = noExpiry
	if a.ExpiresIn != nil {
		seconds, err := a.ExpiresIn.Float64()
		if err != nil || seconds <= 0 {
			return nil, errors.New("the token endpoint issued a token that has expired")
		}
		a.Valid = time.Duration(min(seconds, maxExpiry.Seconds()) * float64(time.Second))
	}
	return &a, nil
}

// presentable reports whether a text can be sent as a token.
func presentable(token string) bool {
	return len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Code returns an OAuth error code, and "" for any other text of a server.
func Code(text string) string {
	if len(text) > 64 || strings.ContainsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		return ""
	}
	return text
}

// unanswered is the error of a request without an answer.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the token endpoint did not answer in %s", Timeout)
	}
	return fmt.Errorf("the token endpoint cannot be reached: %w", hostname.WithoutURL(err))
}
