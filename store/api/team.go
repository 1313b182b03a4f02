package api

import (
	"fmt"
	"time"
)

// TeamScopes are the 13 values a team's scopes may have (control plane
// specification, "Team").
var TeamScopes = []string{
	"agents:read", "agents:write",
	"policies:read", "policies:write",
	"traces:read",
	"costs:read", "costs:write",
	"teams:read", "teams:write",
	"keys:read", "keys:write",
	"compliance:read",
	"audit:read",
}

// Roles are the values of a member's role; DefaultRole is used when none is given.
var Roles = []string{"owner", "admin", "member", "viewer"}

// DefaultRole is the role of a member that is added without one.
const DefaultRole = "member"

// Team is a group of users with access scopes.
type Team struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	MemberCount int       `json:"memberCount"`
	Scopes      []string  `json:"scopes"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Member is a user's membership in a team.
type Member struct {
	UserID   string    `json:"userId"`
	Email    string    `json:"email"`
	Role     string    `json:"role"`
	JoinedAt time.Time `json:"joinedAt"`
}

// TeamCreate is the body of POST /api/teams.
type TeamCreate struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *TeamCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, teamID)
	c.prose("description", b.Description, MaxDescription)
	return c.details()
}

// TeamUpdate is the body of PUT /api/teams/:id. Absent fields are not changed.
type TeamUpdate struct {
	Name        *string `json:"name,omitempty"`
	Description *string `json:"description,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *TeamUpdate) Validate() map[string]string {
	var c check
	c.optionalName("name", b.Name, teamID)
	if b.Description != nil {
		c.prose("description", *b.Description, MaxDescription)
	}
	return c.details()
}

// TeamScopesReplace is the body of PUT /api/teams/:id/scopes: the whole new list.
type TeamScopesReplace struct {
	Scopes Bounded[string, scopeBound] `json:"scopes"`
}

// Validate returns what is wrong with the body, keyed by field; an entry of
// the list is named scopes[i].
func (b *TeamScopesReplace) Validate() map[string]string {
	var c check
	if b.Scopes == nil {
		c.add("scopes", required)
	}
	if len(b.Scopes) > len(TeamScopes) {
		c.add("scopes", "must have at most %d entries, each once", len(TeamScopes))
		return c.details()
	}
	seen := make(map[string]bool, len(b.Scopes))
	for i, s := range b.Scopes {
		field := fmt.Sprintf("scopes[%d]", i)
		c.requiredEnum(field, s, TeamScopes)
		if seen[s] {
			c.add(field, "is in the list twice")
		}
		seen[s] = true
	}
	return c.details()
}

// MemberAdd is the body of POST /api/teams/:id/members. Either UserID or Email
// identifies the user; Role defaults to DefaultRole.
type MemberAdd struct {
	UserID string `json:"userId,omitempty"`
	Email  string `json:"email,omitempty"`
	Role   string `json:"role,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *MemberAdd) Validate() map[string]string {
	var c check
	if b.UserID == "" && b.Email == "" {
		c.add("userId", "userId or email is required")
	}
	c.userID("userId", b.UserID)
	if b.Email != "" && !validEmail(b.Email) {
		c.add("email", "must be an email address")
	}
	c.enum("role", b.Role, Roles)
	return c.details()
}

// MemberRemove is the body of DELETE /api/teams/:id/members.
type MemberRemove struct {
	UserID string `json:"userId"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *MemberRemove) Validate() map[string]string {
	var c check
	if b.UserID == "" {
		c.add("userId", required)
	}
	c.userID("userId", b.UserID)
	return c.details()
}

// userID checks a user's identifier, which the identity provider chooses
// (auth0|5f7c…, a mail address): any single line of limited length without
// spaces.
func (c *check) userID(field, s string) {
	c.text(field, s, MaxUserID)
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' {
			c.add(field, "must not contain spaces")
			return
		}
	}
}

// MaxUserID bounds a user's identifier.
const MaxUserID = 128
