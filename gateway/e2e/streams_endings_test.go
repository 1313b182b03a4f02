package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway/policy"
)

// A message that is not the answer to the request never ends the request, and a client never gets it: it would
// take it for the answer to another one of its requests, by whose method nothing has compared it.
func TestAnswerToAnotherRequest(t *testing.T) {
	foreign := `{"jsonrpc":"2.0","id":99,"result":{}}`
	for _, tt := range []struct {
		name, media, sent string
		status            int
		message           string
	}{
		{"a JSON answer with another id", "application/json", foreign, 502, "upstream_invalid"},
		{"a frame with another id", "text/event-stream", "data: " + foreign + "\n\n", 200, "upstream_unreachable"},
		{"a frame with another id before the answer", "text/event-stream", "data: " + foreign + "\n\ndata: " + result + "\n\n", 200, ""},
		{"an error without an id", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"own"}}`, 200, "own"},
		{"an error frame without an id", "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"own\"}}\n\n", 200, "own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				io.WriteString(w, tt.sent)
			})
			r := newRig(t, basic(up.URL))
			got := r.post(call("1", "safe"))
			if got.status != tt.status {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			if strings.Contains(got.body, `"id":99`) {
				t.Errorf("the client got the message: %s", got.body)
			}
			last := got.body[strings.LastIndex(got.body, "data: ")+1:]
			last = strings.TrimPrefix(last, "ata: ")
			e := answer{body: strings.TrimSpace(last)}.rpc(t)
			if e.Error.Message != tt.message || string(e.ID) != "1" {
				t.Errorf("the last message is %s", last)
			}
		})
	}
}

// An error response of the upstream is given the request's id, whatever id the upstream wrote:
// some servers write one of their own.
func TestUpstreamErrorCarriesTheRequestsID(t *testing.T) {
	for _, id := range []string{`"id":"server-error",`, `"id":null,`, ``} {
		up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"jsonrpc":"2.0",%s"error":{"code":-32600,"message":"bad"}}`, id)
		})
		r := newRig(t, basic(up.URL))
		got := r.post(call(`"mine"`, "safe"))
		if e := got.rpc(t); got.status != 400 || string(e.ID) != `"mine"` || e.Error.Message != "bad" {
			t.Errorf("%s: got %d %s", id, got.status, got.body)
		}
	}
}

// A stream that the client can resume, and a listen stream, may end without an answer: no error
// is put in its place.
func TestStreamThatEndsInOrderGetsNoError(t *testing.T) {
	for _, tt := range []struct{ name, body, sent string }{
		{"a resumable stream", call("1", "slow"), "id: 1\ndata: \n\ndata: " + progress + "\n\n"},
		{"a listen stream", modern("1", "subscriptions/listen", `"notifications":{}`), "data: " + progress + "\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) { io.WriteString(w, tt.sent) }))
			r := newRig(t, rules(basic(up.URL), listenRule))
			headers := []string{}
			if strings.Contains(tt.body, "listen") {
				headers = modernHeaders("subscriptions/listen")
			}
			if got := r.post(tt.body, headers...); got.body != tt.sent {
				t.Errorf("got %q, want %q", got.body, tt.sent)
			}
		})
	}
}

const listenRule = "    - id: listen\n      action: allow\n      when: {method: subscriptions/listen}\n"

// modern is a request of the stateless dialect.
func modern(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method, params)
}

func modernHeaders(method string) []string {
	return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
}

// With a rate_limit on frames, an excess notification is dropped and an excess answer becomes an
// in-stream error -32001; the audit line has rate_limit_blocked.
func TestFrameRateLimit(t *testing.T) {
	limit := func(when string) string {
		return "    - id: few\n      action: rate_limit\n      tokens_per_second: 0.001\n      burst: 1\n      when: {direction: server_to_client, " + when + "}\n"
	}
	ask := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`
	serve := func(sent string) func(w io.Writer, flush func(), _ string) {
		return func(w io.Writer, _ func(), _ string) { io.WriteString(w, sent) }
	}
	t.Run("an excess notification is dropped", func(t *testing.T) {
		up := newUpstream(t, events(t, serve("data: "+progress+"\n\ndata: "+progress+"\n\ndata: "+result+"\n\n")))
		r := newRig(t, rules(basic(up.URL), limit("method: notifications/progress")))
		if got := r.post(call("1", "slow")).body; got != "data: "+progress+"\n\ndata: "+result+"\n\n" {
			t.Errorf("got %q", got)
		}
		frames := r.kinds("frame")
		if len(frames) != 2 || frames[0]["action"] != "allow" || frames[1]["action"] != "rate_limit_blocked" {
			t.Errorf("frame lines %v", frames)
		}
	})
	t.Run("an excess answer is an error", func(t *testing.T) {
		up := newUpstream(t, events(t, serve("data: "+ask+"\n\n")))
		r := newRig(t, rules(basic(up.URL), limit("result_type: input_required")))
		r.post(call("1", "slow"))
		got := r.post(call("1", "slow")).body
		_, data, _ := strings.Cut(got, "data: ")
		if e := (answer{body: strings.TrimSpace(data)}).rpc(t); e.Error.Code != -32001 || string(e.ID) != "1" {
			t.Errorf("got %q", got)
		}
		requests := r.kinds("request")
		if line := requests[len(requests)-1]; line["action"] != "rate_limit_blocked" || line["rule_id"] != "few" {
			t.Errorf("request line %v", line)
		}
	})
}

func TestRedactionThatBreaksAFrameIsRedactInvalid(t *testing.T) {
	rule := "    - id: break\n      action: redact\n      redact: [{regex: '\"result\"', replacement: 'x'}]\n      when: {direction: server_to_client, result_type: input_required}\n"
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`)
	}))
	r := newRig(t, rules(basic(up.URL), rule))
	if got := r.post(call("1", "slow")).body; !strings.Contains(got, "policy_denied") {
		t.Errorf("got %q", got)
	}
	if line := r.lines(3)[2]; line["action"] != "deny" || line["error_kind"] != "redact_invalid" || line["rule_id"] != "break" {
		t.Errorf("request line %v", line)
	}
}

// A client that disconnects and resumes gets no more than without the disconnect: a stream on GET
// is judged like the answer to the call.
func TestResumedStreamIsJudgedLikeTheAnswer(t *testing.T) {
	ui := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"ui","x":1},{"type":"text","text":"t"}]}}`
	ask := `{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required"}}`
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 1\ndata: %s\n\nid: 2\ndata: %s\n\n", ui, ask)
	})
	r := newRig(t, rules(basic(up.URL), `    - {id: strip, action: strip_app, when: {tool_name: apps}}
    - {id: no-ask, action: deny, when: {direction: server_to_client, result_type: input_required}}
`))
	got := r.do(http.MethodGet, r.url, "", "Last-Event-ID", "0", "Accept", "text/event-stream").body
	if strings.Contains(got, `"ui"`) || !strings.Contains(got, `"text"`) {
		t.Errorf("strip_app did not apply to the resumed stream: %q", got)
	}
	if strings.Contains(got, "input_required") || !strings.Contains(got, `"id":2,"error":{"code":-32001`) {
		t.Errorf("the denied answer is no error on the resumed stream: %q", got)
	}
}

// A frame whose audit line cannot be written is withheld, and the client gets an error.
func TestStreamEndsWhenItsLinesCannotBeWritten(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		fmt.Fprintf(w, "data: %s\n\n", progress)
		flush()
		<-release
		fmt.Fprintf(w, "data: %s\n\n", result)
	}))
	r := newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"))
	if _, err := bufio.NewReader(io.LimitReader(resp.Body, int64(len("data: "+progress)))).Peek(5); err != nil {
		t.Fatal(err)
	}
	if err := r.services().Audit.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	rest := finish(t, resp)
	if strings.Contains(rest, result) || !strings.Contains(rest, `"message":"audit_unavailable"`) {
		t.Errorf("got %q", rest)
	}
}

// A reload that enables authentication ends the streams of callers without a key.
func TestAuthTurnedOnByReloadCutsAnonymousStreams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		silent bool
	}{{"at the next frame", false}, {"on a silent stream", true}} {
		t.Run(tt.name, func(t *testing.T) {
			frames := make(chan string)
			up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
				for frame := range frames {
					fmt.Fprintf(w, "data: %s\n\n", frame)
					flush()
				}
			}))
			defer close(frames)
			hashes := newRig(t, basic(up.URL)) // to have a valid hash
			at := strings.Index(hashes.yaml, "auth:\n  enabled: true\n")
			on := strings.SplitAfterN(hashes.yaml[at:], "\n", 6)
			r := newRig(t, basic(up.URL)+"\nauth:\n  enabled: false\n  keys: []\n")
			r.edit("sse_keepalive: 0s", "sse_keepalive: 1s")
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			resp := r.open(http.MethodPost, call("1", "slow"), "Authorization", "")
			frames <- progress
			read := bufio.NewReader(resp.Body)
			if line, err := read.ReadString('\n'); err != nil || !strings.Contains(line, "progress") {
				t.Fatalf("%q, %v", line, err)
			}
			r.edit("auth:\n  enabled: false\n  keys: []\n", strings.Join(on[:5], ""))
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !tt.silent {
				frames <- progress
			}
			rest, err := io.ReadAll(read)
			if err != nil || strings.Contains(string(rest), "progressToken") || !strings.Contains(string(rest), `"message":"unauthorized"`) {
				t.Errorf("%v: %q", err, rest)
			}
		})
	}
}

// A key that expires ends its streams, idle ones too.
func TestKeyThatExpiresCutsASilentStream(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) { <-release }))
	defer close(release)
	r := newRig(t, basic(up.URL))
	r.edit("sse_keepalive: 0s", "sse_keepalive: 1s")
	r.edit("    - id: alice\n", "    - id: alice\n      expires_at: "+time.Now().Add(3*time.Second).UTC().Format(time.RFC3339Nano)+"\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := finish(t, r.open(http.MethodPost, call("1", "slow")))
	if !strings.Contains(got, `"message":"unauthorized"`) {
		t.Errorf("got %q", got)
	}
	if line := r.lines(2)[1]; line["error_kind"] != "key_revoked" {
		t.Errorf("request line %v", line)
	}
}

// A panic while a stream runs cuts the stream and writes its audit line, and the process
// continues.
func TestPanicDuringAStreamIsRecorded(t *testing.T) {
	var r *rig
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		broken := *r.services().Live.Load()
		broken.Rules, broken.Verdict.Rules = nil, policy.NewMemory(nil) // judging a frame panics with a nil dereference
		r.services().Live.Store(&broken)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", progress)
	})
	r = newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended in order")
	}
	lines := r.lines(2)
	if lines[1]["error_kind"] != "panic" {
		t.Errorf("request line %v", lines[1])
	}
	if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/healthz", ""); got.status != 200 {
		t.Error("the process does not go on")
	}
}
