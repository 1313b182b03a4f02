package translate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// A call whose question is not answered is canceled at the upstream after five minutes,
// and its session ended; calls beyond the limit are canceled at once.
func TestCallsAreNotHeldForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var states []string
		for i := range maxHeldByEach {
			_, answer := b.ask(who("alice"), calling(i, "ask", ""))
			states = append(states, b.state(answer))
		}
		if _, got := b.ask(who("alice"), calling(99, "ask", "")); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "too many calls") {
			t.Errorf("one too many: %s", got)
		}
		synctest.Wait()
		if len(b.server.ended) != 1 || len(b.server.notices) == 0 || !strings.HasSuffix(b.server.notices[len(b.server.notices)-1], "notifications/cancelled") {
			t.Errorf("ended %q, told %q", b.server.ended, b.server.notices)
		}
		if _, got := b.ask(who("bob"), calling(1, "ask", "")); b.state(got) == "" {
			t.Error("another principal is not asked")
		}
		<-time.After(answerTime + time.Second)
		synctest.Wait()
		<-time.After(time.Second)
		if n := len(b.server.ended); n != maxHeldByEach+2 {
			t.Errorf("%d sessions ended, want %d", n, maxHeldByEach+2)
		}
		if _, got := b.ask(who("alice"), retryOf(5, "ask", states[0])); !strings.Contains(got, "may have had effects") {
			t.Errorf("too late: %s", got)
		}
		if b.pool.total != 0 || b.pool.apart != 0 || len(b.pool.busy) != 0 {
			t.Errorf("%d and %d sessions are left in the pool, %v calls", b.pool.total, b.pool.apart, b.pool.busy)
		}
	})
}

// The held calls of a principal at one upstream count at the others too.
func TestHeldCallsAreCountedOverAllUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := NewLimits()
		share := func(opts *Options) { opts.Limits = limits }
		one, other := newBench(t, share), newBench(t, share)
		for i := range maxHeldByEach {
			b := one
			if i%2 == 1 {
				b = other
			}
			_, answer := b.ask(who("alice"), calling(i, "ask", ""))
			b.state(answer)
		}
		for _, b := range []*bench{one, other} {
			if _, got := b.ask(who("alice"), calling(99, "ask", "")); !strings.Contains(got, "too many calls") {
				t.Errorf("one too many: %s", got)
			}
		}
		<-time.After(answerTime + time.Second)
		synctest.Wait()
		if _, got := other.ask(who("alice"), calling(1, "ask", "")); other.state(got) == "" {
			t.Errorf("after the time for the answers: %s", got)
		}
		<-time.After(answerTime + time.Second)
	})
}

// Held calls use no session of running calls.
func TestHeldCallsAreCountedApart(t *testing.T) {
	b := newBench(t, nil)
	for i := range 2 * maxSessions {
		if _, answer := b.ask(who(fmt.Sprintf("caller-%d", i)), calling(1, "ask", "")); b.state(answer) == "" {
			t.Fatal("not asked")
		}
	}
	if _, got := b.ask(who("alice"), calling(1, "plain", "")); !strings.Contains(got, "plain") {
		t.Errorf("a call beside %d that are held: %s", 2*maxSessions, got)
	}
	b.Close()
	if b.pool.apart != 0 {
		t.Errorf("%d are left", b.pool.apart)
	}
}

// After a restart, with the same key, an answer gets a tool error, and nothing is
// executed twice.
func TestAnswerAfterARestart(t *testing.T) {
	b := newBench(t, nil)
	_, answer := b.ask(who("alice"), calling(1, "ask", ""))
	again := newBench(t, nil)
	if status, got := again.ask(who("alice"), retryOf(2, "ask", b.state(answer))); status != 200 || !strings.Contains(got, "may have had effects") || len(again.server.calls) != 0 {
		t.Errorf("%d %s, %d calls", status, got, len(again.server.calls))
	}
	_, answer = b.ask(byAddress("1.2.3.4"), calling(1, "ask", ""))
	if _, got := b.ask(byAddress("1.2.3.4"), retryOf(2, "ask", b.state(answer))); !strings.Contains(got, "accept") {
		t.Errorf("a caller that is known by its address: %s", got)
	}
}

// If a client disconnects its call is canceled; four calls of a principal run
// concurrently, and the next one waits.
func TestCallsOfOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		ctx, leave := context.WithCancel(t.Context())
		var open []*upstream.Response
		for i := range maxBusy {
			resp, err := b.open(ctx, who("alice"), calling(i, "wait", ""))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, resp)
		}
		if _, err := b.open(t.Context(), who("alice"), calling(9, "plain", "")); err == nil || !strings.Contains(err.Error(), upstream.ErrBusy.Error()) {
			t.Errorf("the fifth: %v", err)
		}
		if _, got := b.ask(who("bob"), calling(9, "plain", "")); !strings.Contains(got, "plain") {
			t.Errorf("another principal: %s", got)
		}
		waited := make(chan string, 1)
		go func() {
			_, got := b.ask(who("alice"), calling(9, "plain", ""))
			waited <- got
		}()
		synctest.Wait()
		leave()
		for _, resp := range open {
			resp.Body.Close()
		}
		if got := <-waited; !strings.Contains(got, "plain") {
			t.Errorf("the one that waited: %s", got)
		}
		synctest.Wait()
		cancelled := 0
		for _, notice := range b.server.notices {
			if strings.HasSuffix(notice, "notifications/cancelled") {
				cancelled++
			}
		}
		if cancelled != maxBusy || len(b.server.ended) != maxBusy {
			t.Errorf("%d calls cancelled, sessions %q ended", cancelled, b.server.ended)
		}
	})
}

// Only calls of the same principal with the same capabilities share sessions, and
// sessions are not kept for callers identified by their address.
func TestWhoSharesASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		declaring := func(capabilities string) string {
			return strings.Replace(calling(1, "plain", ""), `{"elicitation":{}}`, capabilities, 1)
		}
		for _, tt := range []struct {
			caller *upstream.Caller
			body   string
			want   string
		}{
			{who("alice"), calling(1, "plain", ""), "s1"},
			{who("alice"), calling(2, "plain", ""), "s1"},
			{who("bob"), calling(3, "plain", ""), "s2"},
			{who("alice"), declaring(`{}`), "s3"},
			{who("alice"), calling(4, "plain", ""), "s1"},
			{byAddress("1.1.1.1"), calling(5, "plain", ""), "s4"},
			{byAddress("1.1.1.1"), calling(6, "plain", ""), "s5"},
			{who("alice"), declaring(`{"elicitation":{"form":{},"url":{}}}`), "s6"},
			{who("alice"), declaring(`{"elicitation": {"url":{},"\u0066orm":{}}}`), "s6"},
			{who("alice"), declaring(`{"elicitation":{"form":{}}}`), "s7"},
			{who("alice"), declaring(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`), "s8"},
			{who("alice"), declaring(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`), "s3"}, // which a session cannot have
			{who("alice"), declaring(`{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}}}`), "s8"},
			{who("alice"), declaring(`{"extensions":7}`), "s3"},
		} {
			b.ask(tt.caller, tt.body)
			if got := b.server.calls[len(b.server.calls)-1]; got != tt.want {
				t.Errorf("%s ran in %s, want %s", tt.body, got, tt.want)
			}
		}
		synctest.Wait()
		if slices.Sort(b.server.ended); !slices.Equal(b.server.ended, []string{"s4", "s5"}) {
			t.Errorf("ended %q", b.server.ended)
		}
		<-time.After(maxIdle)
		b.pool.expire()
		synctest.Wait()
		if len(b.server.ended) != 8 || b.pool.total != 0 {
			t.Errorf("ended %q, %d left", b.server.ended, b.pool.total)
		}
		perCall := newBench(t, func(o *Options) { o.Upstream.Sessions = upstream.SessionsPerCall })
		perCall.ask(who("alice"), calling(1, "plain", ""))
		perCall.ask(who("alice"), calling(1, "plain", ""))
		if perCall.server.opened != 2 {
			t.Errorf("%d sessions for two calls", perCall.server.opened)
		}
	})
}

// Responses of a legacy server for a client of 2026-07-28.
func TestWhatIsTranslatedToLegacy(t *testing.T) {
	b := newBench(t, nil)
	for name, tt := range map[string]struct {
		body   string
		status int
		want   []string
		not    []string
	}{
		"discover": {`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`, 200,
			[]string{`"id":"d"`, `"supportedVersions":["2026-07-28","2025-11-25"]`, `"instructions":"Be brief."`, `"io.modelcontextprotocol/serverInfo":{"name":"legacy","version":"1"}`, `"ttlMs":0`, `"cacheScope":"private"`, `"resultType":"complete"`},
			[]string{`"tasks"`}},
		"a list":                      {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, 200, []string{`"tools":[]`, `"ttlMs":0`, `"cacheScope":"private"`, `"resultType":"complete"`}, nil},
		"a call":                      {calling(1, "plain", ""), 200, []string{`"id":1`, `"resultType":"complete"`}, []string{"ttlMs"}},
		"ping":                        {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta + `}}`, 404, []string{`"code":-32601`}, nil},
		"a task":                      {calling(1, "plain", `,"task":{"ttl":1}`), 404, []string{`"code":-32601`, "generation_unsupported"}, nil},
		"tasks/get":                   {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t",` + meta + `}}`, 404, []string{"generation_unsupported"}, nil},
		"no such method, as a stream": {`{"jsonrpc":"2.0","id":1,"method":"no/such","params":{` + meta + `}}`, 404, []string{`"code":-32601`, `"id":1`}, nil},
		"a method of its own":         {`{"jsonrpc":"2.0","id":1,"method":"own/method","params":{` + meta + `}}`, 200, []string{`"own":true`, `"id":1`, `"resultType":"complete"`}, nil},
		"a capability that it needs":  {calling(1, "needs", ""), 400, []string{`"code":-32021`}, nil},
		"without capabilities":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, 400, []string{`"code":-32602`}, nil},
		"a notification":              {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, nil, nil},
	} {
		status, got := b.ask(who("alice"), tt.body)
		if status != tt.status {
			t.Errorf("%s: status %d %s", name, status, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s: %s", name, want, got)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got, not) {
				t.Errorf("%s has %s: %s", name, not, got)
			}
		}
	}
	for value, refused := range map[string]bool{"=?base64?SGVsbG8?=": true, "=?base64?SGVs!!!bG8=?=": true, "=?base64?SGVsbG8=?=": false, "SGVsbG8": false} {
		r := &upstream.Request{
			Session: mcp.Session{Version: mcp.Revision20260728}, Caller: who("alice"), Body: []byte(calling(1, "plain", "")),
			Header: mcp.Header{{Name: "mcp-param-region", Value: value}},
		}
		var m mcp.Message
		if err := mcp.Scan(r.Body, &m); err != nil {
			t.Fatal(err)
		}
		resp, err := b.Post(t.Context(), r, &m)
		if err != nil || (resp.Status == 400) != refused {
			t.Errorf("Mcp-Param-Region: %s: %v %v", value, resp, err)
		}
	}
	b.server.reject = true
	if _, got := b.ask(who("carol"), calling(1, "plain", "")); !strings.Contains(got, ErrNotLegacy.Error()) {
		t.Errorf("an upstream that rejects initialize: %s", got)
	}
}

// The log level is sent when it changes, and only to servers with logs.
func TestLogLevel(t *testing.T) {
	b := newBench(t, nil)
	at := func(level string) string {
		return strings.Replace(calling(1, "plain", ""), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"`+level+`",`, 1)
	}
	for _, body := range []string{calling(1, "plain", ""), at("info"), at("info"), at("debug")} {
		b.ask(who("alice"), body)
	}
	var levels int
	for _, notice := range b.server.notices {
		if strings.HasSuffix(notice, "level") {
			levels++
		}
	}
	if levels != 2 || b.server.opened != 1 {
		t.Errorf("%d levels in %d sessions: %q", levels, b.server.opened, b.server.notices)
	}
}

// Any invalid requestState is refused, without a panic.
func FuzzRequestState(f *testing.F) {
	seal, err := newSealer(make([]byte, 32), "i")
	if err != nil {
		f.Fatal(err)
	}
	good := seal.seal(state{Digest: digest{1}, Held: "h", Expires: 1})
	f.Add(good)
	f.Add("")
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, text string) {
		st, err := seal.open(text, digest{1})
		if err == nil && (st.Held != "h" || st.Digest != (digest{1})) {
			t.Errorf("%q: %v %v", text, st, err)
		}
		if _, err := seal.open(text, digest{2}); err == nil {
			t.Errorf("%q holds for another request", text)
		}
	})
}
