package client

import (
	"context"
	"net/http"
	"time"

	"svc/store/api"
)

// ReportAuditHead calls POST /api/audit/heads. When it returns nil the head is
// durable. The same head may be reported again.
func (c *Client) ReportAuditHead(ctx context.Context, head api.AuditHeadReport) (api.AuditHead, error) {
	return single[api.AuditHead](ctx, c, "POST", path("audit", "heads"), head)
}

// ListAuditHeads calls GET /api/audit/heads: all of them, there is no paging.
func (c *Client) ListAuditHeads(ctx context.Context) (api.List[api.AuditHead], error) {
	return bare[api.List[api.AuditHead]](ctx, c, "GET", path("audit", "heads"), nil, nil)
}

// AcceptAuditKey calls POST /api/audit/heads/accept: from now on the heads of
// the gateway must be signed with this key.
func (c *Client) AcceptAuditKey(ctx context.Context, accept api.AuditKeyAccept) (api.AuditKey, error) {
	return single[api.AuditKey](ctx, c, "POST", path("audit", "heads", "accept"), accept)
}

// EventQuery filters GET /api/audit/events; zero fields do not filter.
type EventQuery struct {
	Page
	Actor, Object, ObjectID string
	Since, Until            time.Time
}

// ListAuditEvents calls GET /api/audit/events.
func (c *Client) ListAuditEvents(ctx context.Context, q EventQuery) (api.AuditEvents, error) {
	return bare[api.AuditEvents](ctx, c, "GET", path("audit", "events"), q.query().set("actor", q.Actor).set("object", q.Object).
		set("objectId", q.ObjectID).moment("since", q.Since).moment("until", q.Until), nil)
}

// Whoami calls GET /api/whoami.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	who, _, err := c.WhoamiAt(ctx)
	return who, err
}

// WhoamiAt is Whoami; at is the time by the clock of the control plane, to the second, zero if the answer has none.
func (c *Client) WhoamiAt(ctx context.Context) (who api.Whoami, at time.Time, err error) {
	var out api.Single[api.Whoami]
	err = c.doHeader(ctx, "GET", path("whoami"), nil, nil, &out, func(h http.Header) { at, _ = http.ParseTime(h.Get("Date")) })
	return out.Data, at, err
}
