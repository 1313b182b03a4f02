package display

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/policy"
	"svc/gateway/policy/guardrail"
	"svc/gateway/refusal"
	"svc/store/api"
)

// Outcomes of a request.
const (
	Succeeded = "success"
	Blocked   = "blocked" // by a rule, a limit or a policy
	Failed    = "failed"
)

// Decision is what a trace or an audit line says about the result of a request. It has no values of the message.
type Decision struct {
	Outcome                 string
	Rule, Reason, ErrorKind string
	Approval                api.TraceApproval
	Policies                []api.PolicyFired
	Listens                 bool // an event stream that the client opened to listen

	// Only audit lines have these. Open: only the opening of a stream was found.
	Open               bool
	HTTPStatus         int
	Guardrail, Verdict string
}

// DecisionOf returns the decision of a trace.
func DecisionOf(t *api.Trace) *Decision {
	d := &Decision{Outcome: Succeeded, Rule: t.RuleID, Reason: t.Reason, ErrorKind: t.ErrorKind, Approval: t.Approval, Policies: t.PoliciesFired}
	switch {
	case t.Blocked:
		d.Outcome = Blocked
	case t.Status != Succeeded:
		d.Outcome = Failed
	}
	n := len(t.Spans)
	d.Listens = n > 0 && t.Spans[n-1].Stage == audit.StageListening
	return d
}

// Why is a decision in words: what was decided, and in sentences why, which error the caller got, and what to do.
// Told is empty when the caller got no error of the gateway.
type Why struct{ Decision, Cause, Told, Do string }

// Word returns the outcome.
func (d *Decision) Word() Word {
	return Word{d.Outcome, map[string]Level{Succeeded: Good, Blocked: Block, Failed: Bad}[d.Outcome]}
}

// Why explains the decision.
func (d *Decision) Why() Why {
	cause, do := d.words()
	return Why{d.decided(), cause, d.told(), do}
}

// words returns why it was decided, and what to do.
func (d *Decision) words() (cause, do string) {
	if d.Listens && d.Outcome == Succeeded {
		return d.listened(), "Nothing."
	}
	if words, ok := refusal.WordsOf(d.ErrorKind); ok {
		return words.Cause, words.Do
	}
	switch {
	case d.ErrorKind != "":
		return fmt.Sprintf("The error_kind %q is not known to this version of svc.", d.ErrorKind), "Ask a version of svc that is as new as the gateway."
	case d.Outcome == Succeeded:
		return "The request was allowed and answered.", "Nothing."
	case d.Rule == policy.DefaultDenyID:
		return "No rule matches the call, and default_action denies it.", "Add a rule that allows it, if it is to be allowed; svc policy explain FILE --tool NAME shows how the rules decide."
	case d.Reason == refusal.Rate.Reason:
		return "The caller is over the limit of the rule.", "Try again after the time in Retry-After, or raise tokens_per_second and burst of the rule."
	case d.Outcome == Blocked && d.Verdict == string(guardrail.Reject):
		return fmt.Sprintf("The guardrail %q, which the rule asks, rejected the message.", d.Guardrail), "Look at the log of the guardrail; if it is wrong, correct it, or let the rule match fewer messages."
	case d.Outcome == Blocked && d.Rule != "":
		return "The rule denies the call.", "Do without the call, or change the rule; svc policy explain FILE --tool NAME shows how the rules decide."
	case d.Outcome == Blocked && len(d.Policies) > 0:
		return "A policy of the control plane blocked the message.", "svc policies get ID; if the policy is wrong, svc policies disable ID, or let it warn first."
	case d.Outcome == Blocked:
		return "The request was blocked; the producer of the trace did not give the reason.", "Look at the producer's own log."
	case d.HTTPStatus >= 400:
		return fmt.Sprintf("The tool server answered with the status %d, which the gateway passed on.", d.HTTPStatus), "Look at the tool server."
	}
	return "The tool or its server answered with an error, which was passed on.", "Look at the answer that the client got, and at the tool server."
}

// listened describes how a stream that a client opened to listen ended.
func (d *Decision) listened() string {
	end := "The tool server ended it."
	switch {
	case d.Open:
		end = "It was still open when its gateway last wrote to the file, or the gateway was killed."
	case d.ErrorKind == refusal.ClientClosed.Kind:
		end = "The client closed it, which is how such a stream ends."
	case d.ErrorKind == refusal.Shutdown.Kind:
		end = "The gateway stopped; a client opens it again."
	case d.ErrorKind != "":
		words, _ := refusal.WordsOf(d.ErrorKind)
		end = words.Cause
	}
	return "The client opened an event stream to listen; it carried no answer. " + end
}

// decided describes what was decided, and by which rule or policy.
func (d *Decision) decided() string {
	switch {
	case d.Approval.Status != "" && strings.HasPrefix(d.ErrorKind, "approval_"):
		if d.Rule == "" {
			return "not approved; a policy asks for approval"
		}
		return fmt.Sprintf("not approved; rule %q asks for approval", d.Rule)
	case d.byPolicy():
		return fmt.Sprintf("blocked by policy %q", d.policy())
	case d.Outcome == Blocked && d.Rule == policy.DefaultDenyID:
		return "blocked by default_action"
	case d.Outcome == Blocked && d.Rule != "":
		return fmt.Sprintf("blocked by rule %q", d.Rule)
	case d.Outcome == Succeeded && d.Rule != "":
		return fmt.Sprintf("allowed by rule %q", d.Rule)
	case d.Outcome == Succeeded:
		return "allowed"
	case d.Outcome == Failed && d.Rule != "":
		return fmt.Sprintf("%s; rule %q decided", d.failed(), d.Rule)
	case d.Outcome == Failed:
		return d.failed()
	}
	return d.Outcome
}

// failed describes a request that failed: the gateway refused some of them with a status that clients take for a
// decision.
func (d *Decision) failed() string {
	for _, r := range refusal.All() {
		if d.ErrorKind != "" && r.Kind == d.ErrorKind && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
			return "refused by the gateway"
		}
	}
	return "failed, not blocked"
}

// byPolicy reports whether a policy of the control plane blocked, whatever a rule allowed before.
func (d *Decision) byPolicy() bool {
	return d.Outcome == Blocked && len(d.Policies) > 0 && (d.ErrorKind == refusal.GovernanceBlock.Kind || d.Rule == "")
}

// policy returns the name of the policy that blocked, or of the first one that fired.
func (d *Decision) policy() string {
	for _, p := range d.Policies {
		if p.Action == "block" {
			return cmp.Or(p.Name, p.ID)
		}
	}
	return cmp.Or(d.Policies[0].Name, d.Policies[0].ID)
}

// told returns which error of the gateway the caller got, and with which explanation.
func (d *Decision) told() string {
	if d.Reason == "" {
		return ""
	}
	text := fmt.Sprintf("The caller got the error %q.", d.Reason)
	for _, r := range refusal.All() {
		if r.Kind == d.ErrorKind && r.Reason == d.Reason && r.Detail != "" {
			return strings.TrimSuffix(text, ".") + ": " + strings.TrimSuffix(r.Detail, ".") + "."
		}
	}
	return text
}

// Short returns in few words why a request was blocked or failed, for a cell; empty for one that succeeded.
func (d *Decision) Short() string {
	rule := d.Rule
	if d.Outcome != Blocked || rule == policy.DefaultDenyID {
		rule = "" // it allowed the call, or is none
	}
	with := func(text, rule string) string {
		if rule == "" {
			return text
		}
		return text + ", rule " + rule
	}
	switch {
	case d.Outcome == Succeeded:
		return ""
	case d.byPolicy() && (d.ErrorKind == "" || d.ErrorKind == refusal.GovernanceBlock.Kind):
		return "policy " + d.policy()
	case d.ErrorKind != "":
		return with(strings.ReplaceAll(d.ErrorKind, "_", " "), rule)
	case d.Rule == policy.DefaultDenyID:
		return "no rule allows it"
	case d.Reason == refusal.Rate.Reason:
		return with("rate limit", d.Rule)
	case rule != "":
		return "rule " + rule
	case d.Outcome == Blocked:
		return "no reason given"
	}
	return "tool error"
}
