package gateway

import (
	"time"

	"svc/gateway/config"
	"svc/gateway/govern"
	"svc/gateway/govern/detectors"
	"svc/gateway/refusal"
	"svc/gateway/report"
)

// awaitGovernance bounds how long a request waits for the first answer of the
// control plane, while no policies were ever known.
const awaitGovernance = 3 * time.Second

// stageScan is the stage of a trace in which texts were looked at.
const stageScan = "pii_scan"

// openGovernance opens the policies of the control plane, where they are asked
// for.
func (g *Gateway) openGovernance(cfg *config.File, opts Options) (err error) {
	c := &cfg.ControlPlane
	if !c.Governance.Enabled || opts.Governance == nil {
		return nil
	}
	g.governance, err = govern.Open(govern.Options{
		Source: opts.Governance, Status: opts.SinkStatus, Origin: c.URL, StateDir: cfg.StateDirectory(),
		Interval: c.Governance.RefreshInterval, Timeout: c.Traces.Timeout,
		Detectors: detectors.Built{}, Logger: g.log, Now: g.now,
	})
	return err
}

// governed is what the policies of the control plane did to one request.
type governed struct {
	set *govern.Set // of its agent; nil when nothing is asked
	// fired are the policies that fired on the request's own message, and changed
	// says that they rewrote it.
	fired   []*govern.Policy
	changed bool
	// scan is how long texts were looked at, answer how long the answer was judged.
	scan, answer time.Duration
	scanFrom     time.Time
	awaited      time.Duration // the first answer of the control plane
}

// agent is the name that traces of the caller are filed under, and that policies
// call it by.
func (ex *exchange) agent() string {
	return report.AgentName(ex.live.cfg.ControlPlane.AgentOf(ex.who.Value))
}

// underPolicies finds the policies of the caller's agent: one bundle for all of
// the request. While none was ever known nothing passes, unless the file says so.
func (ex *exchange) underPolicies() *refusal.Refusal {
	if ex.g.governance == nil {
		return nil
	}
	bundle := ex.g.governance.Bundle()
	if bundle == nil {
		began := ex.now()
		bundle = ex.g.governance.Await(ex.ctx, awaitGovernance)
		ex.governed.awaited = ex.now().Sub(began)
		if bundle == nil {
			if ex.live.cfg.ControlPlane.Governance.FailOpen {
				return nil
			}
			return &refusal.GovernanceUnavailable
		}
	}
	ex.governed.set = bundle.For(ex.agent())
	return nil
}
