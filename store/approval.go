package store

import (
	"context"
	"fmt"
	"time"
)

// Statuses of an approval.
const (
	ApprovalPending = "pending" // nobody has decided
	ApprovalGranted = "granted" // the call may be sent once
	ApprovalDenied  = "denied"  // refused, or a grant that was revoked
	ApprovalUsed    = "used"    // the call was sent
	ApprovalExpired = "expired" // ended without a decision, or without a use of the grant
)

// ApprovalStatuses are all statuses.
var ApprovalStatuses = []string{ApprovalPending, ApprovalGranted, ApprovalDenied, ApprovalUsed, ApprovalExpired}

// Decisions about an approval.
const (
	DecisionGrant  = "grant"
	DecisionDeny   = "deny"
	DecisionRevoke = "revoke" // of a grant
)

// Values of ApprovalCall.NotSelf, from the laxest to the strictest.
const (
	SelfAllowed   = "false"
	SelfForbidden = "true"
	SelfStrict    = "strict"
)

// Values of ApprovalCall.Show.
const (
	ShowAll  = "all"
	ShowNone = "none"
)

// Bounds on approvals. An approval is open while it is pending.
const (
	MaxOpenApprovals          = 1000 // of a tenant
	MaxOpenApprovalsKey       = 250  // of the key of a gateway
	MaxOpenApprovalsPrincipal = 20
	MaxNewApprovals           = 60 // of a principal in an hour
	// MaxRefusals of a principal and tool within RefusalPause pause its requests for
	// RefusalPause.
	MaxRefusals  = 5
	RefusalPause = 10 * time.Minute

	// MaxApprovalLife is longer than the time from a request to the end of its approval.
	MaxApprovalLife = 9 * 24 * time.Hour

	MaxApprovalReasons = 32
	MaxApprovalPersons = 8
	// ReleaseWithin is how long after its claim a grant can be given back.
	ReleaseWithin = 30 * time.Second
	// KeyTagsWithin is the time in which two tags of session keys under one API key are a
	// misconfiguration.
	KeyTagsWithin = 24 * time.Hour
)

// ApprovalReason is a rule or a policy that asks for approval.
type ApprovalReason struct {
	RuleID   string `json:",omitempty"`
	PolicyID string `json:",omitempty"`
	Note     string `json:",omitempty"`
}

// ApprovalArgument is one value of the arguments of a call: the text to show, the number of
// characters left out of it, the entities of values that were put back in place of tokens, and
// the tag by which values of calls are compared.
type ApprovalArgument struct {
	Pointer  string
	Value    string
	Omitted  int    `json:",omitempty"`
	Restored string `json:",omitempty"`
	Tag      string `json:",omitempty"`
}

// ApprovalCall is a call that needs approval, as a gateway describes it.
type ApprovalCall struct {
	Digest string // identifies the call among those of the gateway's key
	KeyTag string // identifies the session key that Digest was made with
	Tool   string
	Method string

	AgentName   string
	Environment string `json:",omitempty"`
	Principal   string
	Client      string `json:",omitempty"`
	Upstream    string
	View        string `json:",omitempty"`
	Gateway     string
	RequestID   string
	Persons     []string `json:",omitempty"` // names of the person behind the caller; none: not known

	ValidFor time.Duration // of a grant, and of a refusal
	Expires  time.Duration // of an approval that nobody decides
	NotSelf  string
	Show     string
	Reasons  []ApprovalReason

	Arguments      []ApprovalArgument `json:"-"` // stored on their own
	ArgumentsBytes int
	Truncated      bool `json:",omitempty"`
}

// ApprovalDecided is a decision about an approval.
type ApprovalDecided struct {
	UserID   string
	KeyID    string
	Decision string
	Note     string `json:",omitempty"`
	At       time.Time
}

// ApprovalRequester is the key with which an approval was requested.
type ApprovalRequester struct{ KeyID, Name, Prefix string }

// Approval is a call that a person decides about.
type Approval struct {
	ID string
	// Version is 1, and one more after each change of what is decided about: further reasons, other
	// terms.
	Version int
	ApprovalCall
	Status      string
	CreatedAt   time.Time
	Until       time.Time `json:",omitzero"` // when the status ends by itself; zero when it is final
	EndedAt     time.Time `json:",omitzero"` // when it was denied, used or expired
	RequestedBy ApprovalRequester
	Decisions   []ApprovalDecided `json:",omitempty"`
	// Nonce is that of the last claim, and GrantedUntil the end of the grant that it used.
	Nonce        string    `json:",omitempty"`
	GrantedUntil time.Time `json:",omitzero"`
}

// ApprovalOutcome is the result of RequestApproval.
type ApprovalOutcome struct {
	Approval
	Created bool
	// Similar are at most 3 other pending or granted calls of the tool by the principal, for
	// a pending approval.
	Similar []ApprovalSimilar
	// NewKeyTag reports that KeyTag was not seen before within KeyTagsWithin, and another
	// one was: gateways with different session keys share an API key.
	NewKeyTag bool
}

// ApprovalSimilar is another call, and at most 8 pointers into the arguments at which it
// differs.
type ApprovalSimilar struct {
	ID      string
	Differs []string
}

// ApprovalClaim is the input of ClaimApproval and ReleaseApproval.
type ApprovalClaim struct {
	KeyID  string // of the gateway
	Nonce  string
	Digest string
}

// ApprovalDecision is the input of DecideApproval.
type ApprovalDecision struct {
	KeyID    string // of the person who decides
	Decision string
	// Version is that of the approval which the person has read; 0 is the first one. A grant of
	// another version is refused.
	Version int
	Note    string
}

// ApprovalFilter restricts a list of approvals. Zero fields match everything.
type ApprovalFilter struct {
	Status string
	TeamID string // only those of the team's agents
}

// ApprovalLimitError rejects a request for approval beyond a bound.
type ApprovalLimitError struct {
	Limit      string
	RetryAfter time.Duration
}

func (e *ApprovalLimitError) Error() string {
	return fmt.Sprintf("no further approval can be requested: %s; try again in %s", e.Limit, e.RetryAfter.Round(time.Second))
}

// Approvals manages the calls of a tenant that persons decide about. A status ends at Until in
// every read and write, also before EndApprovals has written that.
type Approvals interface {
	// RequestApproval returns the pending, granted or denied approval of a call of the key,
	// or makes one. Reasons that a pending one does not have are added to it, with the
	// stricter of the terms; a grant for other reasons ends, and a new approval is made. It
	// returns an ApprovalLimitError beyond a bound.
	RequestApproval(ctx context.Context, keyID string, call ApprovalCall) (ApprovalOutcome, error)
	// ClaimApproval uses a grant: of concurrent claims the first one wins. The same nonce
	// gets the same result. It returns NotFound for an approval of another key, and Conflict
	// when there is no grant for the nonce or the digest is another one.
	ClaimApproval(ctx context.Context, id string, in ApprovalClaim) (Approval, error)
	// ReleaseApproval gives a grant back, within ReleaseWithin, that the same nonce has
	// claimed; no later claim can have the nonce. Errors are those of ClaimApproval.
	ReleaseApproval(ctx context.Context, id string, in ApprovalClaim) (Approval, error)
	// DecideApproval decides with a key. It returns NotFound, also for an agent that the key's
	// team does not have, Forbidden when the key may not decide, and Conflict when the status
	// does not allow the decision or the version of a grant is another one. The same decision
	// by the same key again changes nothing.
	DecideApproval(ctx context.Context, id string, in ApprovalDecision) (Approval, error)
	// GetApproval returns an approval, with the arguments only if the key could decide; an
	// empty key could not. It returns NotFound for one that is not of an agent of the team;
	// an empty team has all.
	GetApproval(ctx context.Context, id, keyID, teamID string) (Approval, error)
	// ListApprovals returns approvals without their arguments, newest first.
	ListApprovals(ctx context.Context, f ApprovalFilter, page Page) ([]Approval, int, error)
	// EndApprovals writes the end of approvals whose time is over, in one bounded
	// transaction, and returns the number of open ones.
	EndApprovals(ctx context.Context) (open int, more bool, err error)
	// LapseApprovals ends the time of all pending and granted approvals: those of a backup
	// may have been decided and used since.
	LapseApprovals(ctx context.Context) error
}

// Settle gives the approval the status that it has at a time.
func (a *Approval) Settle(now time.Time) {
	if a.Until.IsZero() || now.Before(a.Until) {
		return
	}
	if a.Live() {
		a.Status, a.EndedAt = ApprovalExpired, a.Until
	}
	a.Until = time.Time{}
}

// Live reports whether the approval is pending or granted.
func (a *Approval) Live() bool { return a.Status == ApprovalPending || a.Status == ApprovalGranted }

// SelfCheck returns off when the caller may decide, known when it is known which person the
// caller is, and unknown otherwise.
func (a *Approval) SelfCheck() string {
	switch {
	case a.NotSelf == SelfAllowed:
		return "off"
	case len(a.Persons) > 0:
		return "known"
	}
	return "unknown"
}

// GrantedBy returns the id of the user who granted the approval; empty when nobody did.
func (a *Approval) GrantedBy() (userID string) {
	for _, d := range a.Decisions {
		if d.Decision == DecisionGrant {
			userID = d.UserID
		}
	}
	return userID
}

// Object is the approval as audit events record it.
func (a *Approval) Object() *Object {
	fields := map[string]any{"tool": a.Tool, "method": a.Method, "agentName": a.AgentName, "principal": a.Principal, "upstream": a.Upstream,
		"gateway": a.Gateway, "digest": a.Digest, "status": a.Status}
	if n := len(a.Decisions); n > 0 {
		fields["decision"], fields["note"] = a.Decisions[n-1].Decision, a.Decisions[n-1].Note
	}
	return newObject("approval", a.ID, a.Tool, "", fields)
}
