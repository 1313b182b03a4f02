package client

import "net/http"

// WithTransport replaces http.DefaultTransport.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = t }
}
