package store

import (
	"context"
	"time"
)

// UserStatus is the state of a user.
type UserStatus string

// The states of a user.
const (
	UserInvited     UserStatus = "invited"     // named by a team, not yet announced by the identity provider
	UserActive      UserStatus = "active"      //
	UserDeactivated UserStatus = "deactivated" // its keys answer 401 until it is reactivated
	UserDeleted     UserStatus = "deleted"     // a tombstone
)

// DefaultRole is the role of a provisioned user and of a member added without one.
const DefaultRole = "member"

// User is a person. Its id is the identity provider's, or one of ours while invited.
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

// UserEvent is a signed event of the identity provider, already verified.
type UserEvent struct {
	Type        UserEventType // an unknown type is recorded and has no effect
	CreatedAt   time.Time     // orders the events of one user; the time of receipt does where it is earlier
	UserID      string
	Email       string
	DisplayName string
	OrgID       string
}

// SetProfile gives a user what an event says of its profile. Engines share it.
func (ev *UserEvent) SetProfile(u *User) {
	if ev.Email != "" {
		u.Email = ev.Email
	}
	if ev.DisplayName != "" {
		u.DisplayName = ev.DisplayName
	}
}

// LinkedAddress is the address whose invitation an event gives to its user; ok is false when
// it gives none. announced is the time of the newest user.created of the user, and known says
// that an event about the user's state was applied before. Engines share it.
//
// Only the provider's announcement shows that a user had the address from the beginning; a
// user who takes it later must not get what somebody else was invited to. A user who was never
// announced and is suspended or deleted takes the invitation along, because its access ends
// here.
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

// UserEventOutcome says what an event did.
type UserEventOutcome struct {
	Applied bool // false: a replay, older than what is known, or an unknown type
	User    User // the user after it; zero for unknown types
	// KeysDeleted and MembershipsDeleted count what a user.deleted removed.
	KeysDeleted        int
	MembershipsDeleted int
	// LockedOut: with this event the last key stopped working that may do
	// everything in the tenant.
	LockedOut bool
}

// Users is the people of a tenant.
type Users interface {
	// GetUser returns NotFound for an unknown id and for a tombstone.
	GetUser(ctx context.Context, id string) (User, error)
	// ApplyUserEvent applies and records an identity event in one transaction.
	//
	// Events are ordered per user by CreatedAt, profile (created, updated) and state
	// (created, deactivated, reactivated, deleted) each for itself: an event older
	// than the newest applied one of its sort changes nothing, so retries and late
	// deliveries never undo a newer event. An event that is dated in the future has
	// the time of its receipt, so that it cannot outrank later events. Under equal
	// times the order is created, updated, deactivated, reactivated, deleted. A
	// deletion removes the user's keys and memberships and leaves a tombstone that
	// only a newer user.created lifts. An unknown user is provisioned by any event
	// but session.terminated, in the state that the event implies.
	//
	// An invited user with the event's id is that user. An invited user with its
	// e-mail address is linked (it takes the event's id, its memberships and keys
	// move along) by user.created, by events that are dated before it, and by the
	// deactivation or deletion of a user who was never announced, whose access must
	// end. An address that an announced user takes later links nobody: the
	// invitation was for somebody else.
	//
	// An empty UserID or a zero CreatedAt is Invalid.
	ApplyUserEvent(ctx context.Context, ev UserEvent) (UserEventOutcome, error)
	// ListUserEvents returns recorded events, newest first by time of receipt.
	ListUserEvents(ctx context.Context, page Page) ([]RecordedEvent, int, error)
}

// RecordedEvent is an identity event as it was received.
type RecordedEvent struct {
	ID         string
	ReceivedAt time.Time
	Applied    bool
	Event      UserEvent
}

// Object is the user for records of its changes.
func (u *User) Object() *Object {
	return newObject("user", u.ID, "", "", map[string]any{"email": u.Email, "displayName": u.DisplayName, "role": u.Role, "status": string(u.Status)})
}
