package gateway

import (
	"fmt"
	"time"

	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/guardrail"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// guarded is what a guardrail said of one message; the name is empty when none
// was asked.
type guarded struct {
	by   string
	said guardrail.Result
}

// describe fills in a record's fields.
func (a *guarded) describe(r *audit.Record) {
	if a.by != "" {
		r.GuardrailName, r.GuardrailVerdict, r.GuardrailLatency = a.by, string(a.said.Verdict), a.said.Latency
	}
}

// asking is how long guardrails were asked about a request, and about its
// answer.
type asking struct{ request, answer time.Duration }

// buildGuards makes the guardrails of a configuration, all breakers closed.
func (g *Gateway) buildGuards(cfg *config.File) (*guardrail.Set, error) {
	set, err := guardrail.New(cfg.Guardrails, g.log, g.now)
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

// guard asks the guardrail of a rule about the request (gateway specification,
// Action: guardrail), and takes what it masked as the message from here on. What
// passes is not asked about by later rules: the first match has decided.
func (ex *exchange) guard(rule *policy.Rule) *refusal.Refusal {
	var masked mcp.Message
	a := guarded{by: rule.Guardrail, said: ex.live.guards.Get(rule.Guardrail).Ask(ex.ctx, &ex.msg, &masked)}
	ex.countAsked(&a)
	a.describe(&ex.rec)
	ex.asking.request = a.said.Latency
	ex.rec.ErrorKind = a.kind()
	switch a.said.Verdict {
	case guardrail.Pass, guardrail.FailOpen:
		return nil
	case guardrail.Mask:
		ex.rec.Action = audit.ActionRedact
		ex.msg = masked
		return nil
	case guardrail.CallerGone:
		ex.rec.Action, ex.rec.RuleID = audit.ActionDeny, ""
		return &refusal.CallerGone
	default: // reject, or failing closed
		return refusal.Policy.WithKind(a.said.Kind).WithRule(rule.ID)
	}
}

// guardAnswer asks the guardrail of a rule about what an upstream sent. On event
// streams it does nothing unless the rule has frames: true; then each frame waits
// for its turn, and so do those behind it.
func (ex *exchange) guardAnswer(l *live, rule *policy.Rule, m *mcp.Message, src *source, j *judgement) {
	if src != nil {
		if !rule.Frames {
			return
		}
		src.settle()
	}
	var masked mcp.Message
	j.guarded = guarded{by: rule.Guardrail, said: l.guards.Get(rule.Guardrail).Ask(ex.ctx, m, &masked)}
	ex.countAsked(&j.guarded)
	j.performed = true
	j.kind = j.guarded.kind()
	switch j.said.Verdict {
	case guardrail.Pass, guardrail.FailOpen:
	case guardrail.Mask:
		j.action = audit.ActionRedact
		*m = masked
	case guardrail.CallerGone:
		j.refused, j.action, j.kind = &refusal.CallerGone, audit.ActionDeny, refusal.CallerGone.Kind
	default:
		j.refused, j.action = refusal.Policy.WithKind(j.kind).WithRule(rule.ID), audit.ActionDeny
	}
}

// countAsked counts one callout: a request can make several, of frames too.
func (ex *exchange) countAsked(a *guarded) {
	if m := ex.g.observer.metrics; m != nil {
		m.Asked(a.by, string(a.said.Verdict), a.said.Latency)
	}
}

// kind is the error_kind of the audit line. A message that failing open let pass
// carries its verdict alone, but for one that was too large to be asked about.
func (a *guarded) kind() string {
	if a.said.Verdict == guardrail.FailOpen && a.said.Kind == guardrail.KindUnreachable {
		return ""
	}
	return a.said.Kind
}

// noteGuarded carries what a guardrail said of the answer into the request's
// record. Where the request had been asked about too, the answer's verdict stands
// there when it is more than a pass.
func (ex *exchange) noteGuarded(j *judgement) {
	if j.by == "" {
		return
	}
	ex.asking.answer += j.said.Latency
	if ex.rec.GuardrailName == "" || j.said.Verdict != guardrail.Pass {
		j.guarded.describe(&ex.rec)
	}
}

// settle sends what was written: the client does not wait for a frame because a
// guardrail is asked about the next.
func (s *stream) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unflushed {
		s.flush()
	}
}
