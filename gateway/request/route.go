package request

import (
	"cmp"
	"context"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/search"
	"svc/gateway/mcp"
	"svc/gateway/request/multiplex"
	"svc/gateway/upstream"
)

// Table is the routing data. It does not change after the start.
type Table struct {
	Targets         map[string]*upstream.Upstream
	DefaultUpstream string
	Router          *upstream.Router
	// Federation is the default upstream if lists are merged, otherwise nil.
	Federation *federation.Federation
	Search     *search.Service // nil unless the gateway answers tools/list itself
	Views      *auth.Set       // nil for none
	// Names are the names of tools and prompts as clients see them, without federation; nil
	// if they are the upstreams' own.
	Names *catalog.Names
}

// NamesOf returns the names that clients see without federation; nil if they are the
// upstreams' own.
func NamesOf(upstreams []upstream.Config) (*catalog.Names, error) {
	var naming []catalog.Naming
	given := false
	for i := range upstreams {
		naming = append(naming, federation.NamingOf(&upstreams[i]))
		given = given || upstreams[i].Prefix != "" || !upstreams[i].Tools.Empty()
	}
	if !given {
		return nil, nil
	}
	return catalog.NewNames(naming)
}

// Found is the route of a request. Upstream is nil if no upstream was found.
type Found struct {
	Upstream *upstream.Upstream
	// As is the upstream's own name of the item in the request.
	As federation.Found
}

// Find finds the upstream of a request (gateway specification, routes): for tool calls by
// name only; for responses to server requests the upstream that sent the request; for
// requests about a task the upstream that created it; for all others default_upstream.
func (t *Table) Find(ctx context.Context, r *multiplex.Request) (f Found) {
	if f.Upstream = r.Follow(ctx); f.Upstream != nil {
		return f
	}
	name := t.DefaultUpstream
	if r.Message.Method == mcp.MethodToolsCall {
		name, _ = t.Router.Match(r.Message.Name)
	}
	switch {
	case t.Federation != nil:
		f.As = t.Federation.Route(ctx, r.Client().Caller, r.Message, name)
	case t.Names != nil:
		f.As = federation.At(t.Names, name, r.Message)
	default:
		f.As.Upstream = name
	}
	f.Upstream = t.Targets[f.As.Upstream]
	return f
}

// ToJudge finds the upstream for the evaluation of rules, before the request is allowed. The
// gateway itself has an upstream name too, but no upstream.
func (t *Table) ToJudge(ctx context.Context, r *multiplex.Request) (*upstream.Upstream, string) {
	if t.Search.Takes(r.Message) {
		return nil, t.SearchUpstream()
	}
	if up := t.Find(ctx, r).Upstream; up != nil {
		return up, up.Name
	}
	return nil, ""
}

// forApps reports whether a tool may only be called by apps. model is set for an mcp_call. Without
// federation a client has the tools of one upstream, and its own calls are not restricted.
func (t *Table) forApps(ctx context.Context, c *upstream.Caller, m *mcp.Message, as *federation.Found, model bool) (bool, error) {
	own := cmp.Or(as.Own, m.Name)
	switch {
	case m.Method != mcp.MethodToolsCall:
		return false, nil
	case t.Federation != nil:
		return t.Federation.ForApps(ctx, c, as.Upstream, own, model)
	}
	return model && t.Search.ForApps(ctx, c, as.Upstream, own), nil
}

// SearchUpstream is the upstream that rules see for responses of the tool search.
func (t *Table) SearchUpstream() string {
	if t.Federation != nil {
		return federation.Name
	}
	return ""
}

// OfTool returns the upstream that routes select for a tool, by its name only.
func (t *Table) OfTool(name string) string {
	upstream, _ := t.Router.Match(name)
	return upstream
}
