package gateway

import (
	"testing"
	"time"
)

// After a reload with another audit.path the traces of the new file are reported, and those of
// the old file are not lost.
func TestTracesFollowAnotherAuditPath(t *testing.T) {
	up := newUpstream(t, echo)
	sink := &traceSink{}
	config := open(up.URL) + "control_plane:\n  url: http://127.0.0.1:1\n  ingest_key: svc_ingest_x\n  traces: {flush_interval: 10ms}\n"
	r := newRigWith(t, config, func(o *Options) {
		o.Sink, o.SinkStatus = sink, func(error) (int, time.Duration) { return 0, 0 }
	})
	r.post(call("1", "before"))
	r.edit("audit.jsonl", "other.jsonl")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.post(call("2", "after")); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	await(t, func() bool { return len(sink.of("before")) == 1 && len(sink.of("after")) == 1 })
}
