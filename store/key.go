package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// KeyDigest is the SHA-256 of an API key's secret. The secret itself is never stored.
type KeyDigest [sha256.Size]byte

// DigestKey returns the digest of a presented key.
func DigestKey(secret string) KeyDigest { return sha256.Sum256([]byte(secret)) }

// KeyScope is the upper limit of a key's permissions.
type KeyScope string

// The key scopes.
const (
	ScopeAPI    KeyScope = "api"
	ScopeAgent  KeyScope = "agent"
	ScopeIngest KeyScope = "ingest"
)

// Key is the metadata of an API key.
type Key struct {
	ID             string
	Name           string
	Scope          KeyScope
	Prefix         string
	TeamID         string // empty: not limited to a team's scopes
	CreatedBy      string // user id
	CreatedByEmail string
	LastUsedAt     time.Time // zero: never used
	CreatedAt      time.Time
	// SessionKeys is the number of session keys, at most 4, with which gateways have requested
	// approvals within KeyTagsWithin. Above 1 the gateways share the API key and not the
	// session key. ListKeys and GetKey set it.
	SessionKeys int `json:"-"`
}

// KeyCreate is the input of CreateKey. The caller has generated the secret.
type KeyCreate struct {
	Name      string
	Scope     KeyScope
	Prefix    string
	Digest    KeyDigest
	TeamID    string
	CreatedBy string
}

// Unlimited reports whether the key may do everything in its tenant.
func (k Key) Unlimited() bool { return k.Scope == ScopeAPI && k.TeamID == "" }

// KeyFilter restricts a list of keys. Empty fields match everything.
type KeyFilter struct {
	Scope KeyScope
}

// Credential is a valid key with its limits.
type Credential struct {
	TenantID string
	Key      Key
	Team     *Team // the team that limits it, nil for none
}

// Keys manages the API keys of a tenant.
type Keys interface {
	ListKeys(ctx context.Context, f KeyFilter, page Page) ([]Key, int, error)
	// GetKey returns NotFound for an unknown id.
	GetKey(ctx context.Context, id string) (Key, error)
	// CreateKey returns Invalid for an unknown team ("teamId") and for an unknown or
	// deactivated user ("userId"), and Conflict for a digest that exists.
	CreateKey(ctx context.Context, in KeyCreate) (Key, error)
	// DeleteKey deletes a key; every later Authenticate with it fails. It returns
	// NotFound for an unknown id, and Invalid ("id") for the last working key of the
	// tenant that is of ScopeAPI and not limited to a team. Of concurrent deletions
	// of the last such keys, one fails.
	DeleteKey(ctx context.Context, id string) error
	// RecordKeyUse records that a key was used. It neither blocks nor writes: times
	// are buffered, visible to reads at once, and written within seconds and on
	// Close.
	RecordKeyUse(id string, at time.Time)
}

// Object is the key as audit events record it: its permissions, never its secret.
func (k *Key) Object() *Object {
	return newObject("key", k.ID, k.Name, "", map[string]any{"name": k.Name, "scope": string(k.Scope), "prefix": k.Prefix, "teamId": k.TeamID, "createdBy": k.CreatedBy})
}
