package client

import (
	"context"
	"strings"

	"svc/store/api"
)

// Apply calls POST /api/apply.
func (c *Client) Apply(ctx context.Context, in api.Apply, opts ...CallOption) (api.Applied, error) {
	return bare[api.Applied](ctx, c, "POST", path("apply"), nil, in, attempt(opts)...)
}

// ExportDocuments calls GET /api/apply for the documents of some kinds, or of all
// when none are given.
func (c *Client) ExportDocuments(ctx context.Context, kinds ...string) (api.Documents, error) {
	return bare[api.Documents](ctx, c, "GET", path("apply"), (query{}).set("kind", strings.Join(kinds, ",")), nil)
}
