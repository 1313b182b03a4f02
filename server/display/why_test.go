package display_test

import (
	"strings"
	"testing"

	"svc/gateway/refusal"
	"svc/server/display"
	"svc/store/api"
)

// Every error_kind of the gateway has words for a cell and for a page.
func TestEveryRefusalHasWords(t *testing.T) {
	for _, r := range refusal.All() {
		tr := api.Trace{TraceItem: api.TraceItem{Status: "error", Blocked: r.Kind == "" || strings.HasPrefix(r.Reason, "policy"), RuleID: "a-rule", Reason: r.Reason, ErrorKind: r.Kind}}
		d := display.DecisionOf(&tr)
		short, w := d.Short(), d.Why()
		if short == "" || len(short) > 60 || strings.Contains(short, "_") || short == "tool error" {
			t.Errorf("%s %s: the cell has %q", r.Kind, r.Reason, short)
		}
		if w.Decision == "" || w.Cause == "" || w.Do == "" || strings.Contains(w.Cause, "not known to this version") {
			t.Errorf("%s %s: %+v", r.Kind, r.Reason, w)
		}
		if (w.Told == "") != (r.Reason == "") || !strings.Contains(w.Told, r.Reason) || !strings.Contains(w.Told, strings.TrimSuffix(r.Detail, ".")) {
			t.Errorf("%s %s: the caller got %q, want %q", r.Kind, r.Reason, w.Told, r.Detail)
		}
	}
}

func TestWhy(t *testing.T) {
	block := []api.PolicyFired{{ID: "p1", Name: "mask", Action: "redact"}, {ID: "p2", Name: "no-deletes", Action: "block"}}
	for _, row := range []struct {
		trace                          api.TraceItem
		short, decision, cause, toldBy string
	}{
		{api.TraceItem{Status: "success", RuleID: "reads"}, "", `allowed by rule "reads"`, "allowed and answered", ""},
		{api.TraceItem{Status: "error", Blocked: true, RuleID: "default_deny", Reason: "policy_denied"}, "no rule allows it", "blocked by default_action", "No rule matches", "policy_denied"},
		{api.TraceItem{Status: "error", Blocked: true, RuleID: "no-pay", Reason: "policy_denied"}, "rule no-pay", `blocked by rule "no-pay"`, "The rule denies", "policy_denied"},
		{api.TraceItem{Status: "error", Blocked: true, RuleID: "slow", Reason: "rate_limited"}, "rate limit, rule slow", `blocked by rule "slow"`, "over the limit", "rate_limited"},
		{api.TraceItem{Status: "error", Blocked: true, PoliciesFired: block, Reason: "policy_denied", ErrorKind: "governance_block", RuleID: "reads"}, "policy no-deletes", `blocked by policy "no-deletes"`, "with the action block fired", "policy_denied"},
		{api.TraceItem{Status: "error", Blocked: true, PoliciesFired: block}, "policy no-deletes", `blocked by policy "no-deletes"`, "A policy of the control plane", ""},
		{api.TraceItem{Status: "error", Blocked: true, RuleID: "pay", Reason: "approval_denied", ErrorKind: "approval_denied", Approval: api.TraceApproval{Status: "denied"}}, "approval denied, rule pay", `not approved; rule "pay" asks`, "A person refused", "Do not send it again"},
		{api.TraceItem{Status: "error", RuleID: "reads", Reason: "upstream_timeout", ErrorKind: "upstream_timeout"}, "upstream timeout", `failed, not blocked; rule "reads" decided`, "longer than", "upstream_timeout"},
		{api.TraceItem{Status: "error"}, "tool error", "failed, not blocked", "passed on", ""},
		{api.TraceItem{Status: "error", ErrorKind: "of_tomorrow"}, "of tomorrow", "failed", `"of_tomorrow" is not known`, ""},
	} {
		d := display.DecisionOf(&api.Trace{TraceItem: row.trace})
		w := d.Why()
		if d.Short() != row.short || !strings.HasPrefix(w.Decision, row.decision) || !strings.Contains(w.Cause, row.cause) || !strings.Contains(w.Told, row.toldBy) || (row.toldBy == "") != (w.Told == "") {
			t.Errorf("%+v: %q %+v", row.trace, d.Short(), w)
		}
	}
}

func TestWaterfall(t *testing.T) {
	tr := api.Trace{TraceItem: api.TraceItem{DurationMs: 100}, Spans: []api.Span{{Stage: "policy", DurationMs: 10}, {Stage: "upstream", DurationMs: 60}}}
	stages, total := display.Waterfall(&tr)
	if total != 100 || len(stages) != 3 || stages[1] != (display.Stage{Name: "upstream", From: 10, Ms: 60, Long: true}) || stages[2] != (display.Stage{Name: "(rest)", From: 70, Ms: 30, Rest: true}) {
		t.Errorf("%+v of %v", stages, total)
	}
	if stages, total := display.Waterfall(&api.Trace{}); stages != nil || total != 0 || display.Share(1, 0) != 0 {
		t.Errorf("%+v of %v", stages, total)
	}
}
