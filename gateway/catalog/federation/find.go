package federation

import (
	"context"
	"slices"
	"strings"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Found is the destination of a request, and the name it uses there. The zero value means that
// there is no destination.
type Found struct {
	Upstream string
	// Own is the upstream's own name for the name that clients see, and At its position in the
	// message; both are empty if the names are the same.
	Own string
	At  mcp.Span
	// OwnTool is Own if it is the name of a tool.
	OwnTool string
}

// Rename returns the message in the form for the upstream.
func (f *Found) Rename(body []byte) []byte {
	if !f.At.Present() {
		return body
	}
	return mcp.Splice(nil, body, mcp.Edit{At: f.At, With: mcp.AppendString(nil, f.Own)})
}

// Route returns the destination of a message: the owner for a tool, prompt or resource, the
// federation for requests that it answers itself, and default_upstream for everything else.
// routed is the upstream of the route for a tool; empty without one. An item outside of the
// caller's view is treated as one that does not exist.
func (f *Federation) Route(ctx context.Context, c *upstream.Caller, m *mcp.Message, routed string) Found {
	kind, visible, at, named := asks(m)
	if !named && mustName(m.Method) && ofSkills(m.Method) {
		return f.nobody(m)
	}
	if !named {
		if answers(m) {
			return Found{Upstream: Name}
		}
		if v := catalog.ViewOf(c); f.opts.Fallback == "" || !v.Has(f.opts.Fallback) || v != nil && mustName(m.Method) {
			return f.nobody(m) // whether an item is in a view is known only by its name
		}
		return Found{Upstream: f.opts.Fallback}
	}
	if kind != mcp.Tool {
		routed = ""
	}
	found, ok := Found{}, false
	owner, ours, err := f.names.AddressOwner(kind, visible)
	switch {
	case !ours:
		found, ok = f.find(ctx, c, kind, visible, at, routed)
	case err == nil && catalog.ViewOf(c).Shows(kind, owner, visible):
		found, ok = f.at(owner, kind, visible, at)
	}
	if kind == mcp.Tool {
		return found
	}
	if !ok {
		found = Found{}
		if f.opts.Fallback != "" && !ours && catalog.ViewOf(c).Shows(kind, f.opts.Fallback, visible) {
			found.Upstream = f.opts.Fallback
		}
	}
	if found.Upstream == "" || ofSkills(m.Method) && !f.declared.skills(found.Upstream).serves(m.Method) {
		return f.nobody(m) // a server without the feature would respond that the method does not exist
	}
	return found
}

// ofSkills reports whether only upstreams with skills have a method.
func ofSkills(method string) bool {
	return method == mcp.MethodSkillsList || method == mcp.MethodSkillsGet || method == mcp.MethodDirectoryRead
}

// nobody returns the destination of a request for an item that does not exist: the federation,
// which responds with an error (see [answer.unknown]), or none.
func (f *Federation) nobody(m *mcp.Message) Found {
	if m.Kind == mcp.Request && m.Method != mcp.MethodToolsCall && (mustName(m.Method) || mcp.MethodOf(m.Method).FollowsTask) {
		return Found{Upstream: Name}
	}
	return Found{}
}

// Announced handles an upstream's notification that one of its lists has changed, and reports
// whether m is one. On a nil Federation it returns false.
func (f *Federation) Announced(upstream string, m *mcp.Message) bool {
	if f == nil || upstream == Name || !mcp.MethodOf(m.Method).ListChanged {
		return false
	}
	f.opts.Lists.Changed(upstream, m.Method)
	return true
}

// ownMembers are the members of answers to initialize and server/discover.
var ownMembers = []string{"protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions"}

// Imitates reports whether a response of an upstream has a member of an answer that only the federation
// gives. A list of resources is none at an upstream with directories. On a nil Federation it returns false.
func (f *Federation) Imitates(upstream string, m *mcp.Message) bool {
	if f == nil || upstream == Name || m.IsError || !m.Spans.Result.Present() || m.Body[m.Spans.Result.Start] != '{' {
		return false
	}
	for it := mcp.Members(m.Body, m.Spans.Result); it.Next(); {
		name := string(it.Name())
		of := func(member string) bool { return strings.EqualFold(member, name) }
		if slices.ContainsFunc(ownMembers, of) {
			return true
		}
		for _, kind := range mcp.ListKinds {
			if of(kind.Member()) && (kind != mcp.Resource || !f.declared.skills(upstream).DirectoryRead) {
				return true
			}
		}
	}
	return false
}

// asks returns the item that a request names. ok is false for methods that name no tool, prompt
// or resource.
func asks(m *mcp.Message) (kind mcp.ListKind, visible string, at mcp.Span, ok bool) {
	switch m.Method {
	case mcp.MethodToolsCall:
		return mcp.Tool, m.Name, m.Spans.Name, true
	case mcp.MethodPromptsGet:
		return mcp.Prompt, m.Name, m.Spans.Name, m.HasName
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return mcp.Resource, m.URI, m.Spans.URI, m.URI != ""
	case mcp.MethodSkillsGet:
		return mcp.Skill, m.URI, m.Spans.URI, m.URI != ""
	case mcp.MethodDirectoryRead:
		return mcp.Resource, m.URI, m.Spans.URI, m.URI != ""
	case mcp.MethodComplete:
		ref := mcp.Find(m.Body, m.Spans.Params, "ref")
		kind, member := mcp.Prompt, "name"
		if t, _ := mcp.StringValue(mcp.Find(m.Body, ref, "type").Of(m.Body)); t == "ref/resource" {
			kind, member = mcp.Template, "uri"
		}
		at = mcp.Find(m.Body, ref, member)
		visible, ok = mcp.StringValue(at.Of(m.Body))
		return kind, visible, at, ok
	}
	return 0, "", mcp.Span{}, false
}

// mustName reports whether requests with a method name one item.
func mustName(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodComplete,
		mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
		return true
	}
	return false
}

// find returns the upstream that owns a name or uri. ok is false if there is no owner, if the
// owner has no item with that visible name, or if it is not in the caller's view. In these cases
// the upstreams' lists are read again, also in the last one, so that the response time does not
// reveal items outside of the view.
func (f *Federation) find(ctx context.Context, c *upstream.Caller, kind mcp.ListKind, visible string, at mcp.Span, routed string) (Found, bool) {
	v := catalog.ViewOf(c)
	if routed != "" && v.Shows(kind, routed, visible) {
		return f.at(routed, kind, visible, at)
	}
	f.merge.Current() // applies the owners of a first list
	owner, owned := f.owner(kind, visible)
	if owned && routed == "" && v.Shows(kind, owner, visible) {
		return f.at(owner, kind, visible, at)
	}
	if !kind.Named() && !owned && c != nil && c.Principal != nil {
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

// owner returns the upstream that owns a name or uri: by its prefix, or because it listed the
// name first.
func (f *Federation) owner(kind mcp.ListKind, visible string) (string, bool) {
	if owner, ok := f.names.Owner(f.owners, kind, visible); ok {
		return owner, true
	}
	switch kind {
	case mcp.Template: // a completion may also name a resource
		return f.names.Owner(f.owners, mcp.Resource, visible)
	case mcp.Resource: // or a directory
		return f.owners.OfDirectory(visible)
	}
	return "", false
}

// at returns the destination at an upstream, with its own name for the visible name.
func (f *Federation) at(name string, kind mcp.ListKind, visible string, at mcp.Span) (Found, bool) {
	return foundAt(f.names, name, kind, visible, at)
}

func foundAt(names *catalog.Names, name string, kind mcp.ListKind, visible string, at mcp.Span) (Found, bool) {
	own, ok := names.Own(name, kind, visible)
	if !ok {
		return Found{}, false
	}
	found := Found{Upstream: name}
	if own != visible {
		found.Own, found.At = own, at
		if kind == mcp.Tool {
			found.OwnTool = own
		}
	}
	return found, true
}

// At returns the destination at the upstream of a route without federation; the zero value if the
// upstream has nothing with the visible name in the message.
func At(names *catalog.Names, upstream string, m *mcp.Message) Found {
	kind, visible, at, named := asks(m)
	if !named {
		return Found{Upstream: upstream}
	}
	found, _ := foundAt(names, upstream, kind, visible, at)
	return found
}

// answers reports whether the federation itself answers a message: requests about the server, and
// those that concern all upstreams.
func answers(m *mcp.Message) bool {
	return m.Kind != mcp.Request || Answers(m.Method)
}

// Answers reports whether the federation itself answers requests with a method.
func Answers(method string) bool {
	if _, ok := mcp.ListKindOf(method); ok {
		return true
	}
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodListen:
		return true
	}
	return false
}
