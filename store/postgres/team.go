package postgres

import (
	"cmp"
	"context"
	"time"

	"svc/store"
)

// teams implements the kind of teams, whose members are in a table of their own.
var teams = &kind[store.Team]{
	noun: "team", prefix: store.PrefixTeam, table: "teams", object: (*store.Team).Object, unique: true,
	drop: func(d *data, team *store.Team) error {
		d.exec(`DELETE FROM members WHERE tenant = $1 AND team = $2`, d.n, []byte(team.ID))
		return nil
	},
	whole: func(d *data, list []store.Team) error {
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		members, err := d.memberCounts(ids)
		for i := range list {
			list[i].MemberCount = members[list[i].ID]
		}
		return err
	},
}

func (d *data) memberCounts(ids []string) (map[string]int, error) {
	counts := map[string]int{}
	if len(ids) == 0 {
		return counts, nil
	}
	var id []byte
	var n int
	err := d.each([]any{&id, &n}, func() error {
		counts[string(id)] = n
		return nil
	}, `SELECT team, count(*) FROM members WHERE tenant = $1 AND team = ANY($2) GROUP BY team`, d.n, texts(ids))
	return counts, err
}

// ListTeams returns teams, newest first.
func (t *tenant) ListTeams(ctx context.Context, page store.Page) ([]store.Team, int, error) {
	return listOf(ctx, t, teams, page)
}

// GetTeam returns one team.
func (t *tenant) GetTeam(ctx context.Context, id string) (store.Team, error) {
	return getOne(ctx, t, teams, id)
}

// CreateTeam creates a team.
func (t *tenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	return createOne(ctx, t, teams, func(_ *data, id string, now time.Time) (store.Team, error) { return in.Make(id, now), nil })
}

// UpdateTeam changes a team.
func (t *tenant) UpdateTeam(ctx context.Context, id string, up store.TeamUpdate) (store.Team, error) {
	return updateOne(ctx, t, teams, id, func(_ *data, team *store.Team, now time.Time) error {
		up.Apply(team, now)
		return nil
	})
}

// DeleteTeam removes a team and its memberships.
func (t *tenant) DeleteTeam(ctx context.Context, id string) error {
	return deleteOne(ctx, t, teams, id)
}

// ListMembers returns the members of a team, newest first.
func (t *tenant) ListMembers(ctx context.Context, teamID string) (list []store.Member, err error) {
	err = t.read(ctx, func(d *data) error {
		if _, err := teams.find(d, teamID); err != nil {
			return err
		}
		list = []store.Member{}
		var user, email, role []byte
		var joined int64
		return d.each([]any{&user, &email, &role, &joined}, func() error {
			list = append(list, store.Member{UserID: string(user), Email: string(email), Role: string(role), JoinedAt: timeOf(joined)})
			return nil
		}, `SELECT m.usr, coalesce(u.email, ''), m.role, m.joined FROM members m LEFT JOIN users u ON u.tenant = m.tenant AND u.id = m.usr
			WHERE m.tenant = $1 AND m.team = $2 ORDER BY m.joined DESC, m.usr DESC`, d.n, []byte(teamID))
	})
	return list, err
}

// AddMember adds a user to a team, and invites an unknown one.
func (t *tenant) AddMember(ctx context.Context, teamID string, in store.MemberAdd) (out store.Member, err error) {
	err = t.create(ctx, func() any { return out }, func(d *data) error {
		team, err := teams.find(d, teamID)
		if err != nil {
			return err
		}
		u, err := d.userForMember(in)
		if err != nil {
			return err
		}
		member, err := d.exists(`SELECT 1 FROM members WHERE tenant = $1 AND team = $2 AND usr = $3`, d.n, []byte(teamID), []byte(u.ID))
		if err == nil && member {
			err = store.FieldError(store.Conflict, "user is already a member of the team", "userId", "already a member")
		}
		if err != nil {
			return err
		}
		now := d.s.now()
		if u.Status == "" { // unknown so far
			u.Role, u.Status, u.CreatedAt, u.UpdatedAt = store.DefaultRole, store.UserInvited, now, now
			if u.ID == "" {
				u.ID = d.s.ids.New(store.PrefixUser, now)
			}
		}
		if u.Email == "" {
			u.Email = normalEmail(in.Email)
		}
		if err := d.putUser(u); err != nil {
			return err
		}
		out = store.Member{UserID: u.ID, Email: u.Email, Role: cmp.Or(in.Role, store.DefaultRole), JoinedAt: now}
		d.exec(`INSERT INTO members (tenant, team, usr, role, joined) VALUES ($1, $2, $3, $4, $5)`, d.n, []byte(teamID), []byte(u.ID), []byte(out.Role), now.UnixNano())
		return d.change(nil, store.MemberObject(&team, u.ID, out.Role), false)
	})
	return out, err
}

// userForMember finds the user that the input names; a user without a status is
// unknown so far.
func (d *data) userForMember(in store.MemberAdd) (u userRecord, err error) {
	id, email := in.UserID, normalEmail(in.Email)
	switch {
	case id == "" && email == "":
		return u, store.FieldError(store.Invalid, "a member needs a userId or an email", "userId", "userId or email is required")
	case id != "" && bad(id):
		return u, store.FieldError(store.Invalid, "bad user id", "userId", "must have at most 512 bytes, none of them zero")
	case email != "" && bad(email):
		return u, store.FieldError(store.Invalid, "bad e-mail address", "email", "must have at most 512 bytes, none of them zero")
	}
	owner, owned, err := d.userWith(email)
	if err != nil || id == "" && owned {
		return owner, err
	}
	u, known, err := d.user(id)
	clash := store.FieldError(store.Invalid, "userId and email belong to different users", "email", "belongs to another user")
	switch {
	case err != nil:
		return u, err
	case known && u.Status == store.UserDeleted:
		return u, store.FieldError(store.Invalid, "user has been deleted", "userId", "has been deleted")
	case owned && owner.ID != id:
		return u, clash
	case !known:
		return userRecord{User: store.User{ID: id, Email: email}}, nil
	case email != "" && u.Email != "" && u.Email != email:
		return u, clash
	}
	return u, nil
}

// RemoveMember removes a member from a team.
func (t *tenant) RemoveMember(ctx context.Context, teamID, userID string) error {
	return t.write(ctx, func(d *data) error {
		team, err := teams.find(d, teamID)
		if err != nil {
			return err
		}
		var role []byte
		is, err := d.one([]any{&role}, `DELETE FROM members WHERE tenant = $1 AND team = $2 AND usr = $3 RETURNING role`, d.n, []byte(teamID), []byte(userID))
		if err == nil && !is {
			err = store.Missing("member")
		}
		if err != nil {
			return err
		}
		return d.change(store.MemberObject(&team, userID, string(role)), nil, false)
	})
}
