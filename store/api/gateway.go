package api

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Bounds on the reports of gateways.
const (
	// MaxGatewayReport bounds the body of PUT /api/gateways/:name, in bytes.
	MaxGatewayReport = 64 << 10
	// MaxGatewayUpstreams bounds the upstreams of a report.
	MaxGatewayUpstreams = 256
	// MaxGatewayPending bounds the configuration keys of a report that need a restart.
	MaxGatewayPending = 64
	// MaxGatewayText bounds a string of a report, in characters.
	MaxGatewayText = 256
)

// States of a gateway and of its instances. Silent is given by the control plane.
const (
	GatewayRunning = "running"
	GatewayStopped = "stopped"
	GatewaySilent  = "silent"
)

// GatewayStates are the states that a gateway reports.
var GatewayStates = []string{GatewayRunning, GatewayStopped}

// UpstreamStates are the states of an upstream of a gateway: it answers, its last requests failed, its circuit
// breaker is open, nobody has asked it.
var UpstreamStates = []string{"ok", "failing", "open", "unknown"}

type (
	pendingBound  struct{}
	upstreamBound struct{}
)

// Max returns the bound.
func (pendingBound) Max() int { return MaxGatewayPending }

// Max returns the bound.
func (upstreamBound) Max() int { return MaxGatewayUpstreams }

// GatewayReport is the body of PUT /api/gateways/:name: what one process of a gateway says about itself.
// Members that are not listed here are ignored. A gateway with audit.checkpoint_key_file signs the body with
// that key, in the header [SignatureHeader].
type GatewayReport struct {
	// Instance identifies the process: 32 hexadecimal digits, made at its start.
	Instance string `json:"instance"`
	// Seq ascends with the reports of the process, from 1 on: an older report that arrives late changes
	// nothing.
	Seq       int64     `json:"seq"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	State     string    `json:"state"` // one of GatewayStates
	// ConfigDigest is equal for equal configuration files of one tenant: 16 hexadecimal digits, an HMAC under the
	// tenant's hashKey over the file before ${…} is expanded. Empty while the key is not known.
	ConfigDigest string `json:"configDigest"`
	// RestartPending are the keys of the configuration that have changed and need a restart.
	RestartPending Bounded[string, pendingBound]           `json:"restartPending"`
	Governance     GatewayGovernance                       `json:"governance"`
	Upstreams      Bounded[GatewayUpstream, upstreamBound] `json:"upstreams"`
	Audit          GatewayAudit                            `json:"audit"`
	License        GatewayLicense                          `json:"license"`
	// Calls, Blocked and Failed are the requests since the start: all, those that were denied, and those
	// that failed.
	Calls   int64 `json:"calls"`
	Blocked int64 `json:"blocked"`
	Failed  int64 `json:"failed"`
}

// GatewayGovernance is what a gateway enforces of the control plane: Enabled reports whether it enforces
// the policies at all, Revision is that of the policies that it has (see Governance.Revision), and Policies
// is their number.
type GatewayGovernance struct {
	Enabled  bool  `json:"enabled"`
	Revision int64 `json:"revision"`
	Policies int64 `json:"policies"`
}

// GatewayUpstream is an upstream of a gateway: State is one of UpstreamStates, and Revision the revision
// of the protocol that it speaks, empty while that is not known.
type GatewayUpstream struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Revision string `json:"revision"`
}

// GatewayAudit is the state of a gateway's audit log: whether it can be written, how many lines were lost
// since the start, and the number of the last line.
type GatewayAudit struct {
	Writable bool  `json:"writable"`
	Lost     int64 `json:"lost"`
	LastLine int64 `json:"lastLine"`
}

// GatewayLicense is the state of a gateway's license, such as valid or expired, and the days that it has
// left, negative after its end. The state is empty where there is none.
type GatewayLicense struct {
	State    string `json:"state"`
	DaysLeft int64  `json:"daysLeft"`
}

// SignatureHeader is the header with the signature of a report: the public key and the signature of
// [GatewaySignedText], both in base64, with a space between them.
const SignatureHeader = "Svc-Signature"

// GatewayKeyHeader is the header of GET /api/governance with the id of the key that the name of a gateway is bound to.
const GatewayKeyHeader = "Svc-Gateway-Key"

// GatewaySignedText returns the text that the signature of a report covers.
func GatewaySignedText(name string, body []byte) []byte {
	return append(fmt.Appendf(nil, "svc gateway report 1\n%q\n", name), body...)
}

// GatewaySignature returns the value of SignatureHeader.
func GatewaySignature(public ed25519.PublicKey, signature []byte) string {
	return base64.StdEncoding.EncodeToString(public) + " " + base64.StdEncoding.EncodeToString(signature)
}

// VerifyGateway returns the key of a SignatureHeader that signs a report; ok is false when it does not.
func VerifyGateway(header, name string, body []byte) (publicKey string, ok bool) {
	publicKey, signature, _ := strings.Cut(header, " ")
	key, err := base64.StdEncoding.Strict().DecodeString(publicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return "", false
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(signature)
	return publicKey, err == nil && ed25519.Verify(key, GatewaySignedText(name, body), sig)
}

// Validate returns what is wrong with the body, keyed by field.
func (r *GatewayReport) Validate() map[string]string {
	var c check
	if id, err := hex.DecodeString(r.Instance); err != nil || len(id) != 16 || strings.ToLower(r.Instance) != r.Instance {
		c.add("instance", "must be 32 lower-case hex digits")
	}
	if r.Seq < 1 || r.Seq > MaxAuditSeq {
		c.add("seq", "must be from 1 to %d", int64(MaxAuditSeq))
	}
	if r.StartedAt.IsZero() {
		c.add("startedAt", required)
	}
	c.requiredEnum("state", r.State, GatewayStates)
	c.shown("version", r.Version)
	if d, err := hex.DecodeString(r.ConfigDigest); err != nil || r.ConfigDigest != "" && len(d) != 8 {
		c.add("configDigest", "must be 16 hex digits, or empty")
	}
	for i, key := range r.RestartPending {
		c.shown(fmt.Sprintf("restartPending[%d]", i), key)
	}
	for i := range r.Upstreams {
		u := &r.Upstreams[i]
		c.prefix = fmt.Sprintf("upstreams[%d].", i)
		c.shown("name", u.Name)
		c.requiredEnum("state", u.State, UpstreamStates)
		c.shown("revision", u.Revision)
	}
	c.prefix = ""
	c.shown("license.state", r.License.State)
	for _, n := range [...]struct {
		field string
		value int64
	}{
		{"governance.revision", r.Governance.Revision}, {"governance.policies", r.Governance.Policies}, {"audit.lost", r.Audit.Lost},
		{"audit.lastLine", r.Audit.LastLine}, {"calls", r.Calls}, {"blocked", r.Blocked}, {"failed", r.Failed},
	} {
		if n.value < 0 || n.value > MaxAuditSeq {
			c.add(n.field, "must be from 0 to %d", int64(MaxAuditSeq))
		}
	}
	if r.License.DaysLeft < -MaxAuditSeq || r.License.DaysLeft > MaxAuditSeq {
		c.add("license.daysLeft", "must be a number of days")
	}
	return c.details()
}

// shown checks a text that terminals and pages show: no control characters, and none that change the
// direction of the text.
func (c *check) shown(field, s string) {
	c.text(field, s, MaxGatewayText)
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
		c.add(field, "must not contain characters that change the direction of the text")
	}
}

// GatewayText returns a text as a report may have it.
func GatewayText(s string) string {
	return CleanText(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, s), MaxGatewayText)
}

// GatewayName returns what is wrong with the name of a gateway in a path; empty: nothing.
func GatewayName(name string) string {
	var c check
	c.line("name", name)
	c.shown("name", name)
	if name == "." || name == ".." {
		c.add("name", "must not be . or .., which a path cannot have")
	}
	return c.details()["name"]
}

// Gateway is a gateway with its instances: processes of one name. State is running when one of them is, else
// silent when one of them is, else stopped. Where one that has not stopped signs, only those that sign count.
type Gateway struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// SignedBy is the id of the key that the name is bound to; empty: no signed report is known.
	SignedBy  string            `json:"signedBy"`
	Instances []GatewayInstance `json:"instances"`
}

// GatewayInstance is a process of a gateway as it last reported. Its State may also be silent: nothing was
// heard of it for 90 s.
type GatewayInstance struct {
	GatewayReport
	// Signed is set when the reports are signed, and KeyID is the id of the API key that they came with.
	Signed bool   `json:"signed"`
	KeyID  string `json:"keyId"`
	// Outdated is set when the instance runs and enforces policies of which a newer revision is there, and Behind when
	// that one is older than a minute.
	Outdated bool `json:"outdated"`
	Behind   bool `json:"behind"`
	// LeftOut is how many upstreams and keys of RestartPending are left out because the answer would be large;
	// upstreams that fail are the last.
	LeftOut int `json:"leftOut,omitempty"`
	// ReportedAt is when more than counters changed, SeenAt when the process last reported.
	ReportedAt time.Time `json:"reportedAt"`
	SeenAt     time.Time `json:"seenAt"`
}

// EnforcedBy says how many of the running instances of gateways (Of) enforce a policy as it is now
// (Gateways).
type EnforcedBy struct {
	Gateways int `json:"gateways"`
	Of       int `json:"of"`
}
