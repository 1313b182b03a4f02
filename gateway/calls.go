package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"svc/gateway/affinity"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/upstream"
)

// Bounds of the requests that are remembered as under way.
const (
	maxCalls   = 65_536
	callShards = 16
	callTTL    = time.Hour // for one whose client broke off and never came back
)

// calls are the requests that are under way at upstreams other than the default
// one. They are spread over several maps, so that requests do not wait for one
// lock.
type calls [callShards]*affinity.Memory

func newCalls(now func() time.Time) *calls {
	c := new(calls)
	for i := range c {
		c[i] = affinity.NewMemory(maxCalls/callShards, callTTL, now)
	}
	return c
}

// of returns the map of a request.
func (c *calls) of(key affinity.Key) *affinity.Memory { return c[key[0]%callShards] }

// callKey names a request of a client's session.
func (ex *exchange) callKey(id []byte) affinity.Key {
	return affinity.KeyOf("call", "", string(ex.handle.ID[:]), string(id))
}

// targetOfCall returns the upstream at which a request of the session is under
// way, nil when it is the default one or nobody knows.
func (ex *exchange) targetOfCall(id []byte) *target {
	if len(id) == 0 {
		return nil
	}
	key := ex.callKey(id)
	name, ok := ex.g.calls.of(key).Upstream(ex.ctx, key)
	if !ok {
		return nil
	}
	return ex.g.targets[name]
}

// under marks the request as under way at its upstream, so that its cancellation
// finds it. The function ends that, unless the client broke off before the
// answer: the upstream may still work on it, and the client cancel it then.
func (ex *exchange) under() func() {
	if ex.msg.Kind != mcp.Request || ex.tagFor(tag.Post) == tag.None || ex.up.name == ex.g.defaultUpstream {
		return func() {}
	}
	key := ex.callKey(ex.msg.ID)
	ex.g.calls.of(key).Learn(ex.ctx, key, ex.up.name)
	return func() {
		if !ex.unanswered && ex.ctx.Err() == nil {
			ex.g.calls.of(key).Forget(ex.ctx, key)
		}
	}
}

// fanOut repeats at the client's other sessions what is meant for all of them.
// The answer that the client sees is that of the default upstream. The level of
// logs is kept for the sessions that are opened later.
func (ex *exchange) fanOut() {
	if ex.hasHandle && ex.msg.Method == mcp.MethodSetLevel {
		ex.g.pairs.SetLevel(ex.ctx, ex.handle.ID, ex.msg.Spans.Params.Of(ex.msg.Body))
	}
	if ex.tagFor(tag.Post) == tag.None {
		return
	}
	switch ex.msg.Method {
	case mcp.MethodSetLevel:
	case mcp.NotificationRootsChanged:
	case mcp.NotificationCancelled:
		if !ex.g.shared || ex.up.name != ex.g.defaultUpstream {
			return
		}
		// The call may be under way through another replica: whoever does not
		// know it takes no notice.
	default:
		return
	}
	hops := ex.hops
	for name, opened := range ex.g.pairs.All(ex.ctx, ex.handle.ID) {
		t, ok := ex.g.targets[name]
		if !ok || t == ex.up {
			continue
		}
		body := bytes.Clone(ex.msg.Body)
		ex.g.background.Run(func(ctx context.Context) { t.tell(ctx, opened, hops, body) })
	}
}

// tellLevel repeats the client's last logging/setLevel at a session that was
// just opened for it.
func (ex *exchange) tellLevel(ctx context.Context, t *target, opened session.Opened, params []byte) {
	if params == nil {
		return
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":"svc-level","method":"logging/setLevel","params":`), params...)
	t.tell(ctx, opened, ex.hops, append(body, '}'))
}

// maxTold bounds how much of an answer to the gateway's own message is read, in
// bytes.
const maxTold = 64 << 10

// tell posts a message whose answer is of no interest, and waits for it: the
// next message must find its effect. An upstream that refuses it, as one without
// logs does, has nothing to be told.
func (t *target) tell(ctx context.Context, s session.Opened, hops string, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	resp, err := t.client.Do(ctx, &upstream.Request{Method: http.MethodPost, Header: postHeader(s, hops), Body: body})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxTold))
}

// closePairs ends the sessions behind one that had to make room.
func (g *Gateway) closePairs(open map[string]session.Opened) {
	for name, opened := range open {
		if t, ok := g.targets[name]; ok {
			g.closeSession(t, opened)
		}
	}
}
