package client

import (
	"context"

	"svc/store/api"
)

// KeyQuery filters GET /api/keys; zero fields do not filter.
type KeyQuery struct {
	Page
	Scope string
}

// ListKeys calls GET /api/keys.
func (c *Client) ListKeys(ctx context.Context, q KeyQuery) (api.Page[api.KeyItem], error) {
	return bare[api.Page[api.KeyItem]](ctx, c, "GET", path("keys"), q.query().set("scope", q.Scope), nil)
}

// GetKey calls GET /api/keys/:id.
func (c *Client) GetKey(ctx context.Context, id string) (api.KeyItem, error) {
	return single[api.KeyItem](ctx, c, "GET", path("keys", id), nil)
}

// CreateKey calls POST /api/keys, whose response has the secret. It has an
// Idempotency-Key only when the caller sets one: a stored response has no
// secret, so the call must not be repeated automatically.
func (c *Client) CreateKey(ctx context.Context, in api.KeyCreate, opts ...CallOption) (api.KeyCreated, error) {
	return single[api.KeyCreated](ctx, c, "POST", path("keys"), in, opts...)
}

// DeleteKey calls DELETE /api/keys/:id.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	return c.remove(ctx, path("keys", id), nil)
}
