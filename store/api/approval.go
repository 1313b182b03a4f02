package api

import (
	"strings"
	"time"
)

// Values of Approval.NotSelf.
const (
	SelfForbidden = "true"   // the caller cannot decide, as far as it is known who the caller is
	SelfAllowed   = "false"  // the caller may decide
	SelfStrict    = "strict" // nobody can grant while it is not known who the caller is
)

// Values of Approval.Show.
const (
	ShowAll  = "all"
	ShowNone = "none"
)

// Approval says how a person decides about a call. A rule of a gateway and a policy of the control
// plane can have one; empty members have their defaults.
type Approval struct {
	// ValidFor is how long a grant can be used, and how long a refusal is remembered: a Go duration
	// from 1s to 24h, 1h by default.
	ValidFor string `json:"validFor,omitempty"`
	// Expires is when a request that nobody decided ends: from 1s to 168h, 24h by default.
	Expires string `json:"expires,omitempty"`
	// NotSelf is true (the default), false or strict.
	NotSelf string `json:"notSelf,omitempty"`
	// Show is all (the default) or none of the arguments.
	Show string `json:"show,omitempty"`
	// Note is for the approver, at most 512 characters; it never reaches the caller.
	Note string `json:"note,omitempty"`
}

// Statuses of an approval.
const (
	ApprovalPending = "pending"
	ApprovalGranted = "granted"
	ApprovalDenied  = "denied"
	ApprovalUsed    = "used"
	ApprovalExpired = "expired"
)

// ApprovalReason is a rule or a policy that asks for approval: one of the two ids is set.
type ApprovalReason struct {
	RuleID   string `json:"ruleId,omitempty"`
	PolicyID string `json:"policyId,omitempty"`
	Note     string `json:"note,omitempty"`
}

// ApprovalArgument is one value of the arguments of a call, as it would be sent, in a form that is
// safe to show: control, bidi, tag and zero-width characters are escapes.
type ApprovalArgument struct {
	// Pointer is the JSON Pointer of the value in the arguments, in which the name of a member that looks like
	// an index of an array is in quotation marks. That of another parameter of the call begins with params/.
	Pointer string `json:"pointer"`
	// Value is the JSON text of the value, shortened in its middle; Omitted is the number of
	// characters that were left out.
	Value   string `json:"value"`
	Omitted int    `json:"omitted,omitempty"`
	// Restored are the entities of the values in it that were put back in place of tokens, each once,
	// with commas between them. These values are complete.
	Restored string `json:"restored,omitempty"`
	// Tag is equal for equal values of one gateway's session key: 8 hexadecimal digits. The control
	// plane compares calls by it and does not return it.
	Tag string `json:"tag,omitempty"`
}

// ApprovalRequest is the body of POST /api/approvals: what a gateway asks for a call.
type ApprovalRequest struct {
	// Digest identifies the call: 64 hexadecimal digits, an HMAC under the session key of gateways.
	Digest string `json:"digest"`
	// KeyTag identifies that session key: 8 hexadecimal digits.
	KeyTag string `json:"keyTag"`
	// Tool is the name of a tool or prompt, or the URI of a resource, that the caller uses.
	Tool   string `json:"tool"`
	Method string `json:"method"`

	AgentName   string `json:"agentName"`
	Environment string `json:"environment,omitempty"`
	Principal   string `json:"principal"` // with its kind: key:NAME, oauth:SUBJECT, ip:ADDRESS
	Client      string `json:"client,omitempty"`
	Upstream    string `json:"upstream"`
	View        string `json:"view,omitempty"`
	Gateway     string `json:"gateway"`   // the name of the gateway
	RequestID   string `json:"requestId"` // of the request that asked

	// Persons are the names under which the person behind the caller may be known: verified claims
	// and the owner of the key. Empty: it is not known.
	Persons Bounded[string, personBound] `json:"persons,omitempty"`

	// ValidFor and Expires are in seconds, NotSelf and Show as in Approval: the strictest of all
	// reasons.
	ValidFor int    `json:"validFor"`
	Expires  int    `json:"expires"`
	NotSelf  string `json:"notSelf"`
	Show     string `json:"show"`

	Reasons   Bounded[ApprovalReason, reasonBound]     `json:"reasons"`
	Arguments Bounded[ApprovalArgument, argumentBound] `json:"arguments,omitempty"`
	// ArgumentsBytes is the size of the arguments as they would be sent; Truncated is set when
	// Arguments does not have all of their text.
	ArgumentsBytes int  `json:"argumentsBytes"`
	Truncated      bool `json:"truncated,omitempty"`
}

// ApprovalAnswer is the data of the response to POST /api/approvals, and of a claim or a release.
type ApprovalAnswer struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	// Until is when the status ends by itself: an undecided approval, a grant, a refusal.
	Until time.Time `json:"until"`
	// Reasons are those that were approved, or that ask.
	Reasons []ApprovalReason `json:"reasons"`
	// ApprovedBy is who granted it.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Similar are other open or granted calls of the tool by the principal, at most 3.
	Similar []ApprovalSimilar `json:"similar,omitempty"`
}

// ApprovalSimilar is another call, and the pointers into the arguments at which it differs, at most 8.
type ApprovalSimilar struct {
	ID      string   `json:"approvalId"`
	Differs []string `json:"differs"`
}

// ApprovalClaim is the body of POST /api/approvals/:id/claim and /release.
type ApprovalClaim struct {
	// Nonce is 32 hexadecimal digits, new for each attempt to send the call.
	Nonce string `json:"nonce"`
	// Digest is that of the call which is about to be sent.
	Digest string `json:"digest"`
}

// ApprovalDecision is the body of POST /api/approvals/:id/decision.
type ApprovalDecision struct {
	Decision string `json:"decision"` // grant, deny or revoke
	// Version is that of the approval which was read; 0 is the first one. A grant of another version
	// is refused with 409.
	Version int    `json:"version,omitempty"`
	Note    string `json:"note,omitempty"`
}

// ApprovalDecided is a decision about an approval.
type ApprovalDecided struct {
	UserID   string    `json:"userId"`
	KeyID    string    `json:"keyId"`
	Decision string    `json:"decision"`
	Note     string    `json:"note,omitempty"`
	At       time.Time `json:"at"`
}

// ApprovalRequester is the key with which an approval was requested.
type ApprovalRequester struct {
	KeyID  string `json:"keyId"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
}

// ApprovalRecord is an approval as a person reads it. Lists leave Arguments out.
type ApprovalRecord struct {
	ID string `json:"id"`
	// Version is 1, and one more after each change of reasons or terms.
	Version   int       `json:"version"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is when the status ends by itself; null when it is final.
	ExpiresAt   *time.Time        `json:"expiresAt"`
	Tool        string            `json:"tool"`
	Method      string            `json:"method"`
	AgentName   string            `json:"agentName"`
	Environment string            `json:"environment,omitempty"`
	Principal   string            `json:"principal"`
	Client      string            `json:"client,omitempty"`
	Upstream    string            `json:"upstream"`
	View        string            `json:"view,omitempty"`
	Gateway     string            `json:"gateway"`
	RequestedBy ApprovalRequester `json:"requestedBy"`
	Reasons     []ApprovalReason  `json:"reasons"`
	// SelfCheck is known, unknown or off: whether it can be told that the caller is not the one who
	// decides.
	SelfCheck      string             `json:"selfCheck"`
	Arguments      []ApprovalArgument `json:"arguments,omitempty"`
	ArgumentsBytes int                `json:"argumentsBytes"`
	Truncated      bool               `json:"truncated"`
	Decisions      []ApprovalDecided  `json:"decisions"`
	RequestID      string             `json:"requestId"`
}

// Bounds on the body of POST /api/approvals.
const (
	// MaxApprovalBody is the largest body, in bytes.
	MaxApprovalBody = 256 << 10
	// MaxApprovalReasons, MaxApprovalPersons and MaxApprovalArguments bound its lists.
	MaxApprovalReasons   = 32
	MaxApprovalPersons   = 8
	MaxApprovalArguments = 64
	// MaxApprovalPointers bounds the pointers of all arguments, and MaxApprovalText their
	// values, in bytes; one has at most half of that.
	MaxApprovalPointers = 16 << 10
	MaxApprovalText     = 64 << 10
	// MaxApprovalName bounds principals, clients and names of persons, and MaxApprovalTool the
	// name of a tool or a URI, in characters.
	MaxApprovalName = 512
	MaxApprovalTool = 4096
)

type (
	reasonBound   struct{}
	personBound   struct{}
	argumentBound struct{}
)

// Max returns the bound.
func (reasonBound) Max() int { return MaxApprovalReasons }

// Max returns the bound.
func (personBound) Max() int { return MaxApprovalPersons }

// Max returns the bound.
func (argumentBound) Max() int { return MaxApprovalArguments }

// Allowed values of an approval's members.
var (
	ApprovalStatuses  = []string{ApprovalPending, ApprovalGranted, ApprovalDenied, ApprovalUsed, ApprovalExpired}
	ApprovalDecisions = []string{"grant", "deny", "revoke"}
	ApprovalNotSelf   = []string{SelfForbidden, SelfAllowed, SelfStrict}
	ApprovalShow      = []string{ShowAll, ShowNone}
)

// Bounds on the terms of an approval.
const (
	MaxApprovalValidFor = 24 * time.Hour
	MaxApprovalExpires  = 7 * 24 * time.Hour
)

// Validate returns what is wrong, by field.
func (r *ApprovalRequest) Validate() map[string]string {
	var c check
	c.hex("digest", r.Digest, 64)
	c.hex("keyTag", r.KeyTag, 8)
	for _, f := range [...]struct {
		field, value string
		most         int
		required     bool
	}{
		{"tool", r.Tool, MaxApprovalTool, true}, {"method", r.Method, MaxName, true}, {"agentName", r.AgentName, MaxName, true},
		{"environment", r.Environment, MaxName, false}, {"principal", r.Principal, MaxApprovalName, true}, {"client", r.Client, MaxApprovalName, false},
		{"upstream", r.Upstream, MaxName, true}, {"view", r.View, MaxName, false}, {"gateway", r.Gateway, MaxName, true}, {"requestId", r.RequestID, MaxName, true},
	} {
		if f.required && f.value == "" {
			c.add(f.field, required)
		}
		c.text(f.field, f.value, f.most)
	}
	for i, p := range r.Persons {
		c.text(indexed("persons", i), p, MaxApprovalName)
	}
	c.seconds("validFor", r.ValidFor, MaxApprovalValidFor)
	c.seconds("expires", r.Expires, MaxApprovalExpires)
	c.requiredEnum("notSelf", r.NotSelf, ApprovalNotSelf)
	c.requiredEnum("show", r.Show, ApprovalShow)
	c.count("argumentsBytes", int64(r.ArgumentsBytes), MaxAuditSeq)
	if len(r.Reasons) == 0 {
		c.add("reasons", "must have at least one entry")
	}
	for i, reason := range r.Reasons {
		field := indexed("reasons", i)
		if (reason.RuleID == "") == (reason.PolicyID == "") {
			c.add(field, "must have either ruleId or policyId")
		}
		c.text(field+".ruleId", reason.RuleID, MaxName)
		c.id(field+".policyId", reason.PolicyID)
		c.message(field+".note", reason.Note)
	}
	pointers, text := 0, 0
	for i, arg := range r.Arguments {
		field := indexed("arguments", i)
		c.text(field+".pointer", arg.Pointer, MaxApprovalPointers/2)
		c.text(field+".value", arg.Value, MaxApprovalText/2)
		c.count(field+".omitted", int64(arg.Omitted), MaxAuditSeq)
		for entity := range strings.SplitSeq(arg.Restored, ",") {
			c.id(field+".restored", entity)
		}
		if arg.Tag != "" {
			c.hex(field+".tag", arg.Tag, 8)
		}
		pointers, text = pointers+len(arg.Pointer), text+len(arg.Value)
	}
	if pointers > MaxApprovalPointers || text > MaxApprovalText {
		c.add("arguments", "must have at most %d bytes of pointers and %d of values", MaxApprovalPointers, MaxApprovalText)
	}
	return c.details()
}

// hex checks that a required string is n lower-case hexadecimal digits.
func (c *check) hex(field, s string, n int) {
	if len(s) != n || strings.Trim(s, "0123456789abcdef") != "" {
		c.add(field, "must be %d lower-case hexadecimal digits", n)
	}
}

// seconds checks a number of seconds from 1 up to a duration.
func (c *check) seconds(field string, n int, most time.Duration) {
	if n < 1 || n > int(most/time.Second) {
		c.add(field, "must be an integer from 1 to %d", int(most/time.Second))
	}
}

// Validate returns what is wrong, by field.
func (b *ApprovalClaim) Validate() map[string]string {
	var c check
	c.hex("nonce", b.Nonce, 32)
	c.hex("digest", b.Digest, 64)
	return c.details()
}

// Validate returns what is wrong, by field.
func (b *ApprovalDecision) Validate() map[string]string {
	var c check
	c.requiredEnum("decision", b.Decision, ApprovalDecisions)
	c.count("version", int64(b.Version), MaxAuditSeq)
	c.message("note", b.Note)
	return c.details()
}

// validate checks the approval of a policy.
func (a *Approval) validate(c *check) {
	for _, f := range [...]struct {
		field, value string
		most         time.Duration
	}{{"approval.validFor", a.ValidFor, MaxApprovalValidFor}, {"approval.expires", a.Expires, MaxApprovalExpires}} {
		if d, err := time.ParseDuration(f.value); f.value != "" && (err != nil || d < time.Second || d > f.most) {
			c.add(f.field, "must be a duration from 1s to %dh", int(f.most/time.Hour))
		}
	}
	c.enum("approval.notSelf", a.NotSelf, ApprovalNotSelf)
	c.enum("approval.show", a.Show, ApprovalShow)
	c.message("approval.note", a.Note)
}
