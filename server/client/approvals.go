package client

import (
	"context"

	"svc/store/api"
)

// approvalsPath is the endpoint of approvals. Its requests of gateways are idempotent: by their digest,
// or by their nonce.
const approvalsPath = "/api/approvals"

// RequestApproval calls POST /api/approvals.
func (c *Client) RequestApproval(ctx context.Context, in api.ApprovalRequest) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", path("approvals"), in)
}

// ClaimApproval calls POST /api/approvals/:id/claim.
func (c *Client) ClaimApproval(ctx context.Context, id string, in api.ApprovalClaim) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", path("approvals", id, "claim"), in)
}

// ReleaseApproval calls POST /api/approvals/:id/release.
func (c *Client) ReleaseApproval(ctx context.Context, id string, in api.ApprovalClaim) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", path("approvals", id, "release"), in)
}
