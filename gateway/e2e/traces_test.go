package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway"
	"svc/store/api"
)

// traceSink stores the traces that it receives.
type traceSink struct {
	mu     sync.Mutex
	traces []api.TraceInput
}

func (s *traceSink) PostTraceBatch(_ context.Context, _ string, body []byte) (api.IngestResult, error) {
	var b api.TraceBatch
	if err := json.Unmarshal(body, &b); err != nil {
		return api.IngestResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces = append(s.traces, b.Traces...)
	return api.IngestResult{Accepted: len(b.Traces)}, nil
}

// of returns the traces of a tool.
func (s *traceSink) of(tool string) []api.TraceInput {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []api.TraceInput
	for _, t := range s.traces {
		if t.ToolName == tool {
			list = append(list, t)
		}
	}
	return list
}

// An answer is scored against the output schema of its tool, once a list with the schema has
// passed, on plain responses and on event streams. The trace has the score and the stage.
func TestQualityScoreOfOutputSchema(t *testing.T) {
	structured, stream := `{"n":1}`, false
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		answer := `{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":` + structured + `}}`
		if strings.Contains(body, "tools/list") {
			answer = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"safe","inputSchema":{},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}]}}`
		}
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	})
	sink := &traceSink{}
	config := open(up.URL) + "control_plane:\n  url: http://127.0.0.1:1\n  ingest_key: svc_ingest_x\n  traces: {flush_interval: 10ms}\n"
	r := newRigWith(t, config, func(o *gateway.Options) {
		o.Sink, o.SinkStatus = sink, func(error) (int, time.Duration) { return 0, 0 }
	})
	r.post(callWith(`{}`)) // the schema is not known yet
	r.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	await(t, func() bool { // the schema is compiled in the background
		r.post(callWith(`{}`))
		all := r.all()
		return all[len(all)-1]["quality_scores"] != nil
	})
	structured = `{"n":"one"}`
	r.post(callWith(`{}`))
	stream = true
	r.post(callWith(`{}`))
	all := r.all()
	for _, l := range all[len(all)-1:] {
		if fmt.Sprint(l["quality_scores"]) != "[map[score:0 scorer:output_schema]]" || !slices.Contains(stages(l), "quality_score") {
			t.Errorf("line: %v", l)
		}
	}
	if all[0]["quality_scores"] != nil {
		t.Errorf("scored without a schema: %v", all[0])
	}
	await(t, func() bool {
		got := sink.of("safe")
		return len(got) > 0 && slices.Equal(got[len(got)-1].QualityScores, []api.QualityScore{{Scorer: "output_schema", Score: 0}})
	})
	if got := sink.of("safe"); !slices.ContainsFunc(got, func(t api.TraceInput) bool { return len(t.QualityScores) == 1 && t.QualityScores[0].Score == 1 }) {
		t.Error("no trace has the score 1")
	}
}

// Without reporting of traces no schema is stored and no answer is scored.
func TestQualityScoreNeedsTraces(t *testing.T) {
	up := newUpstream(t, echo)
	if r := newRig(t, basic(up.URL)); r.services().Quality != nil {
		t.Error("schemas are kept")
	}
}

// After a reload with another audit.path the traces of the new file are reported, and those of
// the old file are not lost.
func TestTracesFollowAnotherAuditPath(t *testing.T) {
	up := newUpstream(t, echo)
	sink := &traceSink{}
	config := open(up.URL) + "control_plane:\n  url: http://127.0.0.1:1\n  ingest_key: svc_ingest_x\n  traces: {flush_interval: 10ms}\n"
	r := newRigWith(t, config, func(o *gateway.Options) {
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
