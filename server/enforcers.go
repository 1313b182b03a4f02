package server

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"svc/store"
	"svc/store/api"
)

// enforcer is an instance of a gateway that counts for who enforces a policy.
type enforcer struct {
	instance, key string // key is the public key that signs its reports
	governed      bool
	revision      int64
}

// enforcers are the instances that count: those that run, and of a tenant with signed reports only those that sign.
type enforcers []enforcer

// fleetFor is how long it is remembered who enforces policies: all instances are read for it.
const fleetFor = time.Second

// fleets remembers the enforcers of tenants. The zero value is ready for use; it is safe for concurrent use.
type fleets struct {
	mu  sync.Mutex
	all map[string]fleet
}

type fleet struct {
	at time.Time
	by enforcers
}

// get returns the enforcers of a tenant if they were read a moment ago.
func (f *fleets) get(tenant string, now time.Time) (enforcers, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.all[tenant]
	return known.by, ok && now.Sub(known.at).Abs() < fleetFor
}

// set notes the enforcers of a tenant, and drops what is too old.
func (f *fleets) set(tenant string, now time.Time, by enforcers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.all, func(_ string, known fleet) bool { return now.Sub(known.at).Abs() >= fleetFor })
	if f.all == nil {
		f.all = map[string]fleet{}
	}
	f.all[tenant] = fleet{now, by}
}

// changed forgets the enforcers of a tenant unless a report, nil for another change, says what is known already.
func (f *fleets) changed(tenant string, r *store.GatewayReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r == nil || r.Stopped || !slices.Contains(f.all[tenant].by, enforcer{r.Instance, r.PublicKey, r.Governed, r.Revision}) {
		delete(f.all, tenant)
	}
}

// enforcers returns those that count; nil for a key that may not see gateways.
func (c *call) enforcers() (enforcers, error) {
	if c.missingScope([]string{"traces:read"}) != "" {
		return nil, nil
	}
	f := &c.server.fleets
	if by, ok := f.get(c.tenant.ID(), c.now); ok {
		return by, nil
	}
	list, err := c.tenant.ListGateways(c.Context())
	if err != nil {
		return nil, err
	}
	signed := slices.ContainsFunc(list, func(g store.GatewayInstance) bool { return g.PublicKey != "" })
	by := enforcers{}
	for i := range list {
		if g := &list[i]; !g.Stopped && !g.Silent(c.now, c.server.began) && (!signed || g.PublicKey != "") {
			by = append(by, enforcer{g.Instance, g.PublicKey, g.Governed, g.Revision})
		}
	}
	f.set(c.tenant.ID(), c.now, by)
	return by, nil
}

// noGatewayRuns is the warning about a policy that no gateway can enforce.
const noGatewayRuns = "no gateway runs, so nobody enforces policies: start one with control_plane.governance.enabled"

// enforcing returns who may enforce a policy that is created or enabled, and a warning when nobody does. A store
// that cannot be read gives neither.
func (c *call) enforcing(enabled bool) (by enforcers, warnings []string) {
	by, err := c.enforcers()
	switch {
	case err != nil:
		c.server.log.Warn("it was not checked whether gateways enforce the policy", "request_id", c.id, "error", err)
	case !enabled || by == nil: // nobody should, or the key may not see who does
	case len(by) == 0:
		warnings = []string{noGatewayRuns}
	case !slices.ContainsFunc(by, func(e enforcer) bool { return e.governed }):
		warnings = []string{fmt.Sprintf("none of the %d running instances of gateways enforces policies: set control_plane.governance.enabled in their configuration", len(by))}
	}
	return by, warnings
}

// of returns who enforces a policy as it is now; nil for a policy that nobody should enforce.
func (e enforcers) of(p *store.Policy) *api.EnforcedBy {
	if e == nil || !p.Enabled {
		return nil
	}
	out := &api.EnforcedBy{Of: len(e)}
	for i := range e {
		if e[i].governed && e[i].revision >= p.Revision {
			out.Gateways++
		}
	}
	return out
}
