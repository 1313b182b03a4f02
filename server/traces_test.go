package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// Every field of Trace; quality scores and spans are in the single read only.
func TestTraceFields(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", full).want(201)
	fields := []string{"id", "agentId", "agentName", "status", "environment", "sessionId", "modelProvider", "modelName",
		"inputTokens", "outputTokens", "costUsd", "durationMs", "injectionScore", "piiDetected", "policiesFired", "createdAt", "toolName"}
	values := []any{"id", "tr_1", "agentName", "planner", "status", "success", "environment", "production", "sessionId", "s-1",
		"modelProvider", "openai", "modelName", "gpt-4o", "inputTokens", 1000, "outputTokens", 500, "costUsd", 0.25, "durationMs", 123.5,
		"injectionScore", 0.4, "piiDetected", []any{"EMAIL"}, "createdAt", "2026-01-02T03:04:05.678Z"}

	item := r.ask(r.admin, "GET", "/api/traces", "").want(200).list()[0]
	item.has(t, fields...).is(t, values...)
	single := r.ask(r.admin, "GET", "/api/traces/tr_1", "").want(200).data()
	single.has(t, append([]string{"qualityScores", "spans"}, fields...)...).is(t, values...)

	fired := toObject(t, single["policiesFired"].([]any)[0])
	fired.has(t, "id", "name", "action").is(t, "id", "pol_1", "name", "p", "action", "warn")
	score := toObject(t, single["qualityScores"].([]any)[0])
	score.has(t, "scorer", "score").is(t, "scorer", "toxicity", "score", 0.1)
	span := toObject(t, single["spans"].([]any)[0])
	span.has(t, "stage", "durationMs").is(t, "stage", "policy_eval", "durationMs", 0.5)
}

// Empty lists are [], never null.
func TestTraceEmptyLists(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", `{"id":"bare","agentName":"a","status":"success"}`).want(201)
	got := r.ask(r.admin, "GET", "/api/traces/bare", "").want(200)
	for _, want := range []string{`"piiDetected":[]`, `"policiesFired":[]`, `"qualityScores":[]`, `"spans":[]`} {
		if !strings.Contains(string(got.raw), want) {
			t.Errorf("no %s in %s", want, got.raw)
		}
	}
}

func TestTraceNotFound(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", full).want(201)
	r.ask(r.other, "GET", "/api/traces/tr_1", "").want(404)
	r.ask(r.admin, "GET", "/api/traces/tr_2", "").want(404)
	r.ask(r.admin, "GET", "/api/traces/%2e%2e", "").want(404)
}

// The literal path /api/traces/stats is the statistics endpoint; no trace can have
// this id.
func TestTraceNamedStats(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", `{"id":"stats","agentName":"a","status":"success"}`).wantDetail("id")
	r.ask(r.admin, "GET", "/api/traces/stats", "").want(200).object().has(t, "period", "from", "to", "summary", "groups")
}

// seed stores 120 traces that differ in all fields with a filter.
func seed(r *rig) []store.Trace {
	r.t.Helper()
	for _, name := range []string{"alpha", "beta"} {
		r.agent(r.admin, name)
	}
	agents := r.ask(r.admin, "GET", "/api/agents", "").want(200).list()
	var out []store.Trace
	for i := range 120 {
		a := agents[i%len(agents)]
		t := store.Trace{
			ID: fmt.Sprintf("s-%03d", i), AgentID: a["id"].(string), AgentName: a["name"].(string),
			Status: store.TraceSuccess, Environment: []string{"production", "staging", ""}[i%3],
			Cost: store.NanoUSD(i) * 1e7, Duration: time.Duration(i+1) * time.Millisecond,
			InjectionScore: float64(i%11) / 10, InputTokens: int64(i), OutputTokens: 2,
			ModelProvider: "p", ModelName: []string{"m1", "m2"}[i/60],
			CreatedAt: r.clock.Now().Add(-time.Duration(120-i) * time.Minute),
		}
		if i%7 == 0 {
			t.Status = store.TraceError
			t.Blocked, t.RuleID, t.Reason = i%14 == 0, "no-shell", "policy_denied"
		}
		if i%10 == 0 {
			t.SessionID, t.Principal, t.RequestID, t.ToolName = "s-1", "alice", fmt.Sprintf("request-%d", i), "search"
			t.ClientName, t.ClientVersion = "claude-code", "2.1.0"
			t.PIIDetected, t.PoliciesFired = []string{"EMAIL"}, []store.PolicyFired{{ID: "pol_x", Name: "x", Action: "warn"}}
			t.ErrorKind = "upstream_timeout"
		}
		out = append(out, t)
	}
	r.traces(out...)
	return out
}

// GET /api/traces: each filter alone and combined, inclusive bounds, exact total,
// newest first; compared with a naive filter.
func TestTraceFilters(t *testing.T) {
	r := newRig(t)
	all := seed(r)
	at := func(i int) string { return url.QueryEscape(all[i].CreatedAt.Format(time.RFC3339Nano)) }
	for _, test := range []struct {
		query string
		keep  func(t store.Trace, i int) bool
	}{
		{"", func(store.Trace, int) bool { return true }},
		{"agentId=" + all[0].AgentID, func(t store.Trace, _ int) bool { return t.AgentID == all[0].AgentID }},
		{"agentId=agt_unknown", func(store.Trace, int) bool { return false }},
		{"status=error", func(t store.Trace, _ int) bool { return t.Status == store.TraceError }},
		{"status=success", func(t store.Trace, _ int) bool { return t.Status == store.TraceSuccess }},
		{"environment=staging", func(t store.Trace, _ int) bool { return t.Environment == "staging" }},
		{"environment=nowhere", func(store.Trace, int) bool { return false }},
		{"startDate=" + at(30), func(_ store.Trace, i int) bool { return i >= 30 }},
		{"endDate=" + at(30), func(_ store.Trace, i int) bool { return i <= 30 }},
		{"startDate=" + at(10) + "&endDate=" + at(20), func(_ store.Trace, i int) bool { return i >= 10 && i <= 20 }},
		{"startDate=" + at(10) + "&endDate=" + at(10), func(_ store.Trace, i int) bool { return i == 10 }},
		{"minCostUsd=0.5", func(_ store.Trace, i int) bool { return i >= 50 }},
		{"maxCostUsd=0.5", func(_ store.Trace, i int) bool { return i <= 50 }},
		{"minCostUsd=0.29&maxCostUsd=0.29", func(_ store.Trace, i int) bool { return i == 29 }},
		{"minInjectionScore=0.3", func(t store.Trace, _ int) bool { return t.InjectionScore >= 0.3 }},
		{"minInjectionScore=1", func(t store.Trace, _ int) bool { return t.InjectionScore >= 1 }},
		{"status=blocked", func(t store.Trace, _ int) bool { return t.Blocked }},
		{"status=failed", func(t store.Trace, _ int) bool { return t.Status == store.TraceError && !t.Blocked }},
		{"sessionId=s-1", func(_ store.Trace, i int) bool { return i%10 == 0 }},
		{"agentName=" + all[1].AgentName, func(t store.Trace, _ int) bool { return t.AgentName == all[1].AgentName }},
		{"agentName=%20" + all[1].AgentName, func(t store.Trace, _ int) bool { return t.AgentName == all[1].AgentName }},
		{"modelName=m2", func(_ store.Trace, i int) bool { return i >= 60 }},
		{"toolName=search&pii=EMAIL&policyId=pol_x&principal=alice&client=claude-code", func(_ store.Trace, i int) bool { return i%10 == 0 }},
		{"client=alice", func(store.Trace, int) bool { return false }},
		{"policyId=pol_y", func(store.Trace, int) bool { return false }},
		{"ruleId=no-shell", func(_ store.Trace, i int) bool { return i%7 == 0 }},
		{"requestId=request-50", func(_ store.Trace, i int) bool { return i == 50 }},
		{"minDurationMs=100.5", func(_ store.Trace, i int) bool { return i >= 100 }},
		{"status=error&environment=production&minCostUsd=0.2&maxCostUsd=1&agentId=" + all[0].AgentID, func(t store.Trace, i int) bool {
			return t.Status == store.TraceError && t.Environment == "production" && i >= 20 && i <= 100 && t.AgentID == all[0].AgentID
		}},
	} {
		t.Run(test.query, func(t *testing.T) {
			var want []string
			for i, tr := range all {
				if test.keep(tr, i) {
					want = append(want, tr.ID)
				}
			}
			slices.Reverse(want)
			a := r.ask(r.admin, "GET", "/api/traces?limit=500&"+test.query, "").want(200)
			var got []string
			for _, item := range a.list() {
				got = append(got, item.id(t))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if total := a.object()["total"]; total != float64(len(want)) {
				t.Errorf("total is %v, want %d", total, len(want))
			}
		})
	}
}

// Paging: limit (default 50, at most 500) and offset; increasing offset until it
// reaches total returns every trace once.
func TestTracePaging(t *testing.T) {
	r := newRig(t)
	seed(r)
	r.ask(r.admin, "GET", "/api/traces", "").want(200).object().has(t, "data", "total", "limit", "offset", "next").is(t, "total", 120, "limit", 50, "offset", 0)
	r.ask(r.admin, "GET", "/api/traces?limit=9999", "").want(200).object().is(t, "limit", 500)
	seen := map[string]bool{}
	for offset := 0; offset < 120; offset += 7 {
		for _, item := range r.ask(r.admin, "GET", fmt.Sprintf("/api/traces?limit=7&offset=%d&status=success", offset), "").want(200).list() {
			if seen[item.id(t)] {
				t.Errorf("%s is on two pages", item.id(t))
			}
			seen[item.id(t)] = true
		}
	}
	if len(seen) != 102 {
		t.Errorf("paged through %d traces, want 102", len(seen))
	}
	r.ask(r.admin, "GET", "/api/traces?offset=1000", "").want(200).object().is(t, "total", 120, "data", []any{})
}

// An invalid query value is a 400 that names its parameter.
func TestTraceBadQueries(t *testing.T) {
	r := newRig(t)
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=x": "limit", "offset=-1": "offset", "status=ok": "status",
		"startDate=yesterday": "startDate", "endDate=2026-13-01": "endDate",
		"startDate=2026-02-02&endDate=2026-02-01": "startDate",
		"minCostUsd=NaN": "minCostUsd", "maxCostUsd=-1": "maxCostUsd", "minCostUsd=2&maxCostUsd=1": "minCostUsd",
		"minInjectionScore=1.1": "minInjectionScore", "minInjectionScore=Inf": "minInjectionScore",
		"minDurationMs=-1": "minDurationMs", "minDurationMs=x": "minDurationMs", "client=a&client=b": "client",
	} {
		r.ask(r.admin, "GET", "/api/traces?"+query, "").wantDetail(field)
		if field != "limit" && field != "offset" {
			r.ask(r.admin, "GET", "/api/traces/stream?"+query, "").wantDetail(field)
		}
	}
}

func TestTracesOfTwoTenants(t *testing.T) {
	r := newRig(t)
	r.ask(r.admin, "POST", "/api/traces", full).want(201)
	r.ask(r.other, "GET", "/api/traces", "").want(200).object().is(t, "total", 0)
	r.ask(r.other, "POST", "/api/traces", full).want(201).data().is(t, "accepted", 1)
	summary := toObject(t, r.ask(r.other, "GET", "/api/traces/stats?period=30d", "").want(200).object()["summary"])
	mine := toObject(t, r.ask(r.admin, "GET", "/api/traces/stats?period=30d", "").want(200).object()["summary"])
	if fmt.Sprint(summary["totalTraces"]) != fmt.Sprint(mine["totalTraces"]) {
		t.Errorf("%v and %v traces", summary["totalTraces"], mine["totalTraces"])
	}
}

// A team-limited key reads traces with traces:read alone.
func TestTracesTeamScope(t *testing.T) {
	r := newRig(t)
	with, _ := r.teamKey("with", "traces:read")
	without, _ := r.teamKey("without", "agents:read", "costs:read")
	for _, path := range []string{"/api/traces", "/api/traces/stats"} {
		r.ask(with, "GET", path, "").want(200)
		r.ask(without, "GET", path, "").want(403)
	}
	r.ask(with, "GET", "/api/traces/x", "").want(404)
	r.ask(without, "GET", "/api/traces/x", "").want(403)
	r.ask(without, "GET", "/api/traces/stream", "").want(403)
}

// TestLongPagesOfTracesAreMadeFewAtATime: a page of many traces waits for a slot
// and gives up when its client disconnects; short pages do not wait.
func TestLongPagesOfTracesAreMadeFewAtATime(t *testing.T) {
	r := newRig(t)
	for range maxLongPages {
		r.srv.largePageSlots <- struct{}{}
	}
	r.ask(r.admin, "GET", "/api/traces?limit=100", "").want(200)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	req := httptest.NewRequest("GET", "/api/traces?limit=500", nil).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer "+r.admin)
	if a := r.send(req); a.status == 200 {
		t.Error("a long page was made although all slots were taken")
	}
	done := make(chan int)
	go func() { done <- r.ask(r.admin, "GET", "/api/traces?limit=500", "").status }()
	<-r.srv.largePageSlots
	if status := <-done; status != 200 {
		t.Errorf("a long page after its turn came: %d", status)
	}
	if n := len(r.srv.largePageSlots); n != maxLongPages-1 {
		t.Errorf("%d slots are taken, want %d", n, maxLongPages-1)
	}
}

// deadlines is a connection that records its write deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	write []time.Duration
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, time.Until(t))
	return nil
}

// TestLargeAnswersHaveATime: a large response has a write deadline in proportion
// to its size; a small one fits into the buffers of the connection.
func TestLargeAnswersHaveATime(t *testing.T) {
	r := newRig(t)
	var many []string
	for i := range 500 {
		many = append(many, traceAt(fmt.Sprintf("t-%d", i), "planner", "success", r.clock.Now(), "sessionId", strconv.Quote(strings.Repeat("s", 200))))
	}
	r.ask(r.admin, "POST", "/api/traces", batch(many...)).want(201)
	for limit, want := range map[int]bool{1: false, 500: true} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		req := httptest.NewRequest("GET", fmt.Sprintf("/api/traces?limit=%d", limit), nil)
		req.Header.Set("Authorization", "Bearer "+r.admin)
		r.srv.ServeHTTP(w, req)
		if (len(w.write) == 1) != want || w.Code != 200 {
			t.Errorf("limit %d: %d, %d bytes, deadlines %v", limit, w.Code, w.Body.Len(), w.write)
		}
		if want && (w.write[0] < answerGrace || w.write[0] > answerGrace+time.Minute) {
			t.Errorf("%d bytes may take %v", w.Body.Len(), w.write[0])
		}
	}
}

// TestExportEndsWithItsKey: an export that has begun checks its key for each page. It is cut
// off, not ended, when the key is deleted or its team loses the scope.
func TestExportEndsWithItsKey(t *testing.T) {
	for what, revoke := range map[string]func(r *rig, keyID, team string){
		"the key is deleted":  func(r *rig, keyID, _ string) { r.ask(r.admin, "DELETE", "/api/keys/"+keyID, "").want(200) },
		"the team loses it":   func(r *rig, _, team string) { r.scopes(r.admin, team).want(200) },
		"the team is deleted": func(r *rig, _, team string) { r.ask(r.admin, "DELETE", "/api/teams/"+team, "").want(200) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			batch := make([]store.Trace, 3*api.MaxLimit)
			for i := range batch {
				batch[i] = store.Trace{ID: fmt.Sprint("trace-", i), AgentName: "a", Status: "success", CreatedAt: epoch.Add(-time.Duration(i) * time.Second)}
			}
			for part := range slices.Chunk(batch, store.MaxIngestBatch) {
				r.traces(part...)
			}
			team := r.team(r.admin, "readers", "traces:read")
			key, keyID := r.key(r.admin, "api", "teamId", team)
			req := httptest.NewRequest("GET", "/api/traces/export", nil)
			req.Header.Set("Authorization", "Bearer "+key)
			w := &onFirstWrite{ResponseRecorder: httptest.NewRecorder(), do: func() { revoke(r, keyID, team) }}
			cut := func() (cut bool) {
				defer func() { cut = recover() == http.ErrAbortHandler }()
				r.srv.ServeHTTP(w, req)
				return false
			}()
			if n := strings.Count(w.Body.String(), "\n"); !cut || n != api.MaxLimit {
				t.Errorf("%d traces after the first page, cut off: %t", n, cut)
			}
			if !strings.Contains(r.log.String(), "export of traces cut off") {
				t.Error("the log has nothing about it")
			}
		})
	}
}

// onFirstWrite calls do once, after the first part of a body was written.
type onFirstWrite struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onFirstWrite) Write(b []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(b)
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return n, err
}
