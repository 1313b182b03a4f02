package api

import "time"

// KeyScopes are the scopes of an API key: api (everything), agent (read agents
// and traces), ingest (write traces, read the governance bundle).
var KeyScopes = []string{"api", "agent", "ingest"}

// KeyPrefixes maps a key's scope to the prefix of the key's text.
var KeyPrefixes = map[string]string{
	"api":    "svc_api_",
	"agent":  "svc_agent_",
	"ingest": "svc_ingest_",
}

// KeyItem is an API key in lists: without its secret. LastUsedAt is null for a
// key that was never used. TeamID is absent for a key without a team.
type KeyItem struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	Scope          string     `json:"scope"`
	Prefix         string     `json:"prefix"`
	TeamID         string     `json:"teamId,omitempty"`
	CreatedBy      string     `json:"createdBy"`
	CreatedByEmail string     `json:"createdByEmail"`
	LastUsedAt     *time.Time `json:"lastUsedAt"`
	CreatedAt      time.Time  `json:"createdAt"`
	// SessionKeys is the number of session keys of the gateways that requested approvals with
	// the key within a day; absent for none. Gateways that share a key must share one.
	SessionKeys int `json:"sessionKeys,omitempty"`
}

// KeyCreated is the response to the creation of an API key. Key is the secret,
// which is never returned again: a stored response for the same
// Idempotency-Key omits it.
type KeyCreated struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Scope     string    `json:"scope"`
	Key       string    `json:"key,omitempty"`
	Prefix    string    `json:"prefix"`
	TeamID    string    `json:"teamId,omitempty"`
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
}

// KeyCreate is the body of POST /api/keys. TeamID limits the key to the team's
// scopes; UserID creates the key for another user.
type KeyCreate struct {
	Name   string `json:"name"`
	Scope  string `json:"scope"`
	TeamID string `json:"teamId,omitempty"`
	UserID string `json:"userId,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *KeyCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, keyID)
	c.requiredEnum("scope", b.Scope, KeyScopes)
	c.id("teamId", b.TeamID)
	c.userID("userId", b.UserID)
	return c.details()
}
