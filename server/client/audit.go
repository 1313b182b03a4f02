package client

import (
	"context"

	"svc/server/api"
)

// ReportAuditHead asks POST /api/audit/heads. When it returns nil the head is
// durable; the same head may be reported again.
func (c *Client) ReportAuditHead(ctx context.Context, head api.AuditHeadReport) (api.AuditHead, error) {
	return single[api.AuditHead](ctx, c, "POST", path("audit", "heads"), head)
}

// ListAuditHeads asks GET /api/audit/heads: all of them, there is no paging.
func (c *Client) ListAuditHeads(ctx context.Context) (api.List[api.AuditHead], error) {
	return bare[api.List[api.AuditHead]](ctx, c, "GET", path("audit", "heads"), nil, nil)
}

// AcceptAuditKey asks POST /api/audit/heads/accept: the heads of a gateway are
// signed with another key from now on.
func (c *Client) AcceptAuditKey(ctx context.Context, accept api.AuditKeyAccept) (api.AuditKey, error) {
	return single[api.AuditKey](ctx, c, "POST", path("audit", "heads", "accept"), accept)
}
