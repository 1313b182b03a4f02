package federation

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// notifyEvery is the shortest time between two notifications of one client.
const notifyEvery = 5 * time.Second

// notifications are the methods that announce a change, and the members of subscriptions/listen
// that subscribe to them. Changes of templates are announced with those of resources.
var notifications = []struct {
	kinds  []mcp.ListKind
	method string
	member string
}{
	{[]mcp.ListKind{mcp.Tool}, mcp.NotificationToolsChanged, "toolsListChanged"},
	{[]mcp.ListKind{mcp.Prompt}, mcp.NotificationPromptsChanged, "promptsListChanged"},
	{[]mcp.ListKind{mcp.Resource, mcp.Template}, mcp.NotificationResourcesChanged, "resourcesListChanged"},
}

// watchers are the streams of clients that are notified of changes.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

// list returns all streams.
func (ws *watchers) list() []*watcher {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Collect(maps.Keys(ws.all))
}

func (ws *watchers) add(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]struct{}{}
	}
	ws.all[w] = struct{}{}
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// watcher is the body of an event stream of notifications. One goroutine reads it; others may
// call Close.
type watcher struct {
	ctx          context.Context
	close        context.CancelFunc
	of           *watchers
	stop         func()           // ends the subscription of the gateway for the stream
	caller       *upstream.Caller // the client; may be nil
	kinds        []mcp.ListKind
	subscription []byte // the id of subscriptions/listen as written; nil for GET

	wake chan struct{}
	// messages are forwarded unchanged; see pass.
	messages chan []byte
	last     time.Time // used by the reading goroutine
	out      []byte    // unread output; used by the reading goroutine
	// before is called before a Read waits; see [upstream.HTTPResponse.BeforeWait].
	before func()

	mu      sync.Mutex
	pending []mcp.ListKind
	// seen are the digests of the client's private lists when they were last compared, by upstream.
	seen map[string]seenLists
	uris []string // resources that have changed
}

// watch opens a stream of notifications to a client about some kinds. first is the text before
// them.
func (f *Federation) watch(ctx context.Context, c *upstream.Caller, kinds []mcp.ListKind, subscription, first []byte) (*watcher, *upstream.Response) {
	w := &watcher{of: &f.watchers, stop: f.opts.Lists.Want(), caller: c.Clone(), kinds: kinds, subscription: subscription, wake: make(chan struct{}, 1), messages: make(chan []byte)}
	w.ctx, w.close = context.WithCancel(ctx)
	if first != nil {
		w.out = mcp.AppendEvent(nil, mcp.Event{Data: first, HasData: true})
	}
	f.noteSeen(w)
	f.watchers.add(w)
	return w, upstream.Stream(w)
}

// changed records the changed kinds that the stream watches.
func (w *watcher) changed(kinds []mcp.ListKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		if slices.Contains(w.kinds, kind) && !slices.Contains(w.pending, kind) {
			w.pending = append(w.pending, kind)
		}
	}
	if len(w.pending) > 0 {
		w.poke()
	}
}

// poke wakes the reading goroutine.
func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns the kinds that changed since the last call.
func (w *watcher) take() []mcp.ListKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := w.pending
	w.pending = nil
	return kinds
}

// Read returns events, and waits for them.
func (w *watcher) Read(p []byte) (int, error) {
	for len(w.out) == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.out)
	w.out = w.out[n:]
	return n, nil
}

// BeforeWait is [upstream.HTTPResponse.BeforeWait].
func (w *watcher) BeforeWait(f func()) { w.before = f }

// next waits for changes, and writes their notifications to out.
func (w *watcher) next() error {
	if w.before != nil {
		w.before()
	}
	var early <-chan time.Time // while notifications of lists are not due
	if wait := time.Until(w.last.Add(notifyEvery)); !w.last.IsZero() && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		early = timer.C
	}
	for {
		for _, uri := range w.takeUpdated() {
			member := `,"uri":` + string(mcp.AppendString(nil, uri))
			w.out = mcp.AppendEvent(w.out, mcp.Event{Data: w.notification(mcp.NotificationResourceUpdated, member), HasData: true})
		}
		if early == nil {
			w.announce(w.take())
		}
		if len(w.out) > 0 {
			return nil
		}
		select {
		case <-w.wake:
		case message := <-w.messages:
			w.out = mcp.AppendEvent(w.out, mcp.Event{Data: message, HasData: true})
		case <-early:
			early = nil
		case <-w.ctx.Done():
			return io.EOF
		}
	}
}

// announce writes the notifications of changed lists to out.
func (w *watcher) announce(changed []mcp.ListKind) {
	for _, n := range notifications {
		if slices.ContainsFunc(changed, func(k mcp.ListKind) bool { return slices.Contains(n.kinds, k) }) {
			w.out = mcp.AppendEvent(w.out, mcp.Event{Data: w.notification(n.method, ""), HasData: true})
			w.last = time.Now()
		}
	}
}

// notification returns a message of this stream. members are the members of params besides _meta.
func (w *watcher) notification(method, members string) []byte {
	out := `{"jsonrpc":"2.0","method":"` + method + `"`
	if w.subscription != nil {
		out += `,"params":{"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(w.subscription) + `}` + members + `}`
	}
	return []byte(out + "}")
}

// Close ends the stream.
func (w *watcher) Close() error {
	w.close()
	w.of.remove(w)
	w.stop()
	return nil
}

// listen answers subscriptions/listen: notifications of lists come from the gateway, of resources
// from their owners, and of tasks from the upstreams that created them. Other subscriptions are
// not acknowledged.
func (a *answer) listen(ctx context.Context) *upstream.Response {
	var params struct {
		Notifications map[string]json.RawMessage `json:"notifications"`
	}
	_ = json.Unmarshal(a.m.Spans.Params.Of(a.m.Body), &params) // capabilities that it lacks are not declared
	var kinds []mcp.ListKind
	honored := map[string]any{}
	for _, n := range notifications {
		if string(params.Notifications[n.member]) == "true" {
			kinds = append(kinds, n.kinds...)
			honored[n.member] = true
		}
	}
	var uris []string
	_ = json.Unmarshal(params.Notifications["resourceSubscriptions"], &uris)
	resources, all := a.ownersOf(ctx, uris)
	if len(all) > 0 {
		honored["resourceSubscriptions"] = all
	}
	handles, _ := mcp.ListenTasks(a.m)
	tasks, known := a.upstreamsOf(ctx, handles)
	if len(known) > 0 {
		honored["taskIds"] = known
	}
	names, _ := json.Marshal(honored)
	id := slices.Clone(a.m.ID)
	first := (&watcher{subscription: id}).notification(mcp.NotificationAcknowledged, `,"notifications":`+string(names))
	w, resp := a.watch(ctx, a.caller, kinds, id, first)
	capabilities := json.RawMessage("{}")
	meta := mcp.Find(a.m.Body, a.m.Spans.Params, "_meta")
	if at := mcp.Find(a.m.Body, meta, mcp.MetaClientCapabilities); at.Present() && a.m.Body[at.Start] == '{' {
		capabilities = slices.Clone(at.Of(a.m.Body))
	}
	for _, t := range tasks {
		go a.followTasks(w, a.caller.Clone(), t, capabilities)
	}
	for _, s := range resources {
		go followResources(w, a.caller.Clone(), s)
	}
	return resp
}
