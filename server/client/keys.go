package client

import (
	"context"

	"svc/server/api"
)

// KeyQuery narrows GET /api/keys; zero fields do not.
type KeyQuery struct {
	Page
	Scope string
}

// ListKeys asks GET /api/keys.
func (c *Client) ListKeys(ctx context.Context, q KeyQuery) (api.Page[api.KeyItem], error) {
	return bare[api.Page[api.KeyItem]](ctx, c, "GET", path("keys"), q.query().set("scope", q.Scope), nil)
}

// GetKey asks GET /api/keys/:id.
func (c *Client) GetKey(ctx context.Context, id string) (api.KeyItem, error) {
	return single[api.KeyItem](ctx, c, "GET", path("keys", id), nil)
}

// CreateKey asks POST /api/keys, whose answer holds the secret. It carries an
// Idempotency-Key only when one is given: a repeated answer comes without the
// secret, so nothing repeats this call unasked.
func (c *Client) CreateKey(ctx context.Context, in api.KeyCreate, opts ...CallOption) (api.KeyCreated, error) {
	return single[api.KeyCreated](ctx, c, "POST", path("keys"), in, opts...)
}

// DeleteKey asks DELETE /api/keys/:id.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	return c.remove(ctx, path("keys", id), nil)
}
