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
	// ReportedAt is when the head was stored.
	ReportedAt time.Time
	// Earlier are heads that a later report contradicted, newest first: the file
	// was cut back, replaced or begun anew after them. At most
	// MaxEarlierHeads are kept.
	Earlier []EarlierHead
	// Passed are heads that later ones went on from, newest first: at most
	// MaxPassedHeads, fewer the older they are, and the oldest of all. The file
	// must hold these lines too; a chain that was written anew does not. A
	// contradiction empties the list.
	Passed []EarlierHead
}

// EarlierHead is a head that was reported before the last one.
type EarlierHead struct {
	Seq        uint64
	Hash       string
	ReportedAt time.Time
}

// Bounds on what gateways can make a tenant keep.
const (
	MaxAuditTrails  = 10_000
	MaxEarlierHeads = 16
	MaxPassedHeads  = 64
)

// AuditHeads is where gateways leave the ends of their audit chains, out of
// reach of whoever can rewrite their files.
type AuditHeads interface {
	// ReportAuditHead stores a head; ReportedAt and Earlier are set by the store.
	// A head with a lower number than the one before, or the same number and
	// another hash, makes that one an earlier head; the same head again changes
	// nothing. Invalid ("gateway"): the tenant has MaxAuditTrails trails.
	ReportAuditHead(ctx context.Context, head AuditHead) (AuditHead, error)
	// ListAuditHeads returns all heads, by gateway and trail.
	ListAuditHeads(ctx context.Context) ([]AuditHead, error)
}
