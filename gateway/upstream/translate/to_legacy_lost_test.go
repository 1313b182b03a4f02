package translate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// restarted is a legacy server that was restarted: a function determines its response for
// earlier sessions.
type restarted struct {
	*legacy
	forgotten int // the number of the last session before the restart
	unknown   func() *upstream.Response
	streams   map[string]*io.PipeWriter // GET streams by session
}

func (s *restarted) knows(id string) bool {
	var n int
	_, err := fmt.Sscanf(id, "s%d", &n)
	return err != nil || n > s.forgotten
}

func (s *restarted) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if !s.knows(r.Session.ID) {
		return s.unknown(), nil
	}
	if bytes.Contains(r.Body, []byte("resources/subscribe")) && bytes.Contains(r.Body, []byte("refused:")) {
		return upstream.Message(200, []byte(`{"jsonrpc":"2.0","id":"svc-session","error":{"code":-32602,"message":"no"}}`)), nil
	}
	return s.legacy.Post(ctx, r)
}

func (s *restarted) Listen(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	if !s.knows(r.Session.ID) {
		return s.unknown(), nil
	}
	in, out := io.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[r.Session.ID] = out
	return upstream.Stream(in), nil
}

func newRestarted(t *testing.T, unknown func() *upstream.Response) (*bench, *restarted) {
	s := &restarted{unknown: unknown, streams: map[string]*io.PipeWriter{}}
	b := newBench(t, func(o *Options) {
		s.legacy = o.Direct.(*legacy)
		o.Direct = s
	})
	return b, s
}

func inJSON(status, code int, message string) func() *upstream.Response {
	return func() *upstream.Response {
		return upstream.Message(status, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, code, message))
	}
}

func inText(status int, text string) func() *upstream.Response {
	return func() *upstream.Response {
		return &upstream.Response{HTTPResponse: upstream.HTTPResponse{Status: status, Header: mcp.Header{{Name: "Content-Type", Value: "text/plain"}}, Body: io.NopCloser(strings.NewReader(text))}}
	}
}

// A restarted server does not know the sessions of the pool, and reports that in one of
// several ways. A call is sent again in a new session, and no earlier session is used
// again.
func TestSessionsThatTheUpstreamHasLost(t *testing.T) {
	for name, unknown := range map[string]func() *upstream.Response{
		"404 in text":          inText(404, "session not found\n"),
		"404 in JSON":          inJSON(404, -32001, "Session not found"),
		"400 of a server":      inJSON(400, -32000, "Bad Request: No valid session ID provided"),
		"400 of the transport": inJSON(400, -32000, "Bad Request: Server not initialized"),
		"400 of a request":     inJSON(400, -32600, "Session has been terminated"),
		"400 in text":          inText(400, "Invalid or missing session ID"),
		"the other generation": inJSON(400, -32022, "Unsupported protocol version: 2025-11-25"),
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s := newRestarted(t, unknown)
			first, err := b.open(t.Context(), who("alice"), calling(1, "wait", "")) // holds its session
			if err != nil {
				t.Fatal(err)
			}
			defer first.Body.Close()
			b.ask(who("alice"), calling(1, "plain", ""))
			s.forgotten = s.opened
			performed := len(s.calls)
			for i := range 3 {
				if status, got := b.ask(who("alice"), calling(2, "plain", "")); status != 200 || !strings.Contains(got, `"text":"plain"`) {
					t.Errorf("%s: call %d after the restart: %d %s", name, i, status, got)
				}
			}
			if got := len(s.calls) - performed; got != 3 || s.opened != s.forgotten+1 {
				t.Errorf("%s: %d calls were performed in %d new sessions", name, got, s.opened-s.forgotten)
			}
		})
	}
}

// An error with the id of the call may come from a server that has executed it: the call is not sent
// again while the server answers a ping in the session, whatever the text of the error names.
func TestACallThatWasAnsweredIsNotSentAgain(t *testing.T) {
	for name, status := range map[string]int{"404": 404, "400": 400} {
		b, s := newRestarted(t, nil)
		b.ask(who("alice"), calling(1, "plain", ""))
		opened := s.opened
		answered := &answering{restarted: s, status: status}
		b.opts.Direct = answered
		_, got := b.ask(who("alice"), calling(2, "plain", ""))
		if answered.calls != 1 || answered.pings != 1 || s.opened != opened || !strings.Contains(got, "booking session 7 not found") {
			t.Errorf("%s: %d calls, %d pings, %d sessions, %s", name, answered.calls, answered.pings, s.opened, got)
		}
	}
}

// answering is a legacy server that answers calls with an error and a status of its own.
type answering struct {
	*restarted
	status, calls, pings int
}

func (s *answering) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	switch m := new(mcp.Message); {
	case mcp.Scan(slices.Clone(r.Body), m) != nil:
	case m.Method == mcp.MethodPing:
		s.pings++
		return upstream.Message(200, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)), nil
	case m.Method == mcp.MethodToolsCall:
		s.calls++
		return upstream.Message(s.status, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"booking session 7 not found"}}`, m.ID)), nil
	}
	return s.restarted.Post(ctx, r)
}

// Other errors belong to the call: it is not sent again, and the next call has a new
// session, because the session may be the cause.
func TestErrorsThatAreNotOfTheSession(t *testing.T) {
	for name, unknown := range map[string]func() *upstream.Response{
		"no such method":  inJSON(404, -32601, "Method not found"),
		"wrong arguments": inJSON(400, -32602, "session must be a string"),
		"something else":  inJSON(400, -32000, "boom"),
	} {
		b, s := newRestarted(t, nil)
		asked := 0
		s.unknown = func() *upstream.Response { asked++; return unknown() }
		b.ask(who("alice"), calling(1, "plain", ""))
		s.forgotten = s.opened
		if status, got := b.ask(who("alice"), calling(2, "plain", "")); status != unknown().Status && status != 200 || !strings.Contains(got, `"error"`) || asked != 1 {
			t.Errorf("%s: %d %s, sent %d times", name, status, got, asked)
		}
		if status, got := b.ask(who("alice"), calling(3, "plain", "")); status != 200 || !strings.Contains(got, `"text":"plain"`) {
			t.Errorf("%s: the next call: %d %s", name, status, got)
		}
	}
}

const subscribe = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:","refused:",7]},` + meta + `}}`

// A subscription survives the loss of its session: it gets another one, in which the
// resources are subscribed to, and the client is notified that all of them may have
// changed.
func TestASubscriptionAtAServerThatIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newRestarted(t, inJSON(400, -32000, "Bad Request: No valid session ID provided"))
		s.capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
		b.ask(who("alice"), calling(1, "plain", "")) // so that the pool has a session
		resp, err := b.open(t.Context(), who("alice"), subscribe)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		messages := NewMessages(resp, nil)
		next := func(want ...string) {
			t.Helper()
			got, err := messages.Next()
			for _, part := range append(want, `"io.modelcontextprotocol/subscriptionId":"l"`) {
				if err != nil || !strings.Contains(string(got), part) {
					t.Errorf("got %s, %v; want %s", got, err, part)
				}
			}
		}
		send := func(session string) {
			synctest.Wait()
			s.mu.Lock()
			out := s.streams[session]
			s.mu.Unlock()
			if out == nil {
				t.Fatalf("%s has no GET stream", session)
			}
			go fmt.Fprint(out, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		}
		next("subscriptions/acknowledged", `"toolsListChanged":true`, `"resourceSubscriptions":["a:"]`)
		read := make(chan struct{})
		go func() { next("tools/list_changed"); close(read) }()
		send("s2")
		<-read
		s.forgotten = s.opened
		s.streams["s2"].Close()
		next("tools/list_changed")
		next("resources/updated", `"uri":"a:"`)
		read = make(chan struct{})
		go func() { next("tools/list_changed"); close(read) }()
		send("s3")
		<-read
		resp.Body.Close()
		synctest.Wait()
		if !slices.Contains(s.ended, "s3") || b.pool.apart != 0 {
			t.Errorf("ended %q, %d apart", s.ended, b.pool.apart)
		}
	})
}

// A subscription at a server that was replaced by one of 2026-07-28 ends normally, so that
// the client begins another, which is not translated.
func TestASubscriptionAtAServerOfTheOtherGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newRestarted(t, inJSON(400, -32022, "Unsupported protocol version"))
		resp, err := b.open(t.Context(), who("alice"), subscribe)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		messages := NewMessages(resp, nil)
		if _, err := messages.Next(); err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			s.forgotten, s.reject = s.opened, true
			s.streams["s1"].Close()
		}()
		got, err := messages.Next()
		if err != nil || !strings.Contains(string(got), `"id":"l","result":{"resultType":"complete"`) {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := messages.Next(); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A server without GET streams that responds as if it did not know the session does not
// cause one session after the other.
func TestASubscriptionAtAServerWithoutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newRestarted(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*maxReopening)
		defer cancel()
		b.opts.Direct = &noStream{s}
		resp, err := b.open(ctx, who("alice"), subscribe)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		messages := NewMessages(resp, nil)
		for err == nil {
			_, err = messages.Next()
		}
		if s.opened != 1 {
			t.Errorf("%d sessions", s.opened)
		}
	})
}

type noStream struct{ *restarted }

func (*noStream) Listen(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(http.StatusNotFound), nil
}

// cutting is a legacy server whose streams end on request.
type cutting struct {
	*legacy
	streams []io.Closer
}

func (s *cutting) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := s.legacy.Post(ctx, r)
	if err == nil && resp.MediaType() == EventStream {
		s.streams = append(s.streams, resp.Body)
	}
	return resp, err
}

// An upstream that fails after its question was answered may have executed the call: the
// client is informed, and the session is not used again.
func TestALegacyUpstreamThatFailsAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cutting{}
		b := newBench(t, func(o *Options) {
			s.legacy = o.Direct.(*legacy)
			o.Direct = s
		})
		_, got := b.ask(who("alice"), calling(1, "ask", ""))
		state := b.state(got)
		s.streams[0].Close()
		_, got = b.ask(who("alice"), retryOf(2, "ask", state))
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "the upstream failed") || !strings.Contains(got, "Whether it was completed is not known") || strings.Contains(got, "cancelled") || !strings.Contains(got, "may have had effects") || !strings.Contains(got, `"id":2`) {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if !slices.Contains(s.ended, "s1") || b.pool.total != 0 || b.pool.apart != 0 {
			t.Errorf("ended %q, %d and %d sessions left", s.ended, b.pool.total, b.pool.apart)
		}
	})
}
