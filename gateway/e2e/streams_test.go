package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway/redis"
	"svc/gateway/request/streams"
)

// events answers a request with an event stream.
func events(t testing.TB, write func(w io.Writer, flush func(), body string)) func(http.ResponseWriter, string, *http.Request) {
	return func(w http.ResponseWriter, body string, r *http.Request) {
		if r.Method == http.MethodPost && !strings.Contains(body, `"id":1`) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		flush := func() { _ = http.NewResponseController(w).Flush() }
		flush()
		write(w, flush, body)
	}
}

const (
	progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	result   = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
)

// open posts a body and returns the response, whose body the test continues to read.
func (r *rig) open(method, body string, headers ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// rules puts rules before those of basic.
func rules(text, more string) string {
	return strings.Replace(text, "    - id: no-danger\n", more+"    - id: no-danger\n", 1)
}

// finish reads the rest of a stream.
func finish(t testing.TB, resp *http.Response) string {
	t.Helper()
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the stream was cut: %v after %q", err, rest)
	}
	return string(rest)
}

// junk is the events that servers send between messages and that are no messages.
const junk = "event: heartbeat\ndata: alive\n\n" + "data: alive\n\n" + "event: heartbeat\ndata:\n\n" +
	`data: {"jsonrpc":"2.0","method":"notifications/progress","params":[]}` + "\n\n"

// The answer of a call that ran is not lost, and a GET stream is not ended, because of events
// with another type than message (ping) or of notifications that are invalid: these are
// dropped, counted and logged once. The id of such an event still reaches the client.
func TestEventsThatAreNoMessagesDoNotLoseTheAnswer(t *testing.T) {
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), body string) {
		io.WriteString(w, junk+"id: 7\nevent: heartbeat\ndata: alive\n\n")
		flush()
		if body == "" {
			fmt.Fprintf(w, "data: %s\n\n", progress)
		} else {
			fmt.Fprintf(w, "data: %s\n\n", result)
		}
	}))
	r := newRig(t, basic(up.URL)+"telemetry: {metrics: {listen: '127.0.0.1:0'}}\n")
	if got, want := finish(t, r.open(http.MethodPost, call("1", "safe"))), "id: 7\ndata: \n\ndata: "+result+"\n\n"; got != want {
		t.Errorf("the call got %q, want %q", got, want)
	}
	if got := finish(t, r.open(http.MethodGet, "")); !strings.Contains(got, progress) || strings.Contains(got, "alive") {
		t.Errorf("the GET stream got %q", got)
	}
	if !strings.Contains(r.metrics(), `svc_gateway_upstream_dropped_events_total{upstream="main"} 8`) {
		t.Error("the dropped events are not counted")
	}
	if logged := r.logs.String(); strings.Count(logged, "carries no message and is not forwarded") != 1 {
		t.Errorf("log: %s", logged)
	}
}

func TestStreamIsFlushedFrameByFrame(t *testing.T) {
	step := make(chan struct{})
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		for _, frame := range []string{progress, progress, result} {
			<-step
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", frame)
			flush()
		}
	}))
	r := newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"))
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{progress, progress, result} {
		step <- struct{}{} // the next frame is sent only after the previous one was read
		var got string
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				got = data
				break
			}
		}
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	open, request := r.lines(2)[0], r.lines(2)[1]
	if open["kind"] != "open" || request["kind"] == "open" || open["request_id"] != request["request_id"] {
		t.Errorf("audit lines %v and %v", open, request)
	}
	if request["frames"] != 3.0 || request["status"] != 200.0 || request["tool"] != "slow" {
		t.Errorf("request line %v", request)
	}
}

// The frames of an upstream and those that the client reads.
func TestStreamFraming(t *testing.T) {
	rules := `    - id: mask
      action: redact
      redact: [{regex: 'secret-[0-9]+', replacement: 'XXX'}]
      when: {direction: server_to_client, method: notifications/message}
    - id: drop
      action: deny
      when: {direction: server_to_client, method: notifications/tools/list_changed}
`
	message := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"secret-42"}}`
	changed := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	tests := []struct {
		name, sent, want string
	}{
		{"bare data", "data: " + result + "\n\n", "data: " + result + "\n\n"},
		{"CRLF, comments and unknown fields", ": hello\r\nfoo: bar\r\nevent: message\r\ndata:" + result + "\r\n\r\n", "event: message\ndata: " + result + "\n\n"},
		{"lone CR", "event: message\rdata: " + result + "\r\r", "event: message\ndata: " + result + "\n\n"},
		{"several data lines", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n"},
		{"ids and retry pass", "id: 7\nretry: 100\ndata:\n\nid: 8\ndata: " + result + "\n\n", "id: 7\nretry: 100\ndata: \n\nid: 8\ndata: " + result + "\n\n"},
		{"a redacted frame", "data: " + message + "\n\ndata: " + result + "\n\n", "data: " + strings.Replace(message, "secret-42", "XXX", 1) + "\n\ndata: " + result + "\n\n"},
		{"a dropped notification", "data: " + changed + "\n\ndata: " + result + "\n\n", "data: " + result + "\n\n"},
		{"a dropped notification keeps its event id", "id: 3\ndata: " + changed + "\n\ndata: " + result + "\n\n", "id: 3\ndata: \n\ndata: " + result + "\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
				for i := range len(tt.sent) { // byte by byte: reads end anywhere
					io.WriteString(w, tt.sent[i:i+1])
					if i%7 == 0 {
						flush()
					}
				}
			}))
			r := newRig(t, strings.Replace(basic(up.URL), "    - id: no-danger\n", rules+"    - id: no-danger\n", 1))
			if got := r.post(call("1", "slow")).body; got != tt.want {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
		})
	}
}

// A stream that cannot continue ends with a JSON-RPC error for the request's id, because a client
// without a response would wait.
func TestStreamEndings(t *testing.T) {
	deny := "    - id: no-answer\n      action: deny\n      when: {direction: server_to_client, result_type: input_required}\n"
	tests := []struct {
		name    string
		sent    func(w io.Writer)
		code    int
		message string
		action  string
		kind    string
	}{
		{"a denied answer", func(w io.Writer) {
			fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`)
		}, -32001, "policy_denied", "deny", ""},
		{"a frame that is not a message", func(w io.Writer) { fmt.Fprint(w, "data: {\"id\":1,\"result\":{},\"result\":{}}\n\n") }, -32603, "upstream_invalid", "allow", "upstream_invalid"},
		{"more frames than a stream may have", func(w io.Writer) {
			for range streams.MaxFrames + 1 {
				fmt.Fprintf(w, "data: %s\n\n", progress)
			}
		}, -32603, "sse_truncated", "allow", "sse_truncated"},
		{"an end without an answer", func(w io.Writer) { fmt.Fprintf(w, "data: %s\n\n", progress) }, -32603, "upstream_unreachable", "allow", "stream_ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) { tt.sent(w) }))
			r := newRig(t, strings.Replace(basic(up.URL), "    - id: no-danger\n", deny+"    - id: no-danger\n", 1))
			got := r.post(call("1", "slow"))
			at := strings.LastIndex(got.body, "event: message\ndata: ")
			if at < 0 {
				t.Fatalf("no error event in %q", got.body[max(0, len(got.body)-300):])
			}
			e := answer{body: strings.TrimSpace(got.body[at+len("event: message\ndata: "):])}.rpc(t)
			if e.Error.Code != tt.code || e.Error.Message != tt.message || string(e.ID) != "1" {
				t.Errorf("got %s", got.body[at:])
			}
			lines := r.lines(len(r.kinds("")))
			last := lines[len(lines)-1]
			kind, _ := last["error_kind"].(string)
			if last["kind"] == "open" || last["action"] != tt.action || kind != tt.kind {
				t.Errorf("request line %v", last)
			}
		})
	}
}

// kinds returns the current lines of a kind; all for "".
func (r *rig) kinds(kind string) []map[string]any {
	var out []map[string]any
	for _, line := range r.all() {
		if kind == "" || line["kind"] == kind {
			out = append(out, line)
		}
	}
	return out
}

func TestClientThatLeavesCancelsTheUpstream(t *testing.T) {
	gone := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	r := newRig(t, basic(up.URL))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(call("1", "slow")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the upstream request goes on")
	}
	if line := r.lines(2)[1]; line["error_kind"] != "client_closed" {
		t.Errorf("request line %v", line)
	}
}

func TestKeepaliveOnASilentStream(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		<-release
		fmt.Fprintf(w, "data: %s\n\n", result)
	}))
	r := newRig(t, basic(up.URL))
	r.edit("sse_keepalive: 0s", "sse_keepalive: 1s")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2500*time.Millisecond, func() { close(release) })
	got := r.post(call("1", "slow")).body
	if n := strings.Count(got, ": keepalive\n\n"); n < 1 || n > 4 {
		t.Errorf("%d keep-alive comments in 2.5 s, want about 2: %q", n, got)
	}
	if !strings.HasSuffix(got, "data: "+result+"\n\n") {
		t.Errorf("got %q", got)
	}
}

func TestStreamIsCutWhenItsKeyIsRemoved(t *testing.T) {
	frames := make(chan string)
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		for frame := range frames {
			fmt.Fprintf(w, "data: %s\n\n", frame)
			flush()
		}
	}))
	defer close(frames)
	r := newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"), "Authorization", "Bearer "+r.other)
	frames <- progress
	read := bufio.NewReader(resp.Body)
	if line, err := read.ReadString('\n'); err != nil || !strings.Contains(line, "progress") {
		t.Fatalf("%q, %v", line, err)
	}
	at := strings.Index(r.yaml, "    - id: bob")
	lines := strings.SplitAfter(r.yaml[at:], "\n")
	r.edit(lines[0]+lines[1], "")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	frames <- progress
	rest, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rest), "progressToken") || !strings.Contains(string(rest), `"message":"unauthorized"`) {
		t.Errorf("after the key was removed: %q", rest)
	}
}

// A server request that policy denies never reaches the client, and the upstream gets an error,
// because its call would wait for ever.
func TestDeniedServerRequestIsAnsweredToTheUpstream(t *testing.T) {
	told := make(chan string, 1)
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if strings.Contains(body, `"error"`) {
			told <- body
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"e1\",\"method\":\"elicitation/create\",\"params\":{}}\n\n")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprintf(w, "data: %s\n\n", result)
	})
	r := newRig(t, strings.Replace(basic(up.URL), "    - id: no-danger\n", "    - id: no-elicit\n      action: deny\n      when: {direction: server_to_client, method: elicitation/create}\n    - id: no-danger\n", 1))
	got := r.post(call("1", "slow")).body
	if got != "data: "+result+"\n\n" {
		t.Errorf("client got %q", got)
	}
	select {
	case body := <-told:
		if !strings.Contains(body, `"id":"e1"`) || !strings.Contains(body, "-32001") {
			t.Errorf("upstream received %s", body)
		}
	case <-time.After(20 * time.Second):
		t.Error("the upstream received no error")
	}
	frame := r.kinds("frame")
	if len(frame) != 1 || frame[0]["rule_id"] != "no-elicit" || frame[0]["action"] != "deny" || frame[0]["method"] != "elicitation/create" {
		t.Errorf("frame lines %v", frame)
	}
}

// slowLimits is a store of rate limits whose lookups block.
type slowLimits struct{ answer chan struct{} }

func (s slowLimits) Allow(context.Context, redis.Key, float64, int, time.Time) (bool, time.Duration, error) {
	select {
	case <-s.answer:
		return true, 0, nil
	case <-time.After(5 * time.Second):
		return false, time.Second, nil
	}
}

// The header of a stream does not wait while a shared store is queried for the limit of a frame
// that came with it.
func TestHeaderOfAStreamDoesNotWaitForARateLimit(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
	})
	r := newRig(t, rules(open(up.URL), "    - {id: slow, action: rate_limit, tokens_per_second: 1, burst: 1, when: {method: notifications/message, direction: server_to_client}}\n"))
	slow := slowLimits{make(chan struct{})}
	r.services().Limits = slow
	resp := r.open("POST", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`) // returns when the header has arrived
	defer resp.Body.Close()
	select {
	case slow.answer <- struct{}{}: // the store is still queried
	case <-time.After(4 * time.Second):
		t.Error("the header came after the store had answered")
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "notifications/message") {
		t.Errorf("%s, %v", body, err)
	}
}
