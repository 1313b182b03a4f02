package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"svc/store"
)

// team is a team with its members by user id. Their addresses are stored with the
// users.
type team struct {
	store.Team
	members map[string]store.Member
}

func (m *team) out() store.Team {
	out := m.Team
	out.Scopes, out.MemberCount = append([]string{}, m.Scopes...), len(m.members)
	return out
}

var teams = &kind[team, store.Team]{
	noun: "team", prefix: store.PrefixTeam, rows: func(d *tenantData) *table[team] { return &d.teams }, unique: true,
	object: func(m *team) *store.Object { return m.Object() },
	out:    func(_ *tenantData, m *team) store.Team { return m.out() },
}

// ListTeams returns teams, newest first.
func (t *tenant) ListTeams(ctx context.Context, page store.Page) ([]store.Team, int, error) {
	return listOf(ctx, t, teams, page, nil)
}

// GetTeam returns one team.
func (t *tenant) GetTeam(ctx context.Context, id string) (store.Team, error) {
	return getOne(ctx, t, teams, id)
}

// CreateTeam creates a team.
func (t *tenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	return createOne(ctx, t, teams, func(_ *engine, _ *tenantData, id string, now time.Time) (team, error) {
		return team{Team: in.Make(id, now), members: map[string]store.Member{}}, nil
	})
}

// UpdateTeam changes a team.
func (t *tenant) UpdateTeam(ctx context.Context, id string, up store.TeamUpdate) (store.Team, error) {
	return updateOne(ctx, t, teams, id, func(_ *engine, _ *tenantData, m *team, now time.Time) error {
		up.Apply(&m.Team, now)
		return nil
	})
}

// DeleteTeam removes a team and its memberships.
func (t *tenant) DeleteTeam(ctx context.Context, id string) error {
	return deleteOne(ctx, t, teams, id)
}

// ListMembers returns the members of a team, newest first.
func (t *tenant) ListMembers(ctx context.Context, teamID string) (list []store.Member, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		m, err := d.teams.find("team", teamID)
		if err != nil {
			return err
		}
		list = []store.Member{}
		for _, member := range m.members {
			list = append(list, d.withAddress(member))
		}
		slices.SortFunc(list, func(a, b store.Member) int {
			return cmp.Or(b.JoinedAt.Compare(a.JoinedAt), strings.Compare(b.UserID, a.UserID))
		})
		return nil
	})
	return list, err
}

func (d *tenantData) withAddress(m store.Member) store.Member {
	if u := d.users.get(m.UserID); u != nil {
		m.Email = u.Email
	}
	return m
}

// AddMember adds a user to a team, and invites an unknown one.
func (t *tenant) AddMember(ctx context.Context, teamID string, in store.MemberAdd) (out store.Member, err error) {
	err = t.create(ctx, func() any { return out }, func(e *engine, d *tenantData) error {
		m, err := d.teams.find("team", teamID)
		if err != nil {
			return err
		}
		u, err := d.userForMember(in)
		if err != nil {
			return err
		}
		if _, member := m.members[u.ID]; member && u.ID != "" {
			return store.FieldError(store.Conflict, "user is already a member of the team", "userId", "already a member")
		}
		now := e.now()
		if u.Status == "" { // unknown so far
			u.Role, u.Status, u.CreatedAt, u.UpdatedAt = store.DefaultRole, store.UserInvited, now, now
			if u.ID == "" {
				u.ID = e.ids.New(store.PrefixUser, now)
			}
		}
		if u.Email == "" {
			u.Email = normalEmail(in.Email)
		}
		d.users.put(u.ID, u)
		member := store.Member{UserID: u.ID, Role: cmp.Or(in.Role, store.DefaultRole), JoinedAt: now}
		m.members[u.ID] = member
		e.changed(ctx, d, nil, store.MemberObject(&m.Team, u.ID, member.Role), false)
		out = d.withAddress(member)
		return nil
	})
	return out, err
}

// userForMember finds the user that the input names; a user without a status is
// unknown so far.
func (d *tenantData) userForMember(in store.MemberAdd) (*user, error) {
	id, email := in.UserID, normalEmail(in.Email)
	switch {
	case id == "" && email == "":
		return nil, store.FieldError(store.Invalid, "a member needs a userId or an email", "userId", "userId or email is required")
	case id != "" && bad(id):
		return nil, store.FieldError(store.Invalid, "bad user id", "userId", "must have at most 512 bytes, none of them zero")
	case email != "" && bad(email):
		return nil, store.FieldError(store.Invalid, "bad e-mail address", "email", "must have at most 512 bytes, none of them zero")
	}
	owner := d.userWith(email)
	if id == "" && owner != nil {
		return owner, nil
	}
	u := d.users.get(id)
	clash := store.FieldError(store.Invalid, "userId and email belong to different users", "email", "belongs to another user")
	switch {
	case u != nil && u.Status == store.UserDeleted:
		return nil, store.FieldError(store.Invalid, "user has been deleted", "userId", "has been deleted")
	case owner != nil && owner.ID != id:
		return nil, clash
	case u == nil:
		return &user{User: store.User{ID: id, Email: email}}, nil
	case email != "" && u.Email != "" && u.Email != email:
		return nil, clash
	}
	return u, nil
}

// RemoveMember removes a member from a team.
func (t *tenant) RemoveMember(ctx context.Context, teamID, userID string) error {
	return t.write(ctx, func(e *engine, d *tenantData) error {
		m, err := d.teams.find("team", teamID)
		if err != nil {
			return err
		}
		member, is := m.members[userID]
		if !is {
			return store.Missing("member")
		}
		delete(m.members, userID)
		e.changed(ctx, d, store.MemberObject(&m.Team, userID, member.Role), nil, false)
		return nil
	})
}

// normalEmail returns the form in which addresses are stored and compared.
func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
