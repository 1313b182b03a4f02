package refusal

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/store/api"
)

// Approval is what a client learns about the approval of its call: members of error.data.
type Approval struct {
	// ID is the id of the approval; empty without one.
	ID string
	// RetryAfter is when to ask again; zero if that is of no use.
	RetryAfter time.Duration
	// Similar are other calls of the tool that are open or granted.
	Similar []api.ApprovalSimilar
}

// appendMembers appends members of error.data, each after a comma.
func (a *Approval) appendMembers(dst []byte) []byte {
	if a.ID != "" {
		dst = mcp.AppendString(append(dst, `,"approval_id":`...), a.ID)
	}
	if a.RetryAfter > 0 {
		dst = strconv.AppendInt(append(dst, `,"retry_after":`...), int64(seconds(a.RetryAfter)), 10)
	}
	if len(a.Similar) == 0 {
		return dst
	}
	for i, s := range a.Similar {
		dst = append(dst, []string{`,"similar":[`, `,`}[min(i, 1)]...)
		dst = mcp.AppendString(append(dst, `{"approval_id":`...), s.ID)
		for j, p := range s.Differs {
			dst = mcp.AppendString(append(dst, []string{`,"differs":[`, `,`}[min(j, 1)]...), p)
		}
		if len(s.Differs) > 0 {
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// seconds returns a duration in whole seconds, at least one.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// WithApproval returns a copy with the approval of the call. continued is set for a call that continues
// another one, with a requestState.
func (r Refusal) WithApproval(a *Approval, continued bool) *Refusal {
	r.Approval = a
	switch r.Kind {
	case ApprovalRequired.Kind:
		r.Detail = a.words(continued)
	case ApprovalLimit.Kind, ApprovalUnavailable.Kind:
		r.RetryAfter = a.RetryAfter
	}
	return &r
}

// words tells a model what to do.
func (a *Approval) words(continued bool) string {
	var b strings.Builder
	b.WriteString("a person must approve this call first, and has been asked")
	if a.ID != "" {
		fmt.Fprintf(&b, " (approval %s)", a.ID)
	}
	b.WriteString(". Nothing was run. ")
	if continued {
		b.WriteString("The earlier part of the call cannot be continued: begin it again, without requestState and inputResponses. ")
	}
	fmt.Fprintf(&b, "After the approval, call the same tool again with exactly the same arguments, and it runs once. Wait at least %d seconds before you try; "+
		"with other arguments it is another call, which must be approved too", seconds(a.RetryAfter))
	for i, s := range a.Similar {
		b.WriteString([]string{". Other calls of this tool that are open or approved: ", "; "}[min(i, 1)])
		fmt.Fprintf(&b, "approval %s", s.ID)
		if len(s.Differs) > 0 {
			fmt.Fprintf(&b, ", whose arguments differ at %s", strings.Join(s.Differs, ", "))
		}
	}
	return b.String()
}
