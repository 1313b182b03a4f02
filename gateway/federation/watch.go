package federation

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/views"
)

// notifyEvery is the shortest time between two notifications of one client.
const notifyEvery = 5 * time.Second

// notifications are the methods that announce a change, and the members of subscriptions/listen
// that subscribe to them. Changes of templates are announced with those of resources.
var notifications = []struct {
	kinds  []catalog.Kind
	method string
	member string
}{
	{[]catalog.Kind{catalog.Tool}, mcp.NotificationToolsChanged, "toolsListChanged"},
	{[]catalog.Kind{catalog.Prompt}, mcp.NotificationPromptsChanged, "promptsListChanged"},
	{[]catalog.Kind{catalog.Resource, catalog.Template}, mcp.NotificationResourcesChanged, "resourcesListChanged"},
}

// watchers are the streams of clients that are notified of changes.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
	// turned is closed when the first stream begins or the last one ends; nil if no goroutine
	// waits for it.
	turned chan struct{}
}

// await waits until there are streams (some), or none; it returns false when ctx ends first.
func (ws *watchers) await(ctx context.Context, some bool) bool {
	for {
		ws.mu.Lock()
		if len(ws.all) > 0 == some {
			ws.mu.Unlock()
			return ctx.Err() == nil
		}
		if ws.turned == nil {
			ws.turned = make(chan struct{})
		}
		turned := ws.turned
		ws.mu.Unlock()
		select {
		case <-turned:
		case <-ctx.Done():
			return false
		}
	}
}

// turn wakes the waiting goroutines. The caller holds mu.
func (ws *watchers) turn() {
	if ws.turned != nil {
		close(ws.turned)
		ws.turned = nil
	}
}

// notify wakes the streams that watch a kind whose items in their view have changed. changed
// returns these kinds, and is called once for each view.
func (ws *watchers) notify(changed func(*views.View) []catalog.Kind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	of := map[*views.View][]catalog.Kind{}
	for w := range ws.all {
		kinds, known := of[w.view]
		if !known {
			kinds = changed(w.view)
			of[w.view] = kinds
		}
		w.changed(kinds)
	}
}

func (ws *watchers) add(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]struct{}{}
	}
	if ws.all[w] = struct{}{}; len(ws.all) == 1 {
		ws.turn()
	}
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if delete(ws.all, w); len(ws.all) == 0 {
		ws.turn()
	}
}

// watcher is the body of an event stream of notifications. One goroutine reads it; others may
// call Close.
type watcher struct {
	ctx          context.Context
	close        context.CancelFunc
	of           *watchers
	view         *views.View // of the client
	kinds        []catalog.Kind
	subscription []byte // the id of subscriptions/listen as written; nil for GET

	wake chan struct{}
	// messages are forwarded unchanged; see pass.
	messages chan []byte
	last     time.Time // used by the reading goroutine
	out      []byte    // unread output; used by the reading goroutine
	// before is called before a Read waits; see [upstream.Response.BeforeWait].
	before func()

	mu      sync.Mutex
	pending []catalog.Kind
	uris    []string // resources that have changed
}

// watch opens a stream of notifications about some kinds at a view. first is the text before
// them.
func (f *Federation) watch(ctx context.Context, view *views.View, kinds []catalog.Kind, subscription, first []byte) (*watcher, *upstream.Response) {
	w := &watcher{of: &f.watchers, view: view, kinds: kinds, subscription: subscription, wake: make(chan struct{}, 1), messages: make(chan []byte)}
	w.ctx, w.close = context.WithCancel(ctx)
	if first != nil {
		w.out = mcp.AppendEvent(nil, mcp.Event{Data: first, HasData: true})
	}
	f.watchers.add(w)
	return w, &upstream.Response{
		Status: http.StatusOK, Header: upstream.Header{{Name: "Content-Type", Value: "text/event-stream"}}, ContentLength: -1, Body: w,
	}
}

// changed records the changed kinds that the stream watches.
func (w *watcher) changed(kinds []catalog.Kind) {
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
func (w *watcher) take() []catalog.Kind {
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

// BeforeWait is [upstream.Response.BeforeWait].
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
func (w *watcher) announce(changed []catalog.Kind) {
	for _, n := range notifications {
		if slices.ContainsFunc(changed, func(k catalog.Kind) bool { return slices.Contains(n.kinds, k) }) {
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
	var kinds []catalog.Kind
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
	w, resp := a.watch(ctx, viewOf(a.caller), kinds, id, first)
	capabilities := json.RawMessage("{}")
	meta := mcp.Find(a.m.Body, a.m.Spans.Params, "_meta")
	if at := mcp.Find(a.m.Body, meta, mcp.MetaClientCapabilities); at.Present() && a.m.Body[at.Start] == '{' {
		capabilities = slices.Clone(at.Of(a.m.Body))
	}
	for _, t := range tasks {
		go a.followTasks(w, a.caller.Clone(), t, capabilities)
	}
	for _, s := range resources {
		go a.followResources(w, a.caller.Clone(), s)
	}
	return resp
}
