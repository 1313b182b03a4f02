package lint

// unusedUpstream warns of upstreams that no request reaches. With federation names lead to each
// of them.
func unusedUpstream(p *pass) {
	if p.file.Federation.Enabled {
		return
	}
	used := map[string]bool{p.file.DefaultUpstream: true}
	for i := range p.file.Routes {
		used[p.file.Routes[i].Upstream] = true
	}
	for i := range p.file.Upstreams {
		if name := p.file.Upstreams[i].Name; !used[name] {
			p.warn(p.root().Field("upstreams").Index(i).Field("name"), "add a route to it, or remove it", "no request reaches the upstream %q: no route names it, and it is not default_upstream", name)
		}
	}
}
