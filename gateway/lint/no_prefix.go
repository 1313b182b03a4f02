package lint

// noPrefix warns of several upstreams without a prefix: the first of them to list a name keeps
// it, and another one's tool of that name is omitted.
func noPrefix(p *pass) {
	if !p.file.Federation.Enabled || len(p.file.Upstreams) < 2 {
		return
	}
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.Prefix == "" {
			p.warn(p.root().Field("upstreams").Index(i).Field("name"), "give it a prefix, as in prefix: "+prefixOf(u.Name),
				"the tools and prompts of the upstream %q have no prefix: a name that another upstream without one has listed before is left out", u.Name)
		}
	}
}

// prefixOf derives a prefix from the name of an upstream.
func prefixOf(name string) string {
	const most = 31
	out := make([]byte, 0, len(name)+1)
	for i := range min(len(name), most) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			c = '_'
		}
		out = append(out, c)
	}
	return string(append(out, '_'))
}
