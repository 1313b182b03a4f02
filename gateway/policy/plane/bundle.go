package plane

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"svc/gateway/mcp/match"
	"svc/gateway/policy"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/detect"
	"svc/store/api"
)

// Phase is the phase in which a policy applies.
type Phase uint8

// The phases.
const (
	Request  Phase = iota // messages of the client
	Response              // messages of the upstream
	phases
)

// Action is the action of a policy.
type Action uint8

// The actions.
const (
	Warn Action = iota
	Redact
	Block
)

// String returns the action as written by the control plane.
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
	toolArguments
	budgetExceeded
	dataFlow
)

// Policy is a compiled policy of the control plane. It is immutable.
type Policy struct {
	ID, Name string
	Action   Action
	// Message tells the client why the policy blocked; may be empty.
	Message string
	// Approval is set for a [Block] policy of the phase Request that blocks only calls without a
	// grant. Such a policy looks only at the messages of [policy.Approvable] methods.
	Approval *policy.Approval

	order     int // its index in the bundle
	condition condition
	threshold float64
	entities  []string // empty means any entity
	toolName  string
	tool      *match.Pattern       // nil where toolName is not a pattern
	arguments *arguments.Condition // of tool_arguments; plan has its pointers
	plan      *arguments.Plan
	strategy  string
	// labelsAll and labelsAny are of data_flow, which may have a toolName.
	labelsAll, labelsAny []string
}

// covers reports whether the policy applies to an entity: an entity of its condition, or
// any for conditions without entities.
func (p *Policy) covers(entity string) bool {
	return len(p.entities) == 0 || slices.Contains(p.entities, entity)
}

// scans reports whether the policy needs a scan for entities: to decide whether it fires,
// or to redact the matches when it does.
func (p *Policy) scans() bool {
	return p.condition == piiDetected || p.Action == Redact && p.condition != injectionScore
}

// matchesTool reports whether the policy applies to a tool.
func (p *Policy) matchesTool(name string) bool {
	if p.tool == nil {
		return name == p.toolName
	}
	return p.tool.Match(name)
}

// Bundle is the compiled bundle of the control plane. It is immutable and safe for
// concurrent use.
type Bundle struct {
	agents   map[string]*Set
	others   *Set // for agents that no policy, no budget and no team names
	policies int
	revision int64    // of the policies
	key      []byte   // the tenant's hash key
	unknown  []string // entities in policies that no detector finds
	labels   []string // of policies with data_flow, sorted

	tokens      *detect.Tokens // nil for a gateway without a key for them
	makesTokens bool           // a policy replaces by tokens
}

// Policies returns the number of policies.
func (b *Bundle) Policies() int { return b.policies }

// Revision returns the revision of the policies.
func (b *Bundle) Revision() int64 { return b.revision }

// ConfigDigest returns 16 hexadecimal digits that are equal for equal configuration files of the
// tenant's gateways, and from which nobody without the tenant's key can tell what is in a file.
func (b *Bundle) ConfigDigest(file []byte) string {
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte("svc configuration\n"))
	mac.Write(file)
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Unknown returns the entities in policies that no detector can find.
func (b *Bundle) Unknown() []string { return b.unknown }

// Labels returns the labels that policies look at, sorted.
func (b *Bundle) Labels() []string { return b.labels }

// For returns the policies for an agent's messages; nil when there are none. A name that
// no policy has is looked up under the name that the control plane gives the agent.
func (b *Bundle) For(agent string) *Set {
	if s, ok := b.agents[agent]; ok {
		return s
	}
	if s, ok := b.agents[api.CleanAgentName(agent)]; ok {
		return s
	}
	return b.others
}

// Set holds the policies for the messages of one agent. It is immutable and safe for
// concurrent use.
type Set struct {
	sides     [phases]phasePolicies
	key       []byte
	detectors Detectors
	tokens    *detect.Tokens
	resets    []time.Time // of the exceeded budgets that cover the calls of the agent
}

// phasePolicies is one phase of a set.
type phasePolicies struct {
	policies  []*Policy
	scanner   Scanner // nil when no policy needs entities
	injection bool    // texts are scored for prompt injection
	mustScore bool    // a policy acts on the score
	labels    bool    // a policy looks at labels
}

// Scans reports whether texts are scanned in a phase.
func (s *Set) Scans(p Phase) bool {
	return s != nil && (s.sides[p].scanner != nil || s.sides[p].injection)
}

// UsesLabels reports whether a policy looks at the labels of the caller.
func (s *Set) UsesLabels() bool { return s != nil && s.sides[Request].labels }

// Empty reports whether a phase has no policies.
func (s *Set) Empty(p Phase) bool { return s == nil || len(s.sides[p].policies) == 0 }

// MakesTokens reports whether values in answers may be replaced by tokens.
func (s *Set) MakesTokens() bool {
	return s != nil && slices.ContainsFunc(s.sides[Response].policies, func(p *Policy) bool { return p.strategy == tokenStrategy })
}

// overBudget reports whether a budget that covers the calls of the agent is exceeded and was not reset
// since.
func (s *Set) overBudget(now time.Time) bool {
	for _, t := range s.resets {
		if now.Before(t) {
			return true
		}
	}
	return false
}
