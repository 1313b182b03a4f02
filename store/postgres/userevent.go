package postgres

import (
	"context"
	"strings"
	"time"

	"svc/store"
)

// eventRanks orders events with equal times.
var eventRanks = map[store.UserEventType]int{
	store.UserCreated: 1, store.UserUpdated: 2, store.UserSuspended: 3,
	store.UserReactivated: 4, store.UserRemoved: 5, store.SessionTerminated: 6,
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
	err = t.write(ctx, func(d *data) error {
		out = store.UserEventOutcome{}
		now := d.s.now()
		if rank := eventRanks[ev.Type]; rank > 0 {
			if err := d.applyRanked(ev, rank, now, &out); err != nil {
				return err
			}
		}
		id := d.s.ids.New(store.PrefixEvent, now)
		doc, err := document(store.RecordedEvent{ID: id, ReceivedAt: now, Applied: out.Applied, Event: ev})
		if err == nil {
			d.exec(`INSERT INTO user_events (tenant, id, received, doc) VALUES ($1, $2, $3, $4)`, d.n, []byte(id), now.UnixNano(), doc)
		}
		return err
	})
	return out, err
}

// applyRanked applies an event of a type that has effects; a date in the future is
// replaced by the current time.
func (d *data) applyRanked(ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	if now.Before(ev.CreatedAt) {
		ev.CreatedAt = now
	}
	before, err := d.unlimitedKeyWorks("")
	if err != nil {
		return err
	}
	if err := d.applyEvent(ev, rank, now, out); err != nil {
		return err
	}
	if before && (ev.Type == store.UserSuspended || ev.Type == store.UserRemoved) {
		works, err := d.unlimitedKeyWorks("")
		out.LockedOut = !works
		return err
	}
	return nil
}

func (d *data) applyEvent(ev store.UserEvent, rank int, now time.Time, out *store.UserEventOutcome) error {
	u, known, err := d.user(ev.UserID)
	if err != nil {
		return err
	}
	at := eventMark{ev.CreatedAt, rank}
	if ev.Type == store.SessionTerminated {
		if known && u.Status != store.UserDeleted && ev.CreatedAt.After(u.LastSessionEndedAt) {
			u.LastSessionEndedAt, out.Applied = ev.CreatedAt, true
			err = d.putUser(u)
		}
		out.User = u.User
		return err
	}
	var before *store.Object
	if known {
		before = u.Object()
	}
	tombstone := known && u.Status == store.UserDeleted
	if tombstone && !(ev.Type == store.UserCreated && ev.CreatedAt.After(u.State.At)) {
		out.User = u.User
		return nil
	}
	if !known || tombstone {
		u = userRecord{User: store.User{ID: ev.UserID, Role: store.DefaultRole, Status: store.UserActive, CreatedAt: now}}
	}
	if email, ok := ev.LinkedAddress(&u.User, u.Announced, !u.State.At.IsZero()); ok {
		if err := d.linkInvited(email, &u); err != nil {
			return err
		}
	}
	if err := d.takeEvent(ev, at, &u, out); err != nil {
		return err
	}
	if out.Applied || !known {
		u.UpdatedAt = now
	}
	out.User = u.User
	if err := d.putUser(u); err != nil {
		return err
	}
	return d.change(before, u.Object(), false)
}

// takeEvent applies an event to a user, unless a newer event takes precedence.
func (d *data) takeEvent(ev store.UserEvent, at eventMark, u *userRecord, out *store.UserEventOutcome) error {
	if ev.Type == store.UserCreated && ev.CreatedAt.After(u.Announced) {
		u.Announced = ev.CreatedAt
	}
	isProfile := ev.Type == store.UserCreated || ev.Type == store.UserUpdated
	switch {
	case isProfile && u.Profile.before(at):
		ev.SetProfile(&u.User)
		u.Profile, out.Applied = at, true
	case u.Profile.At.IsZero() && ev.Type != store.UserRemoved:
		ev.SetProfile(&u.User) // the newest known so far
	}
	if isProfile && u.Status == store.UserInvited {
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
		return d.removeUser(u, out)
	default:
		u.Status = store.UserActive
	}
	return nil
}

// ListUserEvents returns recorded events, newest first.
func (t *tenant) ListUserEvents(ctx context.Context, page store.Page) (list []store.RecordedEvent, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		if _, err := d.one([]any{&total}, `SELECT count(*) FROM user_events WHERE tenant = $1`, d.n); err != nil {
			return err
		}
		list, err = documents[store.RecordedEvent](d, `SELECT doc FROM user_events WHERE tenant = $1 ORDER BY id DESC LIMIT $2 OFFSET $3`, d.n, limitOf(page), max(page.Offset, 0))
		return err
	})
	return list, total, err
}
