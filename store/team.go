package store

import (
	"context"
	"time"
)

// Team is a group of users. Its scopes limit the API keys that were made for it.
type Team struct {
	ID          string
	Name        string // unique in the tenant
	Description string
	Scopes      []string // never nil
	MemberCount int
	Set         string `json:",omitempty"` // of the documents that declare it; empty: none
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// TeamCreate asks for a team.
type TeamCreate struct {
	Name        string
	Description string
	Scopes      []string
}

// TeamUpdate changes what is not nil.
type TeamUpdate struct {
	Name        *string
	Description *string
	Scopes      *[]string // replaces the whole list
}

// Member is a user's place in a team.
type Member struct {
	UserID   string
	Email    string
	Role     string
	JoinedAt time.Time
}

// MemberAdd names a user by id or e-mail address, either suffices.
type MemberAdd struct {
	UserID string
	Email  string
	Role   string // DefaultRole when empty
}

// Teams is the teams of a tenant and their members.
type Teams interface {
	ListTeams(ctx context.Context, page Page) ([]Team, int, error)
	// GetTeam returns NotFound for an unknown id.
	GetTeam(ctx context.Context, id string) (Team, error)
	// CreateTeam returns Conflict for a taken name.
	CreateTeam(ctx context.Context, in TeamCreate) (Team, error)
	// UpdateTeam returns NotFound, or Conflict for a taken name.
	UpdateTeam(ctx context.Context, id string, up TeamUpdate) (Team, error)
	// DeleteTeam removes a team and its memberships; keys made for it stop working.
	// It returns NotFound for an unknown id.
	DeleteTeam(ctx context.Context, id string) error

	// ListMembers returns all members, newest first. NotFound: no such team.
	ListMembers(ctx context.Context, teamID string) ([]Member, error)
	// AddMember adds a user; one that is not known is invited. An unknown team is
	// NotFound, a member already Conflict ("userId"); neither id nor address, an
	// address that belongs to another user than the id, and a deleted user are Invalid.
	AddMember(ctx context.Context, teamID string, in MemberAdd) (Member, error)
	// RemoveMember returns NotFound for an unknown team and for a user who is no member.
	RemoveMember(ctx context.Context, teamID, userID string) error
}

// Make is the team that is asked for.
func (in TeamCreate) Make(id string, now time.Time) Team {
	return Team{ID: id, Name: in.Name, Description: in.Description, Scopes: append([]string{}, in.Scopes...), CreatedAt: now, UpdatedAt: now}
}

// Apply makes the change.
func (up TeamUpdate) Apply(t *Team, now time.Time) {
	set(&t.Name, up.Name)
	set(&t.Description, up.Description)
	if up.Scopes != nil {
		t.Scopes = append([]string{}, *up.Scopes...)
	}
	t.UpdatedAt = now
}

// Object is the team for records of its changes.
func (t *Team) Object() *Object {
	return newObject("team", t.ID, t.Name, t.Set, map[string]any{"name": t.Name, "description": t.Description, "scopes": append([]string{}, t.Scopes...)})
}

// MemberObject is a membership for records of its changes. Its id is that of the team
// and of the user.
func MemberObject(team *Team, userID, role string) *Object {
	return newObject("member", team.ID+"/"+userID, team.Name, "", map[string]any{"teamId": team.ID, "userId": userID, "role": role})
}
