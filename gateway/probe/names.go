package probe

import (
	"fmt"
	"slices"
	"strings"

	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/federation"
	"svc/gateway/itemcheck"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// judge adds to the results of upstreams the conflicts between their lists: names that
// clash, tools that no call reaches, items that clients do not see or cannot read.
func judge(f *config.File, list []asked) []Result {
	results := make([]Result, len(list))
	for i := range list {
		results[i] = list[i].result
	}
	router, err := upstream.NewRouter(f.Routes)
	if err != nil { // a valid configuration has no such routes
		return results
	}
	merged := mergedNames(f, list)
	for i := range list {
		r, offer := &results[i], list[i].offer
		if offer == nil {
			continue
		}
		counts := [len(catalog.Kinds)]int{}
		for _, l := range offer.Lists {
			counts[l.Kind] += len(l.Items)
			if l.Cut != nil {
				r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s: %s", l.Kind.Method(), l.Cut))
			}
			for _, raw := range l.Items {
				r.LeftOut = appendUnreadable(r.LeftOut, l.Kind, raw)
			}
		}
		r.Tools, r.Prompts = counts[catalog.Tool], counts[catalog.Prompt]
		r.Resources = counts[catalog.Resource] + counts[catalog.Template]
		if merged != nil {
			r.takeMerged(merged, router)
		} else {
			r.takeRouted(f, list[i], router)
		}
		r.adviseNames(f)
	}
	return results
}

// mergedNames merges the lists like the federation does; nil without federation. Names
// that already have owners keep them, if this user may read the owners.
func mergedNames(f *config.File, list []asked) *catalog.Catalog {
	if !f.Federation.Enabled {
		return nil
	}
	var naming []catalog.Naming
	var identities []catalog.Identity
	var listings []catalog.Listing
	for i := range f.Upstreams {
		u := &f.Upstreams[i]
		naming = append(naming, federation.NamingOf(u))
		identities = append(identities, federation.Identity(u))
		if list[i].offer == nil {
			continue
		}
		listing := catalog.Listing{Upstream: u.Name}
		for _, l := range list[i].offer.Lists {
			listing.Items[l.Kind] = l.Items
		}
		listings = append(listings, listing)
	}
	names, err := catalog.NewNames(naming)
	if err != nil {
		return nil
	}
	owners, err := catalog.OpenOwners(federation.OwnersFile(f.StateDirectory()), identities)
	if err != nil {
		owners, _ = catalog.OpenOwners("", identities)
	}
	return catalog.Build(names, owners, nil, listings)
}

// takeMerged adds the result of merging for one upstream.
func (r *Result) takeMerged(c *catalog.Catalog, router *upstream.Router) {
	for _, left := range c.LeftOut() {
		name := left.Visible
		if name == "" {
			name = left.Own
		}
		switch {
		case left.Upstream != r.Name, left.Reason == catalog.ReasonHidden:
		case left.Reason == catalog.ReasonClaimed:
			r.Clashes = append(r.Clashes, fmt.Sprintf("%s %s belongs to %s", left.Kind, printable(name), left.Owner))
		default:
			r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s %s: %s", left.Kind, printable(name), left.Reason))
		}
	}
	for _, it := range c.Items(catalog.Tool) {
		if it.Upstream != r.Name {
			continue
		}
		if to, ok := router.Match(it.Visible); ok && to != r.Name {
			r.Unrouted = append(r.Unrouted, fmt.Sprintf("%s: a route leads to %s", printable(it.Visible), to))
		}
	}
}

// takeRouted adds the tools of an upstream that a call by name does not reach.
func (r *Result) takeRouted(f *config.File, a asked, router *upstream.Router) {
	for _, l := range a.offer.Lists {
		if l.Kind != catalog.Tool {
			continue
		}
		for _, raw := range l.Items {
			name := memberOf(raw, "name")
			switch to, ok := router.Match(name); {
			case name == "":
			case !ok:
				r.Unrouted = append(r.Unrouted, printable(name)+": no route matches")
			case to != r.Name:
				r.Unrouted = append(r.Unrouted, fmt.Sprintf("%s: a route leads to %s", printable(name), to))
			}
		}
	}
}

// adviseNames adds advice about names, for an upstream that works.
func (r *Result) adviseNames(f *config.File) {
	var advice []string
	add := func(text string) { advice = append(advice, text) }
	byName := func(clash string) bool {
		return strings.HasPrefix(clash, catalog.Tool.String()+" ") || strings.HasPrefix(clash, catalog.Prompt.String()+" ")
	}
	if slices.ContainsFunc(r.Clashes, byName) {
		add("give each upstream a prefix, or rename what clashes (upstreams[].prefix, tools.rename)")
	}
	if slices.ContainsFunc(r.Clashes, func(clash string) bool { return !byName(clash) }) {
		add("resources with the same URI are read from the first upstream that has them: see whether two entries lead to the same server")
	}
	if len(r.Unrouted) > 0 {
		if f.Federation.Enabled {
			add("remove or narrow the routes that lead these tools elsewhere: prefixes suffice")
		} else {
			add("add routes that match these tools, or enable federation, which needs none")
		}
	}
	if !f.Federation.Enabled && f.DefaultUpstream != r.Name && len(f.Upstreams) > 1 {
		searched := f.ToolSearch.Enabled && f.ToolSearch.Mode == config.ToolSearchSynthesize // over all routes
		if r.Tools > 0 && !searched {
			add("clients do not see its tools in lists, because only default_upstream answers these: enable federation")
		}
		if r.Prompts > 0 || r.Resources > 0 {
			add("clients cannot use its prompts and resources, because requests without a tool name go to default_upstream alone: enable federation")
		}
	}
	if len(r.LeftOut) > 0 {
		add("see left_out: the server should correct these definitions")
	}
	r.Advice = strings.Join(advice, "; ")
}

// appendUnreadable adds the reason why clients of a protocol generation cannot read an
// item.
func appendUnreadable(list []string, kind catalog.Kind, raw []byte) []string {
	_, legacy := itemcheck.Fit(kind, raw, false)
	_, modern := itemcheck.Fit(kind, raw, true)
	name := memberOf(raw, "name")
	if name == "" {
		name = "without a name"
	}
	switch {
	case legacy == "" && modern == "":
		return list
	case legacy == modern:
		return append(list, fmt.Sprintf("%s %s: clients cannot read it: %s", kind, printable(name), printable(legacy)))
	case legacy != "":
		list = append(list, fmt.Sprintf("%s %s: clients of the legacy revisions cannot read it: %s", kind, printable(name), printable(legacy)))
	}
	if modern != "" {
		list = append(list, fmt.Sprintf("%s %s: clients of 2026-07-28 cannot read it: %s", kind, printable(name), printable(modern)))
	}
	return list
}

// memberOf returns a string member of an item.
func memberOf(raw []byte, member string) string {
	at := mcp.Find(raw, mcp.Span{End: len(raw)}, member)
	text, _ := mcp.StringValue(at.Of(raw))
	return strings.Clone(text)
}
