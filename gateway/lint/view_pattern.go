package lint

import (
	"strings"

	"svc/gateway/glob"
	"svc/gateway/upstream"
)

// viewPattern warns of patterns of views that no tool of the view can match, because of the
// prefixes of its upstreams.
func viewPattern(p *pass) {
	for i := range p.file.Views {
		v := &p.file.Views[i]
		for j, pattern := range v.Tools {
			g, err := glob.Compile(pattern)
			if err != nil || len(v.Upstreams) == 0 {
				continue
			}
			if !p.mayMatch(g, v.Upstreams) {
				p.warn(p.root().Field("views").Index(i).Field("tools").Index(j), "write the name that clients see, with its prefix, or add its upstream to the view",
					"%q matches no tool of the view %q: no name of its upstreams begins like this", pattern, v.Name)
			}
		}
	}
}

// mayMatch reports whether a name of one of the upstreams may match a pattern, judging by
// prefixes.
func (p *pass) mayMatch(g *glob.Pattern, upstreams []string) bool {
	text, _, exact := g.Prefix()
	for _, name := range upstreams {
		u := p.upstream(name)
		switch {
		case u == nil:
			return true // reported by another check
		case !strings.HasPrefix(text, u.Prefix) && (exact || !strings.HasPrefix(u.Prefix, text)):
		case p.byPrefix(text, u):
			return true
		}
	}
	return false
}

// byPrefix reports whether names with a prefix can belong to an upstream: no longer prefix
// belongs to another one.
func (p *pass) byPrefix(text string, u *upstream.Config) bool {
	for i := range p.file.Upstreams {
		other := &p.file.Upstreams[i]
		if other != u && len(other.Prefix) > len(u.Prefix) && strings.HasPrefix(text, other.Prefix) {
			return false
		}
	}
	return true
}
