package gateway

import (
	"svc/gateway/refusal"
)

// countRefusal reports whether a refused request, or a preflight, was counted, and
// so has no audit line of its own: its caller was not identified, and others like
// it came at a high rate. It then waits for no disk. Where nobody is asked for credentials every
// request has its line.
func (ex *exchange) countRefusal(refused *refusal.Refusal) bool {
	if ex.identified || ex.audited || ex.live.callers.Open() {
		return false
	}
	switch refused.Kind {
	case refusal.Scope.Kind, refusal.Panic.Kind, refusal.Audit.Kind: // a good token; no doing of the caller
		return false
	}
	if ex.g.refused.OwnLine(ex.addr, refused.Kind, ex.start) {
		return false
	}
	ex.counted = true
	ex.rec.Status = refused.Status
	ex.rec.Duration = ex.g.since(ex.start)
	return true
}
