package federation

import (
	"context"
	"encoding/json"
	"slices"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// watchedTasks are the tasks of one subscriptions/listen at one upstream.
type watchedTasks struct {
	upstream *catalog.Feed
	handles  []string
}

// upstreamsOf finds the upstreams that created the tasks of a caller. all are the tasks with a
// known upstream, in the order of the client's request.
func (a *answer) upstreamsOf(ctx context.Context, handles []string) (at []watchedTasks, all []string) {
	if a.opts.Tasks == nil || a.caller == nil || a.caller.Principal == nil {
		return nil, nil
	}
	for _, handle := range handles[:min(len(handles), session.MaxListenTasks)] {
		if slices.Contains(all, handle) {
			continue
		}
		name := a.opts.Tasks().TaskUpstream(ctx, a.caller.Principal, handle)
		u := a.opts.Lists.Feed(name)
		if u == nil || u.Announcing == nil || !a.caller.View.Has(name) {
			continue
		}
		all = append(all, handle)
		if j := slices.IndexFunc(at, func(w watchedTasks) bool { return w.upstream == u }); j >= 0 {
			at[j].handles = append(at[j].handles, handle)
		} else {
			at = append(at, watchedTasks{u, []string{handle}})
		}
	}
	return at, all
}

// followTasks subscribes to tasks at their upstream as the client, and forwards its
// notifications. capabilities are those that the client declares, because an upstream may require
// the extension.
func (f *Federation) followTasks(w *watcher, who *upstream.Caller, t watchedTasks, capabilities json.RawMessage) {
	t.upstream.Subscribe(w.ctx, &catalog.Subscription{
		What: "tasks", Caller: who, Notifications: map[string]any{"taskIds": t.handles}, Capabilities: capabilities,
		Take: func(m *mcp.Message) {
			handle, _ := mcp.StringValue(mcp.Find(m.Body, m.Spans.Params, "taskId").Of(m.Body))
			if m.Method == mcp.NotificationTasks && slices.Contains(t.handles, handle) && f.Addresses().Apply(t.upstream.Name, "", m) {
				w.pass(retag(m, w.subscription))
			}
		},
		Again: func() {}, // a client polls the state of a task if it receives no notification
	})
}

// retag returns a notification of an upstream with the id of the client's own subscription.
func retag(m *mcp.Message, subscription []byte) []byte {
	meta := mcp.Find(m.Body, m.Spans.Params, "_meta")
	if at := mcp.Find(m.Body, meta, mcp.MetaSubscriptionID); at.Present() {
		return mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: subscription})
	}
	id := `"` + mcp.MetaSubscriptionID + `":` + string(subscription)
	if !meta.Present() || m.Body[meta.Start] != '{' { // params is an object: it has a taskId
		body := mcp.Remove(m.Body, m.Spans.Params, "_meta")
		params := mcp.Find(body, mcp.Span{End: len(body)}, "params")
		return insert(body, params.Start, `"_meta":{`+id+`}`)
	}
	return insert(m.Body, meta.Start, id)
}

// insert returns a copy of body in which the object that begins at an index has a further first
// member.
func insert(body []byte, at int, member string) []byte {
	rest := body[at+1:]
	if i := slices.IndexFunc(rest, func(b byte) bool { return b != ' ' && b != '\n' && b != '\r' && b != '\t' }); i >= 0 && rest[i] != '}' {
		member += ","
	}
	return slices.Concat(body[:at+1], []byte(member), rest)
}

// pass forwards a message unchanged, and waits until the stream accepts it, so that a client that
// reads slowly slows its upstream down (flow control).
func (w *watcher) pass(message []byte) {
	select {
	case w.messages <- message:
	case <-w.ctx.Done():
	}
}
