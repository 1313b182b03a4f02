package pinning

import (
	"context"

	"svc/gateway/mcp"
	"svc/gateway/pins"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/transport"
)

// Check decides about a message for an upstream that calls a tool or gets a prompt:
// whether its definition, as it was listed to its caller or to the gateway, differs from
// the approved one or was never approved. own is the upstream's name of the tool or prompt
// if it differs from the name in the message. changed is set for such a call. The refusal
// is nil if the message may pass.
func (g *Guard) Check(ctx context.Context, c *transport.Caller, upstream string, m *mcp.Message, own string, changed *bool) *refusal.Refusal {
	u := g.of(upstream)
	if u == nil {
		return nil
	}
	s := pins.Subject{Upstream: u.name, Name: m.Name}
	switch m.Method {
	case mcp.MethodToolsCall:
		s.Kind = pins.Tool
	case mcp.MethodPromptsGet:
		s.Kind = pins.Prompt
	default:
		return nil
	}
	if own != "" {
		s.Name = own
	}
	if u.block {
		if err := g.ready(ctx, u, c); err != nil {
			return relay.OfError(err, ctx.Err() != nil).Refused
		}
	}
	p := g.pins.Load()
	if !g.given && !p.Has(u.name) {
		return nil // warn: nothing is approved yet that could differ
	}
	pin, ok := p.Approved(s)
	if d, shown := u.shown(c, s); ok && (!shown || d == pin.Digest) {
		return nil
	}
	*changed = true
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.block {
		u.passed++
		return nil
	}
	u.refused++
	return &refusal.Pinned
}

// Stats compares the last list of an upstream with the approved definitions.
type Stats struct {
	Upstream string
	// Approved, Changed and New count tools, prompts and instructions; for an upstream
	// that accepts only the tokens of callers, Changed and New count those that are not
	// approved in the list of any caller.
	Approved, Changed, New int
	// Passed and Refused count calls of definitions that are not approved.
	Passed, Refused uint64
}

// Stats returns the state of every upstream with pin_tools, in the order of the config
// file.
func (g *Guard) Stats() []Stats {
	if g == nil {
		return nil
	}
	p := g.pins.Load()
	out := make([]Stats, 0, len(g.order))
	for _, u := range g.order {
		out = append(out, u.stats(p))
	}
	return out
}

func (u *guarded) stats(p *pins.Pins) Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Stats{Upstream: u.name, Passed: u.passed, Refused: u.refused}
	listed := u.own
	if u.perCaller {
		listed = map[pins.Subject]pins.Digest{}
		for at := u.order.Front(); at != nil; at = at.Next() {
			for subject, d := range at.Value.(*deviating).seen {
				listed[subject] = d
			}
		}
	}
	for subject, d := range listed {
		switch p.Status(subject, d) {
		case pins.Approved:
			s.Approved++
		case pins.Changed:
			s.Changed++
		case pins.New:
			s.New++
		}
	}
	return s
}
