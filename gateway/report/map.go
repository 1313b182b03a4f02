package report

import (
	"svc/gateway/audit"
	"svc/server/api"
)

// TraceOf returns the trace that a reporter without settings would post for an
// audit line, for those who read an audit file themselves; false when the line
// makes none. A stream makes one, when it ends.
func TraceOf(r *audit.Record) (api.TraceInput, bool) {
	m := mapper{}
	if r.Kind == audit.KindOpen || !m.wanted(r) {
		return api.TraceInput{}, false
	}
	return m.trace(r), true
}
