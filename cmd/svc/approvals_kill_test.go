//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/server/client"
	"svc/store/api"
	"svc/store/postgres/postgrestest"
)

const (
	approvalGateways   = 5
	approvalPrincipals = 50
	approvalKillEvery  = 2 * time.Second
)

// grantedCall is a call that needs an approval. Calls differ in their argument.
type grantedCall struct {
	granted  string      // the approval that may be granted; set before the decision is sent
	received []time.Time // by the tool server
}

// approvalRig has the processes of a test of approvals, a tool server and a person who decides.
type approvalRig struct {
	t                *testing.T
	planes, gateways []*process
	keys             []string       // of principals, each of one gateway
	control          *client.Client // the person
	http             *http.Client
	busy             []chan struct{} // get a value when the tool server receives a call: one of each gateway, and one

	mu    sync.Mutex
	calls []grantedCall
	ids   map[string]int // approvals and their calls
}

// startApprovals starts control planes, to whose environment env is added, gateways with an ingest key each,
// and a tool server.
func startApprovals(t *testing.T, calls, planes int, env ...string) *approvalRig {
	t.Helper()
	r := &approvalRig{t: t, calls: make([]grantedCall, calls), ids: map[string]int{}, busy: make([]chan struct{}, approvalGateways+1),
		http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: approvalPrincipals}}}
	for i := range r.busy {
		r.busy[i] = make(chan struct{}, 1)
	}
	tools := httptest.NewServer(http.HandlerFunc(r.serveTool))
	t.Cleanup(tools.Close)
	t.Cleanup(r.http.CloseIdleConnections)
	dir := t.TempDir()
	begin := func(p *process) *process {
		p.start()
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s at %s:\n%s", p.args[0], p.addr, tail(&p.out))
			}
		})
		return p
	}
	var urls []string
	for i := range planes {
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", env: append(env, "SVC_BOOTSTRAP_API_KEY="+planeKey)}
		p.args = []string{"serve", "--listen", p.addr, "--data-dir", filepath.Join(dir, fmt.Sprint("data", i)), "--rate-limit", "100000", "--ingest-rate-limit", "100000"}
		r.planes = append(r.planes, begin(p))
		urls = append(urls, "http://"+p.addr)
	}
	r.control = client.New(urls[0], planeKey, client.WithOthers(nil, urls[1:]...))

	writeLicense(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "session.key"), []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries := make([]strings.Builder, approvalGateways)
	for i := range approvalPrincipals {
		id := fmt.Sprint("p", i)
		key, err := auth.NewKey(id)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := auth.Hash(key, auth.Params{MemoryKiB: 8, Time: 1, Threads: 1}) // cheap: keys are verified again after each kill
		if err != nil {
			t.Fatal(err)
		}
		r.keys = append(r.keys, key)
		fmt.Fprintf(&entries[i%approvalGateways], "  - {id: %s, hash: %q}\n", id, hash)
	}
	for i := range approvalGateways {
		ingest, err := r.control.CreateKey(t.Context(), api.KeyCreate{Name: fmt.Sprint("gateway ", i), Scope: "ingest"})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("svc%d.yaml", i))
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", args: []string{"gateway", "--config", file}}
		text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
default_upstream: up
upstreams: [{name: up, url: "%[3]s/%[4]d"}]
routes: [{match: {tool_name: "*"}, upstream: up}]
policy:
  default_action: deny
  rules: [{id: ask, action: allow, when: {tool_name: pay}, approval: {not_self: false}}]
audit: {path: %[2]s/audit%[4]d.jsonl}
state_dir: %[2]s/state%[4]d
sessions: {key_file: %[2]s/session.key}
control_plane: {url: ["%[5]s"], ingest_key: %[6]q, traces: {enabled: false}}
auth:
  enabled: true
  keys:
%[7]s`, p.addr, dir, tools.URL, i, strings.Join(urls, `", "`), ingest.Key, entries[i].String())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.gateways = append(r.gateways, begin(p))
	}
	return r
}

// serveTool is the tool server. The last part of the path is the number of the gateway.
func (r *approvalRig) serveTool(w http.ResponseWriter, req *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ N int } }
	}
	from, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/"))
	if err != nil || json.NewDecoder(req.Body).Decode(&m) != nil {
		r.t.Errorf("the tool server got %s", req.URL.Path)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if m.Method != "tools/call" { // the gateway asks for the protocol generation
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		return
	}
	n := m.Params.Arguments.N
	r.mu.Lock()
	r.calls[n].received = append(r.calls[n].received, time.Now())
	granted := r.calls[n].granted
	r.mu.Unlock()
	if granted == "" {
		r.t.Errorf("call %d was received and nobody has granted it", n)
	}
	for _, i := range []int{from, approvalGateways} {
		select {
		case r.busy[i] <- struct{}{}:
		default:
		}
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ran %d"}]}}`, m.ID, n)
}

// approve grants one approval of each call until ctx ends. Requests that a kill prevents are made again.
func (r *approvalRig) approve(ctx context.Context) {
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		page, err := r.control.ListApprovals(ctx, client.ApprovalQuery{Page: client.Page{Limit: 500}, Status: api.ApprovalPending})
		for i := 0; err == nil && i < len(page.Data); i++ {
			id, n := page.Data[i].ID, 0
			if n, err = r.callOf(ctx, id); err != nil {
				break
			}
			r.mu.Lock()
			if r.calls[n].granted == "" {
				r.calls[n].granted = id
			}
			granted := r.calls[n].granted
			r.mu.Unlock()
			if granted == id {
				_, err = r.control.DecideApproval(ctx, id, api.ApprovalDecision{Decision: "grant"})
			}
		}
	}
}

// callOf returns the call that an approval is for.
func (r *approvalRig) callOf(ctx context.Context, id string) (n int, err error) {
	r.mu.Lock()
	n, known := r.ids[id]
	r.mu.Unlock()
	if known {
		return n, nil
	}
	a, err := r.control.GetApproval(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(a.Arguments) != 1 || a.Arguments[0].Pointer != "/n" {
		r.t.Errorf("the arguments of approval %s are %v", id, a.Arguments)
	}
	if n, err = strconv.Atoi(a.Arguments[0].Value); err != nil {
		return 0, err
	}
	r.mu.Lock()
	r.ids[id] = n
	r.mu.Unlock()
	return n, nil
}

// repeat makes a call again and again until it ran. It returns false when the call needs another approval
// than the one that was granted, because that one was used: a process was killed between the claim and the
// response.
func (r *approvalRig) repeat(ctx context.Context, n int) (ran bool) {
	who := n % approvalPrincipals
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%[1]d,"method":"tools/call","params":{"name":"pay","arguments":{"n":%[1]d}}}`, n)
	for {
		status, answer, err := r.gateways[who%approvalGateways].post(r.http, body, "Authorization", "Bearer "+r.keys[who])
		pause := 50 * time.Millisecond
		if err == nil {
			var m struct {
				Error struct {
					Data struct {
						Reason     string
						ApprovalID string `json:"approval_id"`
						RetryAfter int    `json:"retry_after"`
					}
				}
			}
			invalid := json.Unmarshal([]byte(answer), &m)
			d := m.Error.Data
			switch {
			case status == http.StatusOK && strings.Contains(answer, fmt.Sprintf(`"ran %d"`, n)):
				return true
			case invalid != nil || !slices.Contains([]string{"approval_required", "approval_limit", "approval_unavailable"}, d.Reason):
				r.t.Errorf("call %d: %d %s", n, status, answer)
				return false
			}
			r.mu.Lock()
			granted := r.calls[n].granted
			r.mu.Unlock()
			if d.Reason == "approval_required" && granted != "" && d.ApprovalID != granted {
				return false
			}
			pause = time.Duration(d.RetryAfter) * time.Second
		}
		select {
		case <-ctx.Done():
			r.t.Errorf("call %d did not run; the last response was %d %s, %v", n, status, answer, err)
			return false
		case <-time.After(pause):
		}
	}
}

// killAll kills and starts one process after the other, in random order, until done is closed. A kill happens
// when the tool server receives a call, if one comes soon, because grants can be lost then.
func (r *approvalRig) killAll(done <-chan struct{}, random *rand.Rand) (kills int) {
	r.t.Helper()
	for {
		for _, i := range random.Perm(len(r.gateways) + len(r.planes)) {
			select {
			case <-done:
				return kills
			case <-time.After(approvalKillEvery):
			}
			p := slices.Concat(r.gateways, r.planes)[i]
			busy := r.busy[min(i, len(r.gateways))]
			select { // of an earlier call
			case <-busy:
			default:
			}
			select {
			case <-busy:
			case <-done:
			case <-time.After(500 * time.Millisecond):
			}
			p.kill()
			p.start()
			kills++
		}
	}
}

// compare compares the approvals at the control plane with what the tool server received: each call once, after
// the decision of an approval that is used. Only lost calls have further approvals.
func (r *approvalRig) compare(lost map[int]bool) {
	r.t.Helper()
	used := make([][]api.ApprovalRecord, len(r.calls))
	for offset := 0; ; {
		page, err := r.control.ListApprovals(r.t.Context(), client.ApprovalQuery{Page: client.Page{Limit: 500, Offset: offset}})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, a := range page.Data {
			n, err := r.callOf(r.t.Context(), a.ID)
			switch {
			case err != nil:
				r.t.Fatal(err)
			case a.Status == api.ApprovalUsed:
				used[n] = append(used[n], a)
			case a.Status != api.ApprovalPending || !lost[n]:
				r.t.Errorf("approval %s of call %d is %s", a.ID, n, a.Status)
			}
		}
		if offset += len(page.Data); len(page.Data) == 0 || offset >= page.Total {
			break
		}
	}
	for n, c := range r.calls {
		if len(c.received) != 1 {
			r.t.Errorf("call %d was received %d times", n, len(c.received))
			continue
		}
		earlier := slices.ContainsFunc(used[n], func(a api.ApprovalRecord) bool {
			return len(a.Decisions) == 1 && a.Decisions[0].Decision == "grant" && !a.Decisions[0].At.After(c.received[0])
		})
		if !earlier || len(used[n]) > 1 && !lost[n] {
			r.t.Errorf("call %d was received at %v, with the used approvals %+v", n, c.received[0], used[n])
		}
	}
}

// run makes all calls while processes are killed, and then makes those again whose grant was lost.
func (r *approvalRig) run(random *rand.Rand) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute+time.Duration(len(r.calls))*time.Second)
	var person, callers sync.WaitGroup
	defer func() { cancel(); callers.Wait(); person.Wait() }()
	person.Go(func() { r.approve(ctx) })

	var mu sync.Mutex
	lost, done := map[int]bool{}, make(chan struct{})
	for who := range approvalPrincipals {
		callers.Go(func() {
			for n := who; n < len(r.calls); n += approvalPrincipals {
				if !r.repeat(ctx, n) {
					mu.Lock()
					lost[n] = true
					mu.Unlock()
				}
			}
		})
	}
	go func() { callers.Wait(); close(done) }()
	kills := r.killAll(done, random)
	under := time.Since(began)

	unsent := 0
	for n := range lost {
		r.mu.Lock()
		again := len(r.calls[n].received) == 0
		if again {
			r.calls[n].granted = "" // the next one is granted
		}
		r.mu.Unlock()
		if !again {
			continue // it ran, and its response was lost
		}
		unsent++
		callers.Go(func() {
			if !r.repeat(ctx, n) {
				r.t.Errorf("call %d, whose grant was lost, did not run after another approval", n)
			}
		})
	}
	callers.Wait()
	r.compare(lost)
	r.t.Logf("%d calls in %v under %d kills: %d grants were lost before the call was sent, %d responses after it; %v in all",
		len(r.calls), under.Round(time.Millisecond), kills, unsent, len(lost)-unsent, time.Since(began).Round(time.Millisecond))
}

// TestApprovalsWhileProcessesAreKilled lets 50 principals make calls at five gateways, and a person grant
// them, while gateways and control plane are killed in turn: each call that the tool server received had been
// granted, and was received once. A kill may lose a grant, and then the call passes with another one.
// SVC_TEST_APPROVALS=1000 makes it longer, and adds two control planes on one database; SVC_TEST_SEED=1 repeats
// the order of the kills.
func TestApprovalsWhileProcessesAreKilled(t *testing.T) {
	calls, text := 120, os.Getenv("SVC_TEST_APPROVALS")
	if text != "" {
		var err error
		if calls, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := seedOf(t)
	t.Run("bbolt", func(t *testing.T) { startApprovals(t, calls, 1).run(rand.New(rand.NewPCG(seed, 1))) })
	if text == "" {
		return
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		db := postgrestest.Start(t).Database(t)
		startApprovals(t, calls, 2, "SVC_STORE="+db).run(rand.New(rand.NewPCG(seed, 2)))
	})
}
