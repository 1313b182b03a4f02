package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"svc/store/api"
)

// An invalid trace fails the batch with details that name its index and field, and
// nothing of the batch is stored.
func TestIngestBadTraceFailsTheBatch(t *testing.T) {
	r := newRig(t)
	now := r.clock.Now()
	good := func(id string) string { return traceAt(id, "planner", "success", now) }
	for _, test := range []struct{ name, bad, field string }{
		{"status missing", `{"agentName":"a","durationMs":1}`, "traces[2].status"},
		{"status unknown", `{"agentName":"a","status":"odd"}`, "traces[2].status"},
		{"no agent", `{"status":"success"}`, "traces[2].agentName"},
		{"agent for all", `{"agentName":"*","status":"success"}`, "traces[2].agentName"},
		{"unknown agent id", `{"agentId":"agt_nobody","status":"success"}`, "traces[2].agentId"},
		{"negative tokens", `{"agentName":"a","status":"success","inputTokens":-1}`, "traces[2].inputTokens"},
		{"tokens not an integer", `{"agentName":"a","status":"success","outputTokens":1.5}`, "traces[2].outputTokens"},
		{"negative cost", `{"agentName":"a","status":"success","costUsd":-0.1}`, "traces[2].costUsd"},
		{"absurd cost", `{"agentName":"a","status":"success","costUsd":1e300}`, "traces[2].costUsd"},
		{"negative duration", `{"agentName":"a","status":"success","durationMs":-1}`, "traces[2].durationMs"},
		{"score above 1", `{"agentName":"a","status":"success","injectionScore":1.01}`, "traces[2].injectionScore"},
		{"id of another path", `{"id":"stats","agentName":"a","status":"success"}`, "traces[2].id"},
		{"id of the stream", `{"id":"stream","agentName":"a","status":"success"}`, "traces[2].id"},
		{"id of the export", `{"id":"export","agentName":"a","status":"success"}`, "traces[2].id"},
		{"cost by the price table", `{"agentName":"a","status":"success","modelProvider":"openai","modelName":"gpt-4","outputTokens":900000000}`, "traces[2].costUsd"},
		{"bad id", `{"id":"../x","agentName":"a","status":"success"}`, "traces[2].id"},
		{"bad time", `{"agentName":"a","status":"success","createdAt":"yesterday"}`, "traces[2].createdAt"},
		{"ancient time", `{"agentName":"a","status":"success","createdAt":"1999-01-01T00:00:00Z"}`, "traces[2].createdAt"},
		{"wrong type", `{"agentName":5,"status":"success"}`, "traces[2].agentName"},
		{"unknown field", `{"agentName":"a","status":"success","durationMS":1}`, "traces[2].durationMS"},
		{"control character", `{"agentName":"a","status":"success","environment":"e\u0007"}`, "traces[2].environment"},
		{"long name", `{"agentName":"` + strings.Repeat("a", api.MaxName+1) + `","status":"success"}`, "traces[2].agentName"},
		{"policy action", `{"agentName":"a","status":"success","policiesFired":[{"id":"p","name":"n","action":"maim"}]}`, "traces[2].policiesFired[0].action"},
		{"entity", `{"agentName":"a","status":"success","piiDetected":["E MAIL"]}`, "traces[2].piiDetected[0]"},
		{"span without stage", `{"agentName":"a","status":"success","spans":[{"durationMs":1}]}`, "traces[2].spans[0].stage"},
		{"too many spans", `{"agentName":"a","status":"success","spans":[` + strings.Repeat(`{"stage":"s","durationMs":1},`, api.MaxSpans) + `{"stage":"s","durationMs":1}]}`, "traces[2].spans"},
		{"scorer", `{"agentName":"a","status":"success","qualityScores":[{"score":1}]}`, "traces[2].qualityScores[0].scorer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.ask(r.admin, "POST", "/api/traces", batch(good("x"), good("y"), test.bad)).wantDetail(test.field)
			r.ask(r.admin, "POST", "/api/traces", test.bad).wantDetail(strings.TrimPrefix(test.field, "traces[2]."))
		})
	}
	if got := r.ask(r.admin, "GET", "/api/traces", "").want(200).object()["total"]; fmt.Sprint(got) != "0" {
		t.Errorf("%v traces of refused batches were stored", got)
	}
	if got := r.ask(r.admin, "GET", "/api/agents", "").want(200).object()["total"]; fmt.Sprint(got) != "0" {
		t.Errorf("%v agents of refused batches were registered", got)
	}
}

// A body that is not JSON, is too large, is compressed, or has a trace and a batch is
// a 400.
func TestIngestBadBodies(t *testing.T) {
	r := newRig(t)
	for name, body := range map[string]string{
		"empty": " ", "array": "[]", "not JSON": "{", "trailing": `{"agentName":"a","status":"success"} {}`, "traces not a list": `{"traces":{}}`,
		"traces null": `{"traces":null}`, "duplicate member": `{"status":"success","status":"error","agentName":"a"}`,
		"8 MiB and more": `{"agentName":"` + strings.Repeat("a", api.MaxIngestBody) + `"}`,
		"entry null":     `{"traces":[null]}`, "entry text": `{"traces":["x"]}`,
	} {
		t.Run(name, func(t *testing.T) { r.ask(r.admin, "POST", "/api/traces", body).want(400) })
	}
	r.ask(r.admin, "POST", "/api/traces", full, "Content-Encoding", "gzip").wantDetail("Content-Encoding")
	r.ask(r.admin, "POST", "/api/traces", `{"agentName":"a","status":"success","traces":[`+full+`]}`).wantDetail("traces")
}

// An optional member that is null in a POST is absent: clients write every field of an object. A
// required one is missing, and in lists, conditions and documents null stays an error.
func TestNullInAPostIsAbsent(t *testing.T) {
	r := newRig(t)
	const nulls = `"id":null,"agentId":null,"modelName":null,"inputTokens":null,"costUsd":null,"createdAt":null,"spans":null,"piiDetected":null,"blocked":null,"client":null`
	r.ask(r.admin, "POST", "/api/traces", `{"agentName":"reader","status":"success","durationMs":4,`+nulls+`}`).want(201)
	r.ask(r.admin, "POST", "/api/traces", `{"traces":[{"agentName":"writer","status":"success","durationMs":4,`+nulls+`}]}`).want(201)
	agent := r.ask(r.admin, "POST", "/api/agents", `{"name":"planner","description":null,"modelName":null}`).want(201).data().id(t)
	r.ask(r.admin, "POST", "/api/costs/sla", `{"name":"fast","agentId":"`+agent+`","p99LatencyMs":90,"errorRatePercent":null,"evaluationPeriod":"1h"}`).want(201).
		object().is(t, "errorRatePercent", nil)
	const condition = `"condition":{"type":"tool_name","toolName":"drop_*"}`
	r.ask(r.admin, "POST", "/api/policies", `{"name":"p","phase":"request","on":null,"message":null,"enabled":null,"action":"block",`+condition+`}`).want(201).
		data().is(t, "on", "*", "enabled", true)
	for body, field := range map[string]string{
		`{"name":null}`: "name",
		`{"name":"q","phase":null,"action":"block",` + condition + `}`:                                                     "phase",
		`{"name":"q","phase":"request","action":"block","condition":null}`:                                                 "condition",
		`{"name":"q","phase":"request","action":"block","condition":{"type":"tool_name","toolName":"a","arguments":null}}`: "condition.arguments",
	} {
		r.ask(r.admin, "POST", "/api/policies", body).wantDetail(field)
	}
}

// A batch of very many very short entries is rejected before memory is allocated for
// them.
func TestIngestBatchIsBoundedWhileRead(t *testing.T) {
	r := newRig(t)
	body := `{"traces":[` + strings.Repeat("{},", 200_000) + `{}]}`
	if n := testing.AllocsPerRun(1, func() { r.ask(r.admin, "POST", "/api/traces", body).wantDetail("traces") }); n > 100_000 {
		t.Errorf("refusing it took %v allocations", n)
	}
}

// The lists inside a trace are bounded during decoding, too.
func TestIngestListsAreBoundedWhileRead(t *testing.T) {
	r := newRig(t)
	for _, list := range []string{"policiesFired", "spans", "qualityScores", "piiDetected"} {
		t.Run(list, func(t *testing.T) {
			entry := "{}"
			if list == "piiDetected" {
				entry = `""`
			}
			one := `{"agentName":"a","status":"success","` + list + `":[` + strings.Repeat(entry+",", 200_000) + entry + `]}`
			for field, body := range map[string]string{list: one, "traces[1]." + list: batch(`{"agentName":"a","status":"success"}`, one)} {
				answer := r.ask(r.admin, "POST", "/api/traces", body)
				answer.wantDetail(field)
				if !strings.Contains(string(answer.raw), "must have at most ") {
					t.Errorf("%s: %s", field, answer.raw)
				}
			}
			var in ingestBody
			if n := allocated(func() { _ = decodeStrict([]byte(one), &in) }); n > 6*uint64(len(one)) {
				t.Errorf("decoding %d bytes allocated %d", len(one), n)
			}
		})
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// For any body the response is 201 or 400, and a 400 stores nothing.
func FuzzIngest(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(batch(full, full)))
	f.Add([]byte(`{"traces":[{"agentName":"a","status":"success","createdAt":"2026-01-02T03:04:05+23:59"}]}`))
	whole := newRig(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		one := *whole
		r := &one
		r.t = t
		total := func() string { return fmt.Sprint(r.ask(r.admin, "GET", "/api/traces?limit=1", "").object()["total"]) }
		before := total()
		a := r.post(r.admin, "/api/traces", "application/json", "", body)
		switch a.status {
		case 201:
		case 400:
			if after := total(); after != before {
				t.Fatalf("a refused body changed the total from %s to %s", before, after)
			}
		default:
			t.Fatalf("status %d: %s", a.status, a.raw)
		}
	})
}
