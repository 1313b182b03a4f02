package report

import (
	"svc/gateway/audit"
	"svc/server/api"
)

// TraceOf returns the trace of an audit line with the settings of a default reporter, for
// commands that read audit files; false when the line has no trace. A stream has one
// trace, at its end.
func TraceOf(r *audit.Record) (api.TraceInput, bool) {
	m := mapper{}
	if r.Kind == audit.KindOpen || !m.wanted(r) {
		return api.TraceInput{}, false
	}
	return m.trace(r), true
}
