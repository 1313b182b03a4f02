package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/federation"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// judge adds to the results of upstreams the conflicts between their lists: names that
// clash, tools that no call reaches, items that clients do not see or cannot read.
func judge(f *config.File, list []asked) []ProbeResult {
	results := make([]ProbeResult, len(list))
	for i := range list {
		results[i] = list[i].result
	}
	router, err := upstream.NewRouter(f.Routes)
	if err != nil { // a valid configuration has no such routes
		return results
	}
	merged, addresses := mergedNames(f, list), addressesOf(f)
	for i := range list {
		r, offer := &results[i], list[i].offer
		if offer == nil {
			continue
		}
		counts := [len(mcp.ListKinds)]int{}
		for _, l := range offer.Lists {
			counts[l.Kind] += len(l.Items)
			if l.Cut != nil {
				r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s: %s", l.Kind.Method(), l.Cut))
			}
			for _, raw := range l.Items {
				r.LeftOut = appendUnreadable(r.LeftOut, l.Kind, raw)
			}
		}
		r.Tools, r.Prompts = counts[mcp.Tool], counts[mcp.Prompt]
		r.Resources = counts[mcp.Resource] + counts[mcp.Template]
		if merged != nil {
			r.takeMerged(merged, router)
			r.takeApps(f, merged)
		} else {
			r.takeRouted(f, list[i], router)
		}
		r.adviseNames(f)
		if other := addresses.Ambiguous(r.Name); other != "" && offer.HasAddresses() {
			r.OK, r.Cause = false, fmt.Sprintf("its skill:// and ui:// addresses are withheld, because they begin with %s like those of %s", addresses.Segment(r.Name), other)
			r.Advice = "give one of the two upstreams another name, which is in lower case and with - for _ in addresses"
		}
	}
	return results
}

// addressesOf returns the skill:// and ui:// addresses of the upstreams; nil if they stay as they are.
func addressesOf(f *config.File) *catalog.Addresses {
	if !f.Federation.Enabled {
		return nil
	}
	names := make([]string, len(f.Upstreams))
	for i := range f.Upstreams {
		names[i] = f.Upstreams[i].Name
	}
	return catalog.NewAddresses(names)
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
	names, err := catalog.NewMergedNames(naming)
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
func (r *ProbeResult) takeMerged(c *catalog.Catalog, router *upstream.Router) {
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
			text := fmt.Sprintf("%s %s: %s", left.Kind, printable(name), left.Reason)
			if left.Problem != "" {
				text += ": " + left.Problem
			}
			if fix := left.Remedy(); fix != "" {
				text += "; set " + printable(fix)
			}
			r.LeftOut = append(r.LeftOut, text)
		}
	}
	for _, a := range c.Alike() {
		it, other := a.Item, a.Other
		for range 2 {
			if it.Upstream == r.Name {
				r.Clashes = append(r.Clashes, fmt.Sprintf("%s %s%s%s of %s", it.Kind, it.Visible, looksLike, other.Visible, other.Upstream))
			}
			it, other = other, it
		}
	}
	for _, it := range c.Items(mcp.Tool) {
		if it.Upstream != r.Name {
			continue
		}
		if to, ok := router.Match(it.Visible); ok && to != r.Name {
			r.Unrouted = append(r.Unrouted, fmt.Sprintf("%s: a route leads to %s", printable(it.Visible), to))
		}
	}
}

// takeApps adds the tools for apps alone that no client sees, because the upstream has no view of its own.
func (r *ProbeResult) takeApps(f *config.File, c *catalog.Catalog) {
	if len(f.Upstreams) < 2 || hasOwnView(f, r.Name) {
		return
	}
	for _, it := range c.Items(mcp.Tool) {
		if it.Upstream == r.Name && it.ForApps {
			r.LeftOut = append(r.LeftOut, fmt.Sprintf("tool %s: for apps alone; give the upstream a view of its own", printable(it.Visible)))
		}
	}
}

// hasOwnView reports whether there is a view of an upstream alone.
func hasOwnView(f *config.File, upstream string) bool {
	return slices.ContainsFunc(f.Views, func(v auth.ViewConfig) bool { return slices.Equal(v.Upstreams, []string{upstream}) })
}

// takeRouted adds the tools of an upstream that a call by name does not reach.
func (r *ProbeResult) takeRouted(f *config.File, a asked, router *upstream.Router) {
	for _, l := range a.offer.Lists {
		if l.Kind != mcp.Tool {
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

// looksLike is in the clash of two names that are not equal.
const looksLike = " looks like "

// adviseNames adds advice about names, for an upstream that works.
func (r *ProbeResult) adviseNames(f *config.File) {
	var advice []string
	add := func(text string) { advice = append(advice, text) }
	alike := func(clash string) bool { return strings.Contains(clash, looksLike) }
	byName := func(clash string) bool {
		return !alike(clash) && (strings.HasPrefix(clash, mcp.Tool.String()+" ") || strings.HasPrefix(clash, mcp.Prompt.String()+" "))
	}
	if slices.ContainsFunc(r.Clashes, byName) {
		add("give each upstream a prefix, or rename what clashes (upstreams[].prefix, tools.rename)")
	}
	if slices.ContainsFunc(r.Clashes, func(clash string) bool { return !byName(clash) && !alike(clash) }) {
		add("resources with the same URI are read from the first upstream that has them: see whether two entries lead to the same server")
	}
	if slices.ContainsFunc(r.Clashes, alike) {
		add("a tool may imitate one of another upstream: compare the definitions, then set tools.deny, tools.rename or a prefix")
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
		add("see left_out: rename what has another name, the server should correct other definitions")
	}
	r.Advice = strings.Join(advice, "; ")
}

// appendUnreadable adds the reason why clients of a protocol generation cannot read an
// item.
func appendUnreadable(list []string, kind mcp.ListKind, raw []byte) []string {
	_, legacy := catalog.Fit(kind, raw, false)
	_, modern := catalog.Fit(kind, raw, true)
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

// Listed is the lists of one upstream.
type Listed struct {
	// Result is the reason why the upstream could not be read, if Offer is nil.
	Result ProbeResult
	Offer  *catalog.Offer
}

// Lists reads the lists of all upstreams of a valid configuration, and contacts no other
// servers. The results are in the order of the file.
func Lists(ctx context.Context, f *config.File, o ProbeOptions) []Listed {
	o.Timeout = cmp.Or(o.Timeout, probeTimeout)
	list := make([]Listed, len(f.Upstreams))
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for i := range f.Upstreams {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, o.Timeout+startTime(&f.Upstreams[i]))
			defer cancel()
			a := askUpstream(ctx, f, i, o)
			a.result.complete()
			list[i] = Listed{a.result, a.offer}
		})
	}
	wg.Wait()
	return list
}

// Merge merges lists like the federation does; nil without federation. Names that already
// have owners keep them, if this user may read the owners.
func Merge(f *config.File, list []Listed) *catalog.Catalog {
	all := make([]asked, len(list))
	for i := range list {
		all[i] = asked{list[i].Result, list[i].Offer}
	}
	return mergedNames(f, all)
}
