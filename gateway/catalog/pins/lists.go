package pins

import (
	"context"
	"slices"
	"strings"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
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
	all := Of(u.name, o)
	if c == nil || u.perCaller {
		g.learn(u, all)
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
	return u.lists.Look(ctx, c, mcp.Tool, mcp.Prompt)
}

// of returns an upstream with pin_tools, or nil.
func (g *Guard) of(name string) *guarded {
	if g == nil {
		return nil
	}
	return g.upstreams[name]
}

// report logs the definitions that are not approved, each once.
func (g *Guard) report(u *guarded, seen map[Subject]Digest, p *Pins) {
	if !g.given && !p.Has(u.name) {
		return // nothing is approved yet
	}
	news := u.unapproved(seen, p)
	slices.SortFunc(news, func(a, b Subject) int { return strings.Compare(a.String(), b.String()) })
	for _, s := range news[:min(len(news), maxLogged)] {
		g.log.Warn("tool_changed", "upstream", u.name, "kind", string(s.Kind), "name", s.Name, "status", string(p.Status(s, seen[s])), "withheld", u.block,
			"fix", "svc tools diff")
	}
	if more := len(news) - maxLogged; more > 0 {
		g.log.Warn("further definitions are not approved", "upstream", u.name, "items", more)
	}
}

// Keep returns an offer without the definitions that are not approved, if the upstream has
// pin_tools: block; the same offer when nothing is omitted. The offer itself is not
// changed.
func (g *Guard) Keep(upstream string, o *catalog.Offer) *catalog.Offer {
	u := g.of(upstream)
	if u == nil || !u.block {
		return o
	}
	p := g.pins.Load()
	kept := *o
	kept.Lists = slices.Clone(o.Lists)
	cut := false
	for i := range kept.Lists {
		kind, ok := kindOf(kept.Lists[i].Kind)
		if !ok {
			continue
		}
		keep := u.judge(kind, kept.Lists[i].Items, p, nil)
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
	if o.Instructions != "" && !approved(p, instructionsPin(u.name, o.Instructions)) {
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
}

// For returns the view of a caller, valid as long as the caller is.
func (g *Guard) For(c *upstream.Caller) *View {
	if g == nil || g.federated { // with federation the forwarded lists are the gateway's own
		return nil
	}
	return &View{g, c}
}

// Cut removes definitions that are not approved from an upstream's response to a list
// request, to initialize and to server/discover. resumed is set when the request is
// unknown. ok is false for an ambiguous response.
func (v *View) Cut(ctx context.Context, upstream string, asked *mcp.Message, resumed bool, m *mcp.Message) (ok bool) {
	if v == nil || m.Kind != mcp.Response || m.IsError {
		return true
	}
	g, u := v.guard, v.guard.of(upstream)
	if u == nil {
		return true
	}
	listKind, isList := mcp.ListKindOf(asked.Method)
	describes := asked.Method == mcp.MethodInitialize || asked.Method == mcp.MethodDiscover
	if !isList && !describes && !resumed {
		return true
	}
	if u.block && !g.pins.Load().Has(u.name) {
		if err := g.ready(ctx, u, v.caller); err != nil {
			g.log.Warn("what an upstream lists is withheld: its definitions could not be read to be approved", "upstream", u.name, "error", err)
		}
	}
	p := g.pins.Load()
	var listed []Pin
	for _, kind := range mcp.ListKinds {
		if pinned, can := kindOf(kind); can && (resumed || isList && kind == listKind) {
			if !u.cutList(pinned, kind.Member(), m, p, &listed) {
				return false
			}
		}
	}
	if describes || resumed {
		if !u.cutInstructions(m, p, &listed) {
			return false
		}
	}
	if len(listed) > 0 && (g.given || p.Has(u.name)) {
		seen := digests(listed)
		u.note(v.caller, seen, false, p, g.now())
		g.report(u, seen, p)
		u.wake(seen, p)
	}
	return true
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
		return !u.block
	}
	keep := u.judge(kind, items, p, listed)
	if !u.block {
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
	if !u.block || approved(p, pin) {
		return true
	}
	return mcp.Scan(mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: []byte(`""`)}), m) == nil
}
