package pins

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Note records the list of an upstream: as listed to a caller that has its own lists, or to
// the gateway itself when c is nil. If the configuration names no file, the first list is
// approved; definitions that are not approved are logged.
func (g *Guard) Note(upstream string, c *upstream.Caller, o *catalog.Offer) {
	u := g.of(upstream)
	if u == nil {
		return
	}
	all := slices.DeleteFunc(Of(u.name, o), func(p Pin) bool { return !u.pins(p.Subject.Kind) })
	if c == nil || u.perCaller {
		if u.pins(Tool) {
			g.learn(u, Tool, all)
		}
		if u.pins(Skill) && slices.ContainsFunc(o.Lists, func(l catalog.List) bool { return l.Kind == mcp.Skill && l.Cut == nil }) {
			g.learn(u, Skill, all)
		}
	}
	seen := digests(all)
	p := g.pins.Load()
	u.note(c, seen, true, p, g.now())
	g.report(u, seen, p)
}

// Limits of the lists that calls wait for.
const (
	// readTime bounds one reading, and therefore the time that a call waits for the first
	// reading.
	readTime = 10 * time.Second
	// maxAge is how long the list of a caller is trusted without reading it again.
	maxAge = 5 * time.Minute
)

// ready waits until the lists of an upstream are known: as listed to the gateway, or to a caller
// where each has its own. Concurrent calls share one reading.
func (g *Guard) ready(ctx context.Context, u *guarded, c *upstream.Caller) error {
	if u.known(c, g.now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if !u.perCaller {
		if err := u.lists.Ask(ctx, false); !u.known(c, g.now()) {
			return err
		}
		return nil
	}
	select {
	case u.reading <- struct{}{}:
		defer func() { <-u.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if u.known(c, g.now()) {
		return nil
	}
	return u.lists.Look(ctx, c, u.kinds()...)
}

// of returns an upstream with pin_tools or pin_skills, or nil.
func (g *Guard) of(name string) *guarded {
	if g == nil {
		return nil
	}
	return g.upstreams[name]
}

// report logs the definitions that are not approved, each once.
func (g *Guard) report(u *guarded, seen map[Subject]Digest, p *Pins) {
	seen = maps.Clone(seen)
	maps.DeleteFunc(seen, func(s Subject, _ Digest) bool { return !g.decided(u, s.Kind, p) })
	news := u.unapproved(seen, p)
	slices.SortFunc(news, func(a, b Subject) int { return strings.Compare(a.String(), b.String()) })
	for _, s := range news[:min(len(news), maxLogged)] {
		event := "tool_changed"
		if s.Kind == Skill {
			event = "skill_changed"
		}
		g.log.Warn(event, "upstream", u.name, "kind", string(s.Kind), "name", s.Name, "status", string(p.Status(s, seen[s])), "withheld", u.blocks(s.Kind),
			"fix", "svc tools diff")
	}
	if more := len(news) - maxLogged; more > 0 {
		g.log.Warn("further definitions are not approved", "upstream", u.name, "items", more)
	}
}

// decided reports whether definitions of a kind are approved or not: before the first list is
// approved they are neither.
func (g *Guard) decided(u *guarded, of Kind, p *Pins) bool { return g.given || p.Has(u.name, of) }

// Keep returns an offer without the definitions that are not approved, of the kinds that the
// configuration blocks, and without resources that are files of skills and are not approved; the
// same offer when nothing is omitted. The offer itself is not changed.
func (g *Guard) Keep(upstream string, o *catalog.Offer) *catalog.Offer {
	u := g.of(upstream)
	if u == nil {
		return o
	}
	p := g.pins.Load()
	kept := *o
	kept.Lists = slices.Clone(o.Lists)
	cut := false
	for i := range kept.Lists {
		kind, ok := kindOf(kept.Lists[i].Kind)
		var keep []bool
		switch {
		case ok && u.blocks(kind):
			keep = u.judge(kind, kept.Lists[i].Items, p, nil)
		case kept.Lists[i].Kind == mcp.Resource && u.blocks(Skill):
			keep = u.keepFiles(kept.Lists[i].Items, p, nil)
		default:
			continue
		}
		var items [][]byte
		for j, raw := range kept.Lists[i].Items {
			if keep[j] {
				items = append(items, raw)
			}
		}
		if len(items) < len(kept.Lists[i].Items) {
			kept.Lists[i].Items, cut = items, true
		}
	}
	if o.Instructions != "" && u.blocks(Instructions) && !approved(p, instructionsPin(u.name, o.Instructions)) {
		kept.Instructions, cut = "", true
	}
	if !cut {
		return o
	}
	return &kept
}

func approved(p *Pins, pin Pin) bool {
	return p.Status(pin.Subject, pin.Definition.Digest) == Approved
}

// judge decides for each item whether it is approved, and adds the named ones to listed. If
// one definition of a name is not approved, no definition of the name is.
func (u *guarded) judge(kind Kind, items [][]byte, p *Pins, listed *[]Pin) []bool {
	keep := make([]bool, len(items))
	names := make([]string, len(items))
	bad := map[string]bool{}
	for i, raw := range items {
		pin, err := DefineListed(u.name, kind, raw)
		if err != nil {
			continue // a definition without a name cannot be approved
		}
		if listed != nil {
			*listed = append(*listed, pin)
		}
		names[i] = pin.Subject.Name
		if keep[i] = approved(p, pin); !keep[i] {
			bad[pin.Subject.Name] = true
		}
	}
	for i := range keep {
		keep[i] = keep[i] && !bad[names[i]]
	}
	return keep
}

// View is the guard for one caller. A nil View checks nothing.
type View struct {
	guard  *Guard
	caller *upstream.Caller
	own    string
}

// For returns the view of a caller, valid as long as the caller is. own is the upstream's own name of
// what the request names, if it differs from the name in the message.
func (g *Guard) For(c *upstream.Caller, own string) *View {
	if g == nil || g.federated && !g.skills { // with federation the forwarded lists are the gateway's own
		return nil
	}
	return &View{g, c, own}
}

// Cut removes definitions that are not approved from an upstream's response to a list
// request, to initialize and to server/discover, and compares what a message has of skills
// (see [View.skills]). resumed is set when the request is unknown. refused is set for an
// ambiguous response and for what is not approved, changed for the latter even if it passes.
func (v *View) Cut(ctx context.Context, upstream string, asked *mcp.Message, resumed bool, m *mcp.Message) (refused *refusal.Refusal, changed bool) {
	if v == nil {
		return nil, false
	}
	u := v.guard.of(upstream)
	if u == nil {
		return nil, false
	}
	if !v.guard.federated && !v.lists(ctx, u, asked, resumed, m) {
		return &refusal.UpstreamInvalid, false
	}
	if !u.pins(Skill) {
		return nil, false
	}
	return v.skills(ctx, u, asked, resumed, m)
}

// lists compares the lists in a response. ok is false for an ambiguous one.
func (v *View) lists(ctx context.Context, u *guarded, asked *mcp.Message, resumed bool, m *mcp.Message) (ok bool) {
	listKind, isList := mcp.ListKindOf(asked.Method)
	describes := asked.Method == mcp.MethodInitialize || asked.Method == mcp.MethodDiscover
	if m.Kind != mcp.Response || m.IsError || !isList && !describes && !resumed {
		return true
	}
	g := v.guard
	g.awaitFirst(ctx, u, v.caller)
	p := g.pins.Load()
	var listed []Pin
	for _, kind := range u.kinds() {
		if pinned, _ := kindOf(kind); resumed || isList && kind == listKind {
			if !u.cutList(pinned, kind.Member(), m, p, &listed) {
				return false
			}
		}
	}
	if u.pins(Instructions) && (describes || resumed) {
		if !u.cutInstructions(m, p, &listed) {
			return false
		}
	}
	g.noteListed(u, v.caller, listed, p)
	return true
}

// awaitFirst waits for the first lists of an upstream if what it lists first is approved and withheld
// until then.
func (g *Guard) awaitFirst(ctx context.Context, u *guarded, c *upstream.Caller) {
	p := g.pins.Load()
	if !(u.blocks(Tool) && !p.Has(u.name, Tool) || u.blocks(Skill) && !p.Has(u.name, Skill)) {
		return
	}
	if err := g.ready(ctx, u, c); err != nil {
		g.log.Warn("what an upstream lists is withheld: its definitions could not be read to be approved", "upstream", u.name, "error", err)
	}
}

// noteListed records a part of what is listed to a caller.
func (g *Guard) noteListed(u *guarded, c *upstream.Caller, listed []Pin, p *Pins) {
	listed = slices.DeleteFunc(listed, func(pin Pin) bool { return !g.decided(u, pin.Subject.Kind, p) })
	if len(listed) > 0 {
		seen := digests(listed)
		u.note(c, seen, false, p, g.now())
		g.report(u, seen, p)
		u.wake(seen, p)
	}
}

// wake requests an early reading of the upstream if its response contains something that is
// not approved.
func (u *guarded) wake(seen map[Subject]Digest, p *Pins) {
	for s, d := range seen {
		if p.Status(s, d) != Approved {
			u.lists.ReadAgain()
			return
		}
	}
}

// cutList filters one list of a response.
func (u *guarded) cutList(kind Kind, member string, m *mcp.Message, p *Pins, listed *[]Pin) (ok bool) {
	var items [][]byte
	if _, _, ok := mcp.CutList(m, member, func(raw []byte) bool { items = append(items, raw); return true }); !ok {
		return !u.blocks(kind)
	}
	keep := u.judge(kind, items, p, listed)
	if !u.blocks(kind) {
		return true
	}
	i := -1
	body, changed, ok := mcp.CutList(m, member, func([]byte) bool { i++; return keep[i] })
	return ok && (!changed || mcp.Scan(body, m) == nil)
}

// cutInstructions removes instructions that are not approved.
func (u *guarded) cutInstructions(m *mcp.Message, p *Pins, listed *[]Pin) (ok bool) {
	at := mcp.Find(m.Body, m.Spans.Result, "instructions")
	text, _ := mcp.StringValue(at.Of(m.Body))
	if text == "" {
		return true
	}
	pin := instructionsPin(u.name, strings.Clone(text))
	*listed = append(*listed, pin)
	if !u.blocks(Instructions) || approved(p, pin) {
		return true
	}
	return mcp.Scan(mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: []byte(`""`)}), m) == nil
}
