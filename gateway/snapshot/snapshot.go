// Package snapshot is the compiled form of all configuration that a reload can replace:
// one immutable value. A request uses one snapshot from start to end; a long stream uses
// the current one for each frame. Package gateway holds the current snapshot and replaces
// it.
package snapshot

import (
	"fmt"
	"log/slog"
	"time"

	"svc/gateway/admission"
	"svc/gateway/auth"
	"svc/gateway/caller"
	"svc/gateway/config"
	"svc/gateway/guardrail"
	"svc/gateway/headers"
	"svc/gateway/origin"
	"svc/gateway/policy"
	"svc/gateway/ratelimit"
	"svc/gateway/verdict"
)

// Snapshot is a compiled configuration. It is immutable, except for the decision cache of
// its rules and the state of its breakers, which are safe for concurrent use.
type Snapshot struct {
	Config *config.File
	Rules  *policy.Set
	// Verdict is the configuration of the decisions about messages.
	Verdict   verdict.Snapshot
	Callers   *caller.Rules
	Admission admission.Rules
	// ForwardHeaders are forward_headers in canonical form.
	ForwardHeaders []string
}

// Sources are the objects that outlive a reload and that a snapshot uses.
type Sources struct {
	// Listen is the address at startup; a reload does not change it.
	Listen      string
	Secure      bool // the gateway serves TLS
	OffersTools bool // the gateway answers tools/list itself
	Limits      ratelimit.Store
	Verifier    *auth.Verifier
	OAuth       *auth.OAuth
	Logger      *slog.Logger
	Now         func() time.Time
}

// Build compiles a validated configuration into a snapshot. It does not affect running
// parts. The breakers of its guardrails start closed. The snapshot's guardrails must be
// closed when it is no longer in use.
func Build(cfg *config.File, from Sources) (*Snapshot, error) {
	s := &Snapshot{
		Config:         cfg,
		Admission:      admission.Rules{Origins: origin.New(from.Listen, cfg.AllowedOrigins, cfg.AllowedHosts, cfg.Auth.Header)},
		ForwardHeaders: headers.Canonical(cfg.ForwardHeaders),
	}
	if in := cfg.InputRateLimit; in.Enabled {
		s.Admission.Limit = admission.Limit{
			Store: from.Limits, RequestsPerSecond: in.RequestsPerSecond, Burst: in.Burst, FailOpen: cfg.RateLimitStore.FailOpen,
		}
	}
	var err error
	if s.Rules, err = policy.Compile(cfg.Policy); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	s.Verdict = verdict.Snapshot{
		Rules:       policy.NewMemory(s.Rules), // a reload begins with an empty cache
		FilterLists: cfg.FiltersLists(), OffersTools: from.OffersTools, FailOpen: cfg.RateLimitStore.FailOpen,
	}
	for _, r := range s.Rules.Rules() {
		s.Verdict.Strips = s.Verdict.Strips || r.Action == policy.StripApp && !r.Observe
	}
	if s.Verdict.Guards, err = buildGuards(cfg, from); err != nil {
		return nil, err
	}
	s.Callers, err = caller.New(cfg.Auth, auth.Identity(cfg.Identity), caller.Sources{
		Verifier: from.Verifier, OAuth: from.OAuth, Listen: from.Listen, Secure: from.Secure, Views: cfg.ViewNames(),
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func buildGuards(cfg *config.File, from Sources) (*guardrail.Set, error) {
	set, err := guardrail.New(cfg.Guardrails, from.Logger, from.Now)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Policy.Rules {
		if name := cfg.Policy.Rules[i].Guardrail; name != nil && set.Get(*name) == nil {
			return nil, fmt.Errorf("policy: rules[%d]: no guardrail is named %q", i, *name)
		}
	}
	return set, nil
}
