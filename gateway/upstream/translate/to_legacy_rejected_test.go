package translate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// deaf is a legacy server that rejects the answers to its questions and keeps the streams
// of their calls open; optionally it responds to the call after a while.
type deaf struct {
	*legacy
	status int
	after  time.Duration
	out    io.Writer
	call   string
}

func (s *deaf) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if m.Kind == mcp.Response {
		if s.after > 0 {
			time.AfterFunc(s.after, func() {
				fmt.Fprintf(s.out, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", s.call)
			})
		}
		return upstream.Empty(s.status), nil
	}
	resp, err := s.legacy.Post(ctx, r)
	if err == nil && resp.MediaType() == EventStream {
		waiting := <-s.answers[r.Session.ID]
		s.out, s.call = waiting, string(m.ID)
		s.answers[r.Session.ID] <- waiting
	}
	return resp, err
}

// An upstream that rejects the answer to its question does not block the call: it ends with
// a tool error, unless the upstream still responds to it.
func TestAnUpstreamThatRejectsTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		status int
		after  time.Duration
		want   []string
	}{
		{500, 0, []string{`"isError":true`, "rejected the answer to its question with status 500", "The gateway has cancelled it", "may have had effects"}},
		{404, 0, []string{`"isError":true`, "status 404"}},
		{400, time.Second, []string{`"content":[]`, `"resultType":"complete"`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &deaf{status: tt.status, after: tt.after}
			b := newBench(t, func(o *Options) {
				s.legacy = o.Direct.(*legacy)
				o.Direct = s
			})
			_, got := b.ask(who("alice"), calling(1, "ask", ""))
			began := time.Now()
			_, got = b.ask(who("alice"), retryOf(2, "ask", b.state(got)))
			for _, want := range append(tt.want, `"id":2`) {
				if !strings.Contains(got, want) {
					t.Errorf("status %d: %s lacks %s", tt.status, got, want)
				}
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("status %d: it took %s", tt.status, took)
			}
			synctest.Wait()
			if b.pool.apart != 0 || len(b.pool.busy) != 0 {
				t.Errorf("status %d: %d held, %v busy", tt.status, b.pool.apart, b.pool.busy)
			}
			if cancelled := slices.Contains(s.notices, "s1 notifications/cancelled"); cancelled == (tt.after > 0) {
				t.Errorf("status %d: the upstream was sent %q", tt.status, s.notices)
			}
		})
	}
}

// strict is a legacy server that opens no session for clients with a title.
type strict struct{ *legacy }

func (s *strict) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if strings.Contains(string(r.Body), `"title"`) {
		var m mcp.Message
		if err := mcp.Scan(r.Body, &m); err != nil || m.Method != mcp.MethodInitialize {
			return nil, fmt.Errorf("%s, %w", r.Body, err)
		}
		return upstream.Message(http.StatusOK, mcp.AppendError(nil, m.ID, mcp.CodeInvalidParams, "a title", "r", "")), nil
	}
	return s.legacy.Post(ctx, r)
}

// A request whose client declares something that no session can be opened with is refused
// with a reason, and is never sent untranslated, because an upstream might execute it
// without a session.
func TestOddSenders(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Direct = &strict{o.Direct.(*legacy)} })
	b.server = b.opts.Direct.(*strict).legacy
	big := strings.Repeat("x", 3<<20)
	for _, tt := range []struct{ info, capabilities, kind string }{
		{`5`, `{}`, "client_info"},
		{`[]`, `{}`, "client_info"},
		{`{}`, `{}`, "client_info"},
		{`{"name":"c"}`, `{}`, "client_info"},
		{`{"name":5,"version":"1"}`, `{}`, "client_info"},
		{`{"name":"` + big + `","version":"1"}`, `{}`, "client_info"},
		{`{"name":"c","version":"1","title":5}`, `{}`, "client_info"}, // by the upstream
		{`null`, `5`, "client_capabilities"},
		{`null`, `{"elicitation":true}`, "client_capabilities"},
		{`null`, `{"sampling":{"x":"` + big + `"}}`, "client_capabilities"},
		{`null`, `{}`, ""},
		{`null`, `{"elicitation":null,"sampling":null}`, ""},
		{`{"name":"c","version":"1","description":"` + big + `"}`, `{"experimental":{"x":"` + big + `"}}`, ""},
	} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + tt.info + `,"io.modelcontextprotocol/clientCapabilities":` + tt.capabilities + `}}}`
		calls := len(b.server.calls)
		resp, err := b.open(t.Context(), who("alice"), body)
		if err != nil {
			t.Errorf("%.60s %.60s: %v", tt.info, tt.capabilities, err)
			continue
		}
		text, _ := readAll(resp)
		switch {
		case tt.kind == "" && (resp.Refused != nil || len(b.server.calls) != calls+1):
			t.Errorf("%.60s %.60s: %.300s", tt.info, tt.capabilities, text)
		case tt.kind != "" && (resp.Refused == nil || resp.Refused.Kind != tt.kind || resp.Status != 400 || !strings.Contains(string(text), `"reason":"`+tt.kind+`"`) || len(b.server.calls) != calls):
			t.Errorf("%.60s %.60s: %d %+v %.300s", tt.info, tt.capabilities, resp.Status, resp.Refused, text)
		}
	}
	if n := len(b.pool.busy); n != 0 {
		t.Errorf("%d calls are counted", n)
	}
}

// A status that is unrelated to sessions is the response to the call, which is not sent.
func TestASessionThatIsNotOpenedForNow(t *testing.T) {
	for _, status := range []int{401, 403, 429, 500, 503} {
		sent := 0
		b := newBench(t, func(o *Options) {
			o.Direct = posting(func(context.Context, *upstream.Request) (*upstream.Response, error) {
				sent++
				return upstream.Empty(status), nil
			})
		})
		resp, err := b.open(t.Context(), who("alice"), calling(1, "plain", ""))
		if err != nil || resp.Status != status || sent != 1 {
			t.Errorf("%d: %+v, %v after %d requests", status, resp, err, sent)
		}
	}
}

// posting is a transport made from a function.
type posting func(context.Context, *upstream.Request) (*upstream.Response, error)

func (p posting) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	return p(ctx, r)
}
func (posting) Listen(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(http.StatusMethodNotAllowed), nil
}
func (posting) End(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(http.StatusNoContent), nil
}
func (posting) Address() string { return "posting" }
func (posting) Close() error    { return nil }

// The reason why a requestState is refused is logged for the operator, and not sent to the
// client.
func TestWhyAStateIsRefused(t *testing.T) {
	b := newBench(t, nil)
	_, got := b.ask(who("alice"), calling(1, "ask", ""))
	state := b.state(got)
	for cause, tt := range map[error]struct{ name, state string }{
		errForged: {"alice", state[:len(state)-4] + "AAAA"},
		errOther:  {"bob", state},
	} {
		resp, err := b.open(t.Context(), who(tt.name), retryOf(2, "ask", tt.state))
		if err != nil || resp.Refused == nil || resp.Refused.Kind != "request_state_mismatch" || resp.Refused.Cause != cause.Error() {
			t.Errorf("%s: %+v, %v", tt.name, resp.Refused, err)
			continue
		}
		if text, _ := readAll(resp); strings.Contains(string(text), cause.Error()) || !strings.Contains(string(text), notForThis) {
			t.Errorf("the client gets %s", text)
		}
	}
}

// The requestState of an error that asks for visits can be used once: its retry is a call.
func TestVisitsAreMadeOnce(t *testing.T) {
	b := newBench(t, func(o *Options) {
		server := o.Direct.(*legacy)
		o.Direct = posting(func(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
			var m mcp.Message
			if err := mcp.Scan(r.Body, &m); err != nil {
				return nil, err
			}
			if m.Method == mcp.MethodToolsCall {
				server.calls = append(server.calls, r.Session.ID)
				return upstream.Message(200, []byte(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"https://x","elicitationId":"e","message":"m"}]}}}`)), nil
			}
			return server.Post(ctx, r)
		})
	})
	_, got := b.ask(who("alice"), calling(1, "visit", ""))
	var answer struct{ Result struct{ RequestState string } }
	if json.Unmarshal([]byte(got), &answer) != nil || answer.Result.RequestState == "" {
		t.Fatal(got)
	}
	again := calling(2, "visit", `,"inputResponses":{"questionAa":{"action":"accept"}},"requestState":"`+answer.Result.RequestState+`"`)
	if _, got := b.ask(who("alice"), again); !strings.Contains(got, "input_required") {
		t.Errorf("the retry: %s", got)
	}
	if status, got := b.ask(who("alice"), again); status != 400 || !strings.Contains(got, "request_state_mismatch") {
		t.Errorf("the second: %d %s", status, got)
	}
	if n := len(b.server.calls); n != 2 {
		t.Errorf("%d calls", n)
	}
	var v visits
	now := time.Now()
	for i := range maxVisits + 10 {
		if !v.use(&state{Visit: fmt.Sprint(i), Expires: now.Unix() + 300}, now) || len(v.order) > maxVisits || len(v.used) > maxVisits {
			t.Fatalf("%d states are remembered", len(v.order))
		}
	}
	if v.use(&state{Visit: "x", Expires: now.Unix() + 900}, now.Add(10*time.Minute)); len(v.used) != 1 || len(v.order) != 1 {
		t.Errorf("%d states are remembered that have expired", len(v.used))
	}
}

// The number of a caller's subscriptions is bounded without affecting other callers, and so
// is the list of resources of each.
func TestSubscriptionsOfOnePrincipal(t *testing.T) {
	b := newBench(t, nil)
	listening := func(list string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[` + list + `]},` + meta + `}}`
	}
	var open []*upstream.Response
	for range maxListening {
		resp, err := b.open(t.Context(), who("alice"), listening(""))
		if err != nil || resp.Status != 200 {
			t.Fatal(resp, err)
		}
		open = append(open, resp)
	}
	if status, got := b.ask(who("alice"), listening("")); status != 400 || !strings.Contains(got, `"reason":"subscription"`) || !strings.Contains(got, "64") {
		t.Errorf("one more: %d %s", status, got)
	}
	if resp, err := b.open(t.Context(), who("bob"), listening("")); err != nil || resp.Status != 200 {
		t.Errorf("of another caller: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	open[0].Body.Close()
	if resp, err := b.open(t.Context(), who("alice"), listening("")); err != nil || resp.Status != 200 {
		t.Errorf("after one has ended: %v %v", resp, err)
	} else {
		open = append(open[1:], resp)
	}
	for _, resp := range open {
		resp.Body.Close()
	}
	uri := `"test://` + strings.Repeat("x", 1000) + `"`
	for _, n := range []int{maxURIs + 1, 300} {
		list := strings.TrimSuffix(strings.Repeat(uri+",", n), ",")
		if n > maxURIs {
			list = strings.TrimSuffix(strings.Repeat(`"t://x",`, n), ",")
		}
		if status, got := b.ask(who("alice"), listening(list)); status != 400 || !strings.Contains(got, "resourceSubscriptions has more than") {
			t.Errorf("%d URIs: %d %.200s", n, status, got)
		}
	}
	if b.pool.apart != 0 || b.listening.Held(principalOf(t, "alice")) != 0 {
		t.Errorf("%d sessions are left", b.pool.apart)
	}
}

// principalOf returns the key of a caller.
func principalOf(t *testing.T, name string) poolKey {
	var m mcp.Message
	if err := mcp.Scan([]byte(calling(1, "plain", "")), &m); err != nil {
		t.Fatal(err)
	}
	s, why, cause := readSender(who(name), &m)
	if why != nil {
		t.Fatal(cause)
	}
	return s.principal
}
