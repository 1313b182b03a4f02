package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// full is a trace with every field set.
const full = `{"id":"tr_1","agentName":"planner","status":"success","environment":"production","sessionId":"s-1",
"modelProvider":"openai","modelName":"gpt-4o","inputTokens":1000,"outputTokens":500,"costUsd":0.25,"durationMs":123.5,
"injectionScore":0.4,"piiDetected":["EMAIL"],"policiesFired":[{"id":"pol_1","name":"p","action":"warn"}],
"createdAt":"2026-01-02T03:04:05.678Z","qualityScores":[{"scorer":"toxicity","score":0.1}],
"spans":[{"stage":"policy_eval","durationMs":0.5},{"stage":"provider","durationMs":120}],"toolName":"search","blocked":false}`

// traceAt is a trace of an agent with a start time.
func traceAt(id, agent, status string, at time.Time, more ...string) string {
	s := fmt.Sprintf(`{"id":%q,"agentName":%q,"status":%q,"durationMs":10,"createdAt":%q`, id, agent, status, at.UTC().Format(time.RFC3339Nano))
	for i := 0; i+1 < len(more); i += 2 {
		s += fmt.Sprintf(`,%q:%s`, more[i], more[i+1])
	}
	return s + "}"
}

func batch(traces ...string) string { return `{"traces":[` + strings.Join(traces, ",") + `]}` }

// POST /api/traces takes one trace; 201 {data: {accepted, duplicates}}.
func TestIngestOneTrace(t *testing.T) {
	r := newRig(t)
	key, _ := r.key(r.admin, "ingest")
	r.ask(key, "POST", "/api/traces", full).want(201).data().has(t, "accepted", "duplicates").is(t, "accepted", 1, "duplicates", 0)
	r.ask(key, "POST", "/api/traces", full).want(201).data().is(t, "accepted", 0, "duplicates", 1)
	if got := r.ask(r.admin, "GET", "/api/traces", "").want(200).object()["total"]; fmt.Sprint(got) != "1" {
		t.Errorf("total is %v after the same trace twice", got)
	}
}

// A trace never changes: a trace that is sent again with another status, cost or
// agent is a duplicate, and GET is the only method for a trace (control-plane
// specification, States and transitions).
func TestTraceStatusNeverChanges(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", traceAt("once", "planner", "success", r.clock.Now(), "costUsd", "1")).want(201)
	before := string(r.ask(r.admin, "GET", "/api/traces/once", "").want(200).raw)
	r.ask(r.admin, "POST", "/api/traces", traceAt("once", "other", "error", r.clock.Now(), "costUsd", "2")).
		want(201).data().is(t, "accepted", 0, "duplicates", 1)
	if after := string(r.ask(r.admin, "GET", "/api/traces/once", "").want(200).raw); after != before {
		t.Errorf("the trace was %s and is %s", before, after)
	}
	toObject(t, r.ask(r.admin, "GET", "/api/traces/stats", "").want(200).object()["summary"]).
		is(t, "totalTraces", 1, "successCount", 1, "errorCount", 0, "totalCostUsd", 1)
	r.ask(r.admin, "POST", "/api/traces", traceAt("odd", "planner", "pending", r.clock.Now())).wantDetail("status")
	for _, method := range []string{"PUT", "PATCH", "POST", "DELETE"} {
		r.ask(r.admin, method, "/api/traces/once", `{"status":"error"}`).want(405)
	}
}

// Up to 1,000 traces in one request; all of a batch are stored or none.
func TestIngestBatch(t *testing.T) {
	r := newRig(t)
	var many []string
	for i := range api.MaxTraceBatch {
		many = append(many, traceAt(fmt.Sprintf("b-%d", i), "planner", "success", r.clock.Now()))
	}
	r.ask(r.admin, "POST", "/api/traces", batch(many...)).want(201).data().is(t, "accepted", api.MaxTraceBatch)
	r.ask(r.admin, "POST", "/api/traces", batch(append(many, many[0])...)).wantDetail("traces")
	r.ask(r.admin, "POST", "/api/traces", `{"traces":[]}`).wantDetail("traces")
	r.ask(r.admin, "POST", "/api/traces", batch(many[0], traceAt("new", "planner", "error", r.clock.Now()), many[1])).
		want(201).data().is(t, "accepted", 1, "duplicates", 2)
	twice := traceAt("twice", "planner", "error", r.clock.Now())
	r.ask(r.admin, "POST", "/api/traces", batch(twice, twice)).want(201).data().is(t, "accepted", 1, "duplicates", 1)
}

// The response is sent only after the commit is durable.
func TestIngestIsVisibleWhenAcknowledged(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		id := fmt.Sprintf("v-%d", i)
		r.ask(r.admin, "POST", "/api/traces", traceAt(id, "planner", "success", r.clock.Now())).want(201)
		r.ask(r.admin, "GET", "/api/traces/"+id, "").want(200)
	}
}

// An unknown agentName registers that agent; toolName is added to its observed tools;
// policies that fired are counted.
func TestIngestRegistersAgentsAndTools(t *testing.T) {
	r := newRig(t)
	now := r.clock.Now()
	policy := r.ask(r.admin, "POST", "/api/policies", `{"name":"p","phase":"request","condition":{"type":"always"},"action":"warn"}`).want(201).data().id(t)
	fired := fmt.Sprintf(`[{"id":%q,"name":"p","action":"warn"}]`, policy)
	r.ask(r.admin, "POST", "/api/traces", batch(
		traceAt("a", "fresh", "success", now, "toolName", `"search"`, "policiesFired", fired),
		traceAt("b", "fresh", "success", now.Add(time.Second), "toolName", `"search"`),
	)).want(201)
	agents := r.ask(r.admin, "GET", "/api/agents", "").want(200).list()
	if len(agents) != 1 || agents[0]["name"] != "fresh" {
		t.Fatalf("agents are %v", agents)
	}
	id := agents[0].id(t)
	tools := r.ask(r.admin, "GET", "/api/agents/"+id+"/tools", "").want(200).list()
	if len(tools) != 1 {
		t.Fatalf("tools are %v", tools)
	}
	tools[0].is(t, "toolName", "search", "callCount", 2, "agentId", id)
	if got := tools[0].moment(t, "lastCalledAt"); !got.Equal(now.Add(time.Second)) {
		t.Errorf("lastCalledAt is %v", got)
	}
	r.ask(r.admin, "GET", "/api/policies/"+policy, "").want(200).data().is(t, "fireCount", 1)
	r.ask(r.admin, "GET", "/api/traces/a", "").want(200).data().is(t, "agentId", id, "agentName", "fresh", "toolName", "search")
	r.ask(r.admin, "POST", "/api/traces", `{"id":"c","agentId":"`+id+`","status":"success"}`).want(201)
	r.ask(r.admin, "GET", "/api/traces/c", "").want(200).data().is(t, "agentName", "fresh")
}

// Without costUsd the cost is computed from the price table. A cost of zero is a
// cost.
func TestIngestComputesCost(t *testing.T) {
	r := newRig(t)
	model := `,"agentName":"a","status":"success","modelProvider":"openai","modelName":"gpt-4o-2024-08-06","inputTokens":1000,"outputTokens":500`
	for _, test := range []struct {
		name, body string
		want       float64
	}{
		{"computed", `{"id":"t1"` + model + `}`, 0.0075},
		{"with cached tokens", `{"id":"t6"` + model + `,"cacheReadTokens":600,"cacheCreationTokens":100}`, 0.00675},
		{"given", `{"id":"t2"` + model + `,"costUsd":1.5}`, 1.5},
		{"given as nothing", `{"id":"t3"` + model + `,"costUsd":0}`, 0},
		{"unknown model", `{"id":"t4","agentName":"a","status":"success","modelName":"nobody's","inputTokens":10}`, 0},
		{"without tokens", `{"id":"t5","agentName":"a","status":"success","modelName":"gpt-4o"}`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.ask(r.admin, "POST", "/api/traces", test.body).want(201)
			var in struct{ ID string }
			if err := json.Unmarshal([]byte(test.body), &in); err != nil {
				t.Fatal(err)
			}
			if got := r.ask(r.admin, "GET", "/api/traces/"+in.ID, "").want(200).data()["costUsd"]; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Cached tokens are parts of the input tokens; they are returned by reads and
// exports.
func TestIngestCachedTokens(t *testing.T) {
	r := newRig(t)
	const trace = `{"id":"c","agentName":"a","status":"success","inputTokens":100,"cacheReadTokens":60,"cacheCreationTokens":40}`
	r.ask(r.admin, "POST", "/api/traces", trace).want(201)
	r.ask(r.admin, "GET", "/api/traces/c", "").want(200).data().is(t, "cacheReadTokens", 60, "cacheCreationTokens", 40)
	for body, field := range map[string]string{
		strings.Replace(trace, "60", "101", 1):  "cacheReadTokens",
		strings.Replace(trace, ":40", ":41", 1): "cacheCreationTokens",
		strings.Replace(trace, ":60", ":-1", 1): "cacheReadTokens",
	} {
		r.ask(r.admin, "POST", "/api/traces", body).wantDetail(field)
	}
}

// The approval of a trace is checked, and every read returns it.
func TestIngestApproval(t *testing.T) {
	r := newRig(t)
	const trace = `{"id":"a","agentName":"a","status":"success","approval":{"status":"granted","id":"apr_1","by":"bob@example.com"}}`
	r.ask(r.admin, "POST", "/api/traces", trace).want(201)
	r.ask(r.admin, "POST", "/api/traces", `{"id":"b","agentName":"a","status":"success","approval":null}`).want(201)
	for _, got := range []object{
		r.ask(r.admin, "GET", "/api/traces/a", "").want(200).data(),
		r.ask(r.admin, "GET", "/api/traces", "").want(200).list()[1],
	} {
		got.is(t, "approval", map[string]any{"status": "granted", "id": "apr_1", "by": "bob@example.com"})
	}
	if _, some := r.ask(r.admin, "GET", "/api/traces/b", "").want(200).data()["approval"]; some {
		t.Error("a trace without an approval has one")
	}
	if csv := string(r.ask(r.admin, "GET", "/api/traces/export?format=csv", "").want(200).raw); !strings.HasSuffix(csv, ",granted,apr_1,bob@example.com,,\r\n") {
		t.Error(csv)
	}
	for body, field := range map[string]string{
		strings.Replace(trace, "granted", "maybe", 1):                                       "approval.status",
		strings.Replace(trace, `"granted"`, `""`, 1):                                        "approval.status",
		strings.Replace(trace, "apr_1", "apr 1", 1):                                         "approval.id",
		strings.Replace(trace, "bob@example.com", strings.Repeat("x", api.MaxName+1), 1):    "approval.by",
		strings.Replace(trace, `"by":"bob@example.com"`, `"by":"bob","note":"anything"`, 1): "approval.note",
	} {
		r.ask(r.admin, "POST", "/api/traces", body).wantDetail(field)
	}
}

// A trace has the labels of its caller and those that its answer set, where there are any.
func TestIngestLabels(t *testing.T) {
	r := newRig(t)
	const trace = `{"id":"a","agentName":"a","status":"success","labels":["private","untrusted"],"sets":["private"]}`
	r.ask(r.admin, "POST", "/api/traces", trace).want(201)
	r.ask(r.admin, "POST", "/api/traces", `{"id":"b","agentName":"a","status":"success","labels":[],"sets":null}`).want(201)
	for _, got := range []object{
		r.ask(r.admin, "GET", "/api/traces/a", "").want(200).data(),
		r.ask(r.admin, "GET", "/api/traces", "").want(200).list()[1],
	} {
		got.is(t, "labels", []any{"private", "untrusted"}, "sets", []any{"private"})
	}
	got := r.ask(r.admin, "GET", "/api/traces/b", "").want(200).data()
	if _, some := got["labels"]; some || got["sets"] != nil {
		t.Errorf("a trace without labels has some: %v", got)
	}
	if csv := string(r.ask(r.admin, "GET", "/api/traces/export?format=csv", "").want(200).raw); !strings.HasSuffix(csv, ",private;untrusted,private\r\n") {
		t.Error(csv)
	}
	for body, field := range map[string]string{
		strings.Replace(trace, `"untrusted"`, `"Untrusted"`, 1):                                    "labels[1]",
		strings.Replace(trace, `["private"]`, `["`+strings.Repeat("x", api.MaxLabel+1)+`"]`, 1):    "sets[0]",
		strings.Replace(trace, `["private"]`, `[`+strings.Repeat(`"a",`, api.MaxLabels)+`"a"]`, 1): "sets",
	} {
		r.ask(r.admin, "POST", "/api/traces", body).wantDetail(field)
	}
}

// The client of a trace is the name of the caller's program: bounded, returned by
// every read, and usable as a filter.
func TestIngestClient(t *testing.T) {
	r := newRig(t)
	const trace = `{"id":"c","agentName":"a","status":"success","principal":"alice","client":{"name":"claude-code","version":"2.1.0"}}`
	r.ask(r.admin, "POST", "/api/traces", trace).want(201)
	want := map[string]any{"name": "claude-code", "version": "2.1.0"}
	for _, got := range []object{
		r.ask(r.admin, "GET", "/api/traces/c", "").want(200).data(),
		r.ask(r.admin, "GET", "/api/traces?client=claude-code", "").want(200).list()[0],
		r.ask(r.admin, "GET", "/api/traces/export?client=claude-code", "").want(200).object(),
	} {
		got.is(t, "principal", "alice", "client", want)
	}
	csv := string(r.ask(r.admin, "GET", "/api/traces/export?format=csv", "").want(200).raw)
	if !strings.HasSuffix(csv, ",claude-code,2.1.0,,,,,\r\n") || !strings.Contains(csv, ",client,clientVersion,approval,approvalId,approvedBy,labels,sets\r\n") {
		t.Error(csv)
	}
	for body, field := range map[string]string{
		strings.Replace(trace, "claude-code", strings.Repeat("x", api.MaxClientName+1), 1): "client.name",
		strings.Replace(trace, "2.1.0", strings.Repeat("9", api.MaxClientVersion+1), 1):    "client.version",
		strings.Replace(trace, "claude-code", `a\u0000b`, 1):                               "client.name",
		strings.Replace(trace, `"alice"`, `"`+strings.Repeat("x", api.MaxName+1)+`"`, 1):   "principal",
		strings.Replace(trace, `"claude-code"`, `7`, 1):                                    "client.name",
		strings.Replace(trace, `"version"`, `"vendor"`, 1):                                 "client.vendor",
		strings.Replace(trace, `{"name":"claude-code","version":"2.1.0"}`, `["x"]`, 1):     "client",
		strings.Replace(trace, `{"name":"claude-code","version":"2.1.0"}`, `"x"`, 1):       "client",
	} {
		r.ask(r.admin, "POST", "/api/traces", body).wantDetail(field)
		r.ask(r.admin, "POST", "/api/traces", batch(body)).wantDetail("traces[0]." + field)
	}
}

// A trace whose request a policy blocked has status error.
func TestIngestBlockedIsAnError(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", `{"id":"b","agentName":"a","status":"success","blocked":true}`).want(201)
	r.ask(r.admin, "GET", "/api/traces/b", "").want(200).data().is(t, "status", "error", "blocked", true)
}

// createdAt is the time of receipt when absent, and at most 5 minutes in the future;
// late traces count in their own period.
func TestIngestCreatedAt(t *testing.T) {
	r := newRig(t)
	now := r.clock.Now()
	r.ask(r.admin, "POST", "/api/traces", batch(
		`{"id":"absent","agentName":"a","status":"success"}`,
		traceAt("late", "a", "success", now.Add(-50*time.Hour)),
		traceAt("offset", "a", "success", now), traceAt("ahead", "a", "success", now.Add(time.Hour)),
	)).want(201)
	for id, want := range map[string]time.Time{"absent": now, "late": now.Add(-50 * time.Hour), "ahead": now.Add(5 * time.Minute)} {
		if got := r.ask(r.admin, "GET", "/api/traces/"+id, "").want(200).data().moment(t, "createdAt"); !got.Equal(want) {
			t.Errorf("%s began at %v, want %v", id, got, want)
		}
	}
	r.ask(r.admin, "GET", "/api/traces/stats?period=24h", "").want(200)
	got := toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?period=7d", "").want(200).object()["summary"])
	day := toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?period=24h", "").want(200).object()["summary"])
	if fmt.Sprint(got["totalTraces"], day["totalTraces"]) != "3 2" {
		t.Errorf("7d has %v, 24h has %v; want 3 (one is ahead) and 2", got["totalTraces"], day["totalTraces"])
	}
	r.ask(r.admin, "POST", "/api/traces", `{"id":"zone","agentName":"a","status":"success","createdAt":"2026-01-02T05:04:05+02:00"}`).want(201)
	r.ask(r.admin, "GET", "/api/traces/zone", "").want(200).data().is(t, "createdAt", "2026-01-02T03:04:05Z")
}

// A trace without an id gets one.
func TestIngestMakesIDs(t *testing.T) {
	r := newRig(t)
	one := `{"agentName":"a","status":"success"}`
	r.ask(r.admin, "POST", "/api/traces", batch(one, one)).want(201).data().is(t, "accepted", 2, "duplicates", 0)
	seen := map[string]bool{}
	for _, item := range r.ask(r.admin, "GET", "/api/traces", "").want(200).list() {
		seen[item.id(t)] = true
	}
	if len(seen) != 2 {
		t.Errorf("ids are %v", seen)
	}
}

// Which keys may ingest: api and ingest; team limits do not apply.
func TestIngestPermissions(t *testing.T) {
	r := newRig(t)
	ingest, _ := r.key(r.admin, "ingest")
	agent, _ := r.key(r.admin, "agent")
	team := r.team(r.admin, "none")
	limited, _ := r.key(r.admin, "ingest", "teamId", team)
	for _, path := range []string{"/api/traces", "/api/otlp/v1/traces"} {
		body := `{"agentName":"a","status":"success"}`
		want := 201
		if path != "/api/traces" {
			body, want = `{"resourceSpans":[]}`, 200
		}
		for name, c := range map[string]struct {
			key  string
			want int
		}{"api": {r.admin, want}, "ingest": {ingest, want}, "limited ingest": {limited, want}, "agent": {agent, 403}, "none": {"", 401}} {
			if got := r.post(c.key, path, "application/json", "", []byte(body)); got.status != c.want {
				t.Errorf("%s with an %s key: %d, want %d", path, name, got.status, c.want)
			}
		}
	}
	r.ask(ingest, "GET", "/api/traces", "").want(403)
	r.ask(ingest, "GET", "/api/traces/x", "").want(403)
	r.ask(agent, "GET", "/api/traces", "").want(200)
}

// Ingest has its own rate window.
func TestIngestWindow(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit, o.IngestRateLimit = 100, 3 })
	one := `{"agentName":"a","status":"success"}`
	for i := range 3 {
		a := r.ask(r.admin, "POST", "/api/traces", one).want(201)
		if got := a.header.Get("X-RateLimit-Remaining"); got != fmt.Sprint(2-i) {
			t.Errorf("request %d: %s remain", i+1, got)
		}
	}
	r.ask(r.admin, "POST", "/api/traces", one).want(429)
	r.ask(r.admin, "GET", "/api/governance", "").want(429)
	if got := r.ask(r.admin, "GET", "/api/traces", "").want(200).header.Get("X-RateLimit-Remaining"); got != "99" {
		t.Errorf("%s requests of the other window remain", got)
	}
	r.clock.advance(time.Minute)
	r.ask(r.admin, "POST", "/api/traces", one).want(201)
}

// post sends a body as it is. Unlike ask, it does not expect a JSON response.
func (r *rig) post(key, path, contentType, encoding string, body []byte) *reply {
	r.t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	r.srv.ServeHTTP(w, req)
	a := &reply{t: r.t, what: "POST " + path, status: w.Code, header: w.Header(), raw: w.Body.Bytes()}
	checkAnswer(r.t, req.Method, req.URL.Path, a.status, a.header, a.raw)
	return a
}

// TestIngestBatchID: a batch with an id can be sent again although its traces have no
// ids, also when the store takes it in parts. Invalid ids are rejected.
func TestIngestBatchID(t *testing.T) {
	r := newRig(t)
	body := `{"traces":[{"agentName":"a","status":"success"},{"agentName":"a","status":"success"}]}`
	for i, want := range [][2]float64{{2, 0}, {0, 2}} {
		a := r.ask(r.admin, "POST", "/api/traces", body, "Svc-Batch-Id", "gateway 0:0-100").want(201).data()
		if a["accepted"] != want[0] || a["duplicates"] != want[1] {
			t.Errorf("attempt %d: %v", i, a)
		}
	}
	r.ask(r.admin, "POST", "/api/traces", body, "Svc-Batch-Id", "gateway 0:100-200").want(201).data().is(t, "accepted", 2)
	r.ask(r.admin, "POST", "/api/traces", body).want(201).data().is(t, "accepted", 2)
	for _, bad := range []string{strings.Repeat("x", maxBatchID+1), "caf\u00e9", "a\tb"} {
		r.ask(r.admin, "POST", "/api/traces", body, "Svc-Batch-Id", bad).want(400)
	}
	parts := make([]api.TraceInput, 2*store.MaxIngestBatch+1)
	for i := range parts {
		parts[i] = api.TraceInput{AgentName: "a", Status: "success"}
	}
	for i, want := range []int{len(parts), 0} {
		got, err := r.srv.storeTraces(t.Context(), r.store.TracesOf("one"), "long", parts)
		if err != nil || got.Accepted != want || got.Duplicates != len(parts)-want {
			t.Errorf("attempt %d of a long batch: %+v, %v", i, got, err)
		}
	}
}

// TestIngestTellsOfARestore: the answer to a batch with an id has the last restore of a backup, also
// one that is recorded while the server runs. Other answers do not have it.
func TestIngestTellsOfARestore(t *testing.T) {
	r := newRig(t)
	state := func() map[string]any {
		t.Helper()
		return toObject(t, r.ask(r.admin, "POST", "/api/traces", batch(traceAt("1", "a", "success", epoch)), "Svc-Batch-Id", "b").want(201).data()["store"])
	}
	r.ask(r.admin, "POST", "/api/traces", batch(traceAt("1", "a", "success", epoch))).want(201).data().has(t, "accepted", "duplicates")
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	if got := state(); len(got) != 1 || got["now"] != stamp(epoch) {
		t.Errorf("of a store that was not restored: %v", got)
	}
	for i := range 2 {
		made, restored := epoch.Add(-time.Hour), epoch.Add(time.Duration(i+1)*time.Millisecond)
		if _, err := store.MarkRestored(t.Context(), r.store, restored, made); err != nil {
			t.Fatal(err)
		}
		r.clock.advance(restoredEvery)
		got := state()
		if got["restored"] != stamp(restored) || got["backup"] != stamp(made) || (got["before"] != nil) != (i == 1) {
			t.Errorf("restore %d: %v", i, got)
		}
	}
}
