package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// AuditObjectKinds are the kinds of objects whose changes are recorded.
var AuditObjectKinds = []string{"agent", "approval", "auditKey", "budget", "gateway", "key", "member", "policy", "refusedKey", "slaTarget", "team", "tenant", "user", "webhook"}

// AuditEvents is a page of GET /api/audit/events, newest first. PreviousHash is the
// hash of the event that was written just before the last one of the page, also when
// that event has been removed; it is empty when there was none.
type AuditEvents struct {
	Data         []AuditEvent `json:"data"`
	Next         string       `json:"next,omitempty"`
	PreviousHash string       `json:"previousHash"`
}

// AuditEvent is the record of one change by an administrator. Before and After are
// digests of the object; Before is empty for a creation and After for a deletion.
type AuditEvent struct {
	ID        string      `json:"id"`
	CreatedAt time.Time   `json:"createdAt"`
	Actor     AuditActor  `json:"actor"`
	Address   string      `json:"address"`
	RequestID string      `json:"requestId"`
	Method    string      `json:"method"`
	Route     string      `json:"route"`
	Object    AuditObject `json:"object"`
	Changed   []string    `json:"changed"`
	Before    string      `json:"before"`
	After     string      `json:"after"`
	Hash      string      `json:"hash"`
}

// AuditActor is the author of a change. It is empty for changes by an operator on
// the machine and by the identity provider. KeyName is the name that the key has now;
// it is empty for a deleted key, and not part of the event and its hash.
type AuditActor struct {
	KeyID     string `json:"keyId"`
	KeyName   string `json:"keyName,omitempty"`
	KeyPrefix string `json:"keyPrefix"`
	UserID    string `json:"userId"`
}

// AuditObject is the object that was changed.
type AuditObject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Link returns the hash of the event when previous is the hash of the event before
// it: SHA-256, in lower-case hexadecimal, over its parts, each as its length in
// bytes, a colon, the part and a line feed.
func (e *AuditEvent) Link(previous string) string {
	h := sha256.New()
	for _, part := range []string{
		previous, e.ID, e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000Z"),
		e.Actor.KeyID, e.Actor.KeyPrefix, e.Actor.UserID, e.Address, e.RequestID, e.Method, e.Route,
		e.Object.Kind, e.Object.ID, e.Object.Name, strings.Join(e.Changed, ","), e.Before, e.After,
	} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Whoami is the response to GET /api/whoami: the calling key and its permissions.
type Whoami struct {
	Tenant WhoamiTenant `json:"tenant"`
	Key    KeyItem      `json:"key"`
	// Team is the team that limits the key; absent for an unlimited key.
	Team   *WhoamiTeam  `json:"team,omitempty"`
	User   WhoamiUser   `json:"user"`
	Limits WhoamiLimits `json:"limits"`
}

// WhoamiTenant is the tenant of a key.
type WhoamiTenant struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// WhoamiTeam is the team that limits a key.
type WhoamiTeam struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
}

// WhoamiUser is the user of the key.
type WhoamiUser struct {
	ID    string `json:"id"`
	Email string `json:"email"`
}

// WhoamiLimits are the rate limits of the key's tenant.
type WhoamiLimits struct {
	RequestsPerMinute int `json:"requestsPerMinute"`
	IngestPerMinute   int `json:"ingestPerMinute"`
}
