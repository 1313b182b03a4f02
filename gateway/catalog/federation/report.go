package federation

import (
	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// maxReported bounds the items that are reported individually after a change.
const maxReported = 100

// report logs the items that are newly omitted.
func (f *Federation) report(before, now *catalog.Catalog) {
	known := make(map[catalog.LeftOut]bool, len(before.LeftOut()))
	for _, left := range before.LeftOut() {
		known[left] = true
	}
	reported, more := 0, 0
	warn := func(left catalog.LeftOut, reason string) {
		if reported++; reported > maxReported {
			more++
			return
		}
		args := []any{"upstream", left.Upstream, "kind", left.Kind.String(), "name", left.Own,
			"visible_name", left.Visible, "reason", reason, "owner", left.Owner}
		if left.Problem != "" {
			args = append(args, "problem", left.Problem)
		}
		if fix := left.Remedy(); fix != "" {
			args = append(args, "fix", fix)
		}
		f.opts.Logger.Warn("an item is omitted from the lists", args...)
	}
	for _, left := range now.LeftOut() {
		if left.Reason != catalog.ReasonHidden && !known[left] {
			warn(left, string(left.Reason))
		}
	}
	for _, kind := range mcp.ListKinds {
		for _, it := range now.Items(kind) {
			old, ok := before.Item(kind, it.Visible)
			if ok && old.Digest == it.Digest {
				continue
			}
			if len(it.Visible) > catalog.LongVisible && kind == mcp.Tool {
				f.opts.Logger.Warn("a tool has a name that some clients truncate", "upstream", it.Upstream, "visible_name", it.Visible, "bytes", len(it.Visible))
			}
			for _, modern := range []bool{false, true} {
				if it.Form(modern) == nil {
					_, problem := catalog.Fit(kind, it.JSON, modern)
					generation := "legacy"
					if modern {
						generation = "2026-07-28"
					}
					warn(catalog.LeftOut{Upstream: it.Upstream, Kind: kind, Own: it.Own, Visible: it.Visible}, "clients of the generation "+generation+" cannot read it: "+problem)
				}
			}
		}
	}
	if more > 0 {
		f.opts.Logger.Warn("further items are omitted from the lists", "items", more)
	}
	f.reportAlike(before, now)
}

// reportAddresses logs once for each upstream with skill:// or ui:// addresses that clients see other
// ones, or that they see none because another upstream has the same name in addresses.
func (f *Federation) reportAddresses(now *catalog.Snapshot) {
	a := f.Addresses()
	if a == nil {
		return
	}
	for _, fd := range f.feeds {
		offer := now.Offers[fd.Name]
		if offer == nil || f.noted[fd.Name] || !offer.HasAddresses() {
			continue
		}
		f.noted[fd.Name] = true
		begin := a.Segment(fd.Name)
		if other := a.Ambiguous(fd.Name); other != "" {
			f.opts.Logger.Error("the skill:// and ui:// addresses of an upstream are withheld: the name of another upstream is the same in addresses",
				"upstream", fd.Name, "other_upstream", other, "begin", begin, "fix", "give one of the two another name")
			continue
		}
		f.opts.Logger.Info("clients see the skill:// and ui:// addresses of an upstream with its name in front, because there are several upstreams",
			"upstream", fd.Name, "own", "ui://page", "visible", a.Visible(fd.Name, "ui://page"))
	}
}

// reportAlike logs the items whose visible names newly look like those of other upstreams.
func (f *Federation) reportAlike(before, now *catalog.Catalog) {
	had := func(it *catalog.Item) bool {
		old, ok := before.Item(it.Kind, it.Visible)
		return ok && old.Upstream == it.Upstream
	}
	reported := 0
	for _, a := range now.Alike() {
		if had(a.Item) && had(a.Other) {
			continue
		}
		if reported++; reported > maxReported {
			continue
		}
		f.opts.Logger.Warn("a name looks like that of another upstream, which it may imitate", "upstream", a.Item.Upstream, "kind", a.Item.Kind.String(),
			"visible_name", a.Item.Visible, "looks_like", a.Other.Visible, "other_upstream", a.Other.Upstream, "fix", "compare the definitions; then remove one with tools.deny, or tell them apart with tools.rename or a prefix")
	}
	if reported > maxReported {
		f.opts.Logger.Warn("further names look like those of other upstreams", "items", reported-maxReported)
	}
}
