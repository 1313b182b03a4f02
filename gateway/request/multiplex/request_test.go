package multiplex

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// request is a request of alice with a body, and with the handle if it is not empty.
func (s *set) request(t *testing.T, body, handle string) *Request {
	t.Helper()
	m := new(mcp.Message)
	if body != "" {
		if err := mcp.Scan([]byte(body), m); err != nil {
			t.Fatal(err)
		}
	}
	r := &Request{
		Sessions: s.Sessions, Header: http.Header{}, Who: &auth.Principal{Kind: auth.KindKey, Value: "alice"}, Message: m,
		Dialect: mcp.Dialect{Version: mcp.Revision20250618},
	}
	if handle != "" {
		r.Header.Set(mcp.HeaderSession, handle)
	}
	return r
}

// joinedRequest is a request in a new session of alice.
func (s *set) joinedRequest(t *testing.T, body string) *Request {
	t.Helper()
	first := s.request(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":1}}`, "")
	r := s.request(t, body, first.Issue(t.Context(), "own", s.up("main")))
	if refused := r.Join(t.Context()); refused != nil || !r.Joined {
		t.Fatalf("%+v", refused)
	}
	return r
}

func TestAHandleIsIssuedAndBelongsToItsCaller(t *testing.T) {
	s := newSet(t)
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":1}}`
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`
	handle := s.request(t, initialize, "").Issue(t.Context(), "own", s.up("main"))
	if handle == "" || strings.Contains(handle, "own") {
		t.Fatalf("handle %q", handle)
	}
	r := s.request(t, call, handle)
	if refused := r.Join(t.Context()); refused != nil || !r.Joined || r.Handle.Upstream != "own" {
		t.Fatalf("%+v, %+v", refused, r.Handle)
	}
	if params, err := s.State.Settings.Params(t.Context(), r.Handle.ID); err != nil || string(params) != `{"a":1}` {
		t.Errorf("parameters %s, %v", params, err)
	}
	if got := r.Issue(t.Context(), "other", s.up("main")); got != handle {
		t.Errorf("a later answer has %q", got)
	}

	for _, tt := range []struct {
		name   string
		change func(*Request)
		want   *refusal.Refusal
		joined bool
	}{
		{"without a handle", func(r *Request) { r.Header.Del(mcp.HeaderSession) }, nil, false},
		{"of another caller", func(r *Request) { r.Who.Value = "bob" }, &refusal.Session, false},
		{"of another kind of caller", func(r *Request) { r.Who.Kind = auth.KindOAuth }, &refusal.Session, false},
		{"never made", func(r *Request) { r.Header.Set(mcp.HeaderSession, "x") }, &refusal.Session, false},
		{"twice", func(r *Request) { r.Header.Add(mcp.HeaderSession, handle) }, &refusal.Header, false},
		{"of the revision without sessions", func(r *Request) { r.Dialect.Modern = true }, nil, false},
		{"of an initialize", func(r *Request) { r.Message.Method = mcp.MethodInitialize }, nil, false},
	} {
		r := s.request(t, call, handle)
		tt.change(r)
		if refused := r.Join(t.Context()); refused != tt.want || r.Joined != tt.joined {
			t.Errorf("%s: %+v, joined %v", tt.name, refused, r.Joined)
		}
	}
	s.End(t.Context(), r.Handle.ID, s.up("main"))
	if refused := s.request(t, call, handle).Join(t.Context()); refused != &refusal.Session {
		t.Errorf("after its end: %+v", refused)
	}
}

// A session ends with the secret that opened it, also for callers with another secret of the same
// API key, who may use it while both are accepted.
func TestASessionEndsWithTheSecretThatOpenedIt(t *testing.T) {
	s := newSet(t)
	verifier := auth.NewVerifier(time.Now)
	secrets := map[string]auth.HashConfig{}
	texts := map[string]string{}
	for n, id := range []string{"alice", "alice.1"} {
		text, err := auth.NewKey(id)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := auth.Hash(text, auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		secrets[id], texts[id] = auth.HashConfig{N: n, Hash: hash}, text
	}
	ring := func(ids ...string) *auth.Keyring {
		cfg := auth.KeyConfig{ID: "alice"}
		for _, id := range ids {
			cfg.Hashes = append(cfg.Hashes, secrets[id])
		}
		k, err := verifier.Keyring(auth.Config{Keys: []auth.KeyConfig{cfg}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	both := ring("alice", "alice.1")
	as := func(r *Request, id string, k *auth.Keyring) *Request {
		key, err := both.Verify(t.Context(), texts[id], "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		who := key.Principal()
		r.Who, r.Keys = &who, k
		return r
	}
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`
	handle := as(s.request(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, ""), "alice", both).Issue(t.Context(), "own", s.up("main"))
	for _, tt := range []struct {
		name string
		keys *auth.Keyring
		want *refusal.Refusal
	}{
		{"both secrets", both, nil},
		{"without the new one", ring("alice"), nil},
		{"without the one that opened the session", ring("alice.1"), &refusal.Session},
	} {
		if refused := as(s.request(t, call, handle), "alice.1", tt.keys).Join(t.Context()); refused != tt.want {
			t.Errorf("%s: %+v", tt.name, refused)
		}
	}
}

// With several upstreams an initialize always gets a session; with one only if the
// upstream issued one.
func TestWhichAnswersHaveASession(t *testing.T) {
	several := newSet(t)
	single := newSet(t)
	delete(single.opts.Upstreams, "b")
	delete(single.opts.Upstreams, "c")
	for _, tt := range []struct {
		name   string
		s      *set
		method string
		modern bool
		sid    string
		want   bool
	}{
		{"an initialize", several, "initialize", false, "own", true},
		{"an initialize without a session", several, "initialize", false, "", true},
		{"an initialize without a session, one upstream", single, "initialize", false, "", false},
		{"an initialize, one upstream", single, "initialize", false, "own", true},
		{"the revision without sessions", several, "initialize", true, "own", false},
		{"a call without a session", several, "tools/list", false, "own", false},
		{"a session that is too long to carry", several, "initialize", false, strings.Repeat("x", 1<<20), false},
	} {
		r := tt.s.request(t, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`"}`, "")
		r.Dialect.Modern = tt.modern
		if got := r.Issue(t.Context(), tt.sid, tt.s.up("main")); (got != "") != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

func TestAMessageFollowsTheOneBeforeIt(t *testing.T) {
	s := newSet(t)
	call := s.joinedRequest(t, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`)
	if call.Track(t.Context(), s.up("main"), false) || !call.Track(t.Context(), s.up("b"), false) {
		t.Fatal("requests at the default upstream are tracked, or those at others are not")
	}
	s.LearnTask(t.Context(), call.Who, "t1", s.up("c"), "")
	s.LearnTask(t.Context(), call.Who, "", s.up("b"), "")
	at := session.Stream{Kind: session.Post, Upstream: "b"}
	asked := new(mcp.Message)
	if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":9,"method":"roots/list"}`), asked); err != nil {
		t.Fatal(err)
	}
	if err := mcp.Scan(at.Message(asked, asked.Body), asked); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, body, want string
	}{
		{"a call", `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"x"}}`, ""},
		{"the cancellation", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "b"},
		{"the cancellation of another", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`, ""},
		{"what asks about a task", `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"t1"}}`, "c"},
		{"the answer to a server", `{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{}}`, "b"},
		{"the answer to nobody", `{"jsonrpc":"2.0","id":"svc.nobody","result":{}}`, ""},
	} {
		r := s.request(t, tt.body, call.Header.Get(mcp.HeaderSession))
		if r.Join(t.Context()) != nil || r.Untag() != nil {
			t.Fatal(tt.name)
		}
		name := ""
		if up := r.Follow(t.Context()); up != nil {
			name = up.Name
		}
		if name != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, name, tt.want)
		}
		if strings.HasPrefix(tt.name, "the answer to a server") && string(r.Message.ID) != "9" {
			t.Errorf("the upstream gets the id %s", r.Message.ID)
		}
	}
	call.Untrack(t.Context())
	r := s.request(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, call.Header.Get(mcp.HeaderSession))
	if r.Join(t.Context()) != nil || r.Follow(t.Context()) != nil {
		t.Error("a request that was answered is followed")
	}
}

// A request to an upstream that lost its session is sent once more in a new session, and
// only in this case.
func TestARequestIsSentAgainWhenItsSessionIsLost(t *testing.T) {
	s := newSet(t)
	r := s.joinedRequest(t, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`)
	answers := func(statuses ...int) (*[]string, func(bool) (*upstream.Response, error)) {
		var sent []string
		return &sent, func(again bool) (*upstream.Response, error) {
			sent = append(sent, r.SessionAt(r.There).ID)
			status := statuses[0]
			statuses = statuses[1:]
			return upstream.Empty(status), nil
		}
	}
	if err := r.Find(t.Context(), s.up("main")); err != nil || r.There.ID != "own" {
		t.Fatal(err, r.There)
	}
	for _, tt := range []struct {
		name     string
		statuses []int
		want     string
		status   int
	}{
		{"answered", []int{200}, "own", 200},
		{"lost", []int{404, 200}, "own main-1", 200},
		{"lost twice", []int{404, 404}, "main-1 main-2", 404},
	} {
		sent, send := answers(tt.statuses...)
		resp, err := r.Send(t.Context(), s.up("main"), send)
		if err != nil || resp.Status != tt.status || strings.Join(*sent, " ") != tt.want {
			t.Errorf("%s: %v, sent in %q", tt.name, err, *sent)
		}
	}
	r.Joined = false
	sent, send := answers(404)
	if resp, err := r.Send(t.Context(), s.up("main"), send); err != nil || resp.Status != 404 || len(*sent) != 1 {
		t.Errorf("without a session: %v, sent %d times", err, len(*sent))
	}
}

// A tool server that answers 404 with its own error for the request, such as "item not found", has
// executed the call: a ping in the session decides, and if it is answered, the call is not sent twice.
func TestACallIsNotSentTwiceBecauseItsAnswerHasTheStatus404(t *testing.T) {
	const media = "application/json"
	answer := func(status int, media, body string) *upstream.Response {
		return &upstream.Response{HTTPResponse: upstream.HTTPResponse{Status: status, Header: mcp.Header{{Name: "Content-Type", Value: media}}, Body: io.NopCloser(strings.NewReader(body))}}
	}
	failed := func(id, code, text string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"` + text + `"}}`
	}
	const known, unknown = `{"jsonrpc":"2.0","id":"svc-ping","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	for _, tt := range []struct {
		name        string
		media, body string
		pings       int // the status of the response to a ping
		pong        string
		sent        int
		status      int
	}{
		{"item not found", media, failed("5", "-32002", "item not found"), 200, known, 1, 404},
		{"a session of another kind", media, failed("5", "-32000", "booking session 7 not found"), 200, known, 1, 404},
		{"a result", media, `{"jsonrpc":"2.0","id":5,"result":{}}`, 200, known, 1, 404},
		{"the id of another request", media, failed("6", "-32002", "item not found"), 200, known, 1, 404},
		{"no such method, and no ping", media, failed("5", "-32601", "method not found"), 404, failed(`"svc-ping"`, "-32601", "method not found"), 1, 404},
		{"an event stream", "text/event-stream", "data: " + failed("5", "-32002", "item not found") + "\n\n", 200, known, 1, 404},
		{"lost, with the id", media, failed("5", "-32001", "Session not found"), 404, unknown, 2, 200},
		{"lost, without an id", media, unknown, 200, known, 2, 200},
		{"lost, in text", "text/plain", "session not found", 200, known, 2, 200},
	} {
		s := newSet(t)
		s.main.pong = func() *upstream.Response { return answer(tt.pings, media, tt.pong) }
		r := s.joinedRequest(t, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`)
		if err := r.Find(t.Context(), s.up("main")); err != nil {
			t.Fatal(err)
		}
		sent := 0
		resp, err := r.Send(t.Context(), s.up("main"), func(bool) (*upstream.Response, error) {
			if sent++; sent > 1 {
				return answer(200, media, "again"), nil
			}
			return answer(404, tt.media, tt.body), nil
		})
		if err != nil || sent != tt.sent || resp.Status != tt.status {
			t.Errorf("%s: %v, sent %d times, %+v", tt.name, err, sent, resp)
			continue
		}
		if body, _ := io.ReadAll(resp.Body); sent == 1 && string(body) != tt.body {
			t.Errorf("%s: the answer is %s", tt.name, body)
		}
	}
}

// The upstream's call does not wait for a response that was refused.
func TestAnAnswerThatWasRefusedIsGivenInItsPlace(t *testing.T) {
	s := newSet(t)
	asked := s.joinedRequest(t, `{"jsonrpc":"2.0","id":3,"result":{}}`)
	asked.RejectStopped(t.Context(), &refusal.Policy, "r1", mcp.Revision20250618)
	asked.RejectStopped(t.Context(), &refusal.Policy, "r1", mcp.Revision20250618)
	want := `own {"jsonrpc":"2.0","id":3,"error":{"code":-32001,"message":"policy_denied","data":{"reason":"policy_denied","request_id":"r1"}}}`
	s.settled(t, s.main, want)

	// Refused before its session was opened, for a reason that does not concern the
	// upstream.
	early := s.request(t, `{"jsonrpc":"2.0","id":4,"result":{}}`, asked.Header.Get(mcp.HeaderSession))
	early.RejectStopped(t.Context(), &refusal.Header, "r2", "")
	s.settled(t, s.main, want, `own {"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"invalid_header","data":{"reason":"invalid_header","request_id":"r2"}}}`)

	for _, body := range []string{`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, `{"jsonrpc":"2.0","method":"notifications/x"}`} {
		s.joinedRequest(t, body).RejectStopped(t.Context(), &refusal.Policy, "r3", "")
	}
	s.joinedRequest(t, `{"jsonrpc":"2.0","id":6,"result":{}}`).Header.Set(mcp.HeaderSession, "x")
	stranger := s.request(t, `{"jsonrpc":"2.0","id":6,"result":{}}`, "x")
	stranger.RejectStopped(t.Context(), &refusal.Policy, "r4", "")
	if n := len(s.main.seen()); n != 2 {
		t.Errorf("%d rejections: %q", n, s.main.seen())
	}
}

func TestStateIsKeptWhereItSurvives(t *testing.T) {
	calls := background.New(slog.New(slog.DiscardHandler))
	t.Cleanup(calls.Stop)
	dir := t.TempDir()
	var log strings.Builder
	open := func(dir string, names ...string) *Sessions {
		sealer, err := session.NewSealer(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		ups := make(map[string]*upstream.Upstream)
		for _, name := range names {
			ups[name] = &upstream.Upstream{Name: name, Transport: &peer{name: name}}
		}
		s := Open(Options{Upstreams: ups, Default: "main", Background: calls, Sealer: sealer, Logger: slog.New(slog.NewTextHandler(&log, nil))},
			StateOptions{Dir: dir, MaxTasks: 10, TaskTTL: time.Hour, Now: time.Now})
		t.Cleanup(func() { s.Close() })
		return s
	}
	if s := open(t.TempDir(), "main"); s.Several() {
		t.Error("with one upstream, sessions have several")
	}
	id := session.NewID()
	first := open(dir, "main", "b")
	first.State.Upstream.End(t.Context(), id)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if !open(dir, "main", "b").Ended(t.Context(), session.Handle{ID: id}) {
		t.Error("an end is forgotten at a restart")
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := open(file, "main", "b"); s.State.Upstream == nil || !strings.Contains(log.String(), "forgotten at a restart") {
		t.Errorf("without a directory: %s", log.String())
	}
	var none *Sessions
	if none.Close() != nil {
		t.Error("nothing to close")
	}
}

// What a handle carries of an initialize fits into it: first the long texts of clientInfo go, then
// capabilities that no question needs, then everything.
func TestParamsOfAHandleAreBounded(t *testing.T) {
	long := strings.Repeat("x", session.MaxHandleParams)
	for _, tt := range []struct{ name, params, want string }{
		{"short", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"a"}}`, `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"a"}}`},
		{"icons", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"a","icons":[{"src":"` + long + `"}]},"_meta":{}}`, `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"a"}}`},
		{"experimental", `{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"` + long + `":{}},"sampling":{}},"clientInfo":{"name":"a"}}`, `{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"a"}}`},
		{"many extensions", `{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"` + long + `":{},"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}},"sampling":{}},"clientInfo":{"name":"a"}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}},"clientInfo":{"name":"a"}}`},
		{"experimental before extensions", `{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"` + long + `":{}},"extensions":{"a/b":{}}},"clientInfo":{"name":"a"}}`,
			`{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"a/b":{}}},"clientInfo":{"name":"a"}}`},
		{"a long name", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + long + `"}}`, ""},
		{"no objects", `{"protocolVersion":"2025-11-25","capabilities":7,"clientInfo":null,"other":"` + long + `"}`, `{"protocolVersion":"2025-11-25","capabilities":7,"clientInfo":null}`},
		{"none", "", ""},
	} {
		var m mcp.Message
		params := ""
		if tt.params != "" {
			params = `,"params":` + tt.params
		}
		if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"`+params+"}"), &m); err != nil {
			t.Fatal(err)
		}
		if got := handleParams(&m); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
