package request

import (
	"fmt"
	"log/slog"
	"time"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/guardrail"
	"svc/gateway/redis"
	"svc/gateway/request/verdict"
)

// Snapshot is a compiled configuration. It is immutable, except for the decision cache of
// its rules and the state of its breakers, which are safe for concurrent use.
type Snapshot struct {
	Config *config.File
	Rules  *policy.Set
	// Verdict is the configuration of the decisions about messages.
	Verdict verdict.Snapshot
	// Flow are the data-flow labels; nil if none are declared.
	Flow      *flow.Table
	Callers   *CallerRules
	Admission Admission
	// ForwardHeaders are forward_headers in canonical form.
	ForwardHeaders []string
}

// File returns the configuration of a snapshot, or nil for nil.
func (s *Snapshot) File() *config.File {
	if s == nil {
		return nil
	}
	return s.Config
}

// Sources are the objects that outlive a reload and that a snapshot uses.
type Sources struct {
	// Listen is the address at startup; a reload does not change it.
	Listen      string
	Secure      bool // the gateway serves TLS
	OffersTools bool // the gateway answers tools/list itself
	Limits      redis.Store
	Verifier    *auth.Verifier
	OAuth       *auth.OAuth
	Logger      *slog.Logger
	Now         func() time.Time
}

// Build compiles a validated configuration into a snapshot. It does not affect running
// parts. The breakers of its guardrails start closed. The snapshot's guardrails must be
// closed when it is no longer in use.
func Build(cfg *config.File, from Sources) (*Snapshot, error) {
	publicURL := ""
	if cfg.Auth.OAuth.Enabled { // the metadata document names it
		publicURL = cfg.Auth.OAuth.PublicURL
	}
	s := &Snapshot{
		Config:         cfg,
		Admission:      Admission{Origins: NewOriginRules(from.Listen, publicURL, cfg.AllowedOrigins, cfg.AllowedHosts, cfg.Auth.Header)},
		ForwardHeaders: mcp.Canonical(cfg.ForwardHeaders),
	}
	if in := cfg.InputRateLimit; in.Enabled {
		s.Admission.Limit = Limit{
			Store: from.Limits, RequestsPerSecond: in.RequestsPerSecond, Burst: in.Burst, FailOpen: cfg.RateLimitStore.FailOpen,
		}
	}
	var err error
	if s.Rules, err = policy.Compile(cfg.Policy, cfg.DataFlow.Names().List()...); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if s.Flow, err = flow.Compile(&cfg.DataFlow); err != nil {
		return nil, fmt.Errorf("data_flow: %w", err)
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
	s.Callers, err = NewCallerRules(cfg.Auth, auth.Identity(cfg.Identity), CallerSources{
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
