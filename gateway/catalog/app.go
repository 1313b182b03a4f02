package catalog

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// The members of a tool's _meta that are about apps: ui, and the older ones that name its page alone.
var (
	appMembers = []string{"ui", "ui/resourceUri", "openai/outputTemplate"}
	pagesOnly  = appMembers[1:]
)

// below calls f for each value at a path of members in an object. Names match in any case, because
// some SDKs ignore case: what one of them would read counts.
func below(body []byte, at mcp.Span, path []string, f func(mcp.Span)) {
	if len(path) == 0 {
		f(at)
		return
	}
	if !at.Present() || body[at.Start] != '{' {
		return
	}
	for it := mcp.Members(body, at); it.Next(); {
		if strings.EqualFold(string(it.Name()), path[0]) {
			below(body, it.Value(), path[1:], f)
		}
	}
}

// spanOf is the span of a definition.
func spanOf(definition []byte) mcp.Span { return mcp.Span{End: len(definition)} }

// isForApps reports whether a tool is for apps alone: its _meta.ui.visibility does not have "model".
// Without it, or with null, a tool is for models and apps. Every value that is no array of strings
// counts as one without "model", because its readers differ.
func isForApps(tool []byte) (apps bool) {
	below(tool, spanOf(tool), []string{"_meta", "ui", "visibility"}, func(at mcp.Span) {
		apps = apps || !forModels(tool, at)
	})
	return apps
}

func forModels(body []byte, at mcp.Span) (model bool) {
	switch body[at.Start] {
	case 'n':
		return true
	case '[':
		for it := mcp.Elements(body, at); it.Next(); {
			text, ok := mcp.StringValue(it.Value().Of(body))
			if !ok {
				return false
			}
			model = model || text == "model"
		}
	}
	return model
}

// hasApp reports whether a tool has members about apps.
func hasApp(tool []byte) (has bool) {
	for _, name := range appMembers {
		below(tool, spanOf(tool), []string{"_meta", name}, func(mcp.Span) { has = true })
	}
	return has
}

// Pages returns the addresses of the pages to which a tool refers, an empty one for a reference that is
// no ui:// address: clients show nothing else as an app.
func Pages(tool []byte) (addresses []string) {
	take := func(at mcp.Span) {
		uri, _ := mcp.StringValue(at.Of(tool))
		if !strings.HasPrefix(uri, "ui://") {
			uri = ""
		}
		addresses = append(addresses, strings.Clone(uri))
	}
	below(tool, spanOf(tool), []string{"_meta", "ui", "resourceUri"}, take)
	for _, name := range pagesOnly {
		below(tool, spanOf(tool), []string{"_meta", name}, take)
	}
	return addresses
}

// WithoutPage returns a tool that refers to no page.
func WithoutPage(tool []byte) []byte {
	return cut(cut(tool, []string{"_meta", "ui"}, "resourceUri"), []string{"_meta"}, pagesOnly...)
}

// WithoutApp returns a tool as it is for clients without apps.
func WithoutApp(tool []byte) []byte { return cut(tool, []string{"_meta"}, appMembers...) }

// cut removes members of the objects at a path.
func cut(body []byte, path []string, names ...string) []byte {
	var edits []mcp.Edit
	below(body, spanOf(body), path, func(at mcp.Span) {
		if body[at.Start] != '{' {
			return
		}
		edits = append(edits, mcp.Edit{At: at, With: mcp.AppendObject(nil, body, at, func(member []byte) bool {
			for _, name := range names {
				if strings.EqualFold(string(member), name) {
					return true
				}
			}
			return false
		})})
	})
	if len(edits) == 0 {
		return body
	}
	return mcp.Splice(nil, body, edits...)
}

// noteTools stores which tools of an offer are for apps alone.
func (o *Offer) noteTools() {
	list := o.List(mcp.Tool)
	o.forApps = make(map[string]bool, len(list.Items))
	for _, raw := range list.Items {
		if _, own, ok := key(mcp.Tool, raw); ok {
			o.forApps[own] = o.forApps[own] || isForApps(raw)
		}
	}
}

// tool returns whether a tool is for apps alone, by its own name, and whether it is listed.
func (o *Offer) tool(own string) (apps, listed bool) {
	if o == nil {
		return false, false
	}
	apps, listed = o.forApps[own]
	return apps, listed
}

// complete reports whether a tool that is not in the offer is not listed at all.
func (o *Offer) complete() bool { return o != nil && o.List(mcp.Tool).Cut == nil }

// appsTime bounds the wait of a call for the lists of its caller.
const appsTime = 5 * time.Second

// ErrUnlisted is the error of a tool of which no complete list is known.
var ErrUnlisted = errors.New("the lists that could have the tool are not known")

// ForApps reports whether a tool is for apps alone, by its own name: according to the last lists that
// the gateway read, or the caller's own. If the lists that could have the tool are not known, the error
// is that of the last reading, or ErrUnlisted.
func (fd *Feed) ForApps(ctx context.Context, c *upstream.Caller, own string) (apps bool, err error) {
	offer, err := fd.lastTools()
	apps, listed := offer.tool(own)
	known := listed || offer.complete()
	if offer == nil || fd.Private(offer, offer.List(mcp.Tool)) {
		mine := fd.Cached(c)
		if mine == nil && !listed {
			if _, cached := c.CacheKey(); cached { // a caller without a key is none for the upstream
				ctx, cancel := context.WithTimeout(ctx, appsTime)
				defer cancel()
				mine, _, err = fd.listsFor(ctx, c)
				known = false
			}
		}
		if latest, also := mine.tool(own); also { // the gateway's own reading may be much older
			return latest, nil
		}
		known = known || listed || mine.complete()
	}
	if known {
		return apps, nil
	}
	return apps, cmp.Or(err, ErrUnlisted)
}

// lastTools returns the last valid offer, and the error of the last reading.
func (fd *Feed) lastTools() (*Offer, error) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.offer, fd.err
}

// Lists reports whether the upstream lists a tool of this name, to the gateway or to the caller.
func (fd *Feed) Lists(c *upstream.Caller, own string) bool {
	offer, _ := fd.lastTools()
	_, listed := offer.tool(own)
	if !listed && offer != nil && fd.Private(offer, offer.List(mcp.Tool)) {
		_, listed = fd.Cached(c).tool(own)
	}
	return listed
}
