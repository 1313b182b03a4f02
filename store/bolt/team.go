package bolt

import (
	"bytes"
	"context"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// memberRecord is a membership as it is stored; the address is stored with
// the user.
type memberRecord struct {
	UserID   string
	Role     string
	JoinedAt int64 // nanoseconds
}

// teams implements the kind of teams.
var teams = &kind[store.Team]{
	noun: "team", prefix: store.PrefixTeam, rows: inTeams, names: inTeamNames, object: (*store.Team).Object,
	drop: func(d data, team *store.Team) error {
		members, err := membersOf(d, team.ID)
		for i := 0; err == nil && i < len(members); i++ {
			err = deleteMember(d, team.ID, members[i].UserID)
		}
		return err
	},
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
	return createOne(ctx, t, teams, func(_ data, id string, now time.Time) (store.Team, error) { return in.Make(id, now), nil })
}

// UpdateTeam changes a team.
func (t *tenant) UpdateTeam(ctx context.Context, id string, up store.TeamUpdate) (store.Team, error) {
	return updateOne(ctx, t, teams, id, func(_ data, team *store.Team, now time.Time) error {
		up.Apply(team, now)
		return nil
	})
}

// DeleteTeam removes a team and its memberships.
func (t *tenant) DeleteTeam(ctx context.Context, id string) error {
	return deleteOne(ctx, t, teams, id)
}

func membersOf(d data, teamID string) ([]memberRecord, error) {
	var list []memberRecord
	prefix := joined(teamID, "")
	b := d.in(inMembers)
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		m, _, err := getJSON[memberRecord](b, string(k))
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	sortNewest(list, func(m *memberRecord) (int64, string) { return m.JoinedAt, m.UserID })
	return list, nil
}

func putMember(d data, teamID string, m memberRecord) error {
	if err := d.in(inUserTeams).Put(joined(m.UserID, teamID), []byte{}); err != nil {
		return err
	}
	return putJSON(d.in(inMembers), string(joined(teamID, m.UserID)), m)
}

func deleteMember(d data, teamID, userID string) error {
	if err := d.in(inUserTeams).Delete(joined(userID, teamID)); err != nil {
		return err
	}
	return d.in(inMembers).Delete(joined(teamID, userID))
}

// countMembers adjusts a team's member count.
func countMembers(d data, teamID string, by int) error {
	team, err := teams.find(d, teamID)
	if err != nil {
		return err
	}
	team.MemberCount += by
	return putJSON(d.in(inTeams), teamID, team)
}

func memberOf(d data, m memberRecord) (store.Member, error) {
	user, _, err := getJSON[userRecord](d.in(inUsers), m.UserID)
	return store.Member{UserID: m.UserID, Email: user.Email, Role: m.Role, JoinedAt: timeOf(uint64(m.JoinedAt))}, err
}

// ListMembers returns the members of a team, newest first.
func (t *tenant) ListMembers(ctx context.Context, teamID string) (list []store.Member, err error) {
	err = t.view(ctx, func(d data) error {
		if _, err := teams.find(d, teamID); err != nil {
			return err
		}
		recs, err := membersOf(d, teamID)
		list = make([]store.Member, len(recs))
		for i := range recs {
			if list[i], err = memberOf(d, recs[i]); err != nil {
				return err
			}
		}
		return err
	})
	return list, err
}

// AddMember adds a user to a team, and invites an unknown one.
func (t *tenant) AddMember(ctx context.Context, teamID string, in store.MemberAdd) (member store.Member, err error) {
	err = t.create(ctx, func() any { return member }, func(_ *bbolt.Tx, d data) error {
		team, err := teams.find(d, teamID)
		if err != nil {
			return err
		}
		user, err := t.userForMember(d, in)
		if err != nil {
			return err
		}
		if d.in(inMembers).Get(joined(teamID, user.ID)) != nil {
			return store.FieldError(store.Conflict, "user is already a member of the team", "userId", "already a member")
		}
		m := memberRecord{UserID: user.ID, Role: in.Role, JoinedAt: t.s.now().UnixNano()}
		if m.Role == "" {
			m.Role = store.DefaultRole
		}
		if err := putMember(d, teamID, m); err != nil {
			return err
		}
		if err := countMembers(d, teamID, 1); err != nil {
			return err
		}
		if member, err = memberOf(d, m); err != nil {
			return err
		}
		return t.changed(ctx, d, nil, store.MemberObject(&team, m.UserID, m.Role), false)
	})
	return member, err
}

// userForMember finds the user that the input names, or invites one.
func (t *tenant) userForMember(d data, in store.MemberAdd) (userRecord, error) {
	id, email := in.UserID, normalEmail(in.Email)
	if id == "" && email == "" {
		return userRecord{}, &store.Error{Kind: store.Invalid, Message: "a member needs a userId or an email",
			Fields: map[string]string{"userId": "userId or email is required"}}
	}
	if id != "" && badKey(id) {
		return userRecord{}, store.FieldError(store.Invalid, "bad user id", "userId", "must have at most 512 bytes, none of them zero")
	}
	if email != "" && badKey(email) {
		return userRecord{}, store.FieldError(store.Invalid, "bad e-mail address", "email", "must have at most 512 bytes, none of them zero")
	}
	owner := ""
	if email != "" {
		owner = string(d.in(inUserEmails).Get([]byte(email)))
	}
	if id == "" {
		id = owner
	}
	if id != "" {
		user, known, err := getJSON[userRecord](d.in(inUsers), id)
		switch {
		case err != nil:
			return user, err
		case known && user.Status == store.UserDeleted:
			return user, store.FieldError(store.Invalid, "user has been deleted", "userId", "has been deleted")
		case owner != "" && owner != id, known && email != "" && user.Email != "" && user.Email != email:
			return user, store.FieldError(store.Invalid, "userId and email belong to different users", "email", "belongs to another user")
		case known && user.Email == "" && email != "":
			user.Email = email
			return user, putUser(d, user, "")
		case known:
			return user, nil
		}
	}
	now := t.s.now().UTC()
	if id == "" {
		id = t.s.ids.New(store.PrefixUser, now)
	}
	user := userRecord{User: store.User{ID: id, Email: email, Role: store.DefaultRole,
		Status: store.UserInvited, CreatedAt: now, UpdatedAt: now}}
	return user, putUser(d, user, "")
}

// RemoveMember removes a member from a team.
func (t *tenant) RemoveMember(ctx context.Context, teamID, userID string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		team, err := teams.find(d, teamID)
		if err != nil {
			return err
		}
		m, known, err := getJSON[memberRecord](d.in(inMembers), string(joined(teamID, userID)))
		if err == nil && !known {
			err = store.Missing("member")
		}
		if err != nil {
			return err
		}
		if err := deleteMember(d, teamID, userID); err != nil {
			return err
		}
		if err := countMembers(d, teamID, -1); err != nil {
			return err
		}
		return t.changed(ctx, d, store.MemberObject(&team, userID, m.Role), nil, false)
	})
}

// normalEmail returns the form in which addresses are stored and compared.
func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
