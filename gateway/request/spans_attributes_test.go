package request

import (
	"testing"

	"svc/gateway/audit"
	"svc/gateway/refusal"
)

func TestErrorTypeNamesTheMostSpecificCause(t *testing.T) {
	for _, c := range []struct {
		name string
		r    audit.Record
		want string
	}{
		{"success", audit.Record{Action: audit.ActionAllow, Status: 200}, ""},
		{"a kind before the action", audit.Record{ErrorKind: "no_route", Action: audit.ActionDeny, Status: 502}, "no_route"},
		{"denied", audit.Record{Action: audit.ActionDeny, Status: 200}, refusal.Policy.Reason},
		{"limited", audit.Record{Action: audit.ActionRateLimitBlocked, Status: 429}, refusal.Rate.Reason},
		{"a status", audit.Record{Action: audit.ActionAllow, Status: 503, IsError: true}, "503"},
		{"a failed tool", audit.Record{Action: audit.ActionAllow, Status: 200, IsError: true}, "_OTHER"},
	} {
		if got := errorType(&c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDecisionIsWhatARuleDid(t *testing.T) {
	for _, c := range []struct {
		name string
		r    audit.Record
		want string
	}{
		{"allowed by a rule", audit.Record{RuleID: "a", Action: audit.ActionAllow}, ""},
		{"refused by no rule", audit.Record{Action: audit.ActionDeny}, ""},
		{"denied by a rule", audit.Record{RuleID: "a", Action: audit.ActionDeny}, audit.ActionDeny},
		{"asked a guardrail", audit.Record{RuleID: "a", GuardrailName: "g", Action: audit.ActionAllow}, "guardrail"},
	} {
		if got := decision(&c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
