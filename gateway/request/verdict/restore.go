package verdict

import (
	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
)

// Restore puts the values of tokens back into a request, before it is judged, and notes what was
// put back in its record.
func (in *Input) Restore(r *plane.Restoring, m *mcp.Message, rec *audit.Record) *refusal.Refusal {
	done := r.Message(m)
	in.Restored = done.Values
	for _, c := range done.Values {
		rec.Restored = addCount(rec.Restored, c)
	}
	for _, c := range done.Refused {
		rec.TokensRefused = addCount(rec.TokensRefused, c)
	}
	switch {
	case done.Err != nil:
		return &refusal.GovernanceRedact
	case done.Fault == detect.TokenElsewhere:
		return refusal.TokenElsewhere.WithPointer(done.Pointer)
	case done.Fault != "":
		return refusal.TokenInvalid.WithPointer(done.Pointer)
	}
	return nil
}
