package store

import (
	"context"
	"time"
)

// Team is a group of users. Its scopes limit the API keys that were created for it.
type Team struct {
	ID          string
	Name        string // unique in the tenant
	Description string
	Scopes      []string // never nil
	MemberCount int
	Set         string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// TeamCreate is the input of CreateTeam.
type TeamCreate struct {
	Name        string
	Description string
	Scopes      []string
}

// TeamUpdate is a partial update; nil fields keep their value.
type TeamUpdate struct {
	Name        *string
	Description *string
	Scopes      *[]string // replaces the whole list
}

// Member is the membership of a user in a team.
type Member struct {
	UserID   string
	Email    string
	Role     string
	JoinedAt time.Time
}

// MemberAdd names a user by id or by e-mail address; either is sufficient.
type MemberAdd struct {
	UserID string
	Email  string
	Role   string // DefaultRole when empty
}

// Teams manages the teams of a tenant and their members.
type Teams interface {
	ListTeams(ctx context.Context, page Page) ([]Team, int, error)
	// GetTeam returns NotFound for an unknown id.
	GetTeam(ctx context.Context, id string) (Team, error)
	// CreateTeam returns Conflict when the name is taken.
	CreateTeam(ctx context.Context, in TeamCreate) (Team, error)
	// UpdateTeam returns NotFound, or Conflict when the name is taken.
	UpdateTeam(ctx context.Context, id string, up TeamUpdate) (Team, error)
	// DeleteTeam removes a team and its memberships; keys created for it stop working, and
	// its agents belong to no team any more. Its budgets are deleted.
	// It returns NotFound for an unknown id.
	DeleteTeam(ctx context.Context, id string) error

	// ListMembers returns all members, newest first. It returns NotFound for an unknown
	// id.
	ListMembers(ctx context.Context, teamID string) ([]Member, error)
	// AddMember adds a user, and invites an unknown one. An unknown team is NotFound, an
	// existing member Conflict ("userId"). Invalid are: neither id nor address, an
	// address of a user other than the given id, and a deleted user.
	AddMember(ctx context.Context, teamID string, in MemberAdd) (Member, error)
	// RemoveMember returns NotFound for an unknown team and for a user who is no member.
	RemoveMember(ctx context.Context, teamID, userID string) error
}

// Make returns the new team.
func (in TeamCreate) Make(id string, now time.Time) Team {
	return Team{ID: id, Name: in.Name, Description: in.Description, Scopes: append([]string{}, in.Scopes...), CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
func (up TeamUpdate) Apply(t *Team, now time.Time) {
	set(&t.Name, up.Name)
	set(&t.Description, up.Description)
	if up.Scopes != nil {
		t.Scopes = append([]string{}, *up.Scopes...)
	}
	t.UpdatedAt = now
}

// Object is the team as audit events record it.
func (t *Team) Object() *Object {
	return newObject("team", t.ID, t.Name, t.Set, map[string]any{"name": t.Name, "description": t.Description, "scopes": append([]string{}, t.Scopes...)})
}

// MemberObject is a membership as audit events record it. Its id combines the ids of the
// team and of the user.
func MemberObject(team *Team, userID, role string) *Object {
	return newObject("member", team.ID+"/"+userID, team.Name, "", map[string]any{"teamId": team.ID, "userId": userID, "role": role})
}
