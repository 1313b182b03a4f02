//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store/clickhouse/clickhousetest"
	"svc/store/postgres/postgrestest"
)

// session is a recorded sequence of REST calls.
type session struct {
	t    testing.TB
	addr string
}

// call returns the status and the body of a response.
func (s *session) call(method, path, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+planeKey)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// made is call for a POST that must succeed, and returns the id of the created resource.
func (s *session) made(path, body string, header ...string) string {
	s.t.Helper()
	status, _, text := s.call(http.MethodPost, path, body, header...)
	var out struct {
		ID   string
		Data struct{ ID string }
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil || status/100 != 2 {
		s.t.Fatalf("POST %s: %d %s", path, status, text)
	}
	if out.ID != "" {
		return out.ID
	}
	return out.Data.ID
}

// fill creates resources and n traces of the last 20 days.
func (s *session) fill(n int) {
	s.t.Helper()
	agent := s.made("/api/agents", `{"name":"agent ü","environment":"prod","configYaml":"a: 1"}`)
	s.made("/api/teams", `{"name":"team ☕"}`, "Idempotency-Key", "made-once")
	s.made("/api/costs/budgets", fmt.Sprintf(`{"name":"budget","agentId":%q,"period":"monthly","limitUsd":1000}`, agent))
	s.made("/api/costs/sla", fmt.Sprintf(`{"name":"sla","agentId":%q,"p99LatencyMs":100,"evaluationPeriod":"1h"}`, agent))
	s.made("/api/policies", `{"name":"política","phase":"request","action":"block","condition":{"type":"pii_detected","entities":["EMAIL_ADDRESS"]}}`)
	s.made("/api/keys", `{"name":"reporter","scope":"ingest"}`)
	r := rand.New(rand.NewPCG(7, 7))
	from := time.Now().Add(-20 * 24 * time.Hour)
	for at := 0; at < n; at += 1000 {
		var b bytes.Buffer
		b.WriteString(`{"traces":[`)
		for i := at; i < min(n, at+1000); i++ {
			if i > at {
				b.WriteByte(',')
			}
			status := []string{"success", "success", "success", "error"}[r.IntN(4)]
			created := from.Add(time.Duration(float64(i) / float64(n) * float64(19*24*time.Hour))).Add(time.Duration(r.IntN(1e9)))
			fmt.Fprintf(&b, `{"id":"trace_%d","agentName":"agent ü%s","status":%q,"environment":"prod","sessionId":"session %d","modelProvider":"p","modelName":"m%d","toolName":"tool %d",`+
				`"inputTokens":%d,"outputTokens":%d,"costUsd":0.%06d,"durationMs":%d,"createdAt":%q,"qualityScores":[{"scorer":"s","score":0.5}]}`,
				i, []string{"", " 2", " 3"}[r.IntN(3)], status, r.IntN(1000), r.IntN(3), r.IntN(5), r.IntN(5000), r.IntN(5000), r.IntN(1e6), r.IntN(3000), created.UTC().Format(time.RFC3339Nano))
		}
		b.WriteString(`]}`)
		if status, _, text := s.call(http.MethodPost, "/api/traces", b.String()); status != http.StatusCreated {
			s.t.Fatalf("ingest: %d %s", status, text)
		}
	}
}

// counted are members of lists of traces that ClickHouse may leave uncounted: section "What
// holds" of docs/scale-out.md.
var counted = regexp.MustCompile(`"total":\d+,|,"totalIsLowerBound":true`)

// record makes the calls of a session and returns the responses.
func (s *session) record() (list []string) {
	s.t.Helper()
	get := func(path string) string {
		s.t.Helper()
		status, header, text := s.call(http.MethodGet, path, "")
		if status != http.StatusOK {
			s.t.Fatalf("GET %s: %d %s", path, status, text)
		}
		list = append(list, path+" "+header.Get("ETag")+" "+text)
		return text
	}
	for _, path := range []string{"/api/whoami", "/api/teams", "/api/agents", "/api/costs/budgets", "/api/costs/sla", "/api/costs/sla/violations", "/api/policies",
		"/api/keys", "/api/governance", "/api/audit/heads", "/api/audit/events", "/api/traces/stats?period=30d",
		"/api/traces/stats?period=30d&groupBy=agent", "/api/traces/stats?period=30d&groupBy=model", "/api/costs/breakdown?period=30d",
		"/api/costs/breakdown?period=90d&groupBy=environment", "/api/traces?limit=100", "/api/traces?limit=50&offset=1234", "/api/traces?status=error&limit=20",
		"/api/traces?sessionId=session+7&limit=100", "/api/traces?environment=prod&modelName=m1&limit=30", "/api/traces/trace_1", "/api/traces/trace_999"} {
		get(path)
	}
	var agents struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(get("/api/agents?limit=100")), &agents); err != nil {
		s.t.Fatal(err)
	}
	for _, a := range agents.Data {
		get("/api/agents/" + a.ID)
		get("/api/agents/" + a.ID + "/tools")
		get("/api/agents/" + a.ID + "/history")
		get("/api/traces?limit=10&agentId=" + a.ID)
	}
	after := ""
	for range 20 { // pages after cursors
		path := "/api/traces?limit=500"
		if after != "" {
			path += "&after=" + url.QueryEscape(after)
		}
		var page struct{ Next string }
		if err := json.Unmarshal([]byte(get(path)), &page); err != nil {
			s.t.Fatal(err)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	// The response to an idempotent request is stored.
	status, _, text := s.call(http.MethodPost, "/api/teams", `{"name":"team ☕"}`, "Idempotency-Key", "made-once")
	return append(list, fmt.Sprintf("%d %s", status, text))
}

// passing matches what differs between two sessions: the time at which the key was used, and the bounds of
// statistics that end now.
var passing = regexp.MustCompile(`"lastUsedAt":"[^"]*"|"(from|to)":"[^"]*",`)

// migration is a move of a store with the program.
type migration struct {
	t    *testing.T
	args []string
}

func (m *migration) command(more ...string) *exec.Cmd {
	return exec.Command(program(m.t), append(append([]string{"store", "migrate"}, m.args...), more...)...)
}

// counts returns what --dry-run counts: the rows of each kind in the source.
func (m *migration) counts() string {
	m.t.Helper()
	out, err := m.command("--dry-run").Output()
	if err != nil {
		m.t.Fatalf("--dry-run: %v\n%s", err, out)
	}
	return string(out)
}

// killed runs the program until it was killed some times, each time after a random part
// of a duration, and reports whether it ended before that.
func (m *migration) killed(kills int, most time.Duration, r *rand.Rand) (ended bool) {
	m.t.Helper()
	for n := range kills {
		cmd := m.command()
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			m.t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(most))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			m.t.Logf("it ended after %d kills", n)
			return true
		}
		if !strings.Contains(err.Error(), "killed") {
			m.t.Fatalf("after %d kills: %v\n%s", n, err, out.String())
		}
	}
	return false
}

// TestMigrateProcesses moves the store of a control plane from its file to PostgreSQL, and
// to PostgreSQL and ClickHouse, with 'svc store migrate', which is killed at random times,
// and compares the responses to a session of REST calls before and after. It is short
// unless SVC_TEST_MIGRATE_TRACES and SVC_TEST_MIGRATE_KILLS are set.
func TestMigrateProcesses(t *testing.T) {
	n, kills := 3000, 3
	for name, value := range map[string]*int{"SVC_TEST_MIGRATE_TRACES": &n, "SVC_TEST_MIGRATE_KILLS": &kills} {
		if text := os.Getenv(name); text != "" {
			*value, _ = strconv.Atoi(text)
		}
	}
	dir := t.TempDir()
	serve := func(t *testing.T, env ...string) *process {
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", env: append(env, "SVC_BOOTSTRAP_API_KEY="+planeKey)}
		p.args = []string{"serve", "--listen", p.addr, "--data-dir", dir, "--ingest-rate-limit", "1000000", "--rate-limit", "1000000"}
		p.start()
		t.Cleanup(p.kill)
		return p
	}
	began := time.Now()
	step := func(t *testing.T, what string) {
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}
	p := serve(t)
	s := &session{t, p.addr}
	s.fill(n)
	step(t, "filled")
	before := s.record()
	step(t, "recorded")
	p.stop()
	from := "bbolt://" + filepath.Join(dir, "svc.db")

	move := func(t *testing.T, m *migration) {
		counts := m.counts()
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^traces +%d$`, n)).MatchString(counts) {
			t.Errorf("--dry-run:\n%s", counts)
		}
		began = time.Now()
		most := 300*time.Millisecond + time.Duration(n)*8*time.Microsecond // a fraction of the total time
		ended := m.killed(kills, most, rand.New(rand.NewPCG(uint64(n), 1)))
		step(t, fmt.Sprintf("killed at most %d times", kills))
		if !ended {
			out, err := m.command().CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", bytes.TrimSpace(out))
		}
		step(t, "moved and compared")
	}
	same := func(t *testing.T, text func(string) string, env ...string) {
		p := serve(t, env...)
		after := (&session{t, p.addr}).record()
		step(t, "recorded")
		p.stop()
		for i := range before {
			was, is := text(before[i]), text(after[i])
			if was != is {
				t.Errorf("answers before and after (-before +after):\n%s", cmp.Diff(strings.SplitAfter(was, ","), strings.SplitAfter(is, ",")))
			}
		}
		if !t.Failed() {
			t.Logf("%d answers are the same", len(before))
		}
	}
	server := postgrestest.Start(t)
	t.Run("PostgreSQL", func(t *testing.T) {
		db := server.Database(t)
		m := &migration{t, []string{"--from", from, "--to", db}}
		counts := m.counts()
		move(t, m)
		back := &migration{t, []string{"--from", db, "--to", "bbolt://" + filepath.Join(dir, "back.db")}}
		if diff := cmp.Diff(counts, back.counts()); diff != "" {
			t.Errorf("rows before and after (-before +after):\n%s", diff)
		}
		same(t, func(s string) string { return passing.ReplaceAllString(s, "") }, "SVC_STORE="+db)
	})
	t.Run("ClickHouse", func(t *testing.T) {
		db, traces := server.Database(t), clickhousetest.Start(t).Database(t)
		move(t, &migration{t, []string{"--from", from, "--to", db, "--trace-store", traces}})
		same(t, func(s string) string {
			if strings.HasPrefix(s, "/api/traces?") {
				s = counted.ReplaceAllString(s, "")
			}
			return passing.ReplaceAllString(s, "")
		}, "SVC_STORE="+db, "SVC_TRACE_STORE="+traces)
	})
}
