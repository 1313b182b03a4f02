package store

import (
	"context"
	"time"
)

// UserStatus is the state of a user.
type UserStatus string

// The states of a user.
const (
	UserInvited     UserStatus = "invited"     // invited by a team, not yet announced by the identity provider
	UserActive      UserStatus = "active"      //
	UserDeactivated UserStatus = "deactivated" // its keys get 401 until it is reactivated
	UserDeleted     UserStatus = "deleted"     // deleted; the row is kept as a tombstone
)

// DefaultRole is the role of a provisioned user and of a member added without one.
const DefaultRole = "member"

// User is a person. Its id is the identity provider's, or one that the store made while the
// user is invited.
type User struct {
	ID          string
	Email       string // lower case; empty when not known
	DisplayName string
	Role        string
	Status      UserStatus
	CreatedAt   time.Time
	UpdatedAt   time.Time
	// LastSessionEndedAt is the time of the newest session.terminated, zero for none.
	LastSessionEndedAt time.Time
}

// UserEventType is the type of an identity event.
type UserEventType string

// The identity events with effects (control-plane specification, Events).
const (
	UserCreated       UserEventType = "user.created"
	UserUpdated       UserEventType = "user.updated"
	UserRemoved       UserEventType = "user.deleted"
	UserSuspended     UserEventType = "user.deactivated"
	UserReactivated   UserEventType = "user.reactivated"
	SessionTerminated UserEventType = "session.terminated"
)

// UserEvent is an identity event whose signature has been verified.
type UserEvent struct {
	Type        UserEventType // an unknown type is recorded and has no effect
	CreatedAt   time.Time     // orders the events of one user; a time after the receipt counts as the time of receipt
	UserID      string
	Email       string
	DisplayName string
	OrgID       string
}

// SetProfile updates the profile of a user from an event. It is shared by the engines.
func (ev *UserEvent) SetProfile(u *User) {
	if ev.Email != "" {
		u.Email = ev.Email
	}
	if ev.DisplayName != "" {
		u.DisplayName = ev.DisplayName
	}
}

// LinkedAddress returns the address whose invitation an event links to its user; ok is false
// when there is none. announced is the time of the newest user.created of the user, and known
// reports whether an event about the user's state was applied before. It is shared by the
// engines.
//
// Only the provider's announcement shows that a user had the address from the beginning; a
// user who takes the address later must not get an invitation that was meant for somebody
// else. A user who was never announced and is suspended or deleted is linked to the
// invitation, so that the access of the invitation ends too.
func (ev *UserEvent) LinkedAddress(u *User, announced time.Time, known bool) (email string, ok bool) {
	switch {
	case ev.Type == UserCreated, ev.CreatedAt.Before(announced):
		return ev.Email, ev.Email != ""
	case ev.Type != UserSuspended && ev.Type != UserRemoved, known:
		return "", false
	case ev.Email != "":
		return ev.Email, true
	}
	return u.Email, u.Email != ""
}

// UserEventOutcome is the effect of an event.
type UserEventOutcome struct {
	Applied bool // false: a replay, an event older than the newest applied one, or an unknown type
	User    User // the user after the event; zero for unknown types
	// KeysDeleted and MembershipsDeleted count what a user.deleted removed.
	KeysDeleted        int
	MembershipsDeleted int
	// LockedOut reports that the event invalidated the last key that may do everything in the
	// tenant.
	LockedOut bool
}

// Users manages the users of a tenant.
type Users interface {
	// GetUser returns NotFound for an unknown id and for a tombstone.
	GetUser(ctx context.Context, id string) (User, error)
	// ApplyUserEvent applies and records an identity event in one transaction.
	//
	// Events are ordered per user by CreatedAt, separately for the profile (created, updated)
	// and the state (created, deactivated, reactivated, deleted): an event older than the
	// newest applied one of its group changes nothing, so retries and late deliveries never
	// undo a newer event. An event that is dated in the future counts as of its receipt, so
	// that it cannot override later events. At equal times the order is created, updated,
	// deactivated, reactivated, deleted. A deletion removes the user's keys and memberships
	// and leaves a tombstone that only a newer user.created removes. An unknown user is
	// provisioned by any event except session.terminated, in the state that the event implies.
	//
	// An invited user with the event's id is the same user. An invited user with its e-mail
	// address is linked (it takes the event's id, its memberships and keys move along) by
	// user.created, by events that are dated before it, and by the deactivation or deletion of
	// a user who was never announced, whose access must end. An address that an announced user
	// takes later links no invitation, because the invitation was for somebody else.
	//
	// An empty UserID or a zero CreatedAt is Invalid.
	ApplyUserEvent(ctx context.Context, ev UserEvent) (UserEventOutcome, error)
	// ListUserEvents returns recorded events, sorted by time of receipt, newest first.
	ListUserEvents(ctx context.Context, page Page) ([]RecordedEvent, int, error)
}

// RecordedEvent is an identity event as it was received.
type RecordedEvent struct {
	ID         string
	ReceivedAt time.Time
	Applied    bool
	Event      UserEvent
}

// Object is the user as audit events record it.
func (u *User) Object() *Object {
	return newObject("user", u.ID, "", "", map[string]any{"email": u.Email, "displayName": u.DisplayName, "role": u.Role, "status": string(u.Status)})
}
