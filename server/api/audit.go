package api

import "time"

// MaxAuditSeq bounds the number of an audit line: what every JSON reader can
// hold exactly.
const MaxAuditSeq = 1<<53 - 1

// AuditHeadReport is the body of POST /api/audit/heads: the end of a gateway's
// audit chain.
type AuditHeadReport struct {
	Gateway string `json:"gateway"`
	Trail   string `json:"trail"`
	Seq     int64  `json:"seq"`
	Hash    string `json:"hash"`
}

// Validate returns what is wrong, by field.
func (r *AuditHeadReport) Validate() map[string]string {
	var c check
	c.name("gateway", r.Gateway)
	c.requiredID("trail", r.Trail)
	if r.Seq < 1 || r.Seq > MaxAuditSeq {
		c.add("seq", "must be from 1 to %d", int64(MaxAuditSeq))
	}
	if !isHash(r.Hash) {
		c.add("hash", "must be 64 lower-case hex digits")
	}
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

// AuditHead is the end of a gateway's audit chain as it is kept. Passed are
// older heads that later ones went on from, newest first and thinned with age;
// Earlier are heads that a later report did not go on from: the file was cut
// back, replaced or begun anew.
type AuditHead struct {
	AuditHeadReport
	ReportedAt time.Time          `json:"reportedAt"`
	Passed     []EarlierAuditHead `json:"passed"`
	Earlier    []EarlierAuditHead `json:"earlier"`
}

// EarlierAuditHead is a head that was reported before the last one.
type EarlierAuditHead struct {
	Seq        int64     `json:"seq"`
	Hash       string    `json:"hash"`
	ReportedAt time.Time `json:"reportedAt"`
}
