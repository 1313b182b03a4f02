package memory

import (
	"context"
	"strings"
	"time"

	"svc/store"
)

// user is a user with the positions of the newest applied events.
type user struct {
	store.User
	profile   mark // newest of user.created, user.updated
	state     mark // newest of user.created, user.deactivated, user.reactivated, user.deleted
	announced time.Time
}

// mark is the position of an event in a user's history.
type mark struct {
	at   time.Time
	rank int
}

// before reports whether an event comes after the mark.
func (m mark) before(o mark) bool { return o.at.After(m.at) || o.at.Equal(m.at) && o.rank > m.rank }

// ranks orders events with equal times.
var ranks = map[store.UserEventType]int{
	store.UserCreated: 1, store.UserUpdated: 2, store.UserSuspended: 3,
	store.UserReactivated: 4, store.UserRemoved: 5, store.SessionTerminated: 6,
}

func (u *user) hasAccess() bool {
	return u.Status != store.UserDeactivated && u.Status != store.UserDeleted
}

// GetUser returns one user.
func (t *tenant) GetUser(ctx context.Context, id string) (out store.User, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		u, err := d.users.find("user", id)
		if err == nil && u.Status == store.UserDeleted {
			err = store.Missing("user")
		}
		if err == nil {
			out = u.User
		}
		return err
	})
	return out, err
}

// userWith finds the user with an address. A user who is invited under the
// address takes precedence over others who took it.
func (d *tenantData) userWith(email string) *user {
	if u := d.invitedWith(email); u != nil || email == "" {
		return u
	}
	var found *user
	for _, u := range d.users.rows {
		if u.Email == email && (found == nil || u.UpdatedAt.After(found.UpdatedAt)) {
			found = u
		}
	}
	return found
}

// invitedWith finds the invited user with an address.
func (d *tenantData) invitedWith(email string) *user {
	for _, u := range d.users.rows {
		if email != "" && u.Email == email && u.Status == store.UserInvited {
			return u
		}
	}
	return nil
}

// ApplyUserEvent applies and records an identity event.
func (t *tenant) ApplyUserEvent(ctx context.Context, ev store.UserEvent) (out store.UserEventOutcome, err error) {
	if bad(ev.UserID) {
		return out, store.FieldError(store.Invalid, "event without a usable user id", "data.userId", "is required")
	}
	if ev.CreatedAt.IsZero() {
		return out, store.FieldError(store.Invalid, "event without a time", "createdAt", "is required")
	}
	ev.Email, ev.CreatedAt = normalEmail(ev.Email), ev.CreatedAt.UTC()
	if len(ev.Email) > 512 || strings.IndexByte(ev.Email, 0) >= 0 {
		return out, store.FieldError(store.Invalid, "event with a bad e-mail address", "data.email", "must have at most 512 bytes, none of them zero")
	}
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		now := e.now()
		if rank := ranks[ev.Type]; rank > 0 {
			ordered := ev
			if now.Before(ev.CreatedAt) {
				ordered.CreatedAt = now
			}
			before := d.unlimitedKeyWorks("")
			e.applyEvent(ctx, d, ordered, rank, now, &out)
			ends := ev.Type == store.UserSuspended || ev.Type == store.UserRemoved
			out.LockedOut = ends && before && !d.unlimitedKeyWorks("")
		}
		id := e.ids.New(store.PrefixEvent, now)
		d.events.put(id, &store.RecordedEvent{ID: id, ReceivedAt: now, Applied: out.Applied, Event: ev})
		return nil
	})
	return out, err
}

func (e *engine) applyEvent(ctx context.Context, d *tenantData, ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) {
	u, at := d.users.get(ev.UserID), mark{ev.CreatedAt, rank}
	if ev.Type == store.SessionTerminated {
		if u != nil {
			if u.Status != store.UserDeleted && ev.CreatedAt.After(u.LastSessionEndedAt) {
				u.LastSessionEndedAt, out.Applied = ev.CreatedAt, true
			}
			out.User = u.User
		}
		return
	}
	var before *store.Object
	if u != nil {
		before = u.Object()
	}
	known, tombstone := u != nil, u != nil && u.Status == store.UserDeleted
	if tombstone && !(ev.Type == store.UserCreated && ev.CreatedAt.After(u.state.at)) {
		out.User = u.User
		return
	}
	if !known || tombstone {
		u = &user{User: store.User{ID: ev.UserID, Role: store.DefaultRole, Status: store.UserActive, CreatedAt: now}}
	}
	if email, ok := ev.LinkedAddress(&u.User, u.announced, !u.state.at.IsZero()); ok {
		d.linkInvited(email, u)
	}
	d.users.put(u.ID, u)
	if ev.Type == store.UserCreated && ev.CreatedAt.After(u.announced) {
		u.announced = ev.CreatedAt
	}
	isProfile := ev.Type == store.UserCreated || ev.Type == store.UserUpdated
	switch {
	case isProfile && u.profile.before(at):
		ev.SetProfile(&u.User)
		u.profile, out.Applied = at, true
	case u.profile.at.IsZero() && ev.Type != store.UserRemoved:
		ev.SetProfile(&u.User) // the newest known so far
	}
	if isProfile && u.Status == store.UserInvited {
		u.Status, out.Applied = store.UserActive, true
	}
	if ev.Type != store.UserUpdated && u.state.before(at) {
		u.state, out.Applied = at, true
		switch ev.Type {
		case store.UserSuspended:
			u.Status = store.UserDeactivated
		case store.UserRemoved:
			e.removeUser(ctx, d, u, out)
		default:
			u.Status = store.UserActive
		}
	}
	if out.Applied || !known {
		u.UpdatedAt = now
	}
	out.User = u.User
	e.changed(ctx, d, before, u.Object(), false)
}

// linkInvited merges the invited user with an address, if there is one, into u:
// memberships and keys move to u.
func (d *tenantData) linkInvited(email string, u *user) {
	invited := d.invitedWith(email)
	if invited == nil || invited.ID == u.ID {
		return
	}
	for _, m := range d.teams.rows {
		member, is := m.members[invited.ID]
		if !is {
			continue
		}
		delete(m.members, invited.ID)
		if _, already := m.members[u.ID]; !already {
			member.UserID = u.ID
			m.members[u.ID] = member
		}
	}
	for _, k := range d.keys.rows {
		if k.CreatedBy == invited.ID {
			k.CreatedBy = u.ID
		}
	}
	if u.CreatedAt.After(invited.CreatedAt) {
		u.CreatedAt = invited.CreatedAt
	}
	d.users.delete(invited.ID)
}

// removeUser deletes the keys and memberships of a deleted user.
func (e *engine) removeUser(ctx context.Context, d *tenantData, u *user, out *store.UserEventOutcome) {
	for _, m := range d.teams.rows {
		if _, is := m.members[u.ID]; is {
			delete(m.members, u.ID)
			out.MembershipsDeleted++
		}
	}
	for _, k := range d.keys.newest(func(k *key) bool { return k.CreatedBy == u.ID }) {
		e.deleteKey(ctx, d, k)
		out.KeysDeleted++
	}
	u.Status, u.Email, u.DisplayName = store.UserDeleted, "", ""
}

// ListUserEvents returns recorded events, newest first.
func (t *tenant) ListUserEvents(ctx context.Context, page store.Page) (list []store.RecordedEvent, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list, total, err = paged(d.events.newest(nil), page, func(ev *store.RecordedEvent) store.RecordedEvent { return *ev })
		return err
	})
	return list, total, err
}
