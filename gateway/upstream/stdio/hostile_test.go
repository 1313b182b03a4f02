package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// For any behavior of a program, its calls end with a response or with an error that
// names the cause, and the calls of others work.
func TestProgramsThatMisbehave(t *testing.T) {
	quick := func(c *upstream.Config) { c.Timeout, c.MaxLineBytes = time.Second, 64<<10 }
	slow := func(c *upstream.Config) { c.MaxLineBytes = 64 << 10 }
	for _, tt := range []struct {
		how    string
		change func(*upstream.Config)
		text   string
		want   string // the response, if there is one
		kind   error  // of the call, or of the next one
		log    string
	}{
		{"exit", slow, "disk", "", upstream.ErrExited, "out of disk"},
		{"closes its output", slow, "", "", upstream.ErrExited, "closed its standard output"},
		{"closes its input", slow, "", "closed", upstream.ErrExited, "closed its standard input"},
		{"closes its errors", slow, "", "closed", nil, ""},
		{"stops reading", quick, "", "stopped", upstream.ErrExited, "does not read its standard input"},
		{"floods without a line", slow, "", "", upstream.ErrExited, "max_line_bytes"},
		{"floods with lines", slow, "", "flooded", nil, ""},
		{"floods its errors", slow, "", "flooded", nil, "lines_left_out"},
		{"asks and asks", slow, "", "asked", nil, ""},
		{"half a line", quick, "", "", upstream.ErrTimeout, ""},
		{"foreign ids", slow, "", "own", nil, "the id of no request"},
		{"odd message", slow, `{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}`, "sent", nil, "is not a message"},
		{"odd message", slow, strings.Repeat("[", 5000), "sent", nil, "is not a message"},
		{"odd message", slow, "\x00\x1b[2J\xff\r", "sent", nil, "is not a message"},
		{"odd message", slow, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}`, "sent", nil, ""},
		{"odd message", slow, `{"jsonrpc":"2.0","id":ID,"result":{"text":"\ud83d"}}`, "", nil, ""},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.change)
			c, other := r.open(caller("alice")), r.open(caller("bob"))
			got, err := c.ask(tt.how, tt.text)
			if tt.want != "" && (err != nil || got != tt.want) {
				t.Fatalf("%q, %v", got, err)
			}
			if tt.want != "" && tt.kind != nil {
				// More than the pipe's capacity, so that the write blocks.
				_, err = c.ask("echo", strings.Repeat("x", 1<<20))
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("the error is %v", err)
			}
			if got := other.must("echo", "works"); got != "works" {
				t.Error(got)
			}
			if tt.log != "" {
				await(t, "the log has "+tt.log, func() bool {
					other.must("echo", "")
					if tt.log == "lines_left_out" {
						r.notes.stderr(&process{}, []byte("one more"))
					}
					return strings.Contains(r.logs.String(), tt.log)
				})
			}
			if n := len(r.logs.String()); n > 256<<10 {
				t.Errorf("the log has %d bytes", n)
			}
		})
	}
}

// Output of a program before its first message is logged and ignored.
func TestABannerIsLeftOut(t *testing.T) {
	r := newRig(t, nil, "banner")
	if got := r.open(caller("alice")).must("echo", "works"); got != "works" {
		t.Error(got)
	}
	await(t, "the log has the banner", func() bool { return strings.Contains(r.logs.String(), "Welcome to the server!") })
}

// Child processes of a program end with its session.
func TestGrandchildrenEndWithTheSession(t *testing.T) {
	r := newRig(t, nil)
	c := r.open(caller("alice"))
	pid := c.must("grandchildren", "")
	running := func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	if !running() {
		t.Fatalf("%s does not run", pid)
	}
	if _, err := r.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}}); err != nil {
		t.Fatal(err)
	}
	await(t, "it ends", func() bool { return !running() })
}

// Messages that clients do not read are bounded.
func TestMessagesThatNobodyReads(t *testing.T) {
	r := newRig(t, nil)
	c := r.open(caller("alice"))
	for range 2 * maxSessionQueue {
		if resp, err := c.post(t.Context(), toolCall("changed", "")); err != nil {
			t.Fatal(err)
		} else {
			read(t, resp)
		}
	}
	r.mu.Lock()
	s := r.sessions.byID[c.id]
	r.mu.Unlock()
	if n := len(s.sessionStream.queued); n != maxSessionQueue {
		t.Errorf("%d messages wait, want %d", n, maxSessionQueue)
	}
	// A client that does not read the response of its call.
	resp, err := c.post(t.Context(), toolCall("floods with lines", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := c.must("echo", "works"); got != "works" {
		t.Error(got)
	}
	if got := strings.Count(read(t, resp), "data: "); got > maxQueued+2 {
		t.Errorf("%d messages were kept", got)
	}
}

// Unread messages have a limit for all processes of an upstream, and release their share
// of it.
func TestMemoryForMessagesIsBounded(t *testing.T) {
	r := newRig(t, nil)
	c := r.open(caller("alice"))
	r.room.used.Store(maxRoom)
	if _, err := c.ask("echo", "x"); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("without room: %v", err)
	}
	r.room.used.Store(0)
	c.must("changed", "") // waits in the stream of the session
	for _, tool := range []string{"echo", "progress", "floods with lines"} {
		c.must(tool, "")
	}
	resp, err := c.post(t.Context(), toolCall("floods with lines", ""))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // unread
	if r.room.used.Load() == 0 {
		t.Error("what waits in the stream of a session takes no room")
	}
	if _, err := r.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}}); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if n := r.room.used.Load(); n != 0 {
		t.Errorf("%d bytes are not given back", n)
	}
}

// If a client disconnects before its process has started, no process remains.
func TestAClientThatDoesNotWaitForItsProcess(t *testing.T) {
	r := newRig(t, nil, "never answers")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Post(ctx, &upstream.Request{Caller: caller("alice"), Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + capable + `}`)})
		done <- err
	}()
	await(t, "the process starts", func() bool { return r.Stats().Processes == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.mu.Lock()
	n := len(r.sessions.byID)
	r.mu.Unlock()
	if n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// Pending calls in one process are bounded.
func TestPendingCallsAreBounded(t *testing.T) {
	c := newRig(t, nil).open(caller("alice"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxPending {
		resp, err := c.post(ctx, toolCall("hang", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	if _, err := c.post(ctx, toolCall("hang", "")); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
}

// The number of sessions is bounded; a forgotten session is unknown.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, sharing(upstream.SharingAll))
	first := r.open(caller("alice"))
	for i := range maxSessions {
		r.open(caller(fmt.Sprint(i % 7)))
	}
	if resp, err := first.post(t.Context(), toolCall("echo", "")); err != nil || resp.Status != http.StatusNotFound {
		t.Error(resp, err)
	}
	if n := len(r.sessions.byID); n != maxSessions {
		t.Errorf("%d sessions", n)
	}
	for _, sl := range r.slots {
		if len(sl.users) > maxSessions {
			t.Errorf("%d users of one process", len(sl.users))
		}
	}
}

// Closing a response ends a blocked read of it, and closing the transport ends every
// call.
func TestClosingEndsReadsThatWait(t *testing.T) {
	r := newRig(t, nil)
	c := r.open(caller("alice"))
	resp, err := c.post(t.Context(), toolCall("hang", ""))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	resp.BeforeWait(func() { close(waits) })
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(resp.Body)
		ended <- err
	}()
	<-waits
	resp.Body.Close()
	if err := <-ended; !errors.Is(err, errBodyClosed) {
		t.Error(err)
	}
	if resp, err = c.post(t.Context(), toolCall("hang", "")); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	go func() {
		_, err := io.ReadAll(resp.Body)
		ended <- err
	}()
	r.Close()
	if err := <-ended; !errors.Is(err, upstream.ErrExited) {
		t.Error(err)
	}
	if _, err := r.try(caller("alice")); !errors.Is(err, upstream.ErrClosed) {
		t.Error(err)
	}
}

// A program that starts slowly, because it downloads itself, is not mistaken for a
// legacy one, which answers initialize.
func TestSlowStartsAreNoGeneration(t *testing.T) {
	for _, test := range []struct{ program, answer, failure string }{
		{"silent before initialize", `"code":-32601`, ""},
		{"starts slowly", `"supportedVersions":["2026-07-28"]`, ""},
		{"starts too slowly", "", "time"},
	} {
		t.Run(test.program, func(t *testing.T) {
			r := newRig(t, func(c *upstream.Config) { c.StartTimeout = time.Second }, strings.Fields(test.program)...)
			r.patience = 10 * time.Millisecond
			resp, err := r.Post(t.Context(), &upstream.Request{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)})
			if test.failure != "" {
				if err == nil || !errors.Is(err, upstream.ErrTimeout) || r.generation.legacy.Load() {
					t.Fatalf("%v, legacy %t", err, r.generation.legacy.Load())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, resp); !strings.Contains(got, test.answer) {
				t.Error(got)
			}
		})
	}
}

// The gateway's own requests share a process of their own.
func TestTheGatewaysOwnProcess(t *testing.T) {
	r := newRig(t, nil)
	r.open(caller("alice"))
	own := []string{}
	for range 3 {
		resp, err := r.Post(t.Context(), &upstream.Request{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)})
		if err != nil || !strings.Contains(read(t, resp), `"code":-32601`) {
			t.Fatal(err)
		}
		c := r.open(nil)
		own = append(own, c.must("pid", ""))
		if resp, err := c.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}}); err != nil || resp.Status != http.StatusNoContent {
			t.Error(resp, err)
		}
	}
	if own[0] != own[1] || own[1] != own[2] {
		t.Errorf("processes %v", own)
	}
	if s := r.Stats(); s.Starts != 3 { // alice's process, the one that was asked for its revisions, and this one
		t.Errorf("%+v", s)
	}
}
