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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy"
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

// The unit with a process of its own is as the upstream's sharing specifies.
func TestSharing(t *testing.T) {
	token := func(rights byte) *upstream.Caller {
		return &upstream.Caller{
			Principal: &auth.Principal{Kind: auth.KindOAuth, Issuer: "i", Value: "carol", Claims: &policy.Claims{Subject: "carol"}},
			Token:     &auth.Token{Rights: [32]byte{rights}}, // hash of all claims, including those that no rule uses
		}
	}
	callers := []*upstream.Caller{caller("alice"), caller("alice"), caller("bob"), token(1), token(1), token(2), address("192.0.2.1"), address("192.0.2.1")}
	for mode, want := range map[string]string{
		upstream.SharingSession:   "0 1 2 3 4 5 6 7",
		upstream.SharingPrincipal: "0 0 1 2 2 3 4 5",
		upstream.SharingAll:       "0 0 0 0 0 0 0 0",
		upstream.SharingNone:      "0 1 2 3 4 5 6 7",
	} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, sharing(mode))
			seen := map[string]int{}
			var got []string
			for _, who := range callers {
				c := r.open(who)
				pid := c.must("pid", "")
				if again := c.must("pid", ""); (again == pid) == (mode == upstream.SharingNone) {
					t.Errorf("the next call is in process %s, the one before in %s", again, pid)
				}
				if _, ok := seen[pid]; !ok {
					seen[pid] = len(seen)
				}
				got = append(got, strconv.Itoa(seen[pid]))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%v, want %s", got, want)
			}
			began := r.open(caller("alice")).must("began", "")
			if own := mode == upstream.SharingSession; strings.Contains(began, `"roots"`) != own {
				t.Errorf("the process was told of %s", began)
			}
		})
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

// A session outlives its process, and sends the next process the same initialize and
// level.
func TestASessionOutlivesItsProcess(t *testing.T) {
	r := newRig(t, func(c *upstream.Config) { c.IdleTimeout = 100 * time.Millisecond })
	c := r.open(caller("alice"))
	if resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`); err != nil {
		t.Fatal(err)
	} else {
		read(t, resp)
	}
	before := c.must("pid", "")
	await(t, "the process ends", func() bool { return r.Stats().Processes == 0 })
	if after := c.must("pid", ""); after == before {
		t.Errorf("the process is still %s", after)
	}
	if began := c.must("began", ""); began != capable+`{"level":"error"}` {
		t.Errorf("the second process was told %s", began)
	}
}

// Processes that started before a reload named further files of the gateway can open these: an idle
// one ends at once, one with a call after it, with the client's answers, and the next call starts
// another with the files hidden. A reload that hides nothing more replaces none.
func TestAReloadThatHidesMoreReplacesProcesses(t *testing.T) {
	for _, shared := range []string{upstream.SharingSession, upstream.SharingAll} {
		r := newRig(t, sharing(shared))
		hidden := []string{"/srv/before"}
		var mu sync.Mutex
		r.opts.Hidden = func() []string {
			mu.Lock()
			defer mu.Unlock()
			return hidden
		}
		hide := func(paths ...string) {
			mu.Lock()
			defer mu.Unlock()
			hidden = paths
		}
		c := r.open(caller("alice"))
		first := c.must("pid", "")
		if n := r.ReplaceOpen(); n != 0 || c.must("pid", "") != first {
			t.Errorf("%s: nothing new is hidden, and %d are replaced", shared, n)
		}
		hide("/srv/before", "/srv/after")
		if n := r.ReplaceOpen(); n != 1 {
			t.Errorf("%s: %d idle processes are replaced", shared, n)
		}
		second := c.must("pid", "")
		if second == first {
			t.Errorf("%s: the idle process is still there", shared)
		}
		resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"_meta":{"progressToken":"w"},"name":"progress","arguments":{"text":"9"}}}`)
		if err != nil { // the response begins with the progress, and waits for eight more calls
			t.Fatal(err)
		}
		hide("/srv/later", "/srv/before", "/srv/after")
		if n := r.ReplaceOpen(); n != 1 || r.Stats().Processes != 1 {
			t.Errorf("%s: %d busy processes are replaced, %d run", shared, n, r.Stats().Processes)
		}
		if third := c.must("pid", ""); third == second != (shared == upstream.SharingSession) {
			t.Errorf("%s: a call beside the one that waits is made in the same process: %v", shared, third == second)
		}
		resp.Body.Close()
		await(t, "the process ends with its call", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			for p := range r.live {
				if p.outdated {
					return false
				}
			}
			return true
		})
		if third := c.must("pid", ""); third == second {
			t.Errorf("%s: the busy process is still there", shared)
		}
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

// One caller can neither use up the processes of all, nor be denied its own by others.
func TestBoundsOnProcesses(t *testing.T) {
	r := newRig(t, func(c *upstream.Config) { c.MaxProcesses, c.MaxPerPrincipal = 4, 3 })
	var held []*client
	hold := func(c *client) {
		t.Helper()
		resp, err := c.post(t.Context(), toolCall("hang", ""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		held = append(held, c)
	}
	mallory := caller("mallory")
	first := r.open(mallory)
	for range 3 { // its own idle processes are ended first
		r.open(mallory)
	}
	if n := r.Stats().Processes; n != 3 {
		t.Errorf("%d processes of one caller", n)
	}
	for range 3 {
		hold(r.open(mallory))
	}
	if _, err := r.try(mallory); !errors.Is(err, upstream.ErrBusy) || !strings.Contains(err.Error(), "max_per_principal") {
		t.Errorf("a process too many of one caller: %v", err)
	}
	if _, err := first.ask("echo", ""); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("its first session: %v", err)
	}
	alice := r.open(caller("alice"))
	if got := alice.must("echo", "fine"); got != "fine" {
		t.Error(got)
	}
	bob := r.open(caller("bob")) // replaces the idle one
	hold(bob)
	if _, err := alice.ask("echo", ""); !errors.Is(err, upstream.ErrBusy) || !strings.Contains(err.Error(), "max_processes") {
		t.Errorf("a process too many: %v", err)
	}
	r.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: held[0].id}})
	if got := alice.must("echo", "again"); got != "again" {
		t.Error(got)
	}
}

// Addresses are counted by their IPv6 network.
func TestAddressesCountByNetwork(t *testing.T) {
	for _, tt := range []struct {
		a, b *upstream.Caller
		same bool
	}{
		{address("2001:db8::1"), address("2001:db8::2"), true},
		{address("2001:db8::1"), address("2001:db8:0:1::1"), false},
		{address("192.0.2.1"), address("192.0.2.2"), false},
		{address("192.0.2.1"), caller("192.0.2.1"), false},
	} {
		if same := ownerOf(tt.a) == ownerOf(tt.b); same != tt.same {
			t.Errorf("%s and %s: %v", tt.a.Principal.Value, tt.b.Principal.Value, same)
		}
	}
}

// The end of a process fails the calls that wait for it, and the process is started
// again after a growing backoff. Other processes are not affected.
func TestAProcessThatEnds(t *testing.T) {
	r := newRig(t, nil)
	c, other := r.open(caller("alice")), r.open(caller("bob"))
	for i, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		var failed *upstream.Error
		if _, err := c.ask("exit", "memory"); !errors.As(err, &failed) || !errors.Is(err, upstream.ErrExited) || !failed.Sent || !strings.Contains(err.Error(), "exit status 3") {
			t.Fatalf("%d: %v", i, err)
		}
		var exit *ExitError
		if _, err := c.ask("echo", ""); !errors.Is(err, upstream.ErrExited) || !strings.Contains(err.Error(), "started again in") || !errors.As(err, &exit) || exit.Stderr() != "out of memory" {
			t.Fatalf("%d: at once after it: %v", i, err)
		}
		if _, err := other.ask("echo", ""); err != nil {
			t.Errorf("another caller: %v", err)
		}
		r.late.Add(int64(pause))
	}
	if got := c.must("echo", "works"); got != "works" {
		t.Error(got)
	}
	if wait, _ := r.failures.wait(ownerOf(c.who), r.opts.Now()); wait != 0 {
		t.Errorf("a call that succeeded leaves a pause of %v", wait)
	}
	await(t, "the log has the reason", func() bool {
		return strings.Contains(r.logs.String(), `reason="the process ended: exit status 3"`) && strings.Contains(r.logs.String(), `stderr="out of memory"`)
	})
	if s := r.Stats(); s.Exits != 3 || s.Starts != 5 {
		t.Errorf("%+v", s)
	}
}

// A program that does not start is an error with the cause, and is not started in a
// loop.
func TestAProgramThatDoesNotComeUp(t *testing.T) {
	for _, tt := range []struct {
		how    string
		change func(*upstream.Config)
		kind   error
		want   string
	}{
		{"exits", nil, upstream.ErrExited, "exit status 7"},
		{"never answers", func(c *upstream.Config) { c.StartTimeout = 200 * time.Millisecond }, upstream.ErrTimeout, "start_timeout"},
		{"never answers", func(c *upstream.Config) { c.StartTimeout = 1 }, upstream.ErrTimeout, "start_timeout"},
	} {
		r := newRig(t, tt.change, tt.how)
		for i := range 20 {
			_, err := r.try(caller("alice"))
			if i == 0 && (!errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v", tt.how, err)
			}
			if i > 0 && !errors.Is(err, upstream.ErrExited) {
				t.Errorf("%s, again: %v", tt.how, err)
			}
		}
		if n := r.Stats().Starts; n != 1 {
			t.Errorf("%s: %d processes were started", tt.how, n)
		}
	}
	r := newRig(t, nil)
	r.opts.Command.Args = []string{"no-such-program"}
	if _, err := r.try(caller("alice")); !errors.Is(err, upstream.ErrUnreachable) || !strings.Contains(err.Error(), "not found in PATH") {
		t.Error(err)
	}
	rejecting := newRig(t, nil, "rejects")
	resp, err := rejecting.Post(t.Context(), &upstream.Request{Caller: caller("alice"), Body: []byte(`{"jsonrpc":"2.0","id":9,"method":"initialize","params":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); body != `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"not this revision"}}` || resp.Header.Has(mcp.HeaderSession) {
		t.Errorf("%s, %v", body, resp.Header)
	}
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
