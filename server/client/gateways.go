package client

import (
	"context"
	"net/http"

	"svc/store/api"
)

// ReportGateway calls PUT /api/gateways/:name with the key of a gateway. body is the JSON of an
// api.GatewayReport; signature is the value of api.SignatureHeader, empty for a report that is not signed.
func (c *Client) ReportGateway(ctx context.Context, name string, body []byte, signature string) error {
	var out api.Success
	return c.do(ctx, "PUT", path("gateways", name), nil, encoded(body), &out, func(r *http.Request) {
		if signature != "" {
			r.Header.Set(api.SignatureHeader, signature)
		}
	})
}

// ListGateways calls GET /api/gateways; all includes instances that have stopped.
func (c *Client) ListGateways(ctx context.Context, all bool) (api.List[api.Gateway], error) {
	q := query{}
	if all {
		q.set("all", "true")
	}
	return bare[api.List[api.Gateway]](ctx, c, "GET", path("gateways"), q, nil)
}

// GetGateway calls GET /api/gateways/:name.
func (c *Client) GetGateway(ctx context.Context, name string) (api.Gateway, error) {
	return single[api.Gateway](ctx, c, "GET", path("gateways", name), nil)
}

// ForgetGateway calls DELETE /api/gateways/:name.
func (c *Client) ForgetGateway(ctx context.Context, name string) error {
	var out api.Success
	return c.do(ctx, "DELETE", path("gateways", name), nil, nil, &out)
}
