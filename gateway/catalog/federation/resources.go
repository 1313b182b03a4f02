package federation

import (
	"context"
	"slices"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// maxSubscribed bounds the resources of one subscriptions/listen; further ones are not
// acknowledged.
const maxSubscribed = 1000

// subscribed are the resources of one subscriptions/listen at one upstream.
type subscribed struct {
	upstream *catalog.Feed
	uris     []string // the upstream's own
	visible  map[string]string
}

// ownersOf finds the upstreams of resources that a caller may use. all are the resources that
// have one, in the order of the client's request.
func (a *answer) ownersOf(ctx context.Context, uris []string) (at []subscribed, all []string) {
	if len(uris) == 0 {
		return nil, nil
	}
	a.merge.For(ctx, a.caller, mcp.Resource, mcp.Template).End() // private items have owners after this
	for _, uri := range uris[:min(len(uris), maxSubscribed)] {
		owner, ok := a.owner(mcp.Resource, uri)
		if !ok || len(uri) > catalog.MaxKey || slices.Contains(all, uri) || !a.mayAsk(mcp.Resource, owner, uri) {
			continue
		}
		u := a.opts.Lists.Feed(owner)
		if u == nil || u.Announcing == nil {
			continue
		}
		all = append(all, uri)
		j := slices.IndexFunc(at, func(s subscribed) bool { return s.upstream == u })
		if j < 0 {
			j, at = len(at), append(at, subscribed{upstream: u, visible: map[string]string{}})
		}
		own, _ := a.names.Own(owner, mcp.Resource, uri)
		at[j].uris, at[j].visible[own] = append(at[j].uris, own), uri
	}
	return at, all
}

// followResources subscribes to resources at their upstream as the client, and forwards its
// notifications. After an interruption each of them may have changed.
func followResources(w *watcher, who *upstream.Caller, s subscribed) {
	s.upstream.Subscribe(w.ctx, &catalog.Subscription{
		What: "resources", Caller: who, Notifications: map[string]any{"resourceSubscriptions": s.uris},
		Take: func(m *mcp.Message) {
			if uri, ok := s.visible[m.URI]; ok && m.Method == mcp.NotificationResourceUpdated {
				w.updated(uri)
			}
		},
		Again: func() {
			for _, uri := range s.uris {
				w.updated(s.visible[uri])
			}
		},
	})
}

// updated records that a resource has changed, for a notification.
func (w *watcher) updated(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.uris, uri) { // at most the subscribed ones
		w.uris = append(w.uris, uri)
	}
	w.poke()
}

// takeUpdated returns the resources that changed since the last call.
func (w *watcher) takeUpdated() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	uris := w.uris
	w.uris = nil
	return uris
}
