package lint

import "svc/gateway/policy"

// filterLists suggests to hide tools that may not be called. A file that has the key has decided,
// and with federation lists are always filtered.
func filterLists(p *pass) {
	if p.file.FiltersLists() || p.doc.Given("policy.filter_lists") || !p.doc.Given("policy") {
		return
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.Action == policy.Deny.String() && r.decides() && r.ways[up] && r.tools != nil {
			p.info(p.root().Field("policy"), "write filter_lists: true to leave them out, or false to keep them",
				"tools/list still shows the tools that rules deny, such as those of %s", p.name(r))
			return
		}
	}
}
