package policy

import (
	"fmt"

	"svc/gateway/policy/arguments"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/match"
)

// Set is a compiled list of rules with its default action. It is immutable and safe for
// concurrent use.
type Set struct {
	rules    []*Rule
	fallback fallback
	index    [2]index // by direction; enforced rules only
	// observers are the rules in mode observe, in the order of the list.
	observers []*Rule
	// usesUpstream is set when a rule has when.upstream.
	usesUpstream bool
	// labels are the labels that rules look at.
	labels flow.Labels
	// usesURI is set when a rule has when.uri_prefix.
	usesURI bool
	// arguments has the pointers of all when.arguments.
	arguments arguments.Plan
}

// fallback is the compiled default_action.
type fallback uint8

const (
	fallbackToolCalls fallback = iota // default_action is absent: tool calls are denied
	fallbackAllow
	fallbackDeny // everything except the discovery allowlist is denied
)

// Compile compiles a section that [Config.Validate] has accepted. labels are the declared labels in the
// order of their bits in [Request.Labels] (flow.Names.List). For a section that was
// not validated, Compile may return only the first error.
func Compile(cfg Config, labels ...string) (*Set, error) {
	s := &Set{rules: make([]*Rule, 0, len(cfg.Rules))}
	names := flow.NewNames(labels...)
	switch a := cfg.DefaultAction; {
	case a == nil:
	case *a == "allow":
		s.fallback = fallbackAllow
	case *a == "deny":
		s.fallback = fallbackDeny
	default:
		return nil, fmt.Errorf("compile policy: default_action is %q", *a)
	}
	for i := range cfg.Rules {
		r, err := newRule(i, &cfg.Rules[i], names, &s.arguments)
		if err != nil {
			return nil, fmt.Errorf("compile policy: rules[%d] %q: %w", i, cfg.Rules[i].ID, err)
		}
		s.rules = append(s.rules, r)
		s.usesUpstream = s.usesUpstream || len(r.upstreams) > 0
		s.usesURI = s.usesURI || r.uri != nil
		if r.labels != nil {
			s.labels |= r.labels.all | r.labels.any
		}
	}
	enforced := s.enforced()
	for d := range s.index {
		s.index[d].build(enforced, Direction(d))
	}
	return s, nil
}

// Order returns the ids of the rules in evaluation order.
func (s *Set) Order() []string {
	ids := make([]string, len(s.rules))
	for i, r := range s.rules {
		ids[i] = r.ID
	}
	return ids
}

// UsesUpstream reports whether a decision may depend on the upstream of a message.
func (s *Set) UsesUpstream() bool { return s.usesUpstream }

// UsesLabels reports whether a decision may depend on the labels of the caller.
func (s *Set) UsesLabels() bool { return s.labels != 0 }

// UsesURI reports whether a decision may depend on the URI that a client asks for.
func (s *Set) UsesURI() bool { return s.usesURI }

// JudgesServers reports whether any rule, enforced or not, may match a message of a
// server.
func (s *Set) JudgesServers() bool {
	for _, r := range s.rules {
		if r.direction != ClientToServer && r.tool.Kind == match.Every {
			return true
		}
	}
	return false
}

// Rules returns the rules in evaluation order. The caller must not change the list.
func (s *Set) Rules() []*Rule { return s.rules }
