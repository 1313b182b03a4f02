package federation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// extension returns the settings with which the client declares an extension: in its request, or in
// the initialize of its session.
func (a *answer) extension(name string) (body []byte, settings mcp.Span) {
	var capabilities mcp.Span
	if a.modern {
		body = a.m.Body
		capabilities = mcp.Find(body, a.m.Spans.Meta, mcp.MetaClientCapabilities)
	} else if a.caller != nil {
		body = []byte(a.caller.Params)
		capabilities = mcp.Find(body, mcp.Span{End: len(body)}, "capabilities")
	}
	return body, mcp.Find(body, mcp.Find(body, capabilities, "extensions"), name)
}

// declaresApps reports whether the client shows apps: it declares the extension, and the media types
// that it names, if any, have that of pages.
func (a *answer) declaresApps() bool {
	body, settings := a.extension(mcp.ExtensionUI)
	if !settings.Present() || body[settings.Start] != '{' {
		return false
	}
	types := mcp.Find(body, settings, "mimeTypes")
	if !types.Present() {
		return true
	}
	for it := mcp.Elements(body, types); it.Next(); {
		if text, _ := mcp.StringValue(it.Value().Of(body)); strings.EqualFold(strings.ReplaceAll(text, " ", ""), mcp.AppType) {
			return true
		}
	}
	return false
}

// withoutApps returns capabilities that do not declare apps: no item of their upstream is for the client.
func (m members) withoutApps() members {
	extensions := m["extensions"]
	if len(extensions) == 0 || extensions[0] != '{' {
		return m
	}
	m = maps.Clone(m)
	m["extensions"] = mcp.AppendObject(nil, extensions, mcp.Span{End: len(extensions)}, func(name []byte) bool { return string(name) == mcp.ExtensionUI })
	return m
}

// only returns the upstream of a client whose view has exactly one; empty for all others. Clients keep
// the apps of servers apart by their connections, so behind any other URL an app of one server could
// call the tools that another has for its own apps alone.
func (f *Federation) only(v *auth.View) string {
	if v == nil && len(f.feeds) == 1 {
		return f.feeds[0].Name
	}
	return v.Only()
}

// presents reports whether a tool that is for apps alone is listed, and logs once for each upstream that
// it is not because of the view.
func (a *answer) presents(it *catalog.Item, apps bool) bool {
	if !it.ForApps {
		return true
	}
	if a.only(catalog.ViewOf(a.caller)) != "" {
		return apps
	}
	if _, told := a.toldApps.LoadOrStore(it.Upstream, true); !told {
		a.opts.Logger.Warn("tools that are for apps alone are omitted from lists, and not called, outside of a view of their upstream alone", "upstream", it.Upstream, "for_example", it.Visible,
			"fix", "give the upstream a view of its own, as in views: [{name: "+it.Upstream+", upstreams: ["+it.Upstream+"]}]; without apps, let the server write \"model\" into _meta.ui.visibility")
	}
	return false
}

// form returns the form of an item for the client: without its app if the client shows none, and
// without its page if the client may not read that.
func (a *answer) form(it *catalog.Item, apps bool) []byte {
	form := it.Form(a.modern)
	switch {
	case !it.HasApp:
	case !apps:
		return catalog.WithoutApp(form)
	case slices.ContainsFunc(catalog.Pages(form), func(uri string) bool { return !a.mayRead(it.Upstream, uri) }):
		return catalog.WithoutPage(form)
	}
	return form
}

// mayRead reports whether the client may read a page of an upstream. No other upstream's page is one,
// however the reference is written.
func (a *answer) mayRead(upstream, uri string) bool {
	owner, ok, err := a.names.AddressOwner(mcp.Resource, uri)
	return ok && err == nil && owner == upstream && a.mayAsk(mcp.Resource, upstream, uri)
}

// OwnName returns the visible name of the tool that a call names by the upstream's own name, at a view
// of one upstream: the app of a server knows its tools by no other name. ok is false for a visible name
// of the view.
func (f *Federation) OwnName(ctx context.Context, c *upstream.Caller, m *mcp.Message) (visible string, ok bool) {
	v := catalog.ViewOf(c)
	fd := f.opts.Lists.Feed(f.only(v))
	if fd == nil {
		return "", false
	}
	own, may := f.names.Own(fd.Name, mcp.Tool, m.Name)
	if may = may && v.Shows(mcp.Tool, fd.Name, m.Name); may && (fd.Lists(c, own) || !fd.Lists(c, m.Name)) {
		return "", false
	}
	visible, why := f.names.Visible(fd.Name, mcp.Tool, m.Name)
	if why != "" || !v.Shows(mcp.Tool, fd.Name, visible) {
		return "", false
	}
	if !fd.Lists(c, m.Name) {
		f.lookups.do(ctx, c, func() { f.ask(ctx, c) })
	}
	return visible, fd.Lists(c, m.Name)
}

// ForApps reports whether a tool may only be called by apps, which call it at a view of its upstream
// alone. A model may not call it there either. The error is that of [catalog.Feed.ForApps].
func (f *Federation) ForApps(ctx context.Context, c *upstream.Caller, upstream, own string, model bool) (apps bool, err error) {
	if !model && f.only(catalog.ViewOf(c)) != "" {
		return false, nil
	}
	fd := f.opts.Lists.Feed(upstream)
	if fd == nil { // the gateway itself
		return false, nil
	}
	if apps, err = fd.ForApps(ctx, c, own); err != nil {
		ctx, cancel := context.WithTimeout(ctx, f.opts.Config.ListTimeout)
		defer cancel()
		f.lookups.do(ctx, c, func() { f.ask(ctx, c) })
		apps, err = fd.ForApps(ctx, c, own)
	}
	return apps, err
}
