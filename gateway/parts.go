package gateway

import (
	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/pins"
	"svc/gateway/catalog/search"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/guardrail"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/request"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/streams"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
	"svc/gateway/upstream/targets"
)

// observedParts are the parts of a gateway whose state is collected at a scrape. Those
// documented as such may be nil.
type observedParts struct {
	Health    *healthProbes
	Verifier  *auth.Verifier
	Audit     *audit.Log
	Merged    *streams.MergedSet
	Sessions  *multiplex.Sessions
	Upstreams map[string]*upstream.Upstream
	Limits    redis.Store
	Redis     *redis.Redis // nil when buckets are in memory
	Flow      *flow.Memory // nil when no labels are declared
	// Guards and Callers are those of the current configuration.
	Guards     *guardrail.Set
	Callers    *request.CallerRules
	Reporter   *audit.Reporter        // nil when no traces are reported
	Governance *plane.Syncer          // nil when the control plane's policies are not enforced
	Search     *search.Service        // nil when the gateway does not answer tools/list itself
	Federation *federation.Federation // nil when lists are not merged
	Pins       *pins.Guard            // nil when definitions are not pinned
	Tracer     *telemetry.Tracer      // nil when no spans are exported
	Disk       *diskProbe
	ClockJumps uint64
}

// State collects the state of the parts.
func (p *observedParts) State() telemetry.State {
	keys := p.Verifier.Stats()
	s := telemetry.State{
		Ready:          p.Health.NotReady() == "",
		LicenseDays:    p.Health.LicenseDays(),
		RestartPending: p.Health.RestartPending(),
		MergedStreams:  p.Merged.Len(),
		AuditWritable:  p.Audit.Ready() == nil, AuditLost: p.Audit.Lost(),
		AuditDropped: p.Audit.DroppedRecords(), AuditQueued: p.Audit.QueuedRecords(),
		StateWritable: p.Disk.writable(), DiskFree: p.Disk.free(), ClockJumps: p.ClockJumps,
		KeysComputed: keys.Computed, KeysRemembered: keys.Remembered, KeysBusy: keys.Busy,
		BreakersOpen: p.Guards.Breakers(),
		Store:        p.store(),
		Issuer:       p.issuer(),
	}
	type counted interface{ Len() int }
	if m, ok := p.Limits.(counted); ok {
		s.Buckets = m.Len()
	}
	if m, ok := p.Sessions.State.Upstream.(counted); ok {
		s.Sessions = m.Len()
	}
	if p.Flow != nil {
		l := p.Flow.Stats()
		s.Labels = &telemetry.LabelState{Callers: l.Callers, Addresses: l.Addresses, Full: l.NoRoom, Unstored: l.Unstored}
	}
	if p.Reporter != nil {
		r := p.Reporter.Stats()
		s.Reporter = &telemetry.ReporterState{Posted: r.Posted, Duplicates: r.Duplicates, Failures: r.Failures,
			Quarantined: r.Quarantined, Dropped: r.Dropped, Failing: r.Failing != ""}
	}
	if p.Governance != nil {
		b := p.Governance.Stats()
		s.Governance = &telemetry.GovernanceState{Known: b.Known, Policies: b.Policies, Fetched: b.Fetched,
			Failures: b.Failures, Rejected: b.Rejected, Failing: b.Failing != ""}
	}
	for name, t := range p.Upstreams {
		if c, ok := targets.StatsOf(t); ok {
			s.Upstreams = append(s.Upstreams, telemetry.UpstreamState{Name: name, Open: c.Open, Idle: c.Idle, Waiting: c.Waiting,
				Dials: c.Dials, InFlight: c.InFlight, BreakerOpen: c.BreakerOpen,
				Processes: c.Processes.Processes, ProcessStarts: c.Processes.Starts, ProcessExits: c.Processes.Exits, Dropped: c.Dropped})
		}
	}
	for _, u := range p.Search.Stats() {
		s.ToolLists = append(s.ToolLists, telemetry.ToolListState{Upstream: u.Upstream, Tools: u.Tools, Failures: u.Failures, Changed: u.Changed, BackingOff: u.BackingOff})
	}
	for _, l := range p.Federation.Stats() {
		s.Federation = append(s.Federation, telemetry.FederationState(l))
	}
	for _, u := range p.Pins.Stats() {
		s.Pins = append(s.Pins, telemetry.PinState(u))
	}
	if p.Tracer != nil {
		s.Pipelines = p.Tracer.Stats()
	}
	return s
}

// store is the state of a shared rate-limit store.
func (p *observedParts) store() *telemetry.StoreState {
	if p.Redis == nil {
		return nil
	}
	s := p.Redis.Stats()
	return &telemetry.StoreState{Allowed: s.Allowed, Refused: s.Refused, Failed: s.Failed, ShortCircuited: s.ShortCircuited, Failing: s.Failing}
}

// issuer is the state of the token issuer's keys, nil when tokens are not accepted.
func (p *observedParts) issuer() *telemetry.IssuerState {
	s, ok := p.Callers.TokenStats()
	if !ok {
		return nil
	}
	return &telemetry.IssuerState{Keys: s.Keys, Fetched: s.Fetched, Fetches: s.Fetches, Failing: s.Failing, Signatures: s.Signatures,
		NoGroups: map[string]uint64{"absent": s.NoGroups.Absent, "form": s.NoGroups.Form, "elsewhere": s.NoGroups.Elsewhere}}
}
