package store

import (
	"context"
	"time"
)

// AuditHead is the head of one gateway's audit chain, as the gateway reported it: a
// line that its audit file must contain from then on.
type AuditHead struct {
	Gateway string // the gateway's name
	Trail   string // id of the audit file, a digest of its path
	Seq     uint64 // number of the last line
	Hash    string // hash of the last line, 64 hex digits
	// OldestLine is the number of the oldest line that the files of the log have; 0 if
	// the report did not state it.
	OldestLine uint64 `json:",omitempty"`
	// PublicKey is the key that signed the report, in base64. The caller must have
	// checked the signature. It is empty for an unsigned report.
	PublicKey string
	// ReportedAt is the time when the head was stored.
	ReportedAt time.Time
	// Earlier are heads that a later report contradicted, newest first: after them
	// the file was truncated, replaced or started again. At most MaxEarlierHeads
	// are kept; the oldest half and the highest are never dropped.
	Earlier []EarlierHead
	// Passed are superseded heads, which later heads continued, newest first: at
	// most MaxPassedHeads, sparser the older they are, and always the oldest. The
	// file must contain these lines too; a rewritten chain does not. A
	// contradiction empties the list.
	Passed []EarlierHead
	// Offered are other keys that signed reports about the gateway and were
	// rejected, oldest first. Only ListAuditHeads sets it.
	Offered []OfferedKey `json:",omitempty"`
}

// EarlierHead is a head that a later report contradicted or superseded.
type EarlierHead struct {
	Seq        uint64
	Hash       string
	ReportedAt time.Time
}

// OfferedKey is a rejected key: the gateway's name is bound to another key.
type OfferedKey struct {
	PublicKey string
	OfferedAt time.Time
}

// AuditKey is the key that the name of a gateway is bound to; it signs the heads of
// the gateway.
type AuditKey struct {
	Gateway   string
	PublicKey string
	BoundAt   time.Time
	// HeardAt is when a process of the gateway last reported that was removed from the list since then.
	HeardAt time.Time `json:",omitzero"`
	// Offered are at most MaxOfferedKeys rejected keys, oldest first. A newer key
	// replaces the last one.
	Offered []OfferedKey
}

// Bounds on what gateways can store in a tenant.
const (
	MaxAuditTrails      = 10_000
	MaxUnsignedGateways = 100
	MaxUnsignedTrails   = 1_000
	MaxEarlierHeads     = 32
	MaxPassedHeads      = 64
	MaxOfferedKeys      = 4
)

// AuditHeads stores the heads of the gateways' audit chains where nobody who can
// rewrite the audit files can change them.
type AuditHeads interface {
	// ReportAuditHead stores a head; ReportedAt, Passed and Earlier are set by the
	// store. A head with a lower number than the stored one, or with the same
	// number and another hash, contradicts the stored one, which moves to Earlier
	// and is returned as contradicted. Reporting the same head and
	// oldest line again changes nothing. The first signed head of a gateway binds its name to the key. Signed
	// and unsigned heads are stored separately. Conflict ("publicKey"): the name is
	// bound to another key. Invalid ("gateway"): the tenant has MaxAuditTrails
	// audit logs, or unsigned heads of MaxUnsignedGateways gateways.
	ReportAuditHead(ctx context.Context, head AuditHead) (stored AuditHead, contradicted *EarlierHead, err error)
	// AcceptAuditKey binds the name of a gateway to another key. It returns
	// NotFound when no signed head of the gateway was reported.
	AcceptAuditKey(ctx context.Context, gateway, publicKey string) (AuditKey, error)
	// ListAuditHeads returns all heads, sorted by gateway and log id, signed heads
	// first.
	ListAuditHeads(ctx context.Context) ([]AuditHead, error)
}

// RefusedKeyObject is a key whose reports in the name of a gateway are refused, as audit events record it.
func RefusedKeyObject(gateway, publicKey string) *Object {
	return newObject("refusedKey", gateway, gateway, "", map[string]any{"gateway": gateway, "publicKey": publicKey})
}

// Object is the key of a gateway as audit events record it.
func (k *AuditKey) Object() *Object {
	return newObject("auditKey", k.Gateway, k.Gateway, "", map[string]any{"gateway": k.Gateway, "publicKey": k.PublicKey})
}
