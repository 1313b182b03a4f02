package lint

import "strings"

// overlappingPrefix warns of a prefix that begins with the prefix of another upstream: tools of
// the other upstream whose names begin with the longer prefix are omitted.
func overlappingPrefix(p *pass) {
	for i := range p.file.Upstreams {
		for j := range p.file.Upstreams {
			long, short := &p.file.Upstreams[i], &p.file.Upstreams[j]
			if short.Prefix != "" && len(long.Prefix) > len(short.Prefix) && strings.HasPrefix(long.Prefix, short.Prefix) {
				p.warn(p.root().Field("upstreams").Index(i).Field("prefix"), "choose prefixes such that none begins with another",
					"%q begins with %q, the prefix of the upstream %q: a tool of that one whose own name begins with %q is left out",
					long.Prefix, short.Prefix, short.Name, strings.TrimPrefix(long.Prefix, short.Prefix))
			}
		}
	}
}
