package record

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"svc/store"
)

// memberRecord is a membership as it is stored; the address is stored with the user.
type memberRecord struct {
	UserID   string
	Role     string
	JoinedAt int64 // nanoseconds
}

// present is the value of rows that only their keys matter of.
var present = []byte{1}

// teams implements the kind of teams.
var teams = &kind[store.Team]{
	noun: "team", prefix: store.PrefixTeam, rows: TeamRows, names: teamNames, object: (*store.Team).Object,
	drop: func(ctx context.Context, t *Tenant, tx Tx, team *store.Team) error {
		if err := t.leaveTeam(ctx, tx, team.ID); err != nil {
			return err
		}
		list, err := keysIn(tx, members, prefixed(team.ID))
		if err != nil {
			return err
		}
		of := make([][]byte, len(list))
		for i, key := range list {
			of[i] = joined(string(key[len(team.ID)+1:]), team.ID)
		}
		if err := tx.Delete(userTeams, of...); err != nil {
			return err
		}
		return tx.Delete(members, list...)
	},
}

// leaveTeam removes what refers to a team that is deleted: its agents belong to no team any more, and
// its budgets and webhooks are deleted.
func (t *Tenant) leaveTeam(ctx context.Context, tx Tx, id string) error {
	ctx = store.AnyVersion(ctx) // the request may expect a version of the team
	keys, err := keysIn(tx, AgentRows, Range{Having: [][]byte{field("TeamID", id)}})
	for i := 0; err == nil && i < len(keys); i++ {
		before, after := store.Agent{}, store.Agent{}
		if before, err = agents.find(tx, string(keys[i])); err != nil {
			break
		}
		none := ""
		after = before
		store.AgentUpdate{TeamID: &none}.Apply(&after, t.e.Now())
		err = replace(ctx, t, agents, tx, &before, &after, nil)
	}
	if err != nil {
		return err
	}
	keys, err = keysIn(tx, budgetRows, Range{Having: [][]byte{field("TeamID", id)}})
	for i := 0; err == nil && i < len(keys); i++ {
		var b store.Budget
		if b, err = budgets.find(tx, string(keys[i])); err == nil {
			err = replace(ctx, t, budgets, tx, &b, nil, nil)
		}
	}
	if err != nil {
		return err
	}
	return t.dropWebhooksOf(ctx, tx, id)
}

// knownTeam rejects an id in a request body that is not a team of the tenant; none is accepted.
func knownTeam(tx Tx, id string) error {
	if id == "" {
		return nil
	}
	team, err := tx.Get(TeamRows, []byte(id))
	if err == nil && team == nil {
		err = store.FieldError(store.Invalid, "unknown team", "teamId", "is not a team of this tenant")
	}
	return err
}

// ListTeams returns teams, newest first.
func (t *Tenant) ListTeams(ctx context.Context, page store.Page) ([]store.Team, int, error) {
	return listOf(ctx, t, teams, page, nil)
}

// GetTeam returns one team.
func (t *Tenant) GetTeam(ctx context.Context, id string) (store.Team, error) {
	return getOne(ctx, t, teams, id)
}

// CreateTeam creates a team.
func (t *Tenant) CreateTeam(ctx context.Context, in store.TeamCreate) (store.Team, error) {
	return createOne(ctx, t, teams, func(_ Tx, id string, now time.Time) (store.Team, error) { return in.Make(id, now), nil })
}

// UpdateTeam changes a team.
func (t *Tenant) UpdateTeam(ctx context.Context, id string, up store.TeamUpdate) (store.Team, error) {
	return updateOne(ctx, t, teams, id, func(_ Tx, team *store.Team, now time.Time) error {
		up.Apply(team, now)
		return nil
	})
}

// DeleteTeam removes a team, its memberships and its webhooks.
func (t *Tenant) DeleteTeam(ctx context.Context, id string) error {
	return deleteOne(ctx, t, teams, id)
}

// membersOf returns the members of a team, newest first.
func membersOf(tx Tx, teamID string) ([]memberRecord, error) {
	var list []memberRecord
	err := each(tx, members, prefixed(teamID), func(m *memberRecord) (bool, error) {
		list = append(list, *m)
		return true, nil
	})
	slices.SortFunc(list, func(a, b memberRecord) int {
		return cmp.Or(cmp.Compare(b.JoinedAt, a.JoinedAt), strings.Compare(b.UserID, a.UserID))
	})
	return list, err
}

func putMember(tx Tx, teamID string, m memberRecord) error {
	if err := tx.Put(userTeams, joined(m.UserID, teamID), present); err != nil {
		return err
	}
	return put(tx, members, joined(teamID, m.UserID), m)
}

func deleteMember(tx Tx, teamID, userID string) error {
	if err := tx.Delete(userTeams, joined(userID, teamID)); err != nil {
		return err
	}
	return tx.Delete(members, joined(teamID, userID))
}

// countMembers adjusts a team's member count.
func countMembers(tx Tx, teamID string, by int) error {
	team, err := teams.find(tx, teamID)
	if err != nil {
		return err
	}
	team.MemberCount += by
	return put(tx, TeamRows, []byte(teamID), team)
}

// ListMembers returns the members of a team, newest first.
func (t *Tenant) ListMembers(ctx context.Context, teamID string) (list []store.Member, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		if _, err := teams.find(tx, teamID); err != nil {
			return err
		}
		records, err := membersOf(tx, teamID)
		if err != nil {
			return err
		}
		ids := make([]string, len(records))
		list = make([]store.Member, len(records))
		for i, m := range records {
			ids[i] = m.UserID
			list[i] = store.Member{UserID: m.UserID, Role: m.Role, JoinedAt: timeOf(m.JoinedAt)}
		}
		emails, err := emailsOf(tx, ids)
		for i := range list {
			list[i].Email = emails[list[i].UserID]
		}
		return err
	})
	return list, err
}

// AddMember adds a user to a team, and invites an unknown one.
func (t *Tenant) AddMember(ctx context.Context, teamID string, in store.MemberAdd) (member store.Member, err error) {
	err = t.create(ctx, func() any { return member }, func(tx Tx) error {
		team, err := teams.find(tx, teamID)
		if err != nil {
			return err
		}
		u, err := t.userForMember(tx, in)
		if err != nil {
			return err
		}
		known, err := tx.Get(members, joined(teamID, u.ID))
		if err == nil && known != nil {
			err = store.FieldError(store.Conflict, "user is already a member of the team", "userId", "already a member")
		}
		if err != nil {
			return err
		}
		m := memberRecord{UserID: u.ID, Role: cmp.Or(in.Role, store.DefaultRole), JoinedAt: t.e.Now().UnixNano()}
		if err := putMember(tx, teamID, m); err != nil {
			return err
		}
		if err := countMembers(tx, teamID, 1); err != nil {
			return err
		}
		member = store.Member{UserID: u.ID, Email: u.Email, Role: m.Role, JoinedAt: timeOf(m.JoinedAt)}
		return t.Changed(ctx, tx, nil, store.MemberObject(&team, m.UserID, m.Role), false)
	})
	return member, err
}

// userForMember finds the user that the input names, or invites one.
func (t *Tenant) userForMember(tx Tx, in store.MemberAdd) (u userRecord, err error) {
	id, email := in.UserID, normalEmail(in.Email)
	switch {
	case id == "" && email == "":
		return u, store.FieldError(store.Invalid, "a member needs a userId or an email", "userId", "userId or email is required")
	case id != "" && bad(id):
		return u, store.FieldError(store.Invalid, "bad user id", "userId", atMost)
	case email != "" && bad(email):
		return u, store.FieldError(store.Invalid, "bad e-mail address", "email", atMost)
	}
	owner := ""
	if email != "" {
		value, err := tx.Get(userEmails, []byte(email))
		if err != nil {
			return u, err
		}
		owner = string(value)
	}
	if id = cmp.Or(id, owner); id != "" {
		u, known, err := get[userRecord](tx, UserRows, []byte(id))
		switch {
		case err != nil:
			return u, err
		case known && u.Status == store.UserDeleted:
			return u, store.FieldError(store.Invalid, "user has been deleted", "userId", "has been deleted")
		case owner != "" && owner != id, known && email != "" && u.Email != "" && u.Email != email:
			return u, store.FieldError(store.Invalid, "userId and email belong to different users", "email", "belongs to another user")
		case known && u.Email == "" && email != "":
			u.Email = email
			return u, putUser(tx, u, "")
		case known:
			return u, nil
		}
	}
	now := t.e.Now()
	if id == "" {
		id = t.e.NewID(store.PrefixUser, now)
	}
	u = userRecord{User: store.User{ID: id, Email: email, Role: store.DefaultRole, Status: store.UserInvited, CreatedAt: now, UpdatedAt: now}}
	return u, putUser(tx, u, "")
}

// RemoveMember removes a member from a team.
func (t *Tenant) RemoveMember(ctx context.Context, teamID, userID string) error {
	return t.e.Update(ctx, t.id, func(tx Tx) error {
		team, err := teams.find(tx, teamID)
		if err != nil {
			return err
		}
		m, known, err := get[memberRecord](tx, members, joined(teamID, userID))
		if err == nil && !known {
			err = store.Missing("member")
		}
		if err != nil {
			return err
		}
		if err := deleteMember(tx, teamID, userID); err != nil {
			return err
		}
		if err := countMembers(tx, teamID, -1); err != nil {
			return err
		}
		return t.Changed(ctx, tx, store.MemberObject(&team, userID, m.Role), nil, false)
	})
}
