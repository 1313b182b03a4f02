package store

import (
	"context"
	"time"
)

// AuditHead is the end of one gateway's audit chain, as the gateway told it: a
// line that its audit file must hold for ever after.
type AuditHead struct {
	Gateway string // the gateway's name
	Trail   string // which of its audit files, by a digest of the path
	Seq     uint64 // number of the line
	Hash    string // of the line, 64 hex digits
	// PublicKey is the key that signed the report, in base64; the caller has
	// checked the signature. Empty when the report was not signed.
	PublicKey string
	// ReportedAt is when the head was stored.
	ReportedAt time.Time
	// Earlier are heads that a later report contradicted, newest first: the file
	// was cut back, replaced or begun again after them. At most MaxEarlierHeads are
	// kept; the oldest half and the highest stay.
	Earlier []EarlierHead
	// Passed are heads that later ones went on from, newest first: at most
	// MaxPassedHeads, fewer the older they are, and the oldest of all. The file
	// must hold these lines too; a chain that was written again does not. A
	// contradiction empties the list.
	Passed []EarlierHead
	// Offered are other keys that signed reports about the gateway and were
	// refused, oldest first. Only ListAuditHeads sets it.
	Offered []OfferedKey `json:",omitempty"`
}

// EarlierHead is a head that was reported before the last one.
type EarlierHead struct {
	Seq        uint64
	Hash       string
	ReportedAt time.Time
}

// OfferedKey is a key that is not the one of its gateway.
type OfferedKey struct {
	PublicKey string
	OfferedAt time.Time
}

// AuditKey is the key that signs the heads of a gateway.
type AuditKey struct {
	Gateway   string
	PublicKey string
	BoundAt   time.Time
	// Offered are at most MaxOfferedKeys others, oldest first; the last one gives
	// way to a newer one.
	Offered []OfferedKey
}

// Bounds on what gateways can make a tenant keep.
const (
	MaxAuditTrails      = 10_000
	MaxUnsignedGateways = 100
	MaxUnsignedTrails   = 1_000
	MaxEarlierHeads     = 32
	MaxPassedHeads      = 64
	MaxOfferedKeys      = 4
)

// AuditHeads is where gateways leave the ends of their audit chains, out of
// reach of whoever can rewrite their files.
type AuditHeads interface {
	// ReportAuditHead stores a head; ReportedAt, Passed and Earlier are set by the
	// store. A head with a lower number than the one before, or the same number
	// and another hash, makes that one an earlier head, which is returned as
	// contradicted; the same head again changes nothing. The first signed head of
	// a gateway binds its name to the key. Signed and unsigned heads are kept
	// apart. Conflict ("publicKey"): the name is bound to another key. Invalid
	// ("gateway"): the tenant has MaxAuditTrails trails, or heads of
	// MaxUnsignedGateways gateways that are not signed.
	ReportAuditHead(ctx context.Context, head AuditHead) (stored AuditHead, contradicted *EarlierHead, err error)
	// AcceptAuditKey binds the name of a gateway to another key. NotFound: no
	// signed head of the gateway was reported.
	AcceptAuditKey(ctx context.Context, gateway, publicKey string) (AuditKey, error)
	// ListAuditHeads returns all heads, by gateway and trail, signed ones first.
	ListAuditHeads(ctx context.Context) ([]AuditHead, error)
}

// Object is the key of a gateway for records of its changes.
func (k *AuditKey) Object() *Object {
	return newObject("auditKey", k.Gateway, k.Gateway, "", map[string]any{"gateway": k.Gateway, "publicKey": k.PublicKey})
}
