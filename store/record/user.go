package record

import (
	"context"
	"strings"
	"time"

	"svc/store"
)

// userRecord is a user as it is stored, with the positions of the newest applied events.
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
func (m eventMark) before(o eventMark) bool {
	return o.At.After(m.At) || o.At.Equal(m.At) && o.Rank > m.Rank
}

// limit resets a mark in the future, as a clock that was wrong has left it, to the latest
// time at which it can have been set, so that it does not override later events.
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

// normalEmail returns the form in which addresses are stored and compared.
func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// newOwner returns an owner of a tenant.
func newOwner(id string, now time.Time) userRecord {
	return userRecord{User: store.User{ID: id, Role: "owner", Status: store.UserActive, CreatedAt: now, UpdatedAt: now}}
}

// GetUser returns one user.
func (t *Tenant) GetUser(ctx context.Context, id string) (user store.User, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		u, known, err := get[userRecord](tx, UserRows, []byte(id))
		if err == nil && (!known || u.Status == store.UserDeleted) {
			err = store.Missing("user")
		}
		user = u.User
		return err
	})
	return user, err
}

// emailsOf returns the addresses of users by id.
func emailsOf(tx Tx, ids []string) (map[string]string, error) {
	emails := make(map[string]string, len(ids))
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = []byte(id)
	}
	values, err := tx.Many(UserRows, keys)
	for i, value := range values {
		if value == nil {
			continue
		}
		var u struct{ Email string } // of many rows: other fields are not decoded
		if err := decode(keys[i], value, &u); err != nil {
			return nil, err
		}
		emails[ids[i]] = u.Email
	}
	return emails, err
}

// putUser writes a user and updates the index of addresses; oldEmail is the user's
// previous address. An address under which another user is invited stays with the
// invitation.
func putUser(tx Tx, u userRecord, oldEmail string) error {
	if oldEmail != "" && oldEmail != u.Email {
		owner, err := tx.Get(userEmails, []byte(oldEmail))
		if err != nil {
			return err
		}
		if string(owner) == u.ID {
			if err := tx.Delete(userEmails, []byte(oldEmail)); err != nil {
				return err
			}
		}
	}
	invited, err := invitedWith(tx, u.Email)
	if err != nil {
		return err
	}
	if u.Email != "" && (invited.ID == "" || invited.ID == u.ID) {
		if err := tx.Put(userEmails, []byte(u.Email), []byte(u.ID)); err != nil {
			return err
		}
	}
	return put(tx, UserRows, []byte(u.ID), u)
}

// invitedWith returns the invited user with an address, the zero value when there is
// none.
func invitedWith(tx Tx, email string) (userRecord, error) {
	if email == "" {
		return userRecord{}, nil
	}
	id, err := tx.Get(userEmails, []byte(email))
	if err != nil || id == nil {
		return userRecord{}, err
	}
	u, known, err := get[userRecord](tx, UserRows, id)
	if err != nil || !known || u.Status != store.UserInvited {
		return userRecord{}, err
	}
	return u, nil
}

// ApplyUserEvent applies and records an identity event.
func (t *Tenant) ApplyUserEvent(ctx context.Context, ev store.UserEvent) (out store.UserEventOutcome, err error) {
	if bad(ev.UserID) {
		return out, store.FieldError(store.Invalid, "event without a usable user id", "data.userId", "is required")
	}
	if ev.CreatedAt.IsZero() {
		return out, store.FieldError(store.Invalid, "event without a time", "createdAt", "is required")
	}
	ev.Email, ev.CreatedAt = normalEmail(ev.Email), ev.CreatedAt.UTC()
	if ev.Email != "" && bad(ev.Email) {
		return out, store.FieldError(store.Invalid, "event with a bad e-mail address", "data.email", atMost)
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		out = store.UserEventOutcome{}
		now := t.e.Now()
		if rank := eventRanks[ev.Type]; rank > 0 {
			ordered := ev
			if now.Before(ev.CreatedAt) {
				ordered.CreatedAt = now
			}
			if err := t.applyWatched(ctx, tx, ordered, rank, now, &out); err != nil {
				return err
			}
		}
		id := t.e.NewID(store.PrefixEvent, now)
		return put(tx, UserEvents, []byte(id), store.RecordedEvent{ID: id, ReceivedAt: now, Applied: out.Applied, Event: ev})
	})
	if err != nil {
		return store.UserEventOutcome{}, err
	}
	return out, nil
}

// applyWatched applies an event and reports whether it left the tenant without a
// working unlimited key.
func (t *Tenant) applyWatched(ctx context.Context, tx Tx, ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	before := false
	if ev.Type == store.UserSuspended || ev.Type == store.UserRemoved {
		var err error
		if before, err = unlimitedKeyWorks(tx, ""); err != nil {
			return err
		}
	}
	if err := t.applyUserEvent(ctx, tx, ev, rank, now, out); err != nil || !before {
		return err
	}
	after, err := unlimitedKeyWorks(tx, "")
	out.LockedOut = !after
	return err
}

func (t *Tenant) applyUserEvent(ctx context.Context, tx Tx, ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	u, known, err := get[userRecord](tx, UserRows, []byte(ev.UserID))
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
			u.LastSessionEndedAt, out.Applied = ev.CreatedAt, true
			err = putUser(tx, u, u.Email)
		}
		out.User = u.User
		return err
	}
	tombstone := known && u.Status == store.UserDeleted
	if tombstone && !(ev.Type == store.UserCreated && ev.CreatedAt.After(u.State.At)) {
		out.User = u.User
		return nil
	}
	if !known || tombstone {
		u = userRecord{User: store.User{ID: ev.UserID, Role: store.DefaultRole, Status: store.UserActive, CreatedAt: now}}
	}
	oldEmail := u.Email
	if email, ok := ev.LinkedAddress(&u.User, u.Announced, !u.State.At.IsZero()); ok {
		if err := linkInvited(tx, email, &u); err != nil {
			return err
		}
	}
	if err := t.takeEvent(ctx, tx, ev, eventMark{ev.CreatedAt, rank}, &u, out); err != nil {
		return err
	}
	if out.Applied || !known {
		u.UpdatedAt = now
	}
	out.User = u.User
	if err := putUser(tx, u, oldEmail); err != nil {
		return err
	}
	return t.Changed(ctx, tx, before, u.Object(), false)
}

// takeEvent applies an event to a user, unless a newer event takes precedence.
func (t *Tenant) takeEvent(ctx context.Context, tx Tx, ev store.UserEvent, at eventMark, u *userRecord, out *store.UserEventOutcome) error {
	if ev.Type == store.UserCreated && ev.CreatedAt.After(u.Announced) {
		u.Announced = ev.CreatedAt
	}
	profile := ev.Type == store.UserCreated || ev.Type == store.UserUpdated
	switch {
	case profile && u.Profile.before(at):
		ev.SetProfile(&u.User)
		u.Profile, out.Applied = at, true
	case u.Profile.At.IsZero() && ev.Type != store.UserRemoved:
		ev.SetProfile(&u.User) // the newest known so far
	}
	if profile && u.Status == store.UserInvited {
		u.Status, out.Applied = store.UserActive, true
	}
	if ev.Type == store.UserUpdated || !u.State.before(at) {
		return nil
	}
	u.State, out.Applied = at, true
	switch ev.Type {
	case store.UserSuspended:
		u.Status = store.UserDeactivated
	case store.UserRemoved:
		return t.removeUser(ctx, tx, u, out)
	default:
		u.Status = store.UserActive
	}
	return nil
}

// linkInvited merges the invited user with an address, if there is one, into u:
// memberships and keys move to u's id.
func linkInvited(tx Tx, email string, u *userRecord) error {
	invited, err := invitedWith(tx, email)
	from := invited.ID
	if err != nil || from == "" || from == u.ID {
		return err
	}
	list, err := teamsOf(tx, from)
	if err != nil {
		return err
	}
	for _, teamID := range list {
		m, known, err := get[memberRecord](tx, members, joined(teamID, from))
		if err != nil {
			return err
		}
		already, err := tx.Get(members, joined(teamID, u.ID))
		if err != nil {
			return err
		}
		if err := deleteMember(tx, teamID, from); err != nil {
			return err
		}
		m.UserID = u.ID
		if !known || already != nil {
			err = countMembers(tx, teamID, -1)
		} else {
			err = putMember(tx, teamID, m)
		}
		if err != nil {
			return err
		}
	}
	keys, err := keysOf(tx, from)
	if err != nil {
		return err
	}
	for _, k := range keys {
		k.CreatedBy = u.ID
		if err := put(tx, KeyRows, []byte(k.ID), k); err != nil {
			return err
		}
	}
	if u.CreatedAt.After(invited.CreatedAt) {
		u.CreatedAt = invited.CreatedAt
	}
	if err := tx.Delete(userEmails, []byte(email)); err != nil {
		return err // putUser writes the address again if u has it
	}
	return tx.Delete(UserRows, []byte(from))
}

// removeUser deletes the keys and memberships of a deleted user.
func (t *Tenant) removeUser(ctx context.Context, tx Tx, u *userRecord, out *store.UserEventOutcome) error {
	list, err := teamsOf(tx, u.ID)
	if err != nil {
		return err
	}
	for _, teamID := range list {
		if err := deleteMember(tx, teamID, u.ID); err != nil {
			return err
		}
		if err := countMembers(tx, teamID, -1); err != nil {
			return err
		}
		out.MembershipsDeleted++
	}
	keys, err := keysOf(tx, u.ID)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := t.deleteKey(ctx, tx, k); err != nil {
			return err
		}
		out.KeysDeleted++
	}
	u.Status, u.Email, u.DisplayName = store.UserDeleted, "", ""
	return nil
}

// teamsOf returns the ids of the teams that a user is a member of.
func teamsOf(tx Tx, userID string) (list []string, err error) {
	r := prefixed(userID)
	r.Keys = true
	err = tx.Scan(userTeams, r, func(key, _ []byte) (bool, error) {
		list = append(list, string(key[len(userID)+1:]))
		return true, nil
	})
	return list, err
}

// ListUserEvents returns recorded events, newest first.
func (t *Tenant) ListUserEvents(ctx context.Context, page store.Page) (list []store.RecordedEvent, total int, err error) {
	page.After = store.Place{} // lists of events have no keyset pages
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, total, err = pageOf[store.RecordedEvent](tx, UserEvents, page, nil)
		return err
	})
	return list, total, err
}
