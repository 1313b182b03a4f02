package translate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// legacy is a server with sessions in memory. Its tool "ask" asks its client, "forever"
// asks again after each answer, "wait" never responds, and every other tool responds at
// once with its name.
type legacy struct {
	upstream.Transport
	reject bool          // rejects initialize
	start  time.Duration // before the response to initialize
	// capabilities are those of the response to initialize, if not the default ones.
	capabilities string

	mu      sync.Mutex
	opened  int
	ended   []string
	notices []string
	calls   []string                  // sessions of calls
	answers map[string]chan io.Writer // waiting streams, by session
	asked   int
}

func (s *legacy) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name string
			Meta map[string]any `json:"_meta"`
		}
		Result json.RawMessage
	}
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range m.Params.Meta {
		if strings.HasPrefix(name, "io.modelcontextprotocol/") {
			return nil, fmt.Errorf("_meta has %s", name)
		}
	}
	reply := func(result string) *upstream.Response {
		return upstream.Message(http.StatusOK, appendResult(nil, m.ID, []byte(result)))
	}
	switch {
	case m.Method == "initialize" && s.reject:
		return upstream.Message(http.StatusOK, mcp.AppendError(nil, m.ID, -32601, "no", "r", "")), nil
	case m.Method == "initialize":
		if s.start > 0 {
			<-time.After(s.start)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.opened++
		resp := reply(`{"protocolVersion":"2025-11-25","capabilities":` + cmp.Or(s.capabilities, `{"tools":{},"logging":{},"tasks":{}}`) + `,"serverInfo":{"name":"legacy","version":"1"},"instructions":"Be brief."}`)
		resp.Header.Add(mcp.HeaderSession, fmt.Sprintf("s%d", s.opened))
		return resp, nil
	case m.Method == "" && len(m.Result) > 0: // an answer of the client
		waiting := s.answers[r.Session.ID]
		delete(s.answers, r.Session.ID)
		if waiting != nil {
			go s.goOn(ctx, waiting, r.Session.ID, m.Result)
		}
		return upstream.Empty(http.StatusAccepted), nil
	case len(m.ID) == 0:
		s.notices = append(s.notices, r.Session.ID+" "+m.Method)
		return upstream.Empty(http.StatusAccepted), nil
	case m.Method == "logging/setLevel":
		s.notices = append(s.notices, r.Session.ID+" level")
		return reply("{}"), nil
	case m.Method == "completion/complete" || m.Method == "own/method":
		return upstream.Stream(io.NopCloser(strings.NewReader(
			`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` + "\n\n" + `data: {"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"own":true}}` + "\n\n"))), nil
	case m.Method == "no/such":
		return upstream.Stream(io.NopCloser(strings.NewReader(
			`data: ` + string(mcp.AppendError(nil, m.ID, mcp.CodeMethodNotFound, "no", "r", "")) + "\n\n"))), nil
	case m.Method == "tools/call" && m.Params.Name == "needs":
		return upstream.Message(200, mcp.AppendError(nil, m.ID, mcp.CodeMissingCapability, "no", "r", "")), nil
	case m.Method == "tools/call":
		s.calls = append(s.calls, r.Session.ID)
		if m.Params.Name == "ask" || m.Params.Name == "forever" || m.Params.Name == "wait" {
			return s.stream(ctx, r.Session.ID, m.Params.Name, string(m.ID)), nil
		}
		return reply(`{"content":[{"type":"text","text":"` + m.Params.Name + `"}]}`), nil
	}
	return reply(`{"tools":[]}`), nil
}

// stream responds with an event stream on which the server asks.
func (s *legacy) stream(ctx context.Context, id, tool, call string) *upstream.Response {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	waiting := make(chan io.Writer, 1)
	waiting <- &namedStream{w, tool, call}
	if s.answers == nil {
		s.answers = map[string]chan io.Writer{}
	}
	s.answers[id] = waiting
	s.asked++
	if tool != "wait" {
		go fmt.Fprintf(w, "data: %s\n\n", tolegacyQuestion(s.asked))
	}
	return upstream.Stream(r)
}

func tolegacyQuestion(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"ok?"}}`, n)
}

type namedStream struct {
	io.Writer
	tool, call string
}

// goOn responds to the call, or asks again.
func (s *legacy) goOn(_ context.Context, waiting chan io.Writer, id string, answer json.RawMessage) {
	w := (<-waiting).(*namedStream)
	if w.tool == "forever" {
		s.mu.Lock()
		s.asked++
		n := s.asked
		waiting <- w
		s.answers[id] = waiting
		s.mu.Unlock()
		fmt.Fprintf(w, "data: %s\n\n", tolegacyQuestion(n))
		return
	}
	text, _ := json.Marshal(string(answer))
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%s}]}}\n\n", w.call, text)
}

func (s *legacy) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, r.Session.ID)
	return upstream.Empty(http.StatusNoContent), nil
}

func (s *legacy) Address() string { return "legacy" }
func (s *legacy) Close() error    { return nil }

// bench is a ToLegacy with a legacy server.
type bench struct {
	*ToLegacy
	t      *testing.T
	server *legacy
}

func newBench(t *testing.T, change func(*Options)) *bench {
	log := slog.New(slog.DiscardHandler)
	calls := background.New(log)
	t.Cleanup(calls.Stop)
	replicas, err := NewHandover(func() (Store, bool) { return nil, false }, make([]byte, 32), log)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, server: &legacy{}}
	// A program: messages of its sessions that name no call do not arrive on a stream of their own.
	c := &upstream.Config{Name: "u", Timeout: time.Second, ProcessConfig: upstream.ProcessConfig{Command: []string{"server"}}}
	opts := Options{
		Upstream: c, Direct: b.server, Version: "1", Key: make([]byte, 32),
		Replicas: replicas, Limits: NewLimits(), Background: calls, Logger: log, Now: time.Now,
	}
	if change != nil {
		change(&opts)
	}
	if b.ToLegacy, err = NewToLegacy(opts); err != nil {
		t.Fatal(err)
	}
	return b
}

func who(name string) *upstream.Caller {
	return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: name, KeyID: name}}
}

func byAddress(name string) *upstream.Caller {
	return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: name}}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// open sends a message and returns the response.
func (b *bench) open(ctx context.Context, caller *upstream.Caller, body string) (*upstream.Response, error) {
	r := &upstream.Request{Session: mcp.Session{Version: mcp.Revision20260728}, Caller: caller, RequestID: "request-1", Body: []byte(body)}
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		b.t.Fatal(err)
	}
	return b.Post(ctx, r, &m)
}

// ask sends a message and returns the last message of the response.
func (b *bench) ask(caller *upstream.Caller, body string) (status int, last string) {
	b.t.Helper()
	resp, err := b.open(b.t.Context(), caller, body)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	in := NewMessages(resp, nil)
	for {
		message, err := in.Next()
		if err == io.EOF {
			return resp.Status, last
		}
		if err != nil {
			b.t.Fatal(err)
		}
		last = string(message)
	}
}

func calling(id int, tool, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":1}%s,%s}}`, id, tool, more, meta)
}

// state returns the requestState of an input_required.
func (b *bench) state(answer string) string {
	b.t.Helper()
	var got struct {
		Result struct {
			ResultType    string
			RequestState  string
			InputRequests map[string]struct{ Method string }
		}
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Result.ResultType != "input_required" || got.Result.InputRequests["question"].Method != "elicitation/create" {
		b.t.Fatalf("no question: %s", answer)
	}
	return got.Result.RequestState
}

func retryOf(id int, tool, state string) string {
	return calling(id, tool, `,"requestState":`+string(mcp.AppendString(nil, state))+`,"inputResponses":{"question":{"action":"accept"},"other":{}}`)
}

// A question becomes a result, and the answer continues the call; an answer for another
// request is refused and does not use up the state; an answer counts once.
func TestQuestionsAndTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		_, answer := b.ask(who("alice"), calling(1, "ask", ""))
		state := b.state(answer)
		for name, tt := range map[string]struct {
			caller *upstream.Caller
			body   string
		}{
			"forged":              {who("alice"), retryOf(2, "ask", state[:len(state)-4]+"AAAA")},
			"made up":             {who("alice"), retryOf(2, "ask", "x")},
			"too long":            {who("alice"), retryOf(2, "ask", strings.Repeat("A", 5000))},
			"another principal":   {who("bob"), retryOf(2, "ask", state)},
			"a caller by address": {byAddress("alice"), retryOf(2, "ask", state)},
			"another tool":        {who("alice"), retryOf(2, "tool", state)},
			"other arguments":     {who("alice"), strings.Replace(retryOf(2, "ask", state), `"n":1`, `"n":2`, 1)},
			"more arguments":      {who("alice"), strings.Replace(retryOf(2, "ask", state), `"n":1`, `"n":1,"m":1`, 1)},
			"no text":             {who("alice"), calling(2, "ask", `,"requestState":7`)},
		} {
			if status, got := b.ask(tt.caller, tt.body); status != 400 || !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, `"reason":"request_state_mismatch"`) {
				t.Errorf("%s: %d %s", name, status, got)
			}
		}
		for _, bad := range []string{`7`, `null`, `[]`, `{"question":1}`} {
			if status, got := b.ask(who("alice"), calling(2, "ask", `,"requestState":"`+state+`","inputResponses":`+bad)); status != 400 || !strings.Contains(got, "input_responses") {
				t.Errorf("inputResponses %s: %d %s", bad, status, got)
			}
		}
		for _, missing := range []string{"", `,"inputResponses":{}`, `,"inputResponses":{"other":{}}`} {
			if _, got := b.ask(who("alice"), calling(3, "ask", `,"requestState":"`+state+`"`+missing)); b.state(got) != state || !strings.Contains(got, `"id":3`) {
				t.Errorf("without the answer: %s", got)
			}
		}
		// Numbers are as written and members in any order; only the meaning counts.
		second := strings.Replace(retryOf(4, "ask", state), `"arguments":{"n":1}`, `"arguments":{"n":1.0}`, 1)
		if status, got := b.ask(who("alice"), second); status != 200 || !strings.Contains(got, `"id":4`) || !strings.Contains(got, `{\"action\":\"accept\"}`) || !strings.Contains(got, `"resultType":"complete"`) {
			t.Errorf("the answer: %d %s", status, got)
		}
		if status, got := b.ask(who("alice"), retryOf(5, "ask", state)); status != 200 || !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "may have had effects") {
			t.Errorf("replayed: %d %s", status, got)
		}
		if n := len(b.server.calls); n != 1 {
			t.Errorf("the tool was called %d times", n)
		}
		// The session is used again.
		if _, got := b.ask(who("alice"), calling(6, "plain", "")); !strings.Contains(got, `"text":"plain"`) || b.server.opened != 1 {
			t.Errorf("%s in session %d", got, b.server.opened)
		}
	})
}

// Of two concurrent retries one continues the call.
func TestTwoRetriesAtOnce(t *testing.T) {
	b := newBench(t, nil)
	_, answer := b.ask(who("alice"), calling(1, "ask", ""))
	state := b.state(answer)
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() { _, got[i] = b.ask(who("alice"), retryOf(10+i, "ask", state)) })
	}
	wg.Wait()
	won := 0
	for i, text := range got {
		if !strings.Contains(text, fmt.Sprintf(`"id":%d`, 10+i)) {
			t.Errorf("retry %d: %s", i, text)
		}
		if strings.Contains(text, "accept") {
			won++
		}
	}
	if won != 1 || len(b.server.calls) != 1 {
		t.Errorf("%d won, %d calls", won, len(b.server.calls))
	}
}

// A retry without the answer does not read a call that another retry continues
// concurrently. The race detector verifies this.
func TestARetryWithoutTheAnswerMeanwhile(t *testing.T) {
	b := newBench(t, nil)
	_, answer := b.ask(who("alice"), calling(1, "forever", ""))
	for range 100 {
		state := b.state(answer)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { b.ask(who("alice"), calling(2, "forever", `,"requestState":"`+state+`"`)) })
		}
		_, answer = b.ask(who("alice"), retryOf(3, "forever", state))
		wg.Wait()
	}
}

// The opening of a session at a program may take start_timeout in addition.
func TestASlowProgramHasItsStartTimeout(t *testing.T) {
	for start, want := range map[time.Duration]bool{2 * time.Minute: true, 0: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Upstream.StartTimeout = start })
			b.server.start = 100 * time.Second
			resp, err := b.open(t.Context(), who("alice"), calling(1, "tool", ""))
			if (err == nil) != want {
				t.Errorf("start_timeout %s: %v", start, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}
