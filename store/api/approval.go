package api

import "time"

// Values of Approval.NotSelf.
const (
	SelfForbidden = "true"   // the caller cannot decide, as far as it is known who the caller is
	SelfAllowed   = "false"  // the caller may decide
	SelfStrict    = "strict" // nobody can decide while it is not known who the caller is
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
	// Pointer is the JSON Pointer of the value in the arguments.
	Pointer string `json:"pointer"`
	// Value is the JSON text of the value, shortened in its middle; Omitted is the number of
	// characters that were left out.
	Value   string `json:"value"`
	Omitted int    `json:"omitted,omitempty"`
	// Restored is the entity of a value that was put back in place of a token.
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
	Persons []string `json:"persons,omitempty"`

	// ValidFor and Expires are in seconds, NotSelf and Show as in Approval: the strictest of all
	// reasons.
	ValidFor int    `json:"validFor"`
	Expires  int    `json:"expires"`
	NotSelf  string `json:"notSelf"`
	Show     string `json:"show"`

	Reasons   []ApprovalReason   `json:"reasons"`
	Arguments []ApprovalArgument `json:"arguments,omitempty"`
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
	Note     string `json:"note,omitempty"`
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
	ID        string    `json:"id"`
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
