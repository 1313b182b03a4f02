package translate

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// punctual is a server that receives nothing once the context has ended.
type punctual struct{ *legacy }

func (s punctual) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.legacy.Post(ctx, r)
}

func (s punctual) End(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.legacy.End(ctx, r)
}

// A gateway that stops cancels the calls that wait for an answer at the upstream, although
// its background calls have ended by then.
func TestCloseCancelsCallsThatAreHeld(t *testing.T) {
	b := newBench(t, nil)
	b.opts.Direct = punctual{b.server}
	_, answer := b.ask(who("alice"), calling(1, "ask", ""))
	b.state(answer)
	b.opts.Background.Stop()
	b.Close()
	b.server.mu.Lock()
	defer b.server.mu.Unlock()
	if got := strings.Join(b.server.notices, ", "); !strings.Contains(got, "s1 "+mcp.NotificationCancelled) || len(b.server.ended) != 1 {
		t.Errorf("told %q, ended %q", got, b.server.ended)
	}
}

// polled is a server that ends the stream of a call at once, so that its client resumes it.
type polled struct {
	*legacy
	listen func() *upstream.Response
}

func (s polled) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if m.Method != mcp.MethodToolsCall {
		return s.legacy.Post(ctx, r)
	}
	return events(io.NopCloser(strings.NewReader("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n"))), nil
}

func (s polled) Listen(context.Context, *upstream.Request) (*upstream.Response, error) {
	return s.listen(), nil
}

func events(body io.ReadCloser) *upstream.Response {
	return upstream.Stream(body)
}

// If a client disconnects while its stream is being resumed, no stream stays open.
func TestAClientThatLeavesWhileItsStreamIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var resp *upstream.Response
		closed := false
		b.opts.Direct = polled{b.server, func() *upstream.Response {
			resp.Body.Close()
			return events(&closing{io.NopCloser(strings.NewReader("")), func() { closed = true }})
		}}
		resp, err := b.open(t.Context(), who("alice"), calling(1, "poll", ""))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
		if !closed {
			t.Error("the resumed stream stays open")
		}
	})
}
