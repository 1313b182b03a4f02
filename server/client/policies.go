package client

import (
	"context"
	"net/http"
	"strconv"

	"svc/store/api"
)

// PolicyQuery filters GET /api/policies; zero fields do not filter.
type PolicyQuery struct {
	Page
	Phase   string
	Enabled *bool
}

// ListPolicies calls GET /api/policies.
func (c *Client) ListPolicies(ctx context.Context, q PolicyQuery) (api.Page[api.Policy], error) {
	values := q.query().set("phase", q.Phase)
	if q.Enabled != nil {
		values.set("enabled", strconv.FormatBool(*q.Enabled))
	}
	return bare[api.Page[api.Policy]](ctx, c, "GET", path("policies"), values, nil)
}

// CreatePolicy calls POST /api/policies.
func (c *Client) CreatePolicy(ctx context.Context, in api.PolicyCreate, opts ...CallOption) (api.Policy, error) {
	return policy(ctx, c, "POST", path("policies"), in, attempt(opts)...)
}

// GetPolicy calls GET /api/policies/:id.
func (c *Client) GetPolicy(ctx context.Context, id string) (api.Policy, error) {
	return policy(ctx, c, "GET", path("policies", id), nil)
}

// UpdatePolicy calls PUT /api/policies/:id. An Error with status 412 means that the policy is not in the state of
// in.IfMatch any more.
func (c *Client) UpdatePolicy(ctx context.Context, id string, in api.PolicyUpdate) (api.Policy, error) {
	return policy(ctx, c, "PUT", path("policies", id), in, func(r *http.Request) {
		if in.IfMatch != "" {
			r.Header.Set("If-Match", in.IfMatch)
		}
	})
}

// policy calls for one policy with its warnings and its ETag.
func policy(ctx context.Context, c *Client, method, path string, in any, opts ...CallOption) (api.Policy, error) {
	var out api.Single[api.Policy]
	etag := ""
	err := c.doHeader(ctx, method, path, nil, in, &out, func(h http.Header) { etag = h.Get("ETag") }, opts...)
	out.Data.Warnings, out.Data.ETag = out.Warnings, etag
	return out.Data, err
}

// DeletePolicy calls DELETE /api/policies/:id.
func (c *Client) DeletePolicy(ctx context.Context, id string) error {
	return c.remove(ctx, path("policies", id), nil)
}

// ListPolicyTemplates calls GET /api/policies/templates.
func (c *Client) ListPolicyTemplates(ctx context.Context) ([]api.PolicyTemplate, error) {
	out, err := bare[api.Items[api.PolicyTemplate]](ctx, c, "GET", path("policies", "templates"), nil, nil)
	return out.Data, err
}

// ApplyPolicyTemplate calls POST /api/policies/templates/apply.
func (c *Client) ApplyPolicyTemplate(ctx context.Context, in api.TemplateApply, opts ...CallOption) (api.TemplateApplied, error) {
	return bare[api.TemplateApplied](ctx, c, "POST", path("policies", "templates", "apply"), nil, in, attempt(opts)...)
}
