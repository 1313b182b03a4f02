package pins

import (
	"context"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Check decides about a message for an upstream that calls a tool, gets a prompt or reads a file of
// a skill: whether its definition, as it was listed to its caller or to the gateway, differs from
// the approved one or was never approved. own is the upstream's name of what the message names if
// it differs from the name in the message. changed is the kind that differs, empty for none. The
// refusal is nil if the message may pass. The error is that of reading the lists of the upstream.
func (g *Guard) Check(ctx context.Context, c *upstream.Caller, upstream string, m *mcp.Message, own string) (changed Kind, refused *refusal.Refusal, err error) {
	u := g.of(upstream)
	if u == nil {
		return "", nil, nil
	}
	s := Subject{Upstream: u.name, Name: m.Name}
	switch m.Method {
	case mcp.MethodToolsCall:
		s.Kind = Tool
	case mcp.MethodPromptsGet:
		s.Kind = Prompt
	case mcp.MethodSkillsGet, mcp.MethodDirectoryRead, mcp.MethodResourcesRead:
		s.Kind, s.Name = Skill, m.URI
	}
	if s.Kind == "" || !u.pins(s.Kind) {
		return "", nil, nil
	}
	if own != "" {
		s.Name = own
	}
	if u.blocks(s.Kind) {
		if err := g.ready(ctx, u, c); err != nil {
			return "", nil, err
		}
	}
	if s.Kind == Skill {
		return g.checkRead(u, c, m.Method, s.Name)
	}
	p := g.pins.Load()
	if !g.decided(u, s.Kind, p) {
		return "", nil, nil // warn: nothing is approved yet that could differ
	}
	pin, ok := p.Approved(s)
	if d, shown := u.shown(c, s); ok && (!shown || d == pin.Digest) {
		return "", nil, nil
	}
	if u.count(u.blocks(s.Kind)); u.blocks(s.Kind) {
		refused = &refusal.Pinned
	}
	return s.Kind, refused, nil
}

// Stats compares the last list of an upstream with the approved definitions.
type Stats struct {
	Upstream string
	// Approved, Changed and New count tools, prompts, instructions and skills; for an upstream
	// that accepts only the tokens of callers, Changed and New count those that are not
	// approved in the list of any caller.
	Approved, Changed, New int
	// Passed and Refused count calls of definitions, and reads of skills, that are not approved.
	Passed, Refused uint64
}

// Stats returns the state of every upstream with pin_tools or pin_skills, in the order of the config
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
