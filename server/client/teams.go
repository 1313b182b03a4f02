package client

import (
	"context"

	"svc/store/api"
)

// ListTeams calls GET /api/teams.
func (c *Client) ListTeams(ctx context.Context, p Page) (api.Page[api.Team], error) {
	return bare[api.Page[api.Team]](ctx, c, "GET", path("teams"), p.query(), nil)
}

// CreateTeam calls POST /api/teams.
func (c *Client) CreateTeam(ctx context.Context, in api.TeamCreate, opts ...CallOption) (api.Team, error) {
	return single[api.Team](ctx, c, "POST", path("teams"), in, attempt(opts)...)
}

// GetTeam calls GET /api/teams/:id.
func (c *Client) GetTeam(ctx context.Context, id string) (api.Team, error) {
	return single[api.Team](ctx, c, "GET", path("teams", id), nil)
}

// UpdateTeam calls PUT /api/teams/:id.
func (c *Client) UpdateTeam(ctx context.Context, id string, in api.TeamUpdate) (api.Team, error) {
	return single[api.Team](ctx, c, "PUT", path("teams", id), in)
}

// DeleteTeam calls DELETE /api/teams/:id. The warnings name the budgets that were deleted too.
func (c *Client) DeleteTeam(ctx context.Context, id string) (warnings []string, err error) {
	done, err := bare[api.Success](ctx, c, "DELETE", path("teams", id), nil, nil)
	return done.Warnings, err
}

// ReplaceTeamScopes calls PUT /api/teams/:id/scopes: scopes is the complete new
// list; an empty list removes all.
func (c *Client) ReplaceTeamScopes(ctx context.Context, id string, scopes []string) (api.Team, error) {
	if scopes == nil {
		scopes = []string{}
	}
	return single[api.Team](ctx, c, "PUT", path("teams", id, "scopes"), api.TeamScopesReplace{Scopes: scopes})
}

// ListMembers calls GET /api/teams/:id/members: all of them, there is no paging.
func (c *Client) ListMembers(ctx context.Context, teamID string) (api.List[api.Member], error) {
	return bare[api.List[api.Member]](ctx, c, "GET", path("teams", teamID, "members"), nil, nil)
}

// AddMember calls POST /api/teams/:id/members.
func (c *Client) AddMember(ctx context.Context, teamID string, in api.MemberAdd, opts ...CallOption) (api.Member, error) {
	return bare[api.Member](ctx, c, "POST", path("teams", teamID, "members"), nil, in, attempt(opts)...)
}

// RemoveMember calls DELETE /api/teams/:id/members.
func (c *Client) RemoveMember(ctx context.Context, teamID, userID string) error {
	return c.remove(ctx, path("teams", teamID, "members"), api.MemberRemove{UserID: userID})
}
