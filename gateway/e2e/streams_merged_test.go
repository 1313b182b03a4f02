package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/base/retry"
)

// The response to a POST that was interrupted is resumed at the upstream that sent it.
func TestResumeOfAPostStreamGoesToItsUpstream(t *testing.T) {
	_, second, r, sid := two(t)
	second.get = func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"after\":%q}}\n\n", req.Header.Get("Last-Event-ID"))
	}
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	got := r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", sid, "Last-Event-ID", "p~second~e1")
	if got.body != "id: p~second~e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"after\":\"e1\"}}\n\n" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if got := r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", sid, "Last-Event-ID", "p~third~e1"); got.status != 404 {
		t.Errorf("an unknown upstream: %d", got.status)
	}
}

// The merged stream follows an upstream's session that was opened again, and moves to the newest
// GET of the client.
func TestMergedStream(t *testing.T) {
	_, second, r, sid := two(t)
	notify := make(chan string)
	var began, running atomic.Int32
	second.get = func(w http.ResponseWriter, req *http.Request) {
		began.Add(1)
		running.Add(1)
		defer running.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-notify:
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":%q}}\n\n", text+" "+req.Header.Get("Mcp-Session-Id"))
				_ = http.NewResponseController(w).Flush()
			case <-req.Context().Done():
				return
			}
		}
	}
	// The text must go to the newest stream, not to one that is about to end.
	tell := func(text string, streams int32) {
		t.Helper()
		eventually(t, "the second upstream's stream is not the one it should be", func() bool { return began.Load() == streams && running.Load() == 1 })
		select {
		case notify <- text:
		case <-time.After(20 * time.Second):
			t.Fatal("the second upstream has no stream")
		}
	}
	next := func(read *bufio.Reader) string {
		t.Helper()
		line, err := read.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, _ = read.ReadString('\n')
		return line
	}
	one := bufio.NewReader(r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body)
	r.post(call("1", "slow"), "Mcp-Session-Id", sid) // opens the upstream session, which joins the stream
	tell("a", 1)
	if got := next(one); !strings.Contains(got, "a s1") {
		t.Errorf("got %q", got)
	}
	second.forget()
	if got := r.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("after the upstream lost its session: %d %s", got.status, got.body)
	}
	tell("b", 2)
	if got := next(one); !strings.Contains(got, "b s2") {
		t.Errorf("after the session was opened again: %q", got)
	}
	other := bufio.NewReader(r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body)
	if _, err := io.ReadAll(one); err != nil {
		t.Errorf("the stream before: %v", err)
	}
	tell("c", 3)
	if got := next(other); !strings.Contains(got, "c s2") {
		t.Errorf("on the newer stream: %q", got)
	}
	eventually(t, "no line says that the stream was taken over", func() bool {
		for _, line := range r.kinds("request") {
			if line["error_kind"] == "stream_replaced" {
				return true
			}
		}
		return false
	})
	r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid)
	if _, err := io.ReadAll(other); err != nil {
		t.Errorf("the stream of an ended session: %v", err)
	}
}

// An upstream that restarted may refuse the position at which its stream is opened again. It is
// opened once more without a position, and the client, whose own stream is not interrupted, gets
// the next frames.
func TestMergedStreamWhosePositionIsRefused(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			first, _, r, sid := two(t)
			r.services().Merged.Pauses = retry.Pauses{Min: time.Millisecond, Max: time.Millisecond}
			positions := make(chan string, 100)
			var restarted atomic.Bool
			first.get = func(w http.ResponseWriter, req *http.Request) {
				at := req.Header.Get("Last-Event-ID")
				select {
				case positions <- at:
				default: // enough of them
				}
				switch {
				case at != "":
					w.WriteHeader(status)
				case restarted.Swap(true):
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"after\"}}\n\n")
					_ = http.NewResponseController(w).Flush()
					<-req.Context().Done()
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"before\"}}\n\n")
				}
			}
			resp := r.open(http.MethodGet, "", "Mcp-Session-Id", sid)
			defer time.AfterFunc(20*time.Second, func() { resp.Body.Close() }).Stop()
			read := bufio.NewReader(resp.Body)
			for _, want := range []string{"before", "after"} {
				line, err := "", error(nil)
				for err == nil && !strings.HasPrefix(line, "data: ") {
					line, err = read.ReadString('\n')
				}
				if err != nil || !strings.Contains(line, want) {
					t.Fatalf("got %q, %v, want the frame %q", line, err, want)
				}
			}
			for i, want := range []string{"", "e1", ""} {
				if got := <-positions; got != want {
					t.Errorf("request %d asks for the position %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// A stream that keeps breaking is opened again after growing pauses (backoff).
func TestMergedStreamPausesBetweenAttempts(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	now := time.Now()
	r := newRigWith(t, twoUpstreams(first.URL, second.URL), func(o *gateway.Options) {
		o.Now = func() time.Time { return now } // no attempt lasts
	})
	if got, want := r.services().Merged.Pauses, (retry.Pauses{Min: time.Second, Max: 30 * time.Second}); got != want {
		t.Errorf("the pauses are %+v, want %+v", got, want)
	}
	const ms = time.Millisecond
	r.services().Merged.Pauses = retry.Pauses{Min: 20 * ms, Max: 70 * ms}
	type attempt struct{ began, ended time.Time }
	attempts := make(chan attempt, 100)
	first.get = func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		w.Header().Set("Content-Type", "text/event-stream")
		attempts <- attempt{began, time.Now()}
	}
	r.open(http.MethodGet, "", "Mcp-Session-Id", r.begin())
	before := <-attempts
	for i, want := range []time.Duration{20 * ms, 40 * ms, 70 * ms, 70 * ms} {
		next := <-attempts
		if got := next.began.Sub(before.ended); got < want {
			t.Errorf("pause %d was %v, want at least %v", i+1, got, want)
		}
		before = next
	}
}

// After a stream that lasted, the backoff starts again at its minimum.
func TestMergedStreamThatLastedIsOpenedAgainAfterTheFirstPause(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	begin := time.Now()
	var ahead atomic.Int64 // of the gateway's clock
	r := newRigWith(t, twoUpstreams(first.URL, second.URL), func(o *gateway.Options) {
		o.Now = func() time.Time { return begin.Add(time.Duration(ahead.Load())) }
	})
	r.services().Merged.Pauses = retry.Pauses{Min: time.Millisecond, Max: time.Hour, Due: time.Hour}
	attempts := make(chan bool, 100)
	first.get = func(w http.ResponseWriter, _ *http.Request) {
		ahead.Add(int64(time.Hour))
		w.Header().Set("Content-Type", "text/event-stream")
		select {
		case attempts <- true:
		default: // enough of them
		}
	}
	r.open(http.MethodGet, "", "Mcp-Session-Id", r.begin())
	for i := range 3 {
		select {
		case <-attempts:
		case <-time.After(20 * time.Second):
			t.Fatalf("attempt %d was not made after the first pause", i+1)
		}
	}
}

// The last frames of an upstream's stream reach the client at once, although the client's stream
// continues and no further frame is sent.
func TestTheLastFrameOfASourceIsNotHeldBack(t *testing.T) {
	_, second, r, sid := two(t)
	r.services().Merged.Pauses = retry.Pauses{Min: time.Hour, Max: time.Hour}
	var served atomic.Int32
	second.get = func(w http.ResponseWriter, req *http.Request) {
		if served.Add(1) == 1 {
			// The frame and the end of the body in one packet.
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			frame := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"last words\"}}\n\n"
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(frame), frame)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}
	r.post(call("1", "slow"), "Mcp-Session-Id", sid) // opens the session at the second upstream
	body := r.open(http.MethodGet, "", "Mcp-Session-Id", sid).Body
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(body).ReadString('\n')
		line <- text
	}()
	select {
	case got := <-line:
		if !strings.Contains(got, "last words") {
			t.Errorf("got %q", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("the last frame of an upstream's stream is held back")
	}
}
