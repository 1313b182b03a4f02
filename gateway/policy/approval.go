package policy

import "time"

// Approval says how a person decides about the calls that a rule, or a policy of the control
// plane, lets pass with a grant only. It is immutable.
type Approval struct {
	// ValidFor is how long a grant can be used, and how long a refusal is remembered; Expires is
	// when a request that nobody decided ends.
	ValidFor, Expires time.Duration
	// NotSelf is one of the values of api.Approval.NotSelf, Show one of api.Approval.Show.
	NotSelf, Show string
	// Note is for the approver; it never reaches the caller.
	Note string
}
