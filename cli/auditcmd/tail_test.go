package auditcmd

import (
	"strings"
	"testing"

	"svc/gateway/audit"
)

// A line for people names the policy that blocked, by its id without a name, and the guardrail with
// its verdict.
func TestTailNamesPolicyAndGuardrail(t *testing.T) {
	got := tailLine(&audit.Record{
		Kind: audit.KindRequest, Action: audit.ActionDeny, Status: 403, GuardrailName: "dlp", GuardrailVerdict: "pass",
		PoliciesFired: []audit.PolicyFired{{ID: "pol_1", Name: "no-cards", Action: "block"}, {ID: "pol_2", Action: "warn"}},
	})
	for _, want := range []string{" policy=no-cards:block ", " policy=pol_2:warn ", " guardrail=dlp:pass\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
