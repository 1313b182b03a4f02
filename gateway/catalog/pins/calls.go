package pins

import (
	"context"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Check decides about a message for an upstream that calls a tool or gets a prompt:
// whether its definition, as it was listed to its caller or to the gateway, differs from
// the approved one or was never approved. own is the upstream's name of the tool or prompt
// if it differs from the name in the message. changed is set for such a call. The refusal
// is nil if the message may pass. The error is that of reading the lists of the upstream.
func (g *Guard) Check(ctx context.Context, c *upstream.Caller, upstream string, m *mcp.Message, own string, changed *bool) (*refusal.Refusal, error) {
	u := g.of(upstream)
	if u == nil {
		return nil, nil
	}
	s := Subject{Upstream: u.name, Name: m.Name}
	switch m.Method {
	case mcp.MethodToolsCall:
		s.Kind = Tool
	case mcp.MethodPromptsGet:
		s.Kind = Prompt
	default:
		return nil, nil
	}
	if own != "" {
		s.Name = own
	}
	if u.block {
		if err := g.ready(ctx, u, c); err != nil {
			return nil, err
		}
	}
	p := g.pins.Load()
	if !g.given && !p.Has(u.name) {
		return nil, nil // warn: nothing is approved yet that could differ
	}
	pin, ok := p.Approved(s)
	if d, shown := u.shown(c, s); ok && (!shown || d == pin.Digest) {
		return nil, nil
	}
	*changed = true
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.block {
		u.passed++
		return nil, nil
	}
	u.refused++
	return &refusal.Pinned, nil
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

func (u *guarded) stats(p *Pins) Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Stats{Upstream: u.name, Passed: u.passed, Refused: u.refused}
	listed := u.own
	if u.perCaller {
		listed = map[Subject]Digest{}
		for at := u.order.Front(); at != nil; at = at.Next() {
			for subject, d := range at.Value.(*deviating).seen {
				listed[subject] = d
			}
		}
	}
	for subject, d := range listed {
		switch p.Status(subject, d) {
		case Approved:
			s.Approved++
		case Changed:
			s.Changed++
		case New:
			s.New++
		}
	}
	return s
}
