// Package client is the Go client of the control plane's REST API: one method per
// endpoint (control-plane specification, Endpoints).
//
// The package implements the transport conventions: the key in its header, bounded
// responses, the error body as an *Error, Idempotency-Key on creations, and the paging
// of lists. The wire types are those of store/api. Handling errors, and retries, is
// up to the caller.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"svc/store/api"
)

const (
	// DefaultTimeout bounds one request with its response; streams have no timeout.
	DefaultTimeout = 30 * time.Second
	// maxAnswer bounds the body of a response, in bytes: a page of 500 agents with
	// long texts is far smaller.
	maxAnswer = 64 << 20
	// maxErrorAnswer bounds the body of an error response, in bytes.
	maxErrorAnswer = 1 << 20
)

// Client calls one control plane, or several of one store, with one API key. It is
// safe for concurrent use.
type Client struct {
	planes    *planes
	key       string
	userAgent string
	timeout   time.Duration
	maxAnswer int64
	silence   time.Duration // longest silence of a stream
	http      *http.Client
}

// Option configures a Client.
type Option func(*Client)

// WithTimeout replaces DefaultTimeout; with 0 only the context ends a request.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = d }
}

// WithUserAgent replaces the User-Agent "svc".
func WithUserAgent(s string) Option {
	return func(c *Client) { c.userAgent = s }
}

// WithMaxAnswer replaces the bound on the body of a response, in bytes.
func WithMaxAnswer(n int64) Option {
	return func(c *Client) { c.maxAnswer = n }
}

// WithTransport replaces http.DefaultTransport.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = t }
}

// New returns a client of the control plane at baseURL, such as http://127.0.0.1:8080,
// that sends apiKey. It does not connect; an invalid base URL is an error of the first
// request. Redirects are not followed, so that the key is sent to this address only.
func New(baseURL, apiKey string, opts ...Option) *Client {
	c := &Client{
		planes:    &planes{bases: []string{trimBase(baseURL)}},
		key:       apiKey,
		userAgent: "svc",
		timeout:   DefaultTimeout,
		maxAnswer: maxAnswer,
		silence:   maxSilence,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	for _, o := range opts {
		o(c)
	}
	return c
}

// CallOption configures one request.
type CallOption func(*http.Request)

// IdempotencyKey sets the Idempotency-Key, so that repeating the call with the same
// body has one effect. Creations without this option have a random key, so that the
// transport can repeat them when a reused connection turns out to be closed.
func IdempotencyKey(key string) CallOption {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// randomAttempt sets a random Idempotency-Key unless the caller has set one.
func randomAttempt(r *http.Request) {
	if r.Header.Get("Idempotency-Key") == "" {
		r.Header.Set("Idempotency-Key", rand.Text())
	}
}

// Page selects a part of a list. Zero values mean the server's defaults.
type Page struct {
	Limit  int
	Offset int
	After  string // Next of the previous page; replaces the offset
}

// query builds a query string; empty values are left out.
type query url.Values

func (p Page) query() query {
	q := query{}
	if p.Limit != 0 {
		q.set("limit", strconv.Itoa(p.Limit))
	}
	if p.Offset != 0 {
		q.set("offset", strconv.Itoa(p.Offset))
	}
	if p.After != "" {
		q.set("after", p.After)
	}
	return q
}

func (q query) set(name, value string) query {
	if value != "" {
		url.Values(q).Set(name, value)
	}
	return q
}

func (q query) number(name string, f *float64) query {
	if f != nil {
		q.set(name, strconv.FormatFloat(*f, 'f', -1, 64))
	}
	return q
}

func (q query) moment(name string, t time.Time) query {
	if !t.IsZero() {
		q.set(name, t.UTC().Format(time.RFC3339Nano))
	}
	return q
}

// path joins escaped segments to a path under /api.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// encoded is a body that is already JSON.
type encoded []byte

// request builds a request. in is encoded as its JSON body; nil means no body.
func (c *Client) request(ctx context.Context, method, path string, q query, in any) (*http.Request, error) {
	return c.requestTo(ctx, c.planes.base(), method, path, q, in)
}

// requestTo is request for one of the control planes.
func (c *Client) requestTo(ctx context.Context, base, method, path string, q query, in any) (*http.Request, error) {
	target := base + path
	if len(q) > 0 {
		target += "?" + url.Values(q).Encode()
	}
	var body io.Reader
	if in != nil {
		b, ok := in.(encoded)
		if !ok {
			var err error
			if b, err = json.Marshal(in); err != nil {
				return nil, fmt.Errorf("encode request: %w", err)
			}
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("control plane address %q: %w", base, err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.userAgent)
	return r, nil
}

// do sends a request and decodes a 2xx answer into out. Every other status is
// an *Error.
func (c *Client) do(ctx context.Context, method, path string, q query, in, out any, opts ...CallOption) error {
	return c.doHeader(ctx, method, path, q, in, out, func(http.Header) {}, opts...)
}

// doHeader is do; it calls see with the header of a 2xx response.
func (c *Client) doHeader(ctx context.Context, method, path string, q query, in, out any, see func(http.Header), opts ...CallOption) error {
	// The same Idempotency-Key for all control planes, so that repeating the request
	// has one effect.
	header := &http.Request{Header: http.Header{}}
	for _, o := range opts {
		o(header)
	}
	return c.overAll(ctx, repeatable(method, path, header.Header), func(base string) error {
		return c.ask(ctx, base, method, path, q, in, out, see, header.Header)
	})
}

// ask sends one request to one control plane.
func (c *Client) ask(ctx context.Context, base, method, path string, q query, in, out any, see func(http.Header), header http.Header) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	r, err := c.requestTo(ctx, base, method, path, q, in)
	if err != nil {
		return err
	}
	maps.Copy(r.Header, header)
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return answerError(resp)
	}
	see(resp.Header)
	body, err := readBounded(resp.Body, c.maxAnswer)
	if err != nil {
		return fmt.Errorf("%s %s: read response: %w", method, path, err)
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := jsonv1.Unmarshal(body, out); err != nil { // as encoding/json, faster with lists of lists
		return fmt.Errorf("%s %s: the response is not one of this API (is %s the control plane?): %w", method, path, base, err)
	}
	return nil
}

// single calls for one resource that is wrapped in data.
func single[T any](ctx context.Context, c *Client, method, path string, in any, opts ...CallOption) (T, error) {
	var out api.Single[T]
	err := c.do(ctx, method, path, nil, in, &out, opts...)
	return out.Data, err
}

// bare calls for one resource that is at top level.
func bare[T any](ctx context.Context, c *Client, method, path string, q query, in any, opts ...CallOption) (T, error) {
	var out T
	err := c.do(ctx, method, path, q, in, &out, opts...)
	return out, err
}

// remove sends a DELETE.
func (c *Client) remove(ctx context.Context, path string, in any) error {
	var out api.Success
	return c.do(ctx, "DELETE", path, nil, in, &out)
}

// attempt returns the options of a creation: the caller's, and a random
// Idempotency-Key when they have none.
func attempt(opts []CallOption) []CallOption {
	return append(opts[:len(opts):len(opts)], randomAttempt)
}

// readBounded reads r; it returns an error when there are more than limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	return b, nil
}
