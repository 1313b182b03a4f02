package display

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"svc/store/api"
)

// Decisions returns the decisions that a person can make about an approval with a status.
func Decisions(status string) []string {
	switch status {
	case api.ApprovalPending:
		return []string{"grant", "deny"}
	case api.ApprovalGranted:
		return []string{"revoke"}
	}
	return nil
}

// ApprovalState returns the status of an approval.
func ApprovalState(status string) Word {
	switch status {
	case api.ApprovalPending:
		return Word{"▲ pending", Warn}
	case api.ApprovalGranted:
		return Word{"● granted", Good}
	case api.ApprovalDenied:
		return Word{"✕ denied", Bad}
	}
	return Word{"○ " + status, Dim}
}

// ApprovalAge returns how long an approval has waited for a decision, or a grant for its use.
func ApprovalAge(r *api.ApprovalRecord, now time.Time) string {
	switch n := len(r.Decisions); {
	case r.Status == api.ApprovalPending:
		return "waits " + Span(now.Sub(r.CreatedAt))
	case r.Status == api.ApprovalGranted && n > 0:
		return "unused " + Span(now.Sub(r.Decisions[n-1].At))
	}
	return ""
}

// Reason is a rule or a policy that asks for approval.
type Reason struct{ Kind, ID, Note string }

// Text returns the id with the note.
func (r Reason) Text() string { return strings.TrimSuffix(r.ID+": "+r.Note, ": ") }

// Reasons returns why a call needs approval.
func Reasons(r *api.ApprovalRecord) []Reason {
	out := make([]Reason, len(r.Reasons))
	for i, reason := range r.Reasons {
		out[i] = Reason{"Rule", cmp.Or(reason.RuleID, reason.PolicyID), reason.Note}
		if reason.PolicyID != "" {
			out[i].Kind = "Policy"
		}
	}
	return out
}

// SelfCheck says whether it can be told that the caller is not the one who decides.
func SelfCheck(check string) string {
	if check == "unknown" {
		return "unknown: the caller's person is not known"
	}
	return check
}

// ArgumentsSize says how much of the arguments of a call is shown.
func ArgumentsSize(r *api.ApprovalRecord) string {
	if len(r.Arguments) == 0 && r.ArgumentsBytes > 0 {
		return Count(int64(r.ArgumentsBytes)) + " bytes, not shown: by its rule, or to this key"
	}
	size := fmt.Sprintf("%s, %s bytes", Plural(len(r.Arguments), "value", "values"), Count(int64(r.ArgumentsBytes)))
	if r.Truncated {
		size += ", shortened"
	}
	return size
}

// ArgumentNotes says what an approver must know about a value: what was left out, and what was put back into it.
func ArgumentNotes(a *api.ApprovalArgument) (notes []string) {
	if a.Omitted > 0 {
		notes = append(notes, Count(int64(a.Omitted))+" characters left out")
	}
	if a.Restored != "" {
		notes = append(notes, "restored: "+a.Restored)
	}
	return notes
}

// DecisionAdvice returns what to do when a key may not decide, by the reason that the API gives; empty: it is not
// known.
func DecisionAdvice(message string) string {
	for _, h := range decisionAdvice {
		if strings.Contains(message, h.part) {
			return h.advice
		}
	}
	return ""
}

var decisionAdvice = [...]struct{ part, advice string }{
	{"own call", "another person must decide, with a key of that person"},
	{"who the caller is", "name the person with auth.keys[].owner or a token's claims, or set not_self: true in the rule"},
	{"made after", "use a key that existed before the request, or let the caller ask again after the approval has ended"},
}
