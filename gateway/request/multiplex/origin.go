package multiplex

import (
	"context"

	"svc/gateway/mcp"
	"svc/gateway/session"
)

// OriginOf returns a request of a client, at an upstream, as the call to which later messages belong.
func OriginOf(upstream string, m *mcp.Message) session.Origin {
	o := session.Origin{Upstream: upstream, Method: m.Method}
	if m.Method == mcp.MethodToolsCall {
		o.Tool = m.Name
	} else {
		o.URI = m.URI
	}
	return o
}

// Asked records the call to which a request of an upstream belongs, so that Origin finds it for the
// client's answer. A request of a server that has no session with the client is not recorded: its id may
// be that of other requests too.
func (r *Request) Asked(ctx context.Context, m *mcp.Message, o session.Origin) {
	if m.Kind != mcp.Request || !r.Joined {
		return
	}
	o = o.Detach()
	for _, of := range []reference{{"question", o.Upstream, m.ID}, {"progress", o.Upstream, m.Spans.ProgressToken.Of(m.Body)}} {
		if len(of.value) > 0 {
			r.Sessions.questions.Add(ctx, r.Handle.ID, of, o)
		}
	}
}

// Origin returns the call to which the client's message belongs if it is no call and has something of
// its own to tell the server: the answer to a question, progress of it, or the state of its task; a
// cancellation with a reason; an input of a task. up is the upstream that gets it. What is not known of
// the call is empty, as after a restart or at another replica.
func (r *Request) Origin(ctx context.Context, up string) (o session.Origin, belongs bool) {
	m, s := r.Message, r.Sessions
	switch {
	case m.Kind == mcp.Response:
		o = s.questions.Origin(ctx, r.Handle.ID, reference{"question", up, m.ID})
	case m.Method == mcp.NotificationProgress:
		o = s.questions.Origin(ctx, r.Handle.ID, reference{"progress", up, m.Spans.ProgressToken.Of(m.Body)})
	case m.Method == mcp.NotificationCancelled:
		for it := mcp.Members(m.Body, m.Spans.Params); m.Spans.Params.Present() && it.Next(); {
			belongs = belongs || string(it.Name()) != "requestId" && string(it.Name()) != "_meta"
		}
		// A request that is not known may be at any upstream.
		return s.inFlight.Origin(ctx, r.Handle.ID, call(m.Spans.RequestID.Of(m.Body))), belongs
	case m.Method == mcp.MethodTasksUpdate:
		o = s.Task(ctx, r.Who, m.TaskID)
		o.Method = mcp.MethodToolsCall
	case m.Method == mcp.NotificationTaskStatus: // of a task that the client made of a question; of which is not known
	default:
		return o, false
	}
	o.Upstream = up
	return o, true
}
