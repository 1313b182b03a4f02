package gateway

import (
	"bytes"
	"context"
	"time"

	"svc/gateway/affinity"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
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
func (ex *exchange) targetOfCall(id []byte) *transport.Upstream {
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
	if ex.msg.Kind != mcp.Request || ex.tagFor(tag.Post) == tag.None || ex.up.Name == ex.g.defaultUpstream {
		return func() {}
	}
	key := ex.callKey(ex.msg.ID)
	ex.g.calls.of(key).Learn(ex.ctx, key, ex.up.Name)
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
		if !ex.g.shared || ex.up.Name != ex.g.defaultUpstream {
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
		client := mcpclient.Client{Transport: t.Transport, Hops: hops}
		ex.g.background.Run(func(ctx context.Context) { _ = client.Send(ctx, opened, body) })
	}
}

// replayLogLevel repeats the client's last logging/setLevel at a session that was
// just opened for it.
func replayLogLevel(ctx context.Context, t *transport.Upstream, hops string, opened session.UpstreamSession, params []byte) {
	if params == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	client := mcpclient.Client{Transport: t.Transport, Name: "svc-level", Hops: hops}
	_ = client.SetLevel(ctx, opened, params) // an upstream without logs has nothing to be told
}

// closePairs ends the sessions behind one that had to make room.
func (g *Gateway) closePairs(open map[string]session.UpstreamSession) {
	for name, opened := range open {
		if t, ok := g.targets[name]; ok {
			g.closeSession(t, opened)
		}
	}
}
