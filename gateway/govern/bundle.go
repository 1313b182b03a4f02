package govern

import (
	"slices"
	"time"

	"svc/gateway/glob"
	"svc/server/api"
)

// Phase is when a policy acts.
type Phase uint8

// The phases.
const (
	Request  Phase = iota // on what a client sends up
	Response              // on what comes back
	phases
)

// Action is what a policy does.
type Action uint8

// The actions.
const (
	Warn Action = iota
	Redact
	Block
)

// String returns the action as the control plane writes it.
func (a Action) String() string {
	switch a {
	case Block:
		return "block"
	case Redact:
		return "redact"
	}
	return "warn"
}

// condition is the type of a policy's condition.
type condition uint8

const (
	always condition = iota
	injectionScore
	piiDetected
	toolName
	budgetExceeded
)

// Policy is a compiled policy of the control plane. It does not change.
type Policy struct {
	ID, Name string
	Action   Action

	order     int // its place in the bundle
	condition condition
	threshold float64
	entities  []string // empty means any
	toolName  string
	tool      *glob.Pattern // nil where toolName is no pattern
	strategy  string
}

// covers reports whether an entity is one that the policy is about: those of its
// condition, or any for conditions that name none.
func (p *Policy) covers(entity string) bool {
	return len(p.entities) == 0 || slices.Contains(p.entities, entity)
}

// scans reports whether the policy needs texts to be scanned for entities: to
// know whether it fires, or to redact what is found when it does.
func (p *Policy) scans() bool {
	return p.condition == piiDetected || p.Action == Redact && p.condition != injectionScore
}

// matchesTool reports whether the policy is about a tool.
func (p *Policy) matchesTool(name string) bool {
	if p.tool == nil {
		return name == p.toolName
	}
	return p.tool.Match(name)
}

// Bundle is what the control plane asks for, compiled. It does not change and is
// safe for concurrent use.
type Bundle struct {
	agents   map[string]*Set
	others   *Set // agents that no policy and no budget names
	policies int
	unknown  []string // entities that policies name and nobody can find
}

// Policies returns how many policies there are.
func (b *Bundle) Policies() int { return b.policies }

// Unknown returns the entities that policies name and no detector can find.
func (b *Bundle) Unknown() []string { return b.unknown }

// For returns what is asked of an agent's messages; nil when nothing is. An agent
// whose name no policy has is the one whose name the control plane makes of it.
func (b *Bundle) For(agent string) *Set {
	if s, ok := b.agents[agent]; ok {
		return s
	}
	if s, ok := b.agents[api.CleanAgentName(agent)]; ok {
		return s
	}
	return b.others
}

// Set is what is asked of the messages of one agent. It does not change and is
// safe for concurrent use.
type Set struct {
	sides     [phases]side
	key       []byte
	detectors Detectors
	resets    []time.Time // of the budgets that the agent has exceeded
}

// side is one phase of a set.
type side struct {
	policies  []*Policy
	scanner   Scanner // nil when no policy looks for entities
	injection bool    // texts are scored
	mustScore bool    // and something is done about it
}

// Scans reports whether texts are looked at in a phase.
func (s *Set) Scans(p Phase) bool {
	return s != nil && (s.sides[p].scanner != nil || s.sides[p].injection)
}

// Empty reports whether nothing is asked in a phase.
func (s *Set) Empty(p Phase) bool { return s == nil || len(s.sides[p].policies) == 0 }

// overBudget reports whether the agent has spent a budget that was not reset
// since.
func (s *Set) overBudget(now time.Time) bool {
	for _, t := range s.resets {
		if now.Before(t) {
			return true
		}
	}
	return false
}
