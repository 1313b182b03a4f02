package federation

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"svc/gateway/backoff"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// maxSubscribed bounds the resources of one subscriptions/listen; further ones are not
// acknowledged.
const maxSubscribed = 1000

// subscribed are the resources of one subscriptions/listen at one upstream.
type subscribed struct {
	upstream *Upstream
	uris     []string
}

// ownersOf finds the upstreams of resources that a caller may use. all are the resources that
// have one, in the order of the client's request.
func (a *answer) ownersOf(ctx context.Context, uris []string) (at []subscribed, all []string) {
	if len(uris) == 0 {
		return nil, nil
	}
	a.shownTo(ctx, a.caller, catalog.Resource, catalog.Template) // private items have owners after this
	for _, uri := range uris[:min(len(uris), maxSubscribed)] {
		owner, ok := a.owner(catalog.Resource, uri)
		if !ok || len(uri) > catalog.MaxKey || slices.Contains(all, uri) || !a.mayAsk(catalog.Resource, owner, uri) {
			continue
		}
		i := slices.IndexFunc(a.opts.Upstreams, func(u Upstream) bool { return u.Config.Name == owner })
		if i < 0 || a.opts.Upstreams[i].Announcing == nil {
			continue
		}
		all = append(all, uri)
		u := &a.opts.Upstreams[i]
		if j := slices.IndexFunc(at, func(s subscribed) bool { return s.upstream == u }); j >= 0 {
			at[j].uris = append(at[j].uris, uri)
		} else {
			at = append(at, subscribed{u, []string{uri}})
		}
	}
	return at, all
}

// followResources subscribes to resources at their upstream as the client, and forwards its
// notifications. After an interruption each of them may have changed.
func (f *Federation) followResources(w *watcher, who *transport.Caller, s subscribed) {
	defer f.contain("subscription to resources", s.upstream.Config.Name)
	f.subscribe(w, &subscription{
		who: who, upstream: s.upstream, what: "resources", params: f.listenParams(map[string]any{"resourceSubscriptions": s.uris}),
		take: func(m *mcp.Message) {
			if m.Method == mcp.NotificationResourceUpdated && slices.Contains(s.uris, m.URI) {
				w.updated(m.URI)
			}
		},
		again: func() {
			for _, uri := range s.uris {
				w.updated(uri)
			}
		},
	})
}

// subscription is the subscription of one client's stream at one upstream.
type subscription struct {
	who      *transport.Caller
	upstream *Upstream
	what     string // its kind, for logs and the clientInfo
	params   []byte
	take     func(*mcp.Message)
	// again is called when the upstream has ended its stream, before it is opened again.
	again func()
}

// subscribe keeps a subscription at an upstream open until the client's stream ends.
func (f *Federation) subscribe(w *watcher, s *subscription) {
	name := s.upstream.Config.Name
	client := mcpclient.Client{Transport: s.upstream.Announcing, Name: agent + "-" + s.what, Caller: s.who}
	for fails := 0; w.ctx.Err() == nil; {
		began := f.opts.Now()
		err := client.Subscribe(w.ctx, s.params, &upstream.Timeouts{FirstByte: f.opts.Config.ListTimeout}, s.take)
		if w.ctx.Err() != nil {
			return
		}
		if errors.Is(err, upstream.ErrNoSubject) || errors.Is(err, mcpclient.ErrRejected) {
			f.opts.Logger.Warn("an upstream refused a client's subscription", "to", s.what, "upstream", name, "error", err)
			rest(w.ctx, afterRefusal)
			continue
		}
		if fails++; f.opts.Now().Sub(began) >= longHearing {
			fails = 1
		}
		rest(w.ctx, backoff.After(fails, minHearing, maxHearing))
		if err == nil {
			s.again()
		}
	}
}

// listenParams are the parameters of a subscriptions/listen of the gateway's own.
func (f *Federation) listenParams(notifications map[string]any) []byte {
	return f.listenParamsOf(notifications, json.RawMessage("{}"))
}

// listenParamsOf are the parameters for a client that declares capabilities, a JSON object.
func (f *Federation) listenParamsOf(notifications map[string]any, capabilities json.RawMessage) []byte {
	params, _ := json.Marshal(map[string]any{ // plain values can be encoded
		"_meta": map[string]any{
			mcp.MetaProtocolVersion:    mcp.Revision20260728,
			mcp.MetaClientInfo:         map[string]string{"name": agent, "version": f.opts.Version},
			mcp.MetaClientCapabilities: capabilities,
		},
		"notifications": notifications,
	})
	return params
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
