package postgres

import (
	"context"
	"strings"
	"time"

	"svc/store"
)

// userRecord is a user as it is stored, with the positions of the newest applied
// events.
type userRecord struct {
	store.User
	Profile   eventMark // newest of user.created, user.updated
	State     eventMark // newest of user.created, user.deactivated, user.reactivated, user.deleted
	Announced time.Time
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

func (u *userRecord) hasAccess() bool {
	return u.Status != store.UserDeactivated && u.Status != store.UserDeleted
}

// withAccess is hasAccess as an SQL condition on rows of users.
const withAccess = `u.status NOT IN ('deactivated', 'deleted')`

// normalEmail returns the form in which addresses are stored and compared.
func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// newOwner returns the first user of a tenant.
func newOwner(id string, now time.Time) userRecord {
	return userRecord{User: store.User{ID: id, Role: "owner", Status: store.UserActive, CreatedAt: now, UpdatedAt: now}}
}

// GetUser returns one user.
func (t *tenant) GetUser(ctx context.Context, id string) (out store.User, err error) {
	err = t.read(ctx, func(d *data) error {
		u, known, err := d.user(id)
		if err == nil && (!known || u.Status == store.UserDeleted) {
			err = store.Missing("user")
		}
		out = u.User
		return err
	})
	return out, err
}

// user reads a user, including a deleted one.
func (d *data) user(id string) (userRecord, bool, error) {
	return d.userBy(`id = $2`, id)
}

// userWith finds the user with an address. A user who is invited under the address
// takes precedence over others who took it.
func (d *data) userWith(email string) (userRecord, bool, error) {
	return d.userBy(`email = $2 AND email <> ''`, email)
}

// invitedWith finds the invited user with an address.
func (d *data) invitedWith(email string) (userRecord, bool, error) {
	return d.userBy(`email = $2 AND email <> '' AND status = 'invited'`, email)
}

// userBy finds a user; of several, the invited one or else the one that was changed
// last.
func (d *data) userBy(condition, arg string) (u userRecord, ok bool, err error) {
	list, err := documents[userRecord](d, `SELECT doc FROM users WHERE tenant = $1 AND `+condition, d.n, []byte(arg))
	if err != nil || len(list) == 0 {
		return u, false, err
	}
	u = list[0]
	for _, other := range list[1:] {
		if u.Status != store.UserInvited && (other.Status == store.UserInvited || other.UpdatedAt.After(u.UpdatedAt)) {
			u = other
		}
	}
	return u, true, nil
}

// putUser inserts a user, or replaces the one with its id.
func (d *data) putUser(u userRecord) error {
	doc, err := document(u)
	if err == nil {
		d.exec(`INSERT INTO users (tenant, id, email, status, doc) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant, id) DO UPDATE SET email = excluded.email, status = excluded.status, doc = excluded.doc`,
			d.n, []byte(u.ID), []byte(u.Email), []byte(u.Status), doc)
	}
	return err
}

// linkInvited merges the invited user with an address, if there is one, into u:
// memberships and keys move to u.
func (d *data) linkInvited(email string, u *userRecord) error {
	invited, known, err := d.invitedWith(email)
	if err != nil || !known || invited.ID == u.ID {
		return err
	}
	from, to := []byte(invited.ID), []byte(u.ID)
	d.exec(`UPDATE members SET usr = $3 WHERE tenant = $1 AND usr = $2 AND team NOT IN (SELECT team FROM members WHERE tenant = $1 AND usr = $3)`, d.n, from, to)
	d.exec(`DELETE FROM members WHERE tenant = $1 AND usr = $2`, d.n, from)
	d.exec(`UPDATE api_keys SET created_by = $3 WHERE tenant = $1 AND created_by = $2`, d.n, from, to)
	d.exec(`DELETE FROM users WHERE tenant = $1 AND id = $2`, d.n, from)
	if u.CreatedAt.After(invited.CreatedAt) {
		u.CreatedAt = invited.CreatedAt
	}
	return nil
}

// removeUser deletes the keys and memberships of a deleted user.
func (d *data) removeUser(u *userRecord, out *store.UserEventOutcome) (err error) {
	if out.MembershipsDeleted, err = d.count(`DELETE FROM members WHERE tenant = $1 AND usr = $2`, d.n, []byte(u.ID)); err != nil {
		return err
	}
	keys, err := d.keys(`k.created_by = $2 ORDER BY k.id DESC`, []byte(u.ID))
	if err != nil {
		return err
	}
	for i := range keys {
		if err := d.deleteKey(&keys[i]); err != nil {
			return err
		}
	}
	out.KeysDeleted = len(keys)
	u.Status, u.Email, u.DisplayName = store.UserDeleted, "", ""
	return nil
}
