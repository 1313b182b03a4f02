package report

import (
	"testing"

	"svc/gateway/audit"
)

func TestTraceOfALineForReaders(t *testing.T) {
	rec := call(id(1))
	rec.Kind = audit.KindRequest
	tr, ok := TraceOf(rec)
	if !ok || tr.ID != id(1) || tr.AgentName == "" || len(tr.Spans) == 0 {
		t.Errorf("%v %+v", ok, tr)
	}
	rec.Kind = audit.KindOpen
	if _, ok := TraceOf(rec); ok {
		t.Error("an open stream is no trace yet")
	}
	rec.Kind, rec.Refused = audit.KindSummary, &audit.Refused{Counts: []audit.KindCount{{ErrorKind: "unauthorized", Requests: 3}}}
	if _, ok := TraceOf(rec); ok {
		t.Error("a summary of refused requests is no trace")
	}
	rec.Refused = nil
	rec.Kind, rec.Method = audit.KindRequest, "ping"
	if _, ok := TraceOf(rec); ok {
		t.Error("a ping is no trace")
	}
}
