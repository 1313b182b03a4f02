package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
)

// MaxAuditSeq bounds the sequence number of an audit line: the largest integer that
// every JSON reader represents exactly.
const MaxAuditSeq = 1<<53 - 1

// AuditHeadReport is the body of POST /api/audit/heads: the head of a gateway's audit
// chain. OldestLine is the number of the oldest line that the files of the log have, as
// in checkpoints, 0 when the report does not state it: rotation removed the lines
// before it, and a log that begins later was cut. A gateway that signs its checkpoints
// signs its reports with the same key. PublicKey and Signature are base64; either both
// are set or neither.
type AuditHeadReport struct {
	Gateway    string `json:"gateway"`
	Trail      string `json:"trail"`
	Seq        int64  `json:"seq"`
	Hash       string `json:"hash"`
	OldestLine int64  `json:"oldestLine,omitempty"`
	PublicKey  string `json:"publicKey,omitempty"`
	Signature  string `json:"signature,omitempty"`
}

// SignedText returns the text that the signature of a report covers.
func (r *AuditHeadReport) SignedText() []byte {
	return fmt.Appendf(nil, "svc audit head 1\n%q\n%q\n%d\n%s\n%d\n", r.Gateway, r.Trail, r.Seq, r.Hash, r.OldestLine)
}

// AuditKeyID returns the id of a public key in audit files: the first 8 bytes of its
// SHA-256, in hex. It is empty for a text that is not a key.
func AuditKeyID(publicKey string) string {
	key, err := base64.StdEncoding.Strict().DecodeString(publicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return ""
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// signature checks the key and the signature of a report that has them.
func (r *AuditHeadReport) signature(c *check) {
	if r.PublicKey == "" && r.Signature == "" {
		return
	}
	key, err := base64.StdEncoding.Strict().DecodeString(r.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		c.add("publicKey", "must be an Ed25519 key of 32 bytes, in base64")
		return
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(r.Signature)
	if err != nil || !ed25519.Verify(key, r.SignedText(), sig) {
		c.add("signature", "is not the signature of this head with publicKey")
	}
}

// Validate returns what is wrong, by field.
func (r *AuditHeadReport) Validate() map[string]string {
	var c check
	c.line("gateway", r.Gateway)
	c.requiredID("trail", r.Trail)
	if r.Seq < 1 || r.Seq > MaxAuditSeq {
		c.add("seq", "must be from 1 to %d", int64(MaxAuditSeq))
	}
	if !isHash(r.Hash) {
		c.add("hash", "must be 64 lower-case hex digits")
	}
	if r.OldestLine < 0 || r.OldestLine > MaxAuditSeq {
		c.add("oldestLine", "must be from 1 to %d", int64(MaxAuditSeq))
	}
	r.signature(&c)
	return c.details()
}

func isHash(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// AuditHead is the stored head of a gateway's audit chain. Signed is true when the
// report was signed with PublicKey; KeyID is the key's id in audit files. A report
// without a signature could come from any holder of an ingest key. OfferedKeys are
// other keys with which reports about the gateway were signed; these reports were
// rejected. Passed are older heads that a later head superseded, newest first and
// thinned with age. Earlier are heads that a later report contradicted: the audit file
// was truncated, replaced or restarted.
type AuditHead struct {
	AuditHeadReport
	Signed      bool               `json:"signed"`
	KeyID       string             `json:"keyId,omitempty"`
	ReportedAt  time.Time          `json:"reportedAt"`
	Passed      []EarlierAuditHead `json:"passed"`
	Earlier     []EarlierAuditHead `json:"earlier"`
	OfferedKeys []OfferedAuditKey  `json:"offeredKeys"`
}

// OfferedAuditKey is a key, other than the gateway's, that signed a rejected report.
type OfferedAuditKey struct {
	PublicKey string    `json:"publicKey"`
	KeyID     string    `json:"keyId"`
	OfferedAt time.Time `json:"offeredAt"`
}

// AuditKeyAccept is the body of POST /api/audit/heads/accept: the new key for the
// signatures of a gateway's heads.
type AuditKeyAccept struct {
	Gateway   string `json:"gateway"`
	PublicKey string `json:"publicKey"`
}

// Validate returns what is wrong, by field.
func (a *AuditKeyAccept) Validate() map[string]string {
	var c check
	c.line("gateway", a.Gateway)
	if AuditKeyID(a.PublicKey) == "" {
		c.add("publicKey", "must be an Ed25519 key of 32 bytes, in base64")
	}
	return c.details()
}

// AuditKey is the key with which the heads of a gateway must be signed.
type AuditKey struct {
	Gateway   string    `json:"gateway"`
	PublicKey string    `json:"publicKey"`
	KeyID     string    `json:"keyId"`
	BoundAt   time.Time `json:"boundAt"`
}

// EarlierAuditHead is a head that was reported before the current one.
type EarlierAuditHead struct {
	Seq        int64     `json:"seq"`
	Hash       string    `json:"hash"`
	ReportedAt time.Time `json:"reportedAt"`
}
