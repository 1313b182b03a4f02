//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
	"svc/server/client"
	"svc/store/api"
	"svc/store/postgres/postgrestest"
)

// replicas are control planes on one database.
type replicas struct {
	t      *testing.T
	dir    string
	planes []*process
	ask    []*client.Client
}

func startReplicas(t *testing.T, n int, args ...string) *replicas {
	t.Helper()
	r := &replicas{t: t, dir: t.TempDir()}
	url := postgrestest.Start(t).Database(t)
	for i := range n {
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", env: []string{"SVC_STORE=" + url, "SVC_BOOTSTRAP_API_KEY=" + planeKey}}
		p.args = append([]string{"serve", "--listen", p.addr, "--data-dir", filepath.Join(r.dir, fmt.Sprint("data", i)), "--ingest-rate-limit", "100000"}, args...)
		p.start()
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("control plane %d:\n%s", i, tail(&p.out))
			}
		})
		r.planes = append(r.planes, p)
		r.ask = append(r.ask, client.New("http://"+p.addr, planeKey))
	}
	return r
}

// govern starts a gateway that enforces the policies of the control planes, with a tool
// server.
func (r *replicas) govern() *governedStack {
	t := r.t
	t.Helper()
	s := &governedStack{say: "done"}
	tools := httptest.NewServer(http.HandlerFunc(s.serveTool))
	t.Cleanup(tools.Close)
	ingest, err := r.ask[0].CreateKey(t.Context(), api.KeyCreate{Name: "gateway", Scope: "ingest"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(r.dir, "svc.yaml")
	s.stack = &stack{t: t, dir: r.dir, control: r.ask[1]}
	s.gw = &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", args: []string{"gateway", "--config", file}}
	writeLicense(t, r.dir)
	key, hash := newKey(t, "agent")
	s.key = key
	text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
default_upstream: up
upstreams: [{name: up, url: %[3]q}]
routes: [{match: {tool_name: "*"}, upstream: up}]
auth: {enabled: true, keys: [{id: agent, hash: %[4]q}]}
policy: {default_action: allow}
audit: {path: %[2]s/audit.jsonl}
control_plane:
  url: ["http://%[5]s", "http://%[6]s"]
  ingest_key: %[7]q
  traces: {flush_interval: 10ms, timeout: 2s}
  governance: {enabled: true, refresh_interval: 1s}
`, s.gw.addr, r.dir, tools.URL, hash, r.planes[0].addr, r.planes[1].addr, ingest.Key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gw.start()
	t.Cleanup(s.gw.kill)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gateway:\n%s", tail(&s.gw.out))
		}
	})
	return s
}

// follow opens the stream of traces at a control plane.
func follow(t *testing.T, c *client.Client, after string) *client.TraceStream {
	t.Helper()
	s, err := c.StreamTraces(t.Context(), client.TraceFilter{}, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// next returns the id of the next event and of its trace.
func next(t *testing.T, s *client.TraceStream) (event, trace string) {
	t.Helper()
	late := time.AfterFunc(10*time.Second, func() { _ = s.Close() })
	defer late.Stop()
	e, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	return e.ID, e.Trace.ID
}

// A trace reaches the streams at every control plane, and a stream can resume from an
// event's id at any of them, without gaps and without duplicates.
func TestFollowersAtEveryReplica(t *testing.T) {
	r := startReplicas(t, 2, "--rate-limit", "100000")
	at := []*client.TraceStream{follow(t, r.ask[0], ""), follow(t, r.ask[1], "")}
	var longest time.Duration
	var last []string
	for i := range 10 {
		id := fmt.Sprintf("t%d", i)
		if _, err := r.ask[i%2].PostTraces(t.Context(), []api.TraceInput{{ID: id, AgentName: "a", Status: "success"}}); err != nil {
			t.Fatal(err)
		}
		posted := time.Now()
		last = last[:0]
		for j, s := range at {
			event, trace := next(t, s)
			if trace != id {
				t.Errorf("the follower at %d got %s, want %s", j, trace, id)
			}
			last = append(last, event)
		}
		longest = max(longest, time.Since(posted))
		if i == 4 { // each stream resumes at the other control plane
			at = []*client.TraceStream{follow(t, r.ask[1], last[0]), follow(t, r.ask[0], last[1])}
		}
	}
	if longest > 5*time.Second {
		t.Errorf("a trace took %s to reach all followers", longest)
	}
	t.Logf("after at most %s a trace was at all followers", longest)
}

// A gateway with two control planes uses the other one when its own is frozen or
// killed: policies reach it, and each call has one trace.
func TestAGatewayOutlivesItsControlPlanes(t *testing.T) {
	r := startReplicas(t, 2, "--rate-limit", "100000")
	s := r.govern()
	calls := 0
	call := func(want int) {
		t.Helper()
		calls++
		if status, body := s.call("lookup", fmt.Sprint(calls)); status != want {
			t.Fatalf("call %d: status %d, want %d: %s", calls, status, want, body)
		}
	}
	traces := func(c *client.Client) {
		t.Helper()
		total := 0
		s.until("the trace of each call", func() bool {
			page, err := c.ListTraces(t.Context(), client.TraceQuery{Page: client.Page{Limit: 500}})
			if err != nil {
				t.Fatal(err)
			}
			total = page.Total
			return total >= calls
		})
		if total != calls {
			t.Errorf("%d traces of %d calls", total, calls)
		}
	}
	// Polling for each status makes calls, which count too.
	acts := func(want int) time.Duration {
		t.Helper()
		began := time.Now()
		s.until(fmt.Sprint("the policy is enforced with status ", want), func() bool {
			calls++
			status, _ := s.call("lookup", fmt.Sprint(calls))
			return status == want
		})
		return time.Since(began)
	}

	call(http.StatusOK)
	traces(r.ask[1])
	block, err := r.ask[1].CreatePolicy(t.Context(), api.PolicyCreate{Name: "block", Phase: "request", Action: "block", Condition: &api.Condition{Type: "tool_name", ToolName: "lookup"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a policy created at one control plane was enforced after %s at the gateway of the other", acts(http.StatusForbidden))

	if err := r.planes[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	call(http.StatusForbidden)
	traces(r.ask[1])
	if err := r.planes[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	r.planes[1].kill()
	call(http.StatusForbidden)
	traces(r.ask[0])
	off := false
	if _, err := r.ask[0].UpdatePolicy(t.Context(), block.ID, api.PolicyUpdate{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	acts(http.StatusOK)
	traces(r.ask[0])
}

// A creation that is retried at another control plane is made once.
func TestARetryAtAnotherReplicaCreatesOnce(t *testing.T) {
	r := startReplicas(t, 2, "--rate-limit", "100000")
	var made [2]api.AgentCreated
	for i, c := range r.ask {
		var err error
		if made[i], err = c.CreateAgent(t.Context(), api.AgentCreate{Name: "once"}, client.IdempotencyKey("k")); err != nil {
			t.Fatal(err)
		}
	}
	if made[0].ID == "" || made[0].ID != made[1].ID {
		t.Errorf("made %q and %q", made[0].ID, made[1].ID)
	}
}

// With Redis a tenant has one rate window for all control planes; without Redis each
// control plane has its own window.
func TestReplicasShareWindows(t *testing.T) {
	redis := redistest.Start(t)
	r := startReplicas(t, 2, "--rate-limit", "20", "--redis-url", redis.URL())
	accepted := func() (n int) {
		for i := range 60 {
			if _, err := r.ask[i%2].Whoami(t.Context()); err == nil {
				n++
			}
		}
		return n
	}
	if n := accepted(); n != 20 {
		t.Errorf("two control planes accepted %d requests, want 20", n)
	}
	redis.Kill()
	if n := accepted(); n > 20 {
		t.Errorf("without Redis they accepted %d more requests, want one more window at most", n)
	}
}
