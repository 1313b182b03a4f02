package translate

import (
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
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// modern is a server of 2026-07-28 in memory that responds with the result of a function.
type modern struct {
	upstream.Transport
	answer func(n int, m *mcp.Message, h mcp.Header) string // the result, or an error after "!"

	mu   sync.Mutex
	seen []string
}

func (s *modern) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if m.ProtocolVersion != mcp.Revision20260728 || r.Session.Version != mcp.Revision20260728 || r.Session.ID != "" || r.Header.Get("Mcp-Method") != m.Method {
		return nil, fmt.Errorf("not of 2026-07-28: %s, %v, %v", r.Body, r.Session, r.Header)
	}
	s.mu.Lock()
	s.seen = append(s.seen, string(r.Body))
	n := len(s.seen)
	s.mu.Unlock()
	if m.Method == mcp.MethodDiscover {
		return upstream.Message(200, appendResult(nil, m.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"extensions":{"x":{}}},"instructions":"Be brief.","ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"modern","version":"2"}}}`))), nil
	}
	text := s.answer(n, &m, r.Header)
	if failure, ok := strings.CutPrefix(text, "!"); ok {
		return upstream.Message(400, []byte(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":`+failure+`}`)), nil
	}
	return upstream.Message(200, appendResult(nil, m.ID, []byte(text))), nil
}

func newTranslator(t *testing.T, s *modern) *ToModern {
	log := slog.New(slog.DiscardHandler)
	replicas, err := NewHandover(func() (Store, bool) { return nil, false }, make([]byte, 32), log)
	if err != nil {
		t.Fatal(err)
	}
	return NewToModern(Options{Upstream: &upstream.Config{Name: "u"}, Direct: s, Version: "1", Replicas: replicas, Limits: NewLimits(), Logger: log, Now: time.Now})
}

var alice = session.NewID()

func in(id session.ID) *upstream.Caller {
	return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: "k"}, Session: id, HasSession: true}
}

// tomodernClient is a client with a session.
type tomodernClient struct {
	*ToModern
	t       *testing.T
	id      string
	session session.ID
}

func connect(t *testing.T, s *modern, capabilities string) *tomodernClient {
	c := &tomodernClient{newTranslator(t, s), t, "", alice}
	resp := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"3"}}}`)
	c.id = resp.Header.Get(mcp.HeaderSession)
	body, err := readAll(resp)
	if err != nil || !isSession(c.id) {
		t.Fatalf("%v, session %q, %s", err, c.id, body)
	}
	for _, want := range []string{`"id":0`, `"protocolVersion":"2025-06-18"`, `"capabilities":{"tools":{"listChanged":true}}`, `"serverInfo":{"name":"modern","version":"2"}`, `"instructions":"Be brief."`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("initialize lacks %s: %s", want, body)
		}
	}
	return c
}

func (c *tomodernClient) post(body string) *upstream.Response {
	c.t.Helper()
	var m mcp.Message
	if err := mcp.Scan([]byte(body), &m); err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.Post(c.t.Context(), &upstream.Request{
		Session: mcp.Session{ID: c.id, Version: "2025-06-18"}, Caller: in(c.session), RequestID: "request-1", Body: []byte(body),
		Header: mcp.Header{{Name: "Content-Type", Value: "application/json"}},
	}, &m)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// ask posts a call and answers every question with the result of reply. It returns the
// last message.
func (c *tomodernClient) ask(body string, reply func(m *mcp.Message) string) string {
	c.t.Helper()
	resp := c.post(body)
	defer resp.Body.Close()
	messages := NewMessages(resp, nil)
	last := ""
	for {
		text, err := messages.Next()
		if err == io.EOF {
			return last
		}
		if err != nil {
			c.t.Fatal(err)
		}
		last = string(text)
		var m mcp.Message
		if err := mcp.Scan(text, &m); err != nil {
			c.t.Fatal(err)
		}
		if m.Kind == mcp.Request {
			if got := c.post(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + reply(&m) + `}`); got.Status != http.StatusAccepted {
				c.t.Errorf("the answer: %d", got.Status)
			}
		}
	}
}

const callTool = `{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"t","arguments":{"a":{"b":7}}}}`

// The questions of a result become requests, and the client's answers become the retry.
func TestQuestions(t *testing.T) {
	s := &modern{answer: func(n int, m *mcp.Message, _ mcp.Header) string {
		if answers := mcp.Find(m.Body, m.Spans.Params, "inputResponses"); answers.Present() {
			state := mcp.Find(m.Body, m.Spans.Params, "requestState")
			text, _ := json.Marshal(string(answers.Of(m.Body)) + string(state.Of(m.Body)))
			return `{"content":[{"type":"text","text":` + string(text) + `}],"resultType":"complete"}`
		}
		return `{"resultType":"input_required","requestState":"st","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"m"}},"b":{"method":"roots/list"}}}`
	}}
	c := connect(t, s, `{"elicitation":{},"roots":{}}`)
	got := c.ask(callTool, func(m *mcp.Message) string {
		if m.Method == "roots/list" {
			return `"result":{"roots":[]}`
		}
		return `"error":{"code":-1,"message":"not now"}` // counts as canceled
	})
	if want := `{"jsonrpc":"2.0","id":"c1","result":{"content":[{"type":"text","text":"{\"a\":{\"action\":\"cancel\"},\"b\":{\"roots\":[]}}\"st\""}]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(c.questions.open) != 0 || c.questions.bounds.Held(c.session) != 0 {
		t.Errorf("left open: %v", c.questions.open)
	}
}

// A call that cannot be completed ends with an error that names its possible effects.
func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	question := `{"method":"sampling/createMessage","params":{}}`
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%s`, i, question)
	}
	required := func(questions string) func(int, *mcp.Message, mcp.Header) string {
		return func(int, *mcp.Message, mcp.Header) string {
			return `{"resultType":"input_required","inputRequests":{` + questions + `}}`
		}
	}
	for name, tt := range map[string]struct {
		answer       func(int, *mcp.Message, mcp.Header) string
		capabilities string
		reply, want  string
	}{
		"10,000 questions":       {required(strings.Join(many, ",")), `{"sampling":{}}`, "", "too many questions"},
		"never stops asking":     {required(`"k":` + question), `{"sampling":{}}`, `"result":{}`, "asked 32 times"},
		"not declared":           {required(`"k":` + question), `{}`, "", "has not declared"},
		"of no kind":             {required(`"k":{"method":"tools/list"}`), `{"sampling":{}}`, "", "has not declared"},
		"nothing asked":          {required(""), `{"sampling":{}}`, "", "without a question and without a state"},
		"answered with an error": {required(`"k":` + question), `{"sampling":{}}`, `"error":{"code":-7,"message":"no model"}`, "no model"},
	} {
		c := connect(t, &modern{answer: tt.answer}, tt.capabilities)
		got := c.ask(callTool, func(*mcp.Message) string { return tt.reply })
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, tt.want) || !strings.Contains(got, `"id":"c1"`) || !strings.Contains(got, "may have had effects") {
			t.Errorf("%s: %s", name, got)
		}
		if len(c.questions.open) != 0 {
			t.Errorf("%s: left open: %v", name, c.questions.open)
		}
		if got := c.ask(strings.ReplaceAll(callTool, "tools/call", "prompts/get"), func(*mcp.Message) string { return tt.reply }); !strings.Contains(got, `"code":-32603`) {
			t.Errorf("%s, prompt: %s", name, got)
		}
	}
}

// An answer counts in the session of its question, and once; a client has five minutes.
func TestAnswersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &modern{answer: func(n int, m *mcp.Message, _ mcp.Header) string {
			return `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}}`
		}}
		c := connect(t, s, `{"elicitation":{}}`)
		got := c.ask(callTool, func(m *mcp.Message) string {
			mallory := &tomodernClient{c.ToModern, t, c.id, session.NewID()}
			mallory.post(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
			c.post(`{"jsonrpc":"2.0","id":"other","result":{"action":"accept"}}`)
			return `"result":null` // this id has an answer that is not an object, which the upstream must check
		})
		if len(s.seen) < 3 {
			t.Errorf("%d requests: %s", len(s.seen), got)
		}
		silent := connect(t, s, `{"elicitation":{}}`)
		resp := silent.post(callTool)
		messages := NewMessages(resp, nil)
		if _, err := messages.Next(); err != nil { // the question
			t.Fatal(err)
		}
		late, err := messages.Next() // after five minutes
		if err != nil || !strings.Contains(string(late), errNoAnswer.Error()) {
			t.Errorf("%s, %v", late, err)
		}
		ending := connect(t, s, `{"elicitation":{}}`)
		messages = NewMessages(ending.post(callTool), nil)
		if _, err := messages.Next(); err != nil {
			t.Fatal(err)
		}
		if resp, err := ending.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: ending.id}, Caller: in(alice)}); err != nil || resp.Status != http.StatusNoContent {
			t.Errorf("end: %v %v", resp, err)
		}
		if text, err := messages.Next(); err != nil || !strings.Contains(string(text), "ended its session") {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// Arguments that the schema mirrors in headers are sent there; when the upstream reports a
// missing header the gateway reads the tools once.
func TestMirroredArguments(t *testing.T) {
	lists := 0
	s := &modern{answer: func(_ int, m *mcp.Message, h mcp.Header) string {
		if m.Method == mcp.MethodToolsList {
			lists++
			return `{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"Deep"}}},"c":{"type":"string","x-mcp-header":"C"},"bad":{"x-mcp-header":"a b"}}}}]}`
		}
		if h.Get("Mcp-Param-Deep") != "7" || h.Has("Mcp-Param-C") || h.Get("Mcp-Name") != "t" {
			return `!{"code":-32020,"message":"header"}`
		}
		return `{"content":[],"resultType":"complete"}`
	}}
	c := connect(t, s, `{}`)
	for range 2 {
		if got := c.ask(callTool, nil); got != `{"jsonrpc":"2.0","id":"c1","result":{"content":[]}}` {
			t.Errorf("got %s", got)
		}
	}
	if lists != 1 {
		t.Errorf("%d lists were read", lists)
	}
	wrong := connect(t, &modern{answer: func(_ int, m *mcp.Message, h mcp.Header) string {
		if m.Method == mcp.MethodToolsList {
			return `{"tools":[]}`
		}
		return `!{"code":-32020,"message":"header"}`
	}}, `{}`)
	if got := wrong.ask(callTool, nil); !strings.Contains(got, `"code":-32020`) {
		t.Errorf("an upstream that is never content: %s", got)
	}
}

// Responses of a server of 2026-07-28 for a client with sessions.
func TestWhatIsTranslatedToModern(t *testing.T) {
	c := connect(t, &modern{answer: func(_ int, m *mcp.Message, _ mcp.Header) string {
		switch m.Method {
		case mcp.MethodResourcesRead:
			return `!{"code":-32602,"message":"unknown","data":{"uri":"x:"}}`
		case mcp.MethodPromptsList:
			return `{"prompts":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"resultType":"complete"}`
		case mcp.MethodResourcesList:
			return `{"resources":[],"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"b":2}}`
		case "task/made":
			return `{"resultType":"task","taskId":"1"}`
		}
		return `{"tools":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}`
	}}, `{}`)
	for request, want := range map[string]string{
		`"method":"tools/list"`:                                  `"result":{"tools":[]}`,
		`"method":"prompts/list"`:                                `"result":{"prompts":[]}`,
		`"method":"resources/list"`:                              `"result":{"resources":[],"_meta":{"a":1,"b":2}}`,
		`"method":"ping"`:                                        `"result":{}`,
		`"method":"logging/setLevel","params":{"level":"info"}`:  `"result":{}`,
		`"method":"resources/subscribe","params":{"uri":"x:"}`:   `"result":{}`,
		`"method":"resources/unsubscribe","params":{"uri":"x:"}`: `"result":{}`,
		`"method":"resources/read","params":{"uri":"x:"}`:        `"error":{"message":"unknown","data":{"uri":"x:"},"code":-32002}`,
		`"method":"tasks/get","params":{"taskId":"1"}`:           `generation_unsupported`,
		`"method":"tools/call","params":{"name":"t","task":{}}`:  `generation_unsupported`,
		`"method":"task/made"`:                                   `generation_unsupported`,
	} {
		if got := c.ask(`{"jsonrpc":"2.0","id":7,`+request+`}`, nil); !strings.Contains(got, want) || !strings.Contains(got, `"id":7`) {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	c.id = "of another time"
	if resp := c.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`); resp.Status != http.StatusNotFound {
		t.Errorf("a session of an upstream: %d", resp.Status)
	}
}

// A session id contains the client's declarations as far as they fit.
func TestSessions(t *testing.T) {
	big := `"` + strings.Repeat("x", 700) + `"`
	for name, tt := range map[string]struct{ capabilities, info, want string }{
		"all of it":    {`{"elicitation":{"url":{}},"experimental":{"e":{}},"tasks":{}}`, `{"name":"n","version":"1","title":"T"}`, `{"elicitation":{"url":{}},"experimental":{"e":{}}}{"name":"n","version":"1","title":"T"}`},
		"a long title": {`{"roots":{}}`, `{"name":"n","version":"1","title":` + big + `}`, `{"roots":{}}{"name":"n","version":"1"}`},
		"much of it":   {`{"sampling":{},"experimental":{"e":` + big + `}}`, `{"name":"n","version":"1"}`, `{"sampling":{}}{"name":"n","version":"1"}`},
		"too much":     {`{"sampling":{"e":` + big + `}}`, `{"name":"n","version":"1"}`, ""},
		"nothing":      {`{}`, `{}`, `{}{}`},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":`+tt.capabilities+`,"clientInfo":`+tt.info+`}}`), &m); err != nil {
			t.Fatal(err)
		}
		h, _, _ := readHello(&m)
		id, err := h.id()
		if err != nil {
			if tt.want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var ok bool
		h, ok = openHello(id)
		if got := string(h.Capabilities) + string(h.Info); !ok || got != tt.want || h.Version != "2025-06-18" || len(id) > session.MaxUpstreamID {
			t.Errorf("%s: %s, want %s; %d bytes", name, got, tt.want, len(id))
		}
	}
}

// Any session id is handled without a panic.
func FuzzSessionID(f *testing.F) {
	id, err := hello{Version: "2025-06-18", Capabilities: []byte(`{"roots":{}}`)}.id()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id)
	f.Add(session.OwnID(""))
	f.Fuzz(func(t *testing.T, id string) {
		if h, ok := openHello(id); ok {
			_ = h.declares("roots")
		}
	})
}
