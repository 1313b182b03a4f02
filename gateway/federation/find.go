package federation

import (
	"context"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/transport"
	"svc/gateway/views"
)

// Found is where a request goes, and under which name. The zero value is a request
// that goes nowhere.
type Found struct {
	Upstream string
	// Own is the upstream's name of what clients know by another one, and At the place
	// of the name in the message; both are empty where the names are the same.
	Own string
	At  mcp.Span
	// OwnTool is Own of a tool.
	OwnTool string
}

// Rename returns a message as the upstream is sent it.
func (f *Found) Rename(body []byte) []byte {
	if !f.At.Present() {
		return body
	}
	return mcp.Splice(nil, body, mcp.Edit{At: f.At, With: mcp.AppendString(nil, f.Own)})
}

// Route returns where a message goes: one that names a tool, prompt or resource to its
// owner, one that the gateway answers for all upstreams to the federation itself, and
// everything else to default_upstream. routed is the upstream that a route leads a
// tool to; empty without a route. What is not in the caller's view goes nowhere, as if
// nobody had it.
func (f *Federation) Route(ctx context.Context, c *transport.Caller, m *mcp.Message, routed string) Found {
	kind, visible, at, named := asks(m)
	if !named {
		if answers(m) {
			return Found{Upstream: Name}
		}
		if v := viewOf(c); f.opts.Fallback == "" || !v.Has(f.opts.Fallback) || v != nil && mustName(m.Method) {
			return f.nobody(m) // of a view it is known only by the name whether it has an item
		}
		return Found{Upstream: f.opts.Fallback}
	}
	if kind != catalog.Tool {
		routed = ""
	}
	found, ok := f.find(ctx, c, kind, visible, at, routed)
	if !ok && kind != catalog.Tool {
		if f.opts.Fallback != "" && viewOf(c).Shows(kind, f.opts.Fallback, visible) {
			return Found{Upstream: f.opts.Fallback}
		}
		return f.nobody(m)
	}
	return found
}

// nobody returns where a request for something goes that nobody has: to the federation, which
// says so (see [answer.unknown]), or nowhere.
func (f *Federation) nobody(m *mcp.Message) Found {
	if m.Kind == mcp.Request && m.Method != mcp.MethodToolsCall && (mustName(m.Method) || mcp.MethodOf(m.Method).FollowsTask) {
		return Found{Upstream: Name}
	}
	return Found{}
}

// viewOf returns the view that a client uses; nil for all.
func viewOf(c *transport.Caller) *views.View {
	if c == nil {
		return nil
	}
	return c.View
}

// Announced takes an upstream's notification that one of its lists has changed, and
// reports whether m is one. On a nil Federation none is.
func (f *Federation) Announced(upstream string, m *mcp.Message) bool {
	if f == nil || upstream == Name || !mcp.MethodOf(m.Method).ListChanged {
		return false
	}
	f.Changed(upstream)
	return true
}

// asks returns what a request is about. ok is false for methods that name no tool,
// prompt or resource.
func asks(m *mcp.Message) (kind catalog.Kind, visible string, at mcp.Span, ok bool) {
	switch m.Method {
	case mcp.MethodToolsCall:
		return catalog.Tool, m.Name, m.Spans.Name, true
	case mcp.MethodPromptsGet:
		return catalog.Prompt, m.Name, m.Spans.Name, m.HasName
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return catalog.Resource, m.URI, m.Spans.URI, m.URI != ""
	case mcp.MethodComplete:
		ref := mcp.Find(m.Body, m.Spans.Params, "ref")
		kind, member := catalog.Prompt, "name"
		if t, _ := mcp.StringValue(mcp.Find(m.Body, ref, "type").Of(m.Body)); t == "ref/resource" {
			kind, member = catalog.Template, "uri"
		}
		at = mcp.Find(m.Body, ref, member)
		visible, ok = mcp.StringValue(at.Of(m.Body))
		return kind, visible, at, ok
	}
	return 0, "", mcp.Span{}, false
}

// mustName reports whether requests of a method ask for one item.
func mustName(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodComplete:
		return true
	}
	return false
}

// find returns the upstream that owns a name or uri. ok is false when nobody owns it,
// when the owner has nothing that is seen under the name, or when it is not in the
// caller's view: then the upstreams are asked once more too, so that the time of an
// answer does not tell what others have.
func (f *Federation) find(ctx context.Context, c *transport.Caller, kind catalog.Kind, visible string, at mcp.Span, routed string) (Found, bool) {
	v := viewOf(c)
	if routed != "" && v.Shows(kind, routed, visible) {
		return f.at(routed, kind, visible, at)
	}
	f.now() // owners of a first list
	owner, owned := f.owner(kind, visible)
	if owned && routed == "" && v.Shows(kind, owner, visible) {
		return f.at(owner, kind, visible, at)
	}
	if uri := kind == catalog.Resource || kind == catalog.Template; uri && !owned && c != nil && c.Principal != nil {
		if by, ok := f.seen.Upstream(ctx, c.Principal, visible); ok && v.Shows(kind, by, visible) {
			return f.at(by, kind, visible, at)
		}
	}
	f.lookups.do(ctx, c, func() { f.ask(ctx, c) })
	if owner, owned := f.owner(kind, visible); owned && routed == "" && v.Shows(kind, owner, visible) {
		return f.at(owner, kind, visible, at)
	}
	return Found{}, false
}

// owner returns the upstream that owns a name or uri: by its prefix, or because it
// listed it first.
func (f *Federation) owner(kind catalog.Kind, visible string) (string, bool) {
	if owner, ok := f.names.Owner(f.owners, kind, visible); ok {
		return owner, true
	}
	if kind == catalog.Template { // a completion may name a resource too
		return f.names.Owner(f.owners, catalog.Resource, visible)
	}
	return "", false
}

// at returns what the upstream calls by itself what clients see as visible.
func (f *Federation) at(name string, kind catalog.Kind, visible string, at mcp.Span) (Found, bool) {
	return foundAt(f.names, name, kind, visible, at)
}

func foundAt(names *catalog.Names, name string, kind catalog.Kind, visible string, at mcp.Span) (Found, bool) {
	own, ok := names.Own(name, kind, visible)
	if !ok {
		return Found{}, false
	}
	found := Found{Upstream: name}
	if own != visible {
		found.Own, found.At = own, at
		if kind == catalog.Tool {
			found.OwnTool = own
		}
	}
	return found, true
}

// At returns how a message goes to an upstream that it was led to without federation; the
// zero value when the upstream has nothing that is seen under the name in the message.
func At(names *catalog.Names, upstream string, m *mcp.Message) Found {
	kind, visible, at, named := asks(m)
	if !named {
		return Found{Upstream: upstream}
	}
	found, _ := foundAt(names, upstream, kind, visible, at)
	return found
}

// answers reports whether the federation itself answers a message: what a client asks
// a server about itself, and what is for all upstreams.
func answers(m *mcp.Message) bool {
	return m.Kind != mcp.Request || Answers(m.Method)
}

// Answers reports whether the federation itself answers requests of a method.
func Answers(method string) bool {
	if _, ok := catalog.KindOf(method); ok {
		return true
	}
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodListen:
		return true
	}
	return false
}
