package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/policy/plane"
	"svc/gateway/session"
	"svc/server"
	"svc/server/client"
	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
	"svc/test/certtest"
)

// controlPlane is a control plane with one tenant.
type controlPlane struct {
	t        testing.TB
	url      string
	operator *client.Client // decides
	ingest   string         // the key of gateways
	// offset moves the clock of gateways, which wait before they ask again.
	offset atomic.Int64
	// fails and lost end a request about approvals, by the last part of its path: before it, and after it.
	mu         sync.Mutex
	fail, lost map[string]int
	asked      []string  // the last parts of paths
	govern     *governor // gives policies to gateways that are made later; nil: none
}

func newControlPlane(t testing.TB) *controlPlane {
	t.Helper()
	p := &controlPlane{t: t, fail: map[string]int{}, lost: map[string]int{}}
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	secret := server.NewSecret(store.ScopeAPI)
	if _, _, err := st.CreateTenant(context.Background(), store.TenantCreate{
		ID: "one", Name: "one", OrgID: "org_one",
		Key: &store.KeyCreate{Name: "first", Scope: store.ScopeAPI, Prefix: server.SecretPrefix(secret), Digest: store.DigestKey(secret)},
	}); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Records: st, Traces: st, Now: time.Now, IdentitySecret: "whsec_of_the_tests", RateLimit: 100_000, IngestRateLimit: 100_000,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(p.flaky(srv))
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	p.url, p.operator = ts.URL, client.New(ts.URL, secret)
	key, err := p.operator.CreateKey(context.Background(), api.KeyCreate{Name: "gateways", Scope: "ingest"})
	if err != nil {
		t.Fatal(err)
	}
	p.ingest = key.Key
	return p
}

// flaky is the control plane with the failures that a test asks for.
func (p *controlPlane) flaky(srv http.Handler) http.Handler {
	take := func(from map[string]int, name string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		from[name]--
		return from[name] >= 0
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		p.mu.Lock()
		p.asked = append(p.asked, name)
		p.mu.Unlock()
		if take(p.fail, name) {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if take(p.lost, name) {
			srv.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		srv.ServeHTTP(w, r)
	})
}

func (p *controlPlane) set(in map[string]int, name string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in[name] = n
}

// count returns the number of requests with a last part of their path.
func (p *controlPlane) count(name string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if a == name {
			n++
		}
	}
	return n
}

// gateway is a gateway of the control plane; those of one session key share calls.
func (p *controlPlane) gateway(config string) *rig {
	p.t.Helper()
	governed := ""
	if p.govern != nil {
		governed = ", governance: {enabled: true}"
	}
	return newRigWith(p.t, config+"control_plane: {url: \""+p.url+"\", ingest_key: "+p.ingest+", agent: planner, traces: {enabled: false}"+governed+"}\n", func(o *gateway.Options) {
		if p.govern != nil {
			o.Governance = p.govern
		}
		c := client.New(p.url, p.ingest)
		o.Approvals = &plane.ApprovalCalls{Request: c.RequestApproval, Claim: c.ClaimApproval, Release: c.ReleaseApproval}
		o.SinkStatus = func(err error) (int, time.Duration) {
			var e *client.Error
			if errors.As(err, &e) {
				return e.Status, e.RetryAfter
			}
			return 0, 0
		}
		o.Now = func() time.Time { return time.Now().Add(time.Duration(p.offset.Load())) }
	})
}

// later lets the gateways ask again.
func (p *controlPlane) later() { p.offset.Add(int64(31 * time.Second)) }

func (p *controlPlane) decide(id, decision string) {
	p.t.Helper()
	if _, err := p.operator.DecideApproval(context.Background(), id, api.ApprovalDecision{Decision: decision}); err != nil {
		p.t.Fatal(err)
	}
	p.later()
}

func (p *controlPlane) status(id string) string {
	p.t.Helper()
	a, err := p.operator.GetApproval(context.Background(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return a.Status
}

// asks is a configuration whose calls of a tool a person must approve.
func asks(config, tool, approval string) string {
	return strings.Replace(config, "  rules:\n", "  rules:\n    - {id: ask, action: allow, when: {tool_name: "+tool+"}, approval: {"+approval+"}}\n", 1)
}

// waits checks that a call waits for an approval, and returns its id.
func (a answer) waits(t *testing.T) string {
	t.Helper()
	e := a.rpc(t)
	id, _ := e.Error.Data["approval_id"].(string)
	if a.status != http.StatusForbidden || e.Error.Code != -32001 || e.Error.Data["reason"] != "approval_required" || id == "" || e.Error.Data["retry_after"] == nil {
		t.Fatalf("answer %d %s, want that it waits", a.status, a.body)
	}
	return id
}

func (a answer) passed(t *testing.T) {
	t.Helper()
	if a.status != http.StatusOK || strings.Contains(a.message(), `"error"`) {
		t.Fatalf("answer %d %s, want that of the upstream", a.status, a.body)
	}
}

// A call passes once after a person granted it, in any spelling of the same values, and no other call
// passes with it.
func TestACallPassesOnceAfterItsApproval(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	r := p.gateway(asks(basic(up.URL), "safe", "note: look at the path"))
	body := callWith(`{"n":100,"path":"/srv","list":[1,"a"]}`)
	id := r.post(body).waits(t)
	line := r.lastLine()
	if line["approval"] != "required" || line["approval_id"] != id || line["action"] != "deny" || line["error_kind"] != "approval_required" || line["rule_id"] != "ask" {
		t.Errorf("line %v", line)
	}
	if again := r.post(body).waits(t); again != id || p.count("approvals") != 1 {
		t.Errorf("asked %d times, for %s and %s", p.count("approvals"), id, again)
	}
	a, err := p.operator.GetApproval(t.Context(), id)
	if err != nil || a.Tool != "safe" || a.AgentName != "planner" || a.Principal != "key:alice" || a.Upstream != "main" || a.RequestID == "" ||
		len(a.Reasons) != 1 || a.Reasons[0].RuleID != "ask" || a.Reasons[0].Note != "look at the path" || len(a.Arguments) != 4 || a.Arguments[1].Pointer != "/path" || a.Arguments[1].Value != `"/srv"` {
		t.Errorf("%+v, %v", a, err)
	}
	p.decide(id, "grant")
	for _, other := range []struct{ name, body, key string }{
		{"another number", callWith(`{"n":101,"path":"/srv","list":[1,"a"]}`), r.key},
		{"a text", callWith(`{"n":"100","path":"/srv","list":[1,"a"]}`), r.key},
		{"another order", callWith(`{"n":100,"path":"/srv","list":["a",1]}`), r.key},
		{"more", callWith(`{"n":100,"path":"/srv","list":[1,"a"],"x":null}`), r.key},
		{"another caller", body, r.other},
	} {
		if got := r.post(other.body, "Authorization", "Bearer "+other.key).waits(t); got == id {
			t.Errorf("%s has the same approval", other.name)
		}
	}
	if n := len(up.seen()); n != 0 {
		t.Fatalf("the upstream got %d requests", n)
	}
	other := `{"params":{"_meta":{"progressToken":8},"arguments":{"list":[1.0,"\u0061"],"path":"\/srv","n":1e2},"name":"s\u0061fe"},"method":"tools/call","id":9,"jsonrpc":"2.0"}`
	r.post(other).passed(t)
	if sent := up.seen(); len(sent) != 1 || sent[0].body != other {
		t.Fatalf("the upstream got %v", sent)
	}
	if line := r.lastLine(); line["approval"] != "granted" || line["approval_id"] != id || line["approved_by"] == nil || line["action"] != "allow" || line["rule_id"] != "ask" {
		t.Errorf("line %v", line)
	}
	if s := p.status(id); s != "used" {
		t.Errorf("the approval is %s", s)
	}
	if next := r.post(body).waits(t); next == id {
		t.Error("a used approval is asked for again")
	}
	if len(up.seen()) != 1 {
		t.Error("the call passed twice")
	}
}

// A refused call is refused, with words for a model where these are configured.
func TestARefusedCall(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	r := p.gateway(strings.Replace(asks(basic(up.URL), "safe", ""), "policy:\n", "policy:\n  deny_as: tool_error\n", 1))
	body := callWith(`{}`)
	got := r.post(body)
	if got.status != 200 || !strings.Contains(got.body, `"isError":true`) || !strings.Contains(got.body, "exactly the same arguments") {
		t.Fatalf("%d %s", got.status, got.body)
	}
	id, _ := r.lastLine()["approval_id"].(string)
	p.decide(id, "deny")
	if got := r.post(body); got.status != 200 || !strings.Contains(got.body, "a person refused this call") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if line := r.lastLine(); line["approval"] != "denied" || line["error_kind"] != "approval_denied" || line["status"] != 403.0 && line["status"] != 200.0 {
		t.Errorf("line %v", line)
	}
	long := callWith(`{"a":[` + strings.Repeat("1,", 64) + `1]}`)
	if got := r.post(long); !strings.Contains(got.body, "fewer values") || r.lastLine()["approval"] != "too_large" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream got a request")
	}
}

// Two gateways with one session key have one grant, which passes at one of them, whoever is first.
func TestGatewaysShareAGrant(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	keyFile := filepath.Join(t.TempDir(), "session.key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	config := asks(basic(up.URL), "safe", "") + "sessions: {key_file: " + keyFile + "}\n"
	gateways := []*rig{p.gateway(config), p.gateway(config)}
	body := callWith(`{"x":1}`)
	id := gateways[0].post(body).waits(t)
	if other := gateways[1].post(body).waits(t); other != id {
		t.Fatalf("the gateways ask for %s and %s", id, other)
	}
	p.decide(id, "grant")
	var wg sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		wg.Go(func() { answers[i] = gateways[i%2].post(body) })
	}
	wg.Wait()
	passed := 0
	for _, a := range answers {
		if a.status == 200 {
			passed++
		} else if next := a.waits(t); next == id {
			t.Error("a used approval is waited for")
		}
	}
	if passed != 1 || len(up.seen()) != 1 {
		t.Errorf("%d calls passed, and the upstream got %d", passed, len(up.seen()))
	}
}

// A call that was certainly not sent gives its grant back; one whose claim is lost on the way is claimed
// again with the same nonce; and one that was killed after its claim never runs.
func TestWhatBecomesOfAGrant(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	address := strings.TrimPrefix(up.URL, "http://")
	r := p.gateway(asks(basic(up.URL), "safe", ""))
	grant := func(body string) string {
		t.Helper()
		id := r.post(body).waits(t)
		p.decide(id, "grant")
		return id
	}
	t.Run("the claim's answer is lost", func(t *testing.T) {
		body := callWith(`{"case":1}`)
		id := grant(body)
		p.set(p.lost, "claim", 1)
		r.post(body).passed(t)
		if s := p.status(id); s != "used" || len(up.seen()) != 1 {
			t.Errorf("%s, %d requests", s, len(up.seen()))
		}
	})
	t.Run("a kill between claim and sending", func(t *testing.T) {
		body := callWith(`{"case":2}`)
		id := grant(body)
		a, err := p.operator.GetApproval(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		digest := digestOf(t, r, body)
		if _, err := client.New(p.url, p.ingest).ClaimApproval(t.Context(), a.ID, api.ApprovalClaim{Nonce: strings.Repeat("0", 32), Digest: digest}); err != nil {
			t.Fatal(err)
		}
		if next := r.post(body).waits(t); next == id || len(up.seen()) != 1 {
			t.Errorf("%s is waited for, and the upstream got %d requests", next, len(up.seen()))
		}
	})
	t.Run("the control plane fails", func(t *testing.T) {
		p.set(p.fail, "approvals", 100)
		got := r.post(callWith(`{"case":3}`))
		p.set(p.fail, "approvals", 0)
		if e := got.rpc(t); got.status != 503 || e.Error.Code != -32603 || e.Error.Data["reason"] != "approval_unavailable" || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if line := r.lastLine(); line["approval"] != "unavailable" || line["action"] != "deny" {
			t.Errorf("line %v", line)
		}
	})
	t.Run("the claim is never answered", func(t *testing.T) {
		body := callWith(`{"case":4}`)
		id := grant(body)
		p.set(p.lost, "claim", 100)
		if got := r.post(body); got.status != 503 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		p.set(p.lost, "claim", 0)
		eventually(t, "the grant is not given back", func() bool { return p.status(id) == "granted" })
		r.post(body).passed(t)
		if len(up.seen()) != 2 {
			t.Errorf("%d requests", len(up.seen()))
		}
	})
	t.Run("the upstream is down", func(t *testing.T) {
		body := callWith(`{"case":5}`)
		id := grant(body)
		up.CloseClientConnections()
		up.Close()
		if got := r.post(body); got.status != 502 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		eventually(t, "the grant is not given back", func() bool { return p.status(id) == "granted" })
		if p.count("release") < 2 {
			t.Errorf("%d releases; the upstream was at %s", p.count("release"), address)
		}
	})
}

// digestOf returns the digest with which a call was asked for.
func digestOf(t *testing.T, r *rig, body string) string {
	t.Helper()
	var digest string
	s := r.services()
	spy, err := plane.NewApprovals(plane.ApprovalOptions{Key: sessionKeyOf(t, r), Now: time.Now, Status: func(error) (int, time.Duration) { return 400, 0 },
		Calls: plane.ApprovalCalls{
			Request: func(_ context.Context, in api.ApprovalRequest) (api.ApprovalAnswer, error) {
				digest = in.Digest
				return api.ApprovalAnswer{}, io.EOF
			},
			Claim: func(context.Context, string, api.ApprovalClaim) (api.ApprovalAnswer, error) {
				return api.ApprovalAnswer{}, io.EOF
			},
			Release: func(context.Context, string, api.ApprovalClaim) (api.ApprovalAnswer, error) {
				return api.ApprovalAnswer{}, io.EOF
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	before := s.Approvals
	s.Approvals = spy
	r.post(body)
	s.Approvals = before
	return digest
}

func sessionKeyOf(t *testing.T, r *rig) []byte {
	t.Helper()
	cfg := r.services().Live.Load().Config
	key, err := session.LoadKey(cfg.Sessions.KeyFile, cfg.StateDirectory())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A call that passed by an approval and is answered with a question is continued by the same approval,
// once, with the state of the question.
func TestACallIsContinuedByItsApproval(t *testing.T) {
	const question = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"state-%d"}`
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "safe")
	first := modern("1", "tools/call", `"name":"safe","arguments":{"x":1}`)
	retry := func(x int, state string) string {
		return modern("2", "tools/call", fmt.Sprintf(`"name":"safe","arguments":{"x":%d},"inputResponses":{"q":{"action":"accept"}},"requestState":%q`, x, state))
	}
	for _, media := range medias {
		t.Run(media, func(t *testing.T) {
			p := newControlPlane(t)
			var n atomic.Int64
			up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
				answerAs(media, fmt.Sprintf(question, n.Add(1)))(w, body, r)
			})
			r := p.gateway(asks(basic(up.URL), "safe", ""))
			id := r.post(first, headers...).waits(t)
			p.decide(id, "grant")
			if got := r.post(first, headers...); !strings.Contains(got.message(), "state-1") {
				t.Fatalf("%d %s", got.status, got.body)
			}
			r.post(retry(1, "state-0"), headers...).waits(t)
			p.later()
			r.post(retry(2, "state-1"), headers...).waits(t)
			p.later()
			if got := r.post(retry(1, "state-1"), headers...); !strings.Contains(got.message(), "state-2") {
				t.Fatalf("the continuation: %d %s", got.status, got.body)
			}
			if line := r.lastLine(); line["approval"] != "continued" || line["approval_id"] != id {
				t.Errorf("line %v", line)
			}
			r.post(retry(1, "state-1"), headers...).waits(t)
			p.later()
			if got := r.post(retry(1, "state-2"), headers...); !strings.Contains(got.message(), "state-3") {
				t.Fatalf("the second continuation: %d %s", got.status, got.body)
			}
			if len(up.seen()) != 3 || p.count("claim") != 1 {
				t.Errorf("%d requests, %d claims", len(up.seen()), p.count("claim"))
			}
		})
	}
}

// A grant is for a call that its approver has read: it does not pass answers to questions, or a state,
// that nobody asked for. An answer continues a question without a state too.
func TestAGrantDoesNotPassAContinuation(t *testing.T) {
	const question = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?"}}}}`
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "safe")
	call := func(more string) string { return modern("1", "tools/call", `"name":"safe","arguments":{"x":1}`+more) }
	const answers = `,"inputResponses":{"q":{"action":"accept"}}`
	p := newControlPlane(t)
	up := newUpstream(t, answerAs("application/json", question))
	r := p.gateway(asks(basic(up.URL), "safe", ""))
	id := r.post(call(""), headers...).waits(t)
	p.decide(id, "grant")
	for _, more := range []string{answers, `,"requestState":"forged"`, `,"requestState":{"x":2}`, `,"requestState":""`, `,"request\u0053tate":"forged"` + answers} {
		p.later()
		if got := r.post(call(more), headers...); got.waits(t) != id || !strings.Contains(got.body, "begin it again") {
			t.Errorf("with %s: %s", more, got.body)
		}
	}
	if n := len(up.seen()); n != 0 || p.status(id) != "granted" {
		t.Fatalf("the upstream got %d requests, the approval is %s", n, p.status(id))
	}
	for i, more := range []string{`,"requestState":null,"inputResponses":null`, answers, answers} {
		if got := r.post(call(more), headers...); !strings.Contains(got.message(), "input_required") || len(up.seen()) != i+1 {
			t.Fatalf("with %q: %d %s, %d requests", more, got.status, got.body, len(up.seen()))
		}
	}
	r.post(call(""), headers...).waits(t)
}

// A call is claimed once also where it is translated, in either direction, with its questions, and
// where the program of an upstream runs it.
func TestApprovalsOfTranslatedCalls(t *testing.T) {
	for _, stateless := range []bool{true, false} {
		for _, federated := range []bool{true, false} {
			t.Run(fmt.Sprintf("stateless server %v, federated %v", stateless, federated), func(t *testing.T) {
				p := newControlPlane(t)
				up := newGeneration(t, "up", stateless)
				r := p.gateway(asks(questionConfig(up.URL, stateless, federated, "method: sampling/createMessage"), "up_ask", ""))
				body, headers := call("7", "up_ask"), []string(nil)
				if stateless {
					opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
					headers = []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
				} else {
					body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + asksForm + `}}}`
					headers = append(modernHeaders("tools/call"), "Mcp-Name", "up_ask")
				}
				id := r.post(body, headers...).waits(t)
				if got := r.post(body, headers...); got.waits(t) != id || p.count("claim") != 0 {
					t.Fatalf("%d claims", p.count("claim"))
				}
				p.decide(id, "grant")
				got := r.post(body, headers...)
				if p.count("claim") != 1 || p.status(id) != "used" {
					t.Fatalf("%d claims, %d %s", p.count("claim"), got.status, got.body)
				}
				if stateless {
					return
				}
				retry := strings.Replace(body, `"arguments":{},`, `"arguments":{},`+requestState.FindString(got.body)+`,"inputResponses":{"question":{"action":"accept","content":{"ok":true}}},`, 1)
				if got := r.post(retry, headers...); !strings.Contains(got.body, `"text":"accept"`) || p.count("claim") != 1 {
					t.Errorf("the answer: %d %s", got.status, got.body)
				}
				if line := r.lastLine(); line["approval"] != "continued" {
					t.Errorf("line %v", line)
				}
			})
		}
	}
}

// A reload changes who asks.
func TestApprovalsAtAReload(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	r := p.gateway(asks(basic(up.URL), "safe", "show: none"))
	body := callWith(`{"secret":1}`)
	id := r.post(body).waits(t)
	if a, err := p.operator.GetApproval(t.Context(), id); err != nil || len(a.Arguments) != 0 || a.ArgumentsBytes == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	p.decide(id, "grant")
	r.edit("id: ask,", "id: other,")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := r.post(body).waits(t) // the grant is for another rule
	if next == id || len(up.seen()) != 0 {
		t.Fatalf("%s, and %d requests", next, len(up.seen()))
	}
	p.decide(next, "grant")
	r.post(body).passed(t)
	r.edit(", approval: {show: none}", "")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.post(body).passed(t)
	if line := r.lastLine(); line["approval"] != nil {
		t.Errorf("line %v", line)
	}
}

// A call through mcp_call is another call than the plain one; prompts and resources need an approval
// like tools; and so does the search tool, which the gateway answers.
func TestApprovalsOfOtherRequests(t *testing.T) {
	p := newControlPlane(t)
	up := newToolServer(t, "crm", true, "find: Find a customer")
	r := p.gateway(federated(fmt.Sprintf("\n  - {name: crm, url: %s}", up.URL), `
tool_search: {enabled: true, mode: synthesize}
policy:
  default_action: allow
  rules:
    - {id: ask, action: allow, when: {tool_name: find}, approval: {}}
    - {id: ask-search, action: allow, when: {tool_name: mcp_search}, approval: {}}
    - {id: ask-prompt, action: allow, when: {method: prompts/get}, approval: {}}
    - {id: ask-resource, action: allow, when: {method: resources/read}, approval: {}}
`))
	post := func(method, name, params string) answer {
		headers := append(modernHeaders(method), "Mcp-Name", name)
		return r.post(modern("1", method, params), headers...)
	}
	plain := func() answer { return post("tools/call", "find", `"name":"find","arguments":{"text":"x"}`) }
	eventually(t, "the tool is not listed", func() bool { return strings.Contains(plain().body, "approval_required") })
	through := func() answer {
		return post("tools/call", "mcp_call", `"name":"mcp_call","arguments":{"name":"find","arguments":{"text":"x"}}`)
	}
	first, second := plain().waits(t), through().waits(t)
	if first == second {
		t.Fatal("both calls have one approval")
	}
	p.decide(second, "grant")
	if again := plain().waits(t); again != first {
		t.Errorf("the plain call waits for %s", again)
	}
	if got := through(); !strings.Contains(got.body, "crm/find: x") || r.lastLine()["via"] != "mcp_call" || r.lastLine()["approval"] != "granted" {
		t.Errorf("%d %s, line %v", got.status, got.body, r.lastLine())
	}
	p.decide(first, "grant")
	if got := plain(); !strings.Contains(got.body, "crm/find: x") {
		t.Errorf("%d %s", got.status, got.body)
	}
	search := func() answer {
		return post("tools/call", "mcp_search", `"name":"mcp_search","arguments":{"query":"customer"}`)
	}
	p.decide(search().waits(t), "grant")
	if got := search(); !strings.Contains(got.body, "find") || r.lastLine()["approval"] != "granted" {
		t.Errorf("%d %s", got.status, got.body)
	}
	search().waits(t)
	id := post("prompts/get", "p", `"name":"p","arguments":{"a":"b"}`).waits(t)
	if a, err := p.operator.GetApproval(t.Context(), id); err != nil || a.Method != "prompts/get" || a.Tool != "p" || len(a.Arguments) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	id = post("resources/read", "file:///a", `"uri":"file:///a"`).waits(t)
	if a, err := p.operator.GetApproval(t.Context(), id); err != nil || a.Method != "resources/read" || a.Tool != "file:///a" {
		t.Errorf("%+v, %v", a, err)
	}
}

// An approval is for the view through which the call comes, and header fields that mirror arguments do
// not carry other values than those which were approved.
func TestWhatAnApprovalIsFor(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if strings.Contains(body, "server/discover") {
			answerAs("application/json", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)(w, body, r)
			return
		}
		if strings.Contains(body, "tools/list") {
			answerAs("application/json", `{"resultType":"complete","tools":[{"name":"safe","inputSchema":{"type":"object"}}]}`)(w, body, r)
			return
		}
		answerAs("application/json", `{"resultType":"complete","content":[]}`)(w, body, r)
	})
	r := p.gateway(asks("federation: {enabled: true}\nupstreams:\n  - {name: main, url: "+up.URL+", protocol: 2026-07-28}\nviews:\n  - {name: ops, upstreams: [main], tools: [safe]}\npolicy:\n  default_action: allow\n  rules:\n", "safe", ""))
	body := modern("1", "tools/call", `"name":"safe","arguments":{"path":"/srv"}`)
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "safe", "Mcp-Param-Path", "/etc/passwd")
	eventually(t, "the tool is not listed", func() bool { return strings.Contains(r.post(body, headers...).body, "approval_required") })
	id := r.post(body, headers...).waits(t)
	if other := r.do(http.MethodPost, r.url+"/v/ops", body, headers...).waits(t); other == id {
		t.Error("a view has the approval of the whole gateway")
	}
	p.decide(id, "grant")
	r.post(body, headers...).passed(t)
	seen := up.seen()
	if last := seen[len(seen)-1]; !strings.Contains(last.body, "tools/call") || last.header.Get("Mcp-Param-Path") != "" {
		t.Errorf("the upstream got %v", last)
	}
	headers[len(headers)-1] = "/srv"
	p.decide(r.post(body, headers...).waits(t), "grant")
	r.post(body, headers...).passed(t)
	seen = up.seen()
	if last := seen[len(seen)-1]; last.header.Get("Mcp-Param-Path") != "/srv" {
		t.Errorf("the upstream got %v", last)
	}
}

// The program of an upstream gets a call once, after its claim.
func TestApprovalsOfPrograms(t *testing.T) {
	p := newControlPlane(t)
	r := p.gateway(asks("default_upstream: files\nroutes: [{match: {tool_name_in: [echo, work, pid, read, fail]}, upstream: files}]\npolicy:\n  default_action: allow\n  rules:\nupstreams:\n"+stdioUpstream("files", ""), "echo", ""))
	opened := r.post(initialize)
	headers := []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`
	id := r.post(body, headers...).waits(t)
	p.decide(id, "grant")
	if got := r.post(body, headers...); !strings.Contains(got.body, "hi") || p.status(id) != "used" {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.post(body, headers...).waits(t)
}

// A rule that redacts stands before what asks: the approver reads the redacted call, calls that are
// equal after it have one approval, and the redacted one is sent.
func TestApprovalsOfRedactedCalls(t *testing.T) {
	p := newControlPlane(t)
	p.govern = &governor{}
	p.govern.give(api.GovernancePolicy{Phase: "request", Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "safe"}, Approval: &api.Approval{}})
	up := newUpstream(t, echo)
	r := p.gateway(strings.Replace(basic(up.URL), "  rules:\n", "  rules:\n    - {id: mask, action: redact, when: {tool_name: safe}, redact: [{regex: 'secret-[0-9]+', replacement: XXX}]}\n", 1))
	body := func(n int) string { return callWith(fmt.Sprintf(`{"keep":1,"text":"a secret-%d b"}`, n)) }
	id := r.post(body(1)).waits(t)
	if a, err := p.operator.GetApproval(t.Context(), id); err != nil || len(a.Arguments) != 2 || a.Arguments[1].Value != `"a XXX b"` || a.Reasons[0].PolicyID == "" {
		t.Errorf("%+v, %v", a, err)
	}
	p.later()
	if other := r.post(body(2)).waits(t); other != id {
		t.Errorf("a call that is equal after the redaction waits for %s and not %s", other, id)
	}
	if other := r.post(callWith(`{"keep":1,"text":"a sXcret-1 b"}`)).waits(t); other == id {
		t.Error("another text has the same approval")
	}
	p.decide(id, "grant")
	r.post(body(1)).passed(t)
	if sent := up.seen(); len(sent) != 1 || strings.Contains(sent[0].body, "secret") || !strings.Contains(sent[0].body, "a XXX b") || p.status(id) != "used" {
		t.Errorf("the upstream got %v, and the approval is %s", sent, p.status(id))
	}
	if line := r.lastLine(); line["approval"] != "granted" || line["action"] != "redact" {
		t.Errorf("line %v", line)
	}
	if again := r.post(body(2)).waits(t); again == id || len(up.seen()) != 1 {
		t.Error("the grant was used twice")
	}
}

// Of many uses of one grant at the same time, on streams of one HTTP/2 connection, one passes.
func TestOneUseOfAGrantOverHTTP2(t *testing.T) {
	p := newControlPlane(t)
	up := newUpstream(t, echo)
	ca := certtest.New(t, t.TempDir(), "ca")
	cert := ca.Issue("server")
	r := p.gateway(asks(basic(up.URL), "safe", "") + fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert.CertFile, cert.KeyFile))
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	defer tr.CloseIdleConnections()
	address := serveFront(t, r)
	post := func() (answer, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/mcp", strings.NewReader(callWith(`{"x":1}`)))
		if err != nil {
			return answer{}, err
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			return answer{}, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.ProtoMajor != 2 {
			err = errors.New(resp.Proto)
		}
		return answer{status: resp.StatusCode, body: string(text), header: resp.Header}, err
	}
	first, err := post()
	if err != nil {
		t.Fatal(err)
	}
	id := first.waits(t)
	p.decide(id, "grant")
	var wg sync.WaitGroup
	answers, failures := make([]answer, 40), make([]error, 40)
	for i := range answers {
		wg.Go(func() { answers[i], failures[i] = post() })
	}
	wg.Wait()
	passed := 0
	for i, a := range answers {
		switch {
		case failures[i] != nil:
			t.Error(failures[i])
		case a.status == http.StatusOK:
			passed++
		case a.waits(t) == id:
			t.Error("a used approval is waited for")
		}
	}
	if passed != 1 || len(up.seen()) != 1 || p.status(id) != "used" {
		t.Errorf("%d calls passed, the upstream got %d, and the approval is %s", passed, len(up.seen()), p.status(id))
	}
}

// That a call is made as a task is part of what is approved; the task that it makes needs no approval.
func TestApprovalsOfTasks(t *testing.T) {
	p := newControlPlane(t)
	up := taskUpstream(t, jsonTask)
	r := p.gateway(asks(rules(basic(up.URL), taskRules), "safe", ""))
	body := func(task string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"safe","arguments":{"handle":"t-1"}` + task + `}}`
	}
	id := r.post(body(`,"task":{"ttl":60000}`)).waits(t)
	if a, err := p.operator.GetApproval(t.Context(), id); err != nil || len(a.Arguments) != 2 || a.Arguments[1].Pointer != "params/task/ttl" || a.Arguments[1].Value != "60000" {
		t.Errorf("%+v, %v", a, err)
	}
	p.decide(id, "grant")
	for _, other := range []string{"", `,"task":{}`, `,"task":{"ttl":60001}`} {
		if got := r.post(body(other)).waits(t); got == id {
			t.Errorf("with %q it has the same approval", other)
		}
	}
	if n := len(up.seen()); n != 0 {
		t.Fatalf("the upstream got %d requests", n)
	}
	if got := r.post(body(`,"task":{"ttl":6e4}`)); got.status != http.StatusOK || !strings.Contains(got.body, "t-1") || p.status(id) != "used" {
		t.Fatalf("%d %s, and the approval is %s", got.status, got.body, p.status(id))
	}
	for range 2 {
		if got := r.askTask("tasks/get", "t-1"); got.status != http.StatusOK {
			t.Errorf("tasks/get: %d %s", got.status, got.body)
		}
		if line := r.lastLine(); line["approval"] != nil {
			t.Errorf("line %v", line)
		}
	}
	if again := r.post(body(`,"task":{"ttl":60000}`)).waits(t); again == id || p.count("claim") != 1 {
		t.Errorf("%s is waited for, after %d claims", again, p.count("claim"))
	}
}
