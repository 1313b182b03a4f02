package gateway

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/govern"
	"svc/gateway/govern/detectors"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
	"svc/gateway/report"
)

// awaitGovernance bounds how long a request waits for the first answer of the
// control plane, while no policies were ever known.
const awaitGovernance = 3 * time.Second

// Error kinds of what the policies of the control plane refuse.
const (
	kindGovernanceBlock       = "governance_block"
	kindGovernanceRedact      = "governance_redact_invalid"
	kindGovernanceTooLarge    = "governance_too_large"
	kindGovernanceUnavailable = "governance_unavailable"
)

// stageScan is the stage of a trace in which texts were looked at.
const stageScan = "pii_scan"

// maxFired bounds the policies that a line tells of.
const maxFired = 32

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
		if bundle = ex.g.governance.Await(ex.ctx, awaitGovernance); bundle == nil {
			if ex.live.cfg.ControlPlane.Governance.FailOpen {
				return nil
			}
			return refusal.Policy.WithKind(kindGovernanceUnavailable)
		}
	}
	ex.governed.set = bundle.For(ex.agent())
	return nil
}

// govern asks the policies about what the client sends up, after the gateway's
// own rules, and takes what they rewrote as the message from here on.
func (ex *exchange) govern() *refusal.Refusal {
	if refused := ex.underPolicies(); refused != nil {
		return refused
	}
	set := ex.governed.set
	if set.Empty(govern.Request) {
		return nil
	}
	in := govern.Input{Message: &ex.msg, Now: ex.g.now}
	if ex.msg.Method == mcp.MethodToolsCall {
		in.Tool, in.HasTool = ex.msg.Name, true
	}
	ex.governed.scanFrom = ex.now()
	v := set.Judge(govern.Request, &in)
	ex.governed.scan += v.Scan
	ex.judging += v.All - v.Scan
	ex.governed.fired = v.Fired
	tell(&ex.rec, &v)
	kind := denial(&v)
	if kind != "" {
		ex.rec.RuleID = "" // it was no rule
		return refusal.Policy.WithKind(kind)
	}
	if v.Changed {
		ex.governed.changed = true
		ex.rec.Action = audit.ActionRedact
		ex.msg = v.Redacted
	}
	return nil
}

// denial is the error kind of a message that must not go on, empty for one that
// may.
func denial(v *govern.Verdict) string {
	switch {
	case v.Block != nil:
		return kindGovernanceBlock
	case errors.Is(v.Err, govern.ErrTooMuchText):
		return kindGovernanceTooLarge
	case v.Err != nil:
		return kindGovernanceRedact
	}
	return ""
}

// governAnswer asks the policies about what an upstream sent, whether it came as
// a plain answer or as a frame; src is then the stream. m is what goes on. A
// frame is judged by the bundle of its moment.
func (ex *exchange) governAnswer(m *mcp.Message, src *source, j *judgement) {
	if ex.g.governance == nil || j.refused != nil {
		return
	}
	set := ex.governed.set
	if src != nil {
		bundle := ex.g.governance.Bundle()
		if bundle == nil {
			return // fail_open, or the stream would not have begun
		}
		set = bundle.For(ex.agent())
	}
	if set.Empty(govern.Response) {
		return
	}
	in := govern.Input{Message: m, Now: ex.g.now}
	switch {
	case ex.msg.Method == mcp.MethodToolsCall:
		in.Tool, in.HasTool = ex.msg.Name, true
	case ex.deferred(m), ex.r.Method == http.MethodGet && m.Kind == mcp.Response:
		// Of what a task ended with, and on a resumed stream, nobody knows whose
		// answer it is; a client must not get by asking for a task, or by breaking
		// off, what it does not get at once.
		in.AnyTool = true
	}
	v := set.Judge(govern.Response, &in)
	j.verdict = v
	switch kind := denial(&v); {
	case kind != "":
		j.refused, j.action, j.rule, j.kind = refusal.Policy.WithKind(kind), audit.ActionDeny, "", kind
	case v.Changed:
		*m = v.Redacted
		j.action = audit.ActionRedact
	case len(v.Fired) > 0 && j.action == "":
		j.action = audit.ActionAllow
	}
	if ex.r.Method == http.MethodPost { // else several sources share the exchange
		ex.governed.scan += v.Scan
		ex.governed.answer += v.All
		ex.judging += v.All - v.Scan
		tell(&ex.rec, &v)
	}
}

// tell adds what policies found to a line: each policy and entity once, and the
// highest score. Of more policies than a line holds, those that block stand
// there.
func tell(r *audit.Record, v *govern.Verdict) {
	r.InjectionScore = max(r.InjectionScore, v.Score)
	for _, e := range v.Entities {
		if !slices.Contains(r.PIIDetected, e) {
			r.PIIDetected = append(r.PIIDetected, e)
		}
	}
	for _, p := range v.Fired {
		if slices.ContainsFunc(r.PoliciesFired, func(f audit.PolicyFired) bool { return f.ID == p.ID }) {
			continue
		}
		fired := audit.PolicyFired{ID: p.ID, Name: p.Name, Action: p.Action.String()}
		if len(r.PoliciesFired) < maxFired {
			r.PoliciesFired = append(r.PoliciesFired, fired)
		} else if p.Action == govern.Block {
			r.PoliciesFired[maxFired-1] = fired
		}
	}
}

// governParam returns a header that mirrors an argument as policies left it. One
// that does not mirror an argument is left out: it would carry up what nobody
// looked at.
func (ex *exchange) governParam(value string) (mirrored string, ok bool) {
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return "", false
	}
	if rule := ex.decision.Rule; rule != nil && rule.Action == policy.Redact {
		plain, _ = rule.RedactParam(&ex.msg, plain) // as it was, where that is gone
	}
	body, at := ex.msg.Body, ex.msg.Spans.Arguments
	if mcp.HasScalar(body, at, plain) {
		return mcp.EncodeHeader(plain), true
	}
	if !ex.governed.changed {
		return "", false
	}
	plain = ex.governed.set.RedactValue(govern.Request, plain, ex.governed.fired)
	return mcp.EncodeHeader(plain), mcp.HasScalar(body, at, plain)
}
