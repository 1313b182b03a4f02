package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// rig is a transport to this test's program.
type rig struct {
	*Transport
	t    *testing.T
	logs *syncBuffer
	late atomic.Int64 // offset that is added to the clock
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newRig creates a transport; change modifies its configuration, args are arguments of
// the program.
func newRig(t *testing.T, change func(*upstream.Config), args ...string) *rig {
	t.Helper()
	c := upstream.Config{Name: "fake"}
	c.SetDefaults()
	c.Timeout = 20 * time.Second
	c.Command = append([]string{os.Args[0], programArg}, args...)
	if change != nil {
		change(&c)
	}
	r := &rig{t: t, logs: new(syncBuffer)}
	r.Transport = Open(Options{
		Config: c, Version: "test", Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:     func() time.Time { return time.Now().Add(time.Duration(r.late.Load())) },
		Command: Command{Args: c.Command, Env: []string{"PATH=" + os.Getenv("PATH"), "SET=here"}, Dir: t.TempDir()},
	})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := len(r.live) + r.starting + r.ending + len(r.owned); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	return r
}

func sharing(s string) func(*upstream.Config) {
	return func(c *upstream.Config) { c.Sharing = s }
}

// caller is a caller with an API key.
func caller(name string) *upstream.Caller {
	return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: name, KeyID: name}}
}

func address(ip string) *upstream.Caller {
	return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: ip}}
}

// client is a client in a session.
type client struct {
	*rig
	who *upstream.Caller
	id  string
}

const capable = `{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`

// try opens a session.
func (r *rig) try(who *upstream.Caller) (*client, error) {
	resp, err := r.Post(r.t.Context(), &upstream.Request{Caller: who, Body: []byte(`{"jsonrpc":"2.0","id":"i\u0031","method":"initialize","params":` + capable + `}`)})
	if err != nil {
		return nil, err
	}
	body := read(r.t, resp)
	if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":"i\u0031","result":{"protocolVersion":"2025-06-18"`) {
		return nil, fmt.Errorf("initialize: %s", body)
	}
	c := &client{r, who, resp.Header.Get(mcp.HeaderSession)}
	if c.id == "" {
		r.t.Error("there is no session")
	}
	return c, c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (r *rig) open(who *upstream.Caller) *client {
	r.t.Helper()
	c, err := r.try(who)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func read(t *testing.T, resp *upstream.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("after %q: %v", body, err)
	}
	return string(body)
}

func (c *client) post(ctx context.Context, body string) (*upstream.Response, error) {
	return c.Post(ctx, &upstream.Request{Session: mcp.Session{ID: c.id, Version: "2025-06-18"}, Caller: c.who, Body: []byte(body)})
}

// send posts a message that has no response.
func (c *client) send(body string) error {
	resp, err := c.post(c.t.Context(), body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.Status != http.StatusAccepted {
		return fmt.Errorf("status %d for %s", resp.Status, body)
	}
	return nil
}

func toolCall(tool, text string) string {
	arguments, _ := json.Marshal(text)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"text":%s}}}`, tool, arguments)
}

// ask calls a tool and returns the text of its result.
func (c *client) ask(tool, text string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	resp, err := c.post(ctx, toolCall(tool, text))
	if err != nil {
		return "", err
	}
	if resp.Status != http.StatusOK {
		resp.Body.Close()
		return "", fmt.Errorf("status %d", resp.Status)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.MediaType() == "text/event-stream" {
		events := strings.Split(strings.TrimSpace(string(body)), "\n\n")
		_, last, _ := strings.Cut(events[len(events)-1], "data: ")
		body = []byte(last)
	}
	var m struct {
		ID     int
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(body, &m); err != nil || m.ID != 1 || len(m.Result.Content) != 1 {
		return "", fmt.Errorf("%w: %.300s", err, body)
	}
	return m.Result.Content[0].Text, nil
}

func (c *client) must(tool, text string) string {
	c.t.Helper()
	out, err := c.ask(tool, text)
	if err != nil {
		c.t.Fatalf("%s: %v\n%.2000s", tool, err, c.logs)
	}
	return out
}

// A request becomes one line for any text, and its response has its id.
func TestARequestIsALine(t *testing.T) {
	c := newRig(t, nil).open(caller("alice"))
	for _, id := range []string{"0", `""`, `"a\u0062"`, "-7", `"1"`} {
		resp, err := c.post(t.Context(), "{\n \"method\" : \"tools/call\",\r\n \"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"a\\nb\"}}, \"id\": "+id+", \"jsonrpc\":\"2.0\"}")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := read(t, resp), `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"a\nb"}]}}`; got != want || resp.MediaType() != "application/json" || resp.ContentLength != int64(len(want)) {
			t.Errorf("%s: %s, %v", id, got, resp.Header)
		}
	}
	big := strings.Repeat("ü", 1<<20)
	if got := c.must("echo", big); got != big {
		t.Errorf("%d bytes of %d", len(got), len(big))
	}
}

// If messages precede the response it is a stream; progress has the client's token.
func TestMessagesBeforeTheAnswerMakeAStream(t *testing.T) {
	c := newRig(t, nil).open(caller("alice"))
	resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"progressToken":"tök"},"name":"progress"}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `event: message
data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tök","progress":1,"message":""}}

event: message
data: {"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":""}]}}

`
	if got := read(t, resp); got != want || resp.MediaType() != "text/event-stream" {
		t.Errorf("%s", got)
	}
}

// A server request is sent in the response of the call, and the client's response
// reaches the server; a response to an unknown request is dropped.
func TestAServerAsksItsClient(t *testing.T) {
	c := newRig(t, nil).open(caller("alice"))
	resp, err := c.post(t.Context(), toolCall("ask", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := mcp.NewEventReader(resp.Body, 1<<20)
	question, err := events.Next()
	if err != nil || string(question.Data) != `{"jsonrpc":"2.0","id":"question","method":"roots/list"}` {
		t.Fatalf("%s, %v", question.Data, err)
	}
	for _, body := range []string{`{"jsonrpc":"2.0","id":"other","result":{"roots":["forged"]}}`, `{"jsonrpc":"2.0","id":"question","result":{"roots":[]}}`} {
		if err := c.send(body); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := events.Next()
	if err != nil || !strings.Contains(string(answer.Data), `{\"roots\":[]}`) {
		t.Errorf("%s, %v", answer.Data, err)
	}
	if _, err := events.Next(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
}

// A call without a session reaches a program that has received initialize, with the revision of the
// request, in every sharing; a program of 2026-07-28 knows no initialize.
func TestACallWithoutASessionInitializesTheProgram(t *testing.T) {
	for _, mode := range upstream.Sharings {
		for _, row := range []struct{ version, want string }{
			{"", `"protocolVersion":"2025-11-25"`},
			{"2025-06-18", `"protocolVersion":"2025-06-18"`},
			{"2023-01-01", `"protocolVersion":"2025-11-25"`}, // of an early client
			{"2026-07-28", `"text":""`},
			{"2030-01-01", `"text":""`},
		} {
			r := newRig(t, sharing(mode))
			for range 2 {
				resp, err := r.Post(t.Context(), &upstream.Request{Session: mcp.Session{Version: row.version}, Caller: caller("alice"), Body: []byte(toolCall("began", ""))})
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.ReplaceAll(read(t, resp), `\"`, `"`); !strings.Contains(got, row.want) {
					t.Errorf("sharing %s, revision %q: %s, want %s", mode, row.version, got, row.want)
				}
			}
		}
	}
	resp, err := newRig(t, nil, "rejects").Post(t.Context(), &upstream.Request{Caller: caller("alice"), Body: []byte(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, resp), `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"not this revision"}}`; got != want {
		t.Errorf("%s, want the error of the program: %s", got, want)
	}
}

// The first response of a process may take start_timeout, also where the timeout of calls is
// shorter: programs download themselves.
func TestTheFirstCallHasTheTimeToStart(t *testing.T) {
	r := newRig(t, func(c *upstream.Config) { c.StartTimeout = time.Minute })
	resp, err := r.Post(t.Context(), &upstream.Request{
		Session: mcp.Session{Version: "2026-07-28"}, Caller: caller("alice"), Body: []byte(toolCall("echo", "x")),
		Timeouts: &upstream.Timeouts{FirstByte: time.Microsecond}, // no process starts within it
	})
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
}

// Clients of one process that use the same ids and tokens get their own messages.
func TestClientsOfOneProcessDoNotMeet(t *testing.T) {
	const clients = 8
	r := newRig(t, sharing(upstream.SharingAll))
	var wg sync.WaitGroup
	for i := range clients {
		c := r.open(caller(fmt.Sprint("user", i)))
		wg.Go(func() {
			token := fmt.Sprintf(`"token %d"`, i)
			resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":`+token+`},"name":"progress","arguments":{"text":"8"}}}`)
			if err != nil {
				t.Error(err)
				return
			}
			if got := read(t, resp); strings.Count(got, "data: ") != 2 || !strings.Contains(got, token) || !strings.Contains(got, `"id":1,"result"`) {
				t.Errorf("client %d: %s", i, got)
			}
		})
	}
	wg.Wait()
	a, b := r.open(caller("a")), r.open(caller("b"))
	if got := a.must("ask", ""); !strings.Contains(got, "-32601") {
		t.Errorf("a request of the process: %s", got)
	}
	if err := b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); err != nil {
		t.Error(err)
	}
}

// A client receives in the stream of its session the updates of its subscriptions, and
// notifications for all clients.
func TestTheStreamOfASession(t *testing.T) {
	for _, mode := range []string{upstream.SharingSession, upstream.SharingAll} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, sharing(mode))
			c, other := r.open(caller("alice")), r.open(caller("bob"))
			if resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`); err != nil || !strings.Contains(read(t, resp), `"result"`) {
				t.Fatal(err)
			}
			c.must("changed", "")
			listen := func(c *client) *mcp.EventReader {
				resp, err := c.Listen(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}, Caller: c.who})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				return mcp.NewEventReader(resp.Body, 1<<20)
			}
			events := listen(c)
			for _, method := range []string{"notifications/tools/list_changed", "notifications/resources/updated"} {
				if ev, err := events.Next(); err != nil || !strings.Contains(string(ev.Data), method) {
					t.Fatalf("%s, %v", ev.Data, err)
				}
			}
			second := listen(c)
			if _, err := events.Next(); err != io.EOF {
				t.Errorf("the first stream, after the second was opened: %v", err)
			}
			if mode == upstream.SharingAll {
				others := listen(other)
				if ev, err := others.Next(); err != nil || !strings.Contains(string(ev.Data), "list_changed") {
					t.Errorf("%s, %v", ev.Data, err)
				}
				r.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: other.id}})
				if ev, err := others.Next(); err != io.EOF {
					t.Errorf("a client that did not subscribe: %s, %v", ev.Data, err)
				}
			}
			resp, err := c.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}})
			if err != nil || resp.Status != http.StatusNoContent {
				t.Error(resp, err)
			}
			if _, err := second.Next(); err != io.EOF {
				t.Errorf("after the end of the session: %v", err)
			}
			if resp, err := c.post(t.Context(), toolCall("echo", "")); err != nil || resp.Status != http.StatusNotFound {
				t.Error(resp, err)
			}
		})
	}
}

// await polls for a condition that has no event.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatalf("it does not happen that %s", what)
}

// When a client disconnects, its call is canceled at the program, under the number
// that the call has there.
func TestAClientThatLeavesCancels(t *testing.T) {
	c := newRig(t, nil).open(caller("alice"))
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.post(ctx, toolCall("hang", ""))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	resp.Body.Close()
	if got := c.must("canceled", ""); !strings.Contains(got, `"requestId":1,`) && !strings.Contains(got, `"requestId":2,`) {
		t.Errorf("%s", got)
	}
	resp, err = c.post(t.Context(), `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"hang"}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine","reason":"r"}}`); err != nil {
		t.Fatal(err)
	}
	if got := c.must("canceled", ""); !strings.Contains(got, `"reason":"r"`) || strings.Contains(got, "mine") {
		t.Errorf("%s", got)
	}
}

// A change of a list is announced to the gateway itself: it has no stream.
func TestListsOfTheGatewayThatChange(t *testing.T) {
	for _, mode := range []string{upstream.SharingSession, upstream.SharingAll} {
		r := newRig(t, sharing(mode))
		changed := make(chan struct{}, 10)
		r.opts.Changed = func() { changed <- struct{}{} }
		r.open(nil).must("changed", "")
		<-changed
		if mode == upstream.SharingSession {
			r.open(caller("alice")).must("changed", "")
		}
		if n := len(changed); n != 0 {
			t.Errorf("%s: %d further announcements", mode, n)
		}
	}
}
