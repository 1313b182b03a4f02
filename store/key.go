package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// KeyDigest is the SHA-256 of an API key's secret. The secret itself is never stored.
type KeyDigest [sha256.Size]byte

// DigestKey is the digest of a presented key.
func DigestKey(secret string) KeyDigest { return sha256.Sum256([]byte(secret)) }

// KeyScope says what a key may do at most.
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
}

// KeyCreate asks for a key whose secret has been made by the caller.
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

// KeyFilter narrows a list of keys; empty fields do not.
type KeyFilter struct {
	Scope KeyScope
}

// Credential is a key that may be used now, and what it is limited to.
type Credential struct {
	TenantID string
	Key      Key
	Team     *Team // the team it is limited to, nil for none
}

// Keys is the API keys of a tenant.
type Keys interface {
	ListKeys(ctx context.Context, f KeyFilter, page Page) ([]Key, int, error)
	// GetKey returns NotFound for an unknown id.
	GetKey(ctx context.Context, id string) (Key, error)
	// CreateKey returns Invalid for an unknown team ("teamId") or user ("userId",
	// also for one that is deactivated), Conflict for a digest that exists.
	CreateKey(ctx context.Context, in KeyCreate) (Key, error)
	// DeleteKey makes a key fail from the next Authenticate on. NotFound: no such
	// key. Invalid ("id"): the key works, is of ScopeAPI and not limited to a team,
	// and no other such key of the tenant works; of concurrent deletions one fails.
	DeleteKey(ctx context.Context, id string) error
	// RecordKeyUse notes that a key was used. It neither blocks nor writes: times are
	// collected, shown by reads at once and written within seconds and on Close.
	RecordKeyUse(id string, at time.Time)
}

// Object is the key for records of its changes: what it may do, never its secret.
func (k *Key) Object() *Object {
	return newObject("key", k.ID, k.Name, "", map[string]any{"name": k.Name, "scope": string(k.Scope), "prefix": k.Prefix, "teamId": k.TeamID, "createdBy": k.CreatedBy})
}
