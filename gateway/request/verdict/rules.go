package verdict

import (
	"cmp"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/guardrail"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/refusal"
)

// rules evaluates the rules, and performs the action of the matching one. The default_action
// does not apply to messages of servers.
func (in *Input) rules(m *mcp.Message, r *Result) {
	var observed []policy.Observed
	r.Decision, observed = in.decide(m)
	r.Rule = r.Decision.RuleID
	r.Observed = in.observed(observed)
	if r.Rule != "" || len(r.Observed) > 0 {
		r.Action = audit.ActionAllow
	}
	if handle, ok := in.taskMade(m); ok {
		r.Task = handle
	}
	r.strip = in.strips(m)
	in.perform(m, r)
}

// decide evaluates the rules for a message. A translated server request has the method of
// the legacy request and the resultType of 2026-07-28, so the first rule that matches either
// applies; if a result contains several requests, the denial of one denies all.
func (in *Input) decide(m *mcp.Message) (decision policy.Decision, observed []policy.Observed) {
	q := policy.RequestOf(m, in.Direction, in.Caller.Claims)
	for _, c := range in.Restored {
		q.Restored = append(q.Restored, c.Entity)
	}
	if in.Snapshot.Rules.UsesUpstream() {
		q.Upstream = in.Upstream
	}
	q.Labels = in.Labels
	if !in.Translated || in.Direction != policy.ServerToClient {
		return in.Snapshot.Rules.Observe(&q)
	}
	if m.Kind == mcp.Request {
		q.ResultType = mcp.ResultInputRequired
	}
	questions := mcp.Find(m.Body, m.Spans.Result, "inputRequests")
	if m.ResultType != mcp.ResultInputRequired || !questions.Present() || m.Body[questions.Start] != '{' {
		return in.Snapshot.Rules.Observe(&q)
	}
	asked := false
	for it := mcp.Members(m.Body, questions); it.Next(); {
		q.Method, _ = mcp.StringValue(mcp.Find(m.Body, it.Value(), "method").Of(m.Body))
		d, o := in.Snapshot.Rules.Observe(&q)
		if !asked || d.Action == policy.Deny {
			asked, decision, observed = true, d, o
		}
		if d.Action == policy.Deny {
			break
		}
	}
	if !asked {
		return in.Snapshot.Rules.Observe(&q)
	}
	return decision, observed
}

// perform performs the action of the matching rule.
func (in *Input) perform(m *mcp.Message, r *Result) {
	rule := r.Decision.Rule
	switch r.Decision.Action {
	case policy.Allow:
		if a := r.Decision.Approval(); a != nil {
			r.Asks = append(r.Asks, Ask{RuleID: rule.ID, Approval: a})
		}
	case policy.Redact:
		in.redact(rule, m, r)
	case policy.RateLimit:
		if refused := in.limit(rule); refused != nil {
			r.refuse(refused, audit.ActionRateLimitBlocked)
			return
		}
		r.Performed = true
	case policy.StripApp:
		if in.Direction == policy.ClientToServer {
			r.Action = audit.ActionStripApp // performed on the response
		}
		r.strip = true
	case policy.Guardrail:
		in.guard(rule, m, r)
	default: // deny, and actions that this build cannot perform
		refused := &refusal.Policy
		switch r.Decision.Reason {
		case policy.ReasonArgumentType:
			refused = &refusal.ArgumentType
		case policy.ReasonArgumentLimit:
			refused = &refusal.ArgumentLimit
		case policy.ReasonClaimsUnreadable:
			refused = &refusal.ClaimsUnreadable
		}
		refused = refused.WithRule(r.Rule)
		if rule != nil { // otherwise no rule matched
			refused = refused.WithDetail(cmp.Or(rule.Message, in.whyLabels(rule)))
		}
		r.refuse(refused, audit.ActionDeny)
	}
}

// limit takes a token from the bucket of (rule, principal): gateway specification, Action:
// rate_limit.
func (in *Input) limit(rule *policy.Rule) *refusal.Refusal {
	in.Host.BeforeWait() // the store of the limit may be remote
	key := redis.Key{Limit: redis.Rule, Rule: rule.ID, Kind: in.Caller.Kind.String(), Issuer: in.Caller.Issuer, Principal: in.Caller.Value}
	ok, after, err := in.Limits.Allow(in.Context, key, rule.TokensPerSecond, rule.Burst, in.Now())
	switch {
	case err != nil && !in.Snapshot.FailOpen:
		return refusal.RateStore.WithRule(rule.ID).After(time.Second)
	case err == nil && !ok:
		return refusal.Rate.WithRule(rule.ID).After(after)
	}
	return nil
}

// guard calls the guardrail of a rule (gateway specification, Action: guardrail), and
// continues with the masked message. Later rules do not evaluate an allowed message again:
// the first match has decided. On event streams it does nothing unless the rule has frames:
// true; then each frame, and those after it, waits for the callout.
func (in *Input) guard(rule *policy.Rule, m *mcp.Message, r *Result) {
	if in.Frame && !rule.Frames {
		return
	}
	in.Host.BeforeWait()
	var masked mcp.Message
	r.Guardrail, r.Said = rule.Guardrail, in.Snapshot.Guards.Get(rule.Guardrail).Ask(in.Context, m, &masked)
	r.Performed = true
	r.Kind = guardKind(&r.Said)
	switch r.Said.Verdict {
	case guardrail.Pass, guardrail.FailOpen:
	case guardrail.Mask:
		r.Action = audit.ActionRedact
		in.rewrite(m, &masked, rule.ID, r)
	case guardrail.CallerGone:
		r.refuse(&refusal.CallerGone, audit.ActionDeny)
		if in.Direction == policy.ClientToServer {
			r.Rule = "" // the rule has not decided
		}
	default: // reject, or failing closed
		r.refuse(guardRefusal(&r.Said).WithRule(rule.ID).WithDetail(rule.Message), audit.ActionDeny)
	}
}

// AwaitsGuardrail reports whether the evaluation of m waits for a guardrail. It does not
// while the breaker of the guardrail is open or half-open.
func (in *Input) AwaitsGuardrail(m *mcp.Message) bool {
	if in.Snapshot.Guards == nil || in.Snapshot.Guards.Len() == 0 {
		return false
	}
	decision, _ := in.decide(m)
	if decision.Action != policy.Guardrail {
		return false
	}
	guard := in.Snapshot.Guards.Get(decision.Rule.Guardrail)
	return guard != nil && !guard.BreakerOpen()
}

// guardRefusal is the refusal of a message that a guardrail rejects, or for which it was
// unavailable.
func guardRefusal(said *guardrail.Result) *refusal.Refusal {
	switch said.Kind {
	case guardrail.KindUnreachable:
		return &refusal.GuardrailUnreachable
	case guardrail.KindTooLarge:
		return &refusal.GuardrailTooLarge
	}
	return &refusal.Policy
}

// guardKind is the error_kind of the audit line. A message that passed because of failing
// open has only its verdict, unless it was too large for a callout.
func guardKind(said *guardrail.Result) string {
	if said.Verdict == guardrail.FailOpen && said.Kind == guardrail.KindUnreachable {
		return ""
	}
	return said.Kind
}

// observed returns the actions that rules in mode observe would have performed, in order,
// for the audit line. A rate limit takes its tokens, and is in the list if none was left; a
// guardrail is not called, because the text would leave the gateway.
func (in *Input) observed(rules []policy.Observed) (list []audit.Observed) {
	for _, r := range rules {
		action := r.Action.String()
		if r.Action == policy.RateLimit {
			if in.limit(r.Rule) == nil {
				continue
			}
			action = audit.ActionRateLimitBlocked
		}
		o := audit.Observed{RuleID: r.ID, Action: action}
		if r.Action == policy.Allow && r.Approval != nil {
			o.Approval = plane.ApprovalRequired
		}
		list = append(list, o)
	}
	return list
}
