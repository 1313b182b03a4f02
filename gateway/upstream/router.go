package upstream

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/mcp/match"
)

// Router selects the upstream of a tool: routes are evaluated in order and the first
// match applies (gateway specification, routes). It is immutable and safe for concurrent
// use.
type Router struct {
	upstreams []string       // by index of the route
	exact     map[string]int // name to the first route that lists it
	prefixes  map[string]int // prefix to the first route with it
	lengths   []int          // the distinct lengths of the prefixes, ascending
	patterns  []pattern      // globs and expressions, in the order of their routes
	all       int            // the first route of tool_name "*", or len(upstreams)
}

type pattern struct {
	route int
	tools match.Matcher
}

// NewRouter compiles routes. It returns an error for a route that Validate would
// report.
func NewRouter(routes []Route) (*Router, error) {
	r := &Router{exact: map[string]int{}, prefixes: map[string]int{}, all: len(routes)}
	for i := range routes {
		report := diag.New()
		routes[i].Validate(report.Root())
		if err := report.Err(); err != nil {
			return nil, fmt.Errorf("route %d: %w", i, err)
		}
		r.upstreams = append(r.upstreams, routes[i].Upstream)
		if err := r.add(i, &routes[i].Match); err != nil {
			return nil, fmt.Errorf("route %d: %w", i, err)
		}
	}
	slices.Sort(r.lengths)
	return r, nil
}

func (r *Router) add(i int, written *Match) error {
	tool := written.Tool()
	m, err := match.Compile(&tool)
	if err != nil {
		return err
	}
	switch m.Kind {
	case match.Every:
		r.all = min(r.all, i)
	case match.ByName:
		for _, name := range m.Names {
			setFirst(r.exact, name, i)
		}
	case match.ByPrefix:
		setFirst(r.prefixes, m.Prefix, i)
		if !slices.Contains(r.lengths, len(m.Prefix)) {
			r.lengths = append(r.lengths, len(m.Prefix))
		}
	default:
		r.patterns = append(r.patterns, pattern{route: i, tools: m})
	}
	return nil
}

func setFirst(m map[string]int, key string, i int) {
	if _, ok := m[key]; !ok {
		m[key] = i
	}
}

// Match returns the name of the upstream of the first route that matches tool.
func (r *Router) Match(tool string) (name string, ok bool) {
	best := r.all
	if i, ok := r.exact[tool]; ok {
		best = min(best, i)
	}
	for _, n := range r.lengths {
		if n > len(tool) {
			break
		}
		if i, ok := r.prefixes[tool[:n]]; ok {
			best = min(best, i)
		}
	}
	for i := range r.patterns {
		p := &r.patterns[i]
		if p.route >= best {
			break // patterns are in the order of their routes
		}
		if p.tools.MatchPattern(tool) {
			best = p.route
			break
		}
	}
	if best == len(r.upstreams) {
		return "", false
	}
	return r.upstreams[best], true
}

// Upstreams returns the distinct upstreams of the routes, in the order of the routes.
func (r *Router) Upstreams() []string {
	var names []string
	for _, name := range r.upstreams {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// String describes the number of routes, for logs.
func (r *Router) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d routes: %d names, %d prefixes, %d patterns", len(r.upstreams), len(r.exact), len(r.prefixes), len(r.patterns))
	return b.String()
}
