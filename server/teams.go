package server

import (
	"context"
	"fmt"
	"net/http"

	"svc/store"
	"svc/store/api"
)

func wireTeam(t store.Team) api.Team {
	return api.Team{
		ID: t.ID, Name: t.Name, Description: t.Description,
		MemberCount: t.MemberCount, Scopes: t.Scopes, CreatedAt: t.CreatedAt.UTC(),
	}
}

func wireMember(m store.Member) api.Member {
	return api.Member{UserID: m.UserID, Email: m.Email, Role: m.Role, JoinedAt: m.JoinedAt.UTC()}
}

// teams are the teams of a tenant. When a team is deleted, the keys that it
// limits stop working, and its budgets are deleted.
var teams = &kind[store.Team, api.TeamCreate, api.TeamUpdate]{
	noun: "team", cursor: teamsList,
	echo: echo{fixed: []string{"id", "memberCount", "scopes", "createdAt"},
		instead: map[string]string{"scopes": "PUT /api/teams/{id}/scopes replaces them"}},
	find: func(c *call, _ *query) func(store.Page) ([]store.Team, int, error) {
		return func(p store.Page) ([]store.Team, int, error) { return c.tenant.ListTeams(c.Context(), p) }
	},
	read:      func(c *call, id string) (store.Team, error) { return c.tenant.GetTeam(c.Context(), id) },
	wire:      func(_ *call, t store.Team) any { return wireTeam(t) },
	lock:      func(c *call, id string) (func(), error) { return c.server.lockTeam(c, id) },
	newName:   func(in *api.TeamCreate) *string { return &in.Name },
	newNameOf: func(in *api.TeamUpdate) *string { return in.Name },
	create: func(c *call, in *api.TeamCreate) error {
		return create(c, func(ctx context.Context) (store.Team, error) {
			return c.tenant.CreateTeam(ctx, store.TeamCreate{Name: in.Name, Description: in.Description})
		}, func(t store.Team) error { return c.data(http.StatusCreated, wireTeam(t)) })
	},
	update: func(c *call, id string, in *api.TeamUpdate, _ before[store.Team]) (store.Team, []string, error) {
		t, err := c.tenant.UpdateTeam(c.Context(), id, store.TeamUpdate{Name: in.Name, Description: in.Description})
		return t, nil, err
	},
	remove: func(c *call, id string) (warnings []string, err error) {
		budgets, err := c.tenant.ListBudgets(c.Context())
		if err != nil {
			return nil, err
		}
		for _, b := range budgets {
			if b.TeamID == id {
				warnings = append(warnings, fmt.Sprintf("budget %q of the team was deleted too", b.Name))
			}
		}
		if missing := c.missingScope([]string{"costs:write"}); missing != "" && len(warnings) > 0 {
			return nil, forbidden("this key does not hold %s and cannot delete a team that has budgets", missing)
		}
		return boundWarnings(warnings), c.tenant.DeleteTeam(c.Context(), id)
	},
}

// lockTeam checks that the calling key may change a team, and locks scopesMu, so
// that the check and the change are atomic. A key that is limited to a team may
// change and delete only teams all of whose scopes it holds itself. The caller
// unlocks when the error is nil.
func (s *Server) lockTeam(c *call, id string) (unlock func(), err error) {
	s.scopesMu.Lock()
	defer func() {
		if err != nil {
			s.scopesMu.Unlock()
		}
	}()
	if c.team == nil {
		return s.scopesMu.Unlock, nil
	}
	t, err := c.tenant.GetTeam(c.Context(), id)
	if err != nil {
		return nil, err
	}
	if missing := c.missingScope(t.Scopes); missing != "" {
		return nil, forbidden("this key does not hold %s itself and cannot change a team that does", missing)
	}
	return s.scopesMu.Unlock, nil
}

// replaceTeamScopes serves PUT /api/teams/:id/scopes. A limited key can remove
// and add only scopes that it holds.
func (s *Server) replaceTeamScopes(c *call) error {
	id, err := c.pathID("team")
	if err != nil {
		return err
	}
	var in api.TeamScopesReplace
	if err := c.decode(&in); err != nil {
		return err
	}
	unlock, err := s.lockTeam(c, id)
	if err != nil {
		return err
	}
	defer unlock()
	if missing := c.missingScope(in.Scopes); missing != "" {
		return forbidden("this key does not hold %s itself and cannot add it to a team", missing)
	}
	t, err := c.tenant.UpdateTeam(c.Context(), id, store.TeamUpdate{Scopes: (*[]string)(&in.Scopes)})
	if err != nil {
		return err
	}
	c.etag(t.Object())
	return c.data(http.StatusOK, wireTeam(t))
}

// listMembers serves GET /api/teams/:id/members. The response has data and total
// only.
func (s *Server) listMembers(c *call) error {
	id, err := c.pathID("team")
	if err != nil {
		return err
	}
	members, err := c.tenant.ListMembers(c.Context(), id)
	if err != nil {
		return err
	}
	return whole(c, each(members, wireMember))
}

// addMember serves POST /api/teams/:id/members. The response is the member
// itself, without data.
func (s *Server) addMember(c *call) error {
	id, err := c.pathID("team")
	if err != nil {
		return err
	}
	var in api.MemberAdd
	if err := c.decode(&in); err != nil {
		return err
	}
	unlock, err := s.lockTeam(c, id)
	if err != nil {
		return err
	}
	defer unlock()
	return create(c, func(ctx context.Context) (store.Member, error) {
		return c.tenant.AddMember(ctx, id, store.MemberAdd{UserID: in.UserID, Email: in.Email, Role: in.Role})
	}, func(m store.Member) error { return c.writeJSON(http.StatusCreated, wireMember(m)) })
}

// removeMember serves DELETE /api/teams/:id/members. The body names the user.
func (s *Server) removeMember(c *call) error {
	id, err := c.pathID("team")
	if err != nil {
		return err
	}
	var in api.MemberRemove
	if err := c.decode(&in); err != nil {
		return err
	}
	unlock, err := s.lockTeam(c, id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.tenant.RemoveMember(c.Context(), id, in.UserID); err != nil {
		return err
	}
	return c.deleted()
}
