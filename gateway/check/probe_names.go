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
	"svc/gateway/catalog/pins"
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
		if f.Federation.Enabled {
			for _, name := range federation.UnroutedExtensions(offer.Capabilities) {
				r.LeftOut = append(r.LeftOut, fmt.Sprintf(leftExtension+"%s: the gateway does not declare it to clients, because it does not route its messages", printable(name)))
			}
		}
		r.countSkills(f, &f.Upstreams[i], offer)
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

// countSkills counts the skills of an upstream. What is listed first is approved at that time.
func (r *ProbeResult) countSkills(f *config.File, u *upstream.Config, offer *catalog.Offer) {
	settings := f.Pinning()
	path, given := settings.Path()
	approved, err := pins.ReadOrEmpty(path)
	decided := err == nil && upstream.Pins(u.PinSkills) && (given || approved.Has(u.Name, pins.Skill))
	for _, raw := range offer.List(mcp.Skill).Items {
		r.Skills++
		pin, err := pins.DefineListed(u.Name, pins.Skill, raw)
		switch {
		case err != nil:
			r.SkillsInvalid++
			if !f.Federation.Enabled { // otherwise the merge leaves it out
				r.LeftOut = append(r.LeftOut, fmt.Sprintf("skill %s: %s", printable(memberOf(raw, "uri")), printable(err.Error())))
			}
		case decided && approved.Status(pin.Subject, pin.Definition.Digest) != pins.Approved:
			r.SkillsChanged++
		}
	}
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
			text := fmt.Sprintf("%s %s: %s", left.Kind, printable(name), cmp.Or(left.Problem, string(left.Reason)))
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
			r.LeftOut = append(r.LeftOut, fmt.Sprintf("tool %s"+leftForApps, printable(it.Visible)))
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

// What is left out and needs another advice than definitions that are not valid.
const (
	leftExtension = "extension "
	leftForApps   = ": for apps alone; give the upstream a view of its own"
)

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
		if r.Prompts > 0 || r.Resources > 0 || r.Skills > 0 {
			add("clients cannot use its prompts, resources and skills, because requests without a tool name go to default_upstream alone: enable federation")
		}
	}
	if r.SkillsChanged > 0 {
		add("'svc tools diff' shows which skills are not the approved ones")
	}
	if slices.ContainsFunc(r.LeftOut, func(left string) bool {
		return !strings.HasPrefix(left, leftExtension) && !strings.Contains(left, leftForApps)
	}) {
		add("see left_out: tools.rename gives a tool another name, and the server has to correct what is not valid")
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

// maxFileAnswer bounds the answer to the read of a file of a skill, relative to the size of the file: a text
// may have an escape for each byte.
const maxFileAnswer = 8

// SkillFiles reads files of skills from an upstream of a valid configuration, and returns the bytes of those
// that are what their entries name, by address.
func SkillFiles(ctx context.Context, f *config.File, i int, o ProbeOptions, files []pins.SkillFile) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Timeout, probeTimeout)+startTime(&f.Upstreams[i]))
	defer cancel()
	up, done, err := open(f, i, o)
	if err != nil {
		return nil, err
	}
	defer done()
	l := catalog.Lister{Transport: up.Transport, Agent: agent, Version: o.Version, Protocol: f.Upstreams[i].Protocol, Caller: o.caller(&f.Upstreams[i])}
	byURI, uris, limit := map[string]*pins.SkillFile{}, []string{}, int64(64<<10)
	for n := range files {
		byURI[files[n].URI], uris, limit = &files[n], append(uris, files[n].URI), max(limit, maxFileAnswer*files[n].Size)
	}
	contents := map[string][]byte{}
	err = l.ReadResources(ctx, uris, int(limit), func(uri string, m *mcp.Message) {
		if m == nil {
			return
		}
		if content, ok := byURI[uri].Content(m); ok {
			contents[uri] = content
		}
	})
	return contents, err
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
