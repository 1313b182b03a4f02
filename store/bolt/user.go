package bolt

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// userRecord is a user as it is stored, with the positions of the newest applied
// events.
type userRecord struct {
	store.User
	Profile eventMark // newest of user.created, user.updated
	State   eventMark // newest of user.created, user.deactivated, user.reactivated, user.deleted
	// Announced is the time of the newest user.created, zero for none.
	Announced time.Time `json:",omitzero"`
}

// hasAccess reports whether the keys of the user work.
func (u *userRecord) hasAccess() bool {
	return u.Status != store.UserDeactivated && u.Status != store.UserDeleted
}

// eventMark is the position of an event in a user's history.
type eventMark struct {
	At   time.Time
	Rank int
}

// before reports whether an event comes after the mark.
func (m eventMark) before(at time.Time, rank int) bool {
	return at.After(m.At) || at.Equal(m.At) && rank > m.Rank
}

// limit resets a mark in the future to the latest time at which it can have been set,
// so that it does not override later events.
func (m *eventMark) limit(now, set time.Time) {
	if m.At.After(now) {
		m.At = set
	}
}

// eventRanks orders events with equal times.
var eventRanks = map[store.UserEventType]int{
	store.UserCreated: 1, store.UserUpdated: 2, store.UserSuspended: 3,
	store.UserReactivated: 4, store.UserRemoved: 5, store.SessionTerminated: 6,
}

// GetUser returns one user.
func (t *tenant) GetUser(ctx context.Context, id string) (user store.User, err error) {
	err = t.view(ctx, func(d data) error {
		rec, ok, err := getJSON[userRecord](d.in(inUsers), id)
		if err == nil && (!ok || rec.Status == store.UserDeleted) {
			err = store.Missing("user")
		}
		user = rec.User
		return err
	})
	return user, err
}

// putUser writes a user and updates the address index; oldEmail is the user's
// previous address. An address under which another user is invited stays with the
// invitation.
func putUser(d data, u userRecord, oldEmail string) error {
	emails := d.in(inUserEmails)
	if oldEmail != "" && oldEmail != u.Email && string(emails.Get([]byte(oldEmail))) == u.ID {
		if err := emails.Delete([]byte(oldEmail)); err != nil {
			return err
		}
	}
	invited, err := invitedWith(d, u.Email)
	if err != nil {
		return err
	}
	if u.Email != "" && (invited.ID == "" || invited.ID == u.ID) {
		if err := emails.Put([]byte(u.Email), []byte(u.ID)); err != nil {
			return err
		}
	}
	return putJSON(d.in(inUsers), u.ID, u)
}

// ApplyUserEvent applies and records an identity event.
func (t *tenant) ApplyUserEvent(ctx context.Context, ev store.UserEvent) (out store.UserEventOutcome, err error) {
	if badKey(ev.UserID) {
		return out, store.FieldError(store.Invalid, "event without a usable user id", "data.userId", "is required")
	}
	if ev.CreatedAt.IsZero() {
		return out, store.FieldError(store.Invalid, "event without a time", "createdAt", "is required")
	}
	ev.Email, ev.CreatedAt = normalEmail(ev.Email), ev.CreatedAt.UTC()
	if len(ev.Email) > 512 || bytes.IndexByte([]byte(ev.Email), 0) >= 0 {
		return out, store.FieldError(store.Invalid, "event with a bad e-mail address", "data.email", "must have at most 512 bytes, none of them zero")
	}
	err = t.update(ctx, func(tx *bbolt.Tx, d data) error {
		out = store.UserEventOutcome{}
		now := t.s.now().UTC()
		if rank := eventRanks[ev.Type]; rank > 0 {
			ordered := ev
			if now.Before(ev.CreatedAt) {
				ordered.CreatedAt = now
			}
			if err := t.applyWatched(ctx, tx, d, ordered, rank, now, &out); err != nil {
				return err
			}
		}
		id := t.s.ids.New(store.PrefixEvent, now)
		return putJSON(d.in(inUserEvents), id, store.RecordedEvent{ID: id, ReceivedAt: now, Applied: out.Applied, Event: ev})
	})
	return out, err
}

// applyWatched applies an event and reports whether it left the tenant without a
// working unlimited key.
func (t *tenant) applyWatched(ctx context.Context, tx *bbolt.Tx, d data, ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	ends := ev.Type == store.UserSuspended || ev.Type == store.UserRemoved
	before := false
	if ends {
		var err error
		if before, err = unlimitedKeyWorks(d, ""); err != nil {
			return err
		}
	}
	if err := t.applyUserEvent(ctx, tx, d, ev, rank, now, out); err != nil || !before {
		return err
	}
	after, err := unlimitedKeyWorks(d, "")
	out.LockedOut = !after
	return err
}

func (t *tenant) applyUserEvent(ctx context.Context, tx *bbolt.Tx, d data, ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	u, known, err := getJSON[userRecord](d.in(inUsers), ev.UserID)
	if err != nil {
		return err
	}
	var before *store.Object
	if known {
		before = u.Object()
	}
	u.Profile.limit(now, u.UpdatedAt)
	u.State.limit(now, u.UpdatedAt)
	if ev.Type == store.SessionTerminated {
		if known && u.Status != store.UserDeleted && ev.CreatedAt.After(u.LastSessionEndedAt) {
			u.LastSessionEndedAt = ev.CreatedAt
			out.Applied = true
			err = putUser(d, u, u.Email)
		}
		out.User = u.User
		return err
	}
	tombstone := known && u.Status == store.UserDeleted
	lifts := ev.Type == store.UserCreated && u.State.before(ev.CreatedAt, rank) && ev.CreatedAt.After(u.State.At)
	if tombstone && !lifts {
		out.User = u.User
		return nil
	}
	if !known || tombstone {
		u = userRecord{User: store.User{ID: ev.UserID, Role: store.DefaultRole, Status: store.UserActive, CreatedAt: now}}
	}
	oldEmail := u.Email
	if email, ok := ev.LinkedAddress(&u.User, u.Announced, !u.State.At.IsZero()); ok {
		if err := t.linkInvited(d, email, &u); err != nil {
			return err
		}
	}
	if ev.Type == store.UserCreated && ev.CreatedAt.After(u.Announced) {
		u.Announced = ev.CreatedAt
	}

	profile := ev.Type == store.UserCreated || ev.Type == store.UserUpdated
	switch {
	case profile && u.Profile.before(ev.CreatedAt, rank):
		ev.SetProfile(&u.User)
		u.Profile = eventMark{ev.CreatedAt, rank}
		out.Applied = true
	case u.Profile.At.IsZero() && ev.Type != store.UserRemoved:
		ev.SetProfile(&u.User) // the newest known so far
	}
	if profile && u.Status == store.UserInvited {
		u.Status = store.UserActive
		out.Applied = true
	}
	if ev.Type != store.UserUpdated && u.State.before(ev.CreatedAt, rank) {
		u.State = eventMark{ev.CreatedAt, rank}
		out.Applied = true
		switch ev.Type {
		case store.UserSuspended:
			u.Status = store.UserDeactivated
		case store.UserRemoved:
			if err := t.removeUser(ctx, tx, d, &u, out); err != nil {
				return err
			}
		default:
			u.Status = store.UserActive
		}
	}
	if out.Applied || !known {
		u.UpdatedAt = now
	}
	out.User = u.User
	if err := putUser(d, u, oldEmail); err != nil {
		return err
	}
	return t.changed(ctx, d, before, u.Object(), false)
}

// invitedWith returns the invited user with an address, the zero value when there is
// none.
func invitedWith(d data, email string) (userRecord, error) {
	id := string(d.in(inUserEmails).Get([]byte(email)))
	if email == "" || id == "" {
		return userRecord{}, nil
	}
	u, ok, err := getJSON[userRecord](d.in(inUsers), id)
	if err != nil || !ok || u.Status != store.UserInvited {
		return userRecord{}, err
	}
	return u, nil
}

// linkInvited merges the invited user with an address, if there is one, into u:
// memberships and keys move to u's id.
func (t *tenant) linkInvited(d data, email string, u *userRecord) error {
	invited, err := invitedWith(d, email)
	from := invited.ID
	if err != nil || from == "" || from == u.ID {
		return err
	}
	teams, err := teamsOf(d, from)
	if err != nil {
		return err
	}
	for _, teamID := range teams {
		m, ok, err := getJSON[memberRecord](d.in(inMembers), string(joined(teamID, from)))
		if err != nil {
			return err
		}
		if err := deleteMember(d, teamID, from); err != nil {
			return err
		}
		m.UserID = u.ID
		if !ok || d.in(inMembers).Get(joined(teamID, u.ID)) != nil {
			err = countMembers(d, teamID, -1)
		} else {
			err = putMember(d, teamID, m)
		}
		if err != nil {
			return err
		}
	}
	if err := eachKeyOf(d, from, func(k keyRecord) error {
		k.CreatedBy = u.ID
		return putJSON(d.in(inKeys), k.ID, k)
	}); err != nil {
		return err
	}
	if u.CreatedAt.After(invited.CreatedAt) {
		u.CreatedAt = invited.CreatedAt
	}
	if err := d.in(inUserEmails).Delete([]byte(email)); err != nil {
		return err // putUser writes the address again if u has it
	}
	return d.in(inUsers).Delete([]byte(from))
}

// removeUser deletes the keys and memberships of a deleted user.
func (t *tenant) removeUser(ctx context.Context, tx *bbolt.Tx, d data, u *userRecord, out *store.UserEventOutcome) error {
	teams, err := teamsOf(d, u.ID)
	if err != nil {
		return err
	}
	for _, teamID := range teams {
		if err := deleteMember(d, teamID, u.ID); err != nil {
			return err
		}
		if err := countMembers(d, teamID, -1); err != nil {
			return err
		}
		out.MembershipsDeleted++
	}
	err = eachKeyOf(d, u.ID, func(k keyRecord) error {
		out.KeysDeleted++
		return t.deleteKey(ctx, tx, d, k)
	})
	u.Status, u.Email, u.DisplayName = store.UserDeleted, "", ""
	return err
}

func teamsOf(d data, userID string) ([]string, error) {
	var list []string
	prefix := joined(userID, "")
	c := d.in(inUserTeams).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		list = append(list, string(k[len(prefix):]))
	}
	return list, nil
}

// ListUserEvents returns recorded events, newest first.
func (t *tenant) ListUserEvents(ctx context.Context, page store.Page) (list []store.RecordedEvent, total int, err error) {
	err = t.view(ctx, func(d data) error {
		list, total, err = newest[store.RecordedEvent](d.in(inUserEvents), page, nil)
		return err
	})
	return list, total, err
}
