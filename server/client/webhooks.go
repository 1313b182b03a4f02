package client

import (
	"context"

	"svc/store/api"
)

// DeliveryQuery filters GET /api/webhooks/:id/deliveries; zero fields do not filter.
type DeliveryQuery struct {
	Page
	State string
}

// ListWebhooks calls GET /api/webhooks.
func (c *Client) ListWebhooks(ctx context.Context, q Page) (api.Page[api.Webhook], error) {
	return bare[api.Page[api.Webhook]](ctx, c, "GET", path("webhooks"), q.query(), nil)
}

// CreateWebhook calls POST /api/webhooks, whose response has the signing secret. As with CreateKey,
// only the caller sets an Idempotency-Key.
func (c *Client) CreateWebhook(ctx context.Context, in api.WebhookCreate, opts ...CallOption) (api.Webhook, error) {
	return single[api.Webhook](ctx, c, "POST", path("webhooks"), in, opts...)
}

// GetWebhook calls GET /api/webhooks/:id.
func (c *Client) GetWebhook(ctx context.Context, id string) (api.Webhook, error) {
	return single[api.Webhook](ctx, c, "GET", path("webhooks", id), nil)
}

// UpdateWebhook calls PUT /api/webhooks/:id.
func (c *Client) UpdateWebhook(ctx context.Context, id string, in api.WebhookUpdate) (api.Webhook, error) {
	return single[api.Webhook](ctx, c, "PUT", path("webhooks", id), in)
}

// DeleteWebhook calls DELETE /api/webhooks/:id.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	return c.remove(ctx, path("webhooks", id), nil)
}

// RotateWebhookSecret calls POST /api/webhooks/:id/rotateSecret, whose response has the new secret.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string, opts ...CallOption) (api.Webhook, error) {
	return single[api.Webhook](ctx, c, "POST", path("webhooks", id, "rotateSecret"), nil, opts...)
}

// TestWebhook calls POST /api/webhooks/:id/test.
func (c *Client) TestWebhook(ctx context.Context, id string, opts ...CallOption) (api.Delivery, error) {
	return single[api.Delivery](ctx, c, "POST", path("webhooks", id, "test"), nil, attempt(opts)...)
}

// ListDeliveries calls GET /api/webhooks/:id/deliveries.
func (c *Client) ListDeliveries(ctx context.Context, webhookID string, q DeliveryQuery) (api.Page[api.Delivery], error) {
	return bare[api.Page[api.Delivery]](ctx, c, "GET", path("webhooks", webhookID, "deliveries"), q.query().set("state", q.State), nil)
}

// Redeliver calls POST /api/webhooks/:id/redeliver.
func (c *Client) Redeliver(ctx context.Context, webhookID, id string, opts ...CallOption) (api.Delivery, error) {
	return single[api.Delivery](ctx, c, "POST", path("webhooks", webhookID, "redeliver"), api.Redelivery{DeliveryID: id}, attempt(opts)...)
}
