package audit

import "testing"

func TestTraceOfALineForReaders(t *testing.T) {
	rec := call(id(1))
	rec.Kind = KindRequest
	tr, ok := TraceOf(rec, reasonOf, closed)
	if !ok || tr.ID != id(1) || tr.AgentName == "" || len(tr.Spans) == 0 {
		t.Errorf("%v %+v", ok, tr)
	}
	rec.Kind = KindOpen
	if _, ok := TraceOf(rec, reasonOf, closed); ok {
		t.Error("an open stream is no trace yet")
	}
	rec.Kind, rec.Refused = KindSummary, &Refused{Counts: []KindCount{{ErrorKind: "unauthorized", Requests: 3}}}
	if _, ok := TraceOf(rec, reasonOf, closed); ok {
		t.Error("a summary of refused requests is no trace")
	}
	rec.Refused = nil
	rec.Kind, rec.Method = KindRequest, "ping"
	if _, ok := TraceOf(rec, reasonOf, closed); ok {
		t.Error("a ping is no trace")
	}
	stranger := &Record{Kind: KindRequest, RequestID: id(2), Action: ActionDeny, ErrorKind: "unauthorized", Status: 401, Principal: "192.0.2.7"}
	if tr, ok := TraceOf(stranger, reasonOf, closed); !ok || tr.ID != id(2) || tr.Status != "error" || tr.ErrorKind != "unauthorized" || tr.AgentName != "192.0.2.7" {
		t.Errorf("a request with a wrong key: %v %+v", ok, tr)
	}
	stranger.Action, stranger.ErrorKind = ActionAllow, ""
	if _, ok := TraceOf(stranger, reasonOf, closed); ok {
		t.Error("a GET is no trace")
	}
}
