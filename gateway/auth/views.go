package auth

import (
	"net/url"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// Main is the path of the whole gateway. A trailing slash is ignored, here and in paths of views, because it is common.
const Main = "/mcp"

// prefix is the prefix of the paths of views.
const prefix = Main + "/v/"

// PathOf returns the path of a view.
func PathOf(name string) string { return prefix + name }

// View is a part of the merged lists. It is immutable and safe for concurrent use. A nil View contains everything.
type View struct {
	Name string

	upstreams []string
	tools     []*match.Pattern // nil for all
	prompts   bool
	resources bool
	admits    func(*policy.Claims) bool // nil for a view that does not exist
}

// String returns the name of the view; empty for a nil View.
func (v *View) String() string {
	if v == nil {
		return ""
	}
	return v.Name
}

// Has reports whether the view contains an upstream.
func (v *View) Has(upstream string) bool {
	return v == nil || slices.Contains(v.upstreams, upstream)
}

// Only returns the upstream of a view that has exactly one; empty for any other view.
func (v *View) Only() string {
	if v == nil || len(v.upstreams) != 1 {
		return ""
	}
	return v.upstreams[0]
}

// Shows reports whether an item of an upstream is in the view. visible is its visible name, URI or template.
func (v *View) Shows(kind mcp.ListKind, upstream, visible string) bool {
	if !v.Lists(kind, upstream) {
		return false
	}
	return v == nil || kind != mcp.Tool || v.tools == nil ||
		slices.ContainsFunc(v.tools, func(g *match.Pattern) bool { return g.Match(visible) })
}

// Finds reports whether the tool search may return a tool of an upstream. The tools of the search itself, which have no
// upstream, are in every view.
func (v *View) Finds(upstream, tool string) bool {
	return upstream == "" || v.Shows(mcp.Tool, upstream, tool)
}

// Lists reports whether the view may contain items of a kind of an upstream.
func (v *View) Lists(kind mcp.ListKind, upstream string) bool {
	if v == nil {
		return true
	}
	if !v.Has(upstream) {
		return false
	}
	switch kind {
	case mcp.Tool:
		return true
	case mcp.Prompt:
		return v.prompts
	case mcp.Resource, mcp.Template:
		return v.resources
	}
	return false
}

// Set is the views of a gateway. It is immutable and safe for concurrent use; a nil Set
// has none.
type Set struct {
	byName map[string]*View
	paths  []string
}

// New compiles validated entries; nil for none.
func New(entries []ViewConfig) *Set {
	if len(entries) == 0 {
		return nil
	}
	s := &Set{byName: make(map[string]*View, len(entries)), paths: []string{Main}}
	for i := range entries {
		c := &entries[i]
		v := &View{
			Name: c.Name, upstreams: slices.Clone(c.Upstreams), prompts: c.Prompts != None, resources: c.Resources != None,
			admits: c.Claims.Matcher(true),
		}
		if c.Tools != nil {
			v.tools = []*match.Pattern{}
		}
		for _, pattern := range c.Tools {
			if g, err := match.CompileGlob(pattern); err == nil { // the configuration was validated
				v.tools = append(v.tools, g)
			}
		}
		s.byName[c.Name] = v
		s.paths = append(s.paths, PathOf(c.Name))
	}
	return s
}

// Paths returns Main and the paths of the views.
func (s *Set) Paths() []string {
	if s == nil {
		return []string{Main}
	}
	return s.paths
}

// Named returns the view of a name; nil for none.
func (s *Set) Named(name string) *View {
	if s == nil {
		return nil
	}
	return s.byName[name]
}

// At returns the view of a request, nil for Main; ok is false for other paths. For a view that does not exist it
// returns one that is empty and admits no caller. A path with escapes never matches a view, so that it cannot bypass a
// proxy that compares paths as written.
func (s *Set) At(u *url.URL) (v *View, ok bool) {
	if u.Path == Main || u.Path == Main+"/" {
		return nil, true
	}
	name, ok := strings.CutPrefix(u.Path, prefix)
	if s == nil || !ok {
		return nil, false
	}
	name = strings.TrimSuffix(name, "/")
	if u.RawPath != "" || !validName(name) {
		return &View{}, true
	}
	if v = s.byName[name]; v == nil {
		v = &View{Name: name}
	}
	return v, true
}

// Admit refuses a caller who may not use the view, exactly as if the view did not exist.
func (v *View) Admit(who *Principal) *refusal.Refusal {
	switch {
	case v == nil:
		return nil
	case v.admits == nil:
		return &refusal.UnknownView
	case !v.admits(who.Claims):
		return &refusal.ViewDenied
	}
	return nil
}

// Scope binds a text that a client stores, such as a session handle, to the view; nil for a nil View. No scope is a
// prefix of another one, or of the key of a principal.
func (v *View) Scope() []byte {
	if v == nil {
		return nil
	}
	return append(append([]byte("view "), v.Name...), '/')
}
