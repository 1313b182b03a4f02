package translate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// serving is a server of 2026-07-28 whose responses to calls come from a function. n
// counts the calls.
type serving struct {
	modern
	serve func(ctx context.Context, n int, m *mcp.Message) (*upstream.Response, error)
	calls int
}

func (s *serving) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if m.Method == mcp.MethodDiscover {
		return s.modern.Post(ctx, r)
	}
	s.calls++
	return s.serve(ctx, s.calls, &m)
}

func connectTo(t *testing.T, s *serving) *tomodernClient {
	c := connect(t, &s.modern, `{"elicitation":{}}`)
	c.opts.Direct = s
	return c
}

// streaming is a response that is an event stream: text, and then nothing until the end of
// ctx, or of cut.
func streaming(ctx context.Context, text string, cut error) *upstream.Response {
	in, out := io.Pipe()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	go func() {
		fmt.Fprint(out, text)
		if cut != nil {
			out.CloseWithError(cut)
		}
	}()
	return upstream.Stream(in)
}

const asksOnce = `{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"m"}}}}`

// A call that its client cancels is canceled at the upstream, and gets a response that
// says so: it is not a failure of the upstream.
func TestACancelledCallIsNoFailureOfTheUpstream(t *testing.T) {
	progress := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n"
	for name, serve := range map[string]func(context.Context, int, *mcp.Message) (*upstream.Response, error){
		"before the answer": func(ctx context.Context, _ int, _ *mcp.Message) (*upstream.Response, error) {
			<-ctx.Done()
			return nil, &upstream.Error{Kind: context.Canceled, Err: ctx.Err()}
		},
		"in a stream": func(ctx context.Context, _ int, _ *mcp.Message) (*upstream.Response, error) {
			return streaming(ctx, progress, nil), nil
		},
		"in a body": func(ctx context.Context, _ int, _ *mcp.Message) (*upstream.Response, error) {
			resp := streaming(ctx, `{"jsonrpc":`, nil)
			resp.Header.Set("Content-Type", JSON)
			return resp, nil
		},
		"while it is asked": func(_ context.Context, _ int, m *mcp.Message) (*upstream.Response, error) {
			return upstream.Message(200, appendResult(nil, m.ID, []byte(asksOnce))), nil
		},
		"after it was asked": func(ctx context.Context, n int, m *mcp.Message) (*upstream.Response, error) {
			if n == 1 {
				return upstream.Message(200, appendResult(nil, m.ID, []byte(asksOnce))), nil
			}
			<-ctx.Done()
			return nil, &upstream.Error{Kind: context.Canceled, Err: ctx.Err()}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := connectTo(t, &serving{serve: serve})
			cancel := func() {
				c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1"}}`)
			}
			later := func() {
				synctest.Wait()
				cancel()
			}
			if !strings.HasSuffix(name, "asked") {
				go later()
			}
			got := c.ask(callTool, func(*mcp.Message) string {
				if name == "while it is asked" {
					cancel()
				} else {
					go later()
				}
				return `"result":{"action":"accept"}`
			})
			if !strings.Contains(got, errCancelled.Error()) || !strings.Contains(got, `"id":"c1"`) || !strings.Contains(got, "may have had effects") {
				t.Errorf("%s: %s", name, got)
			}
			if len(c.running) != 0 || len(c.questions.open) != 0 {
				t.Errorf("%s: left %d calls and %d questions", name, len(c.running), len(c.questions.open))
			}
		})
	}
}

// An upstream that fails after a question was answered may have executed the call: the
// client is informed. Before a question it is an ordinary failure.
func TestAModernUpstreamThatFailsAfterAQuestion(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) (*upstream.Response, error){
		"unreachable": func(context.Context) (*upstream.Response, error) {
			return nil, &upstream.Error{Kind: upstream.ErrUnreachable}
		},
		"a stream that ends": func(ctx context.Context) (*upstream.Response, error) {
			return streaming(ctx, "", io.EOF), nil
		},
		"a stream that breaks off": func(ctx context.Context) (*upstream.Response, error) {
			return streaming(ctx, "data: {", io.ErrUnexpectedEOF), nil
		},
		"HTML": func(context.Context) (*upstream.Response, error) {
			return &upstream.Response{HTTPResponse: upstream.HTTPResponse{Status: http.StatusServiceUnavailable, Header: mcp.Header{{Name: "Content-Type", Value: "text/html"}}, Body: io.NopCloser(strings.NewReader("<p>no"))}}, nil
		},
		"nothing": func(context.Context) (*upstream.Response, error) { return upstream.Empty(http.StatusBadGateway), nil },
	} {
		s := &serving{}
		s.serve = func(ctx context.Context, n int, m *mcp.Message) (*upstream.Response, error) {
			if n == 1 {
				return upstream.Message(200, appendResult(nil, m.ID, []byte(asksOnce))), nil
			}
			return fail(ctx)
		}
		got := connectTo(t, s).ask(callTool, func(*mcp.Message) string { return `"result":{"action":"accept"}` })
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "the upstream ") || !strings.Contains(got, "may have had effects") {
			t.Errorf("%s: %s", name, got)
		}
		s.serve = func(ctx context.Context, _ int, _ *mcp.Message) (*upstream.Response, error) { return fail(ctx) }
		c := connectTo(t, s)
		var m mcp.Message
		if err := mcp.Scan([]byte(callTool), &m); err != nil {
			t.Fatal(err)
		}
		resp, err := c.Post(t.Context(), &upstream.Request{Session: mcp.Session{ID: c.id}, Caller: in(alice), Body: m.Body}, &m)
		if err == nil && resp.Status == http.StatusOK {
			_, err = NewMessages(resp, nil).Next()
		}
		if err == nil && resp.Status == http.StatusOK {
			t.Errorf("%s, at once: no failure", name)
		}
	}
}

// If a client disconnects before it has read its questions, none of them stays open.
func TestAClientThatLeavesAmongItsQuestions(t *testing.T) {
	s := &serving{serve: func(_ context.Context, _ int, m *mcp.Message) (*upstream.Response, error) {
		return upstream.Message(200, appendResult(nil, m.ID, []byte(`{"resultType":"input_required","requestState":"s","inputRequests":{`+
			`"a":{"method":"elicitation/create","params":{"message":"m"}},"b":{"method":"elicitation/create","params":{"message":"m"}}}}`))), nil
	}}
	c := connectTo(t, s)
	resp := c.post(callTool)
	if text, err := NewMessages(resp, nil).Next(); err != nil || c.questions.bounds.Held(alice) != 2 {
		t.Fatalf("%v: %s, %d questions are open", err, text, c.questions.bounds.Held(alice))
	}
	resp.Body.Close()
	if held, open := c.questions.bounds.Held(alice), len(c.questions.open); held != 0 || open != 0 {
		t.Errorf("%d questions are counted, %d are open", held, open)
	}
}
