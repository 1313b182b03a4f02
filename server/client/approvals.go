package client

import (
	"context"

	"svc/store/api"
)

// ApprovalQuery filters GET /api/approvals; zero fields do not filter.
type ApprovalQuery struct {
	Page
	Status string
}

// ListApprovals calls GET /api/approvals: newest first, without the arguments of the calls.
func (c *Client) ListApprovals(ctx context.Context, q ApprovalQuery) (api.Page[api.ApprovalRecord], error) {
	return bare[api.Page[api.ApprovalRecord]](ctx, c, "GET", path("approvals"), q.query().set("status", q.Status), nil)
}

// maxApprovalPages bounds the pages of AllApprovals.
const maxApprovalPages = 20

// AllApprovals lists the approvals with a status page by page, newest first, up to 10,000: pending and
// granted ones are fewer. list is ListApprovals.
func AllApprovals(ctx context.Context, list func(context.Context, ApprovalQuery) (api.Page[api.ApprovalRecord], error), status string) (all []api.ApprovalRecord, err error) {
	q := ApprovalQuery{Page: Page{Limit: api.MaxLimit}, Status: status}
	for range maxApprovalPages {
		page, err := list(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Data...); page.Next == "" {
			break
		}
		q.After = page.Next
	}
	return all, nil
}

// GetApproval calls GET /api/approvals/:id. It has the arguments of the call if the key could
// decide.
func (c *Client) GetApproval(ctx context.Context, id string) (api.ApprovalRecord, error) {
	return single[api.ApprovalRecord](ctx, c, "GET", path("approvals", id), nil)
}

// DecideApproval calls POST /api/approvals/:id/decision. The same decision again changes nothing.
func (c *Client) DecideApproval(ctx context.Context, id string, in api.ApprovalDecision) (api.ApprovalRecord, error) {
	return single[api.ApprovalRecord](ctx, c, "POST", path("approvals", id, "decision"), in)
}

// RequestApproval calls POST /api/approvals with the key of a gateway. It may be repeated: a
// call has one approval.
func (c *Client) RequestApproval(ctx context.Context, in api.ApprovalRequest) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", approvalsPath, in)
}

// ClaimApproval calls POST /api/approvals/:id/claim. It may be repeated with the same nonce; an
// Error with status 409 means that the grant cannot be used.
func (c *Client) ClaimApproval(ctx context.Context, id string, in api.ApprovalClaim) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", path("approvals", id, "claim"), in)
}

// ReleaseApproval calls POST /api/approvals/:id/release: nothing was sent after the claim with
// this nonce.
func (c *Client) ReleaseApproval(ctx context.Context, id string, in api.ApprovalClaim) (api.ApprovalAnswer, error) {
	return single[api.ApprovalAnswer](ctx, c, "POST", path("approvals", id, "release"), in)
}
