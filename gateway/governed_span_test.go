package gateway

import "testing"

// Spans have the decision of policies, its reason, and the time of the scan.
func TestGovernanceSpans(t *testing.T) {
	up := newUpstream(t, echo)
	collector := newOTLPCollector(t)
	g := &governor{}
	g.give(requestPII("block", "", "CREDIT_CARD"), requestPII("redact", "mask", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance+"telemetry:\n"+pipeline("customer", collector.URL, ""), g)
	for body, want := range map[string][2]string{
		callWith(`{"to":"` + cardNumber + `"}`): {"deny", "governance_block"},
		callWith(`{"to":"bob@example.com"}`):    {"redact", ""},
		callWith(`{"to":"nobody"}`):             {"", ""},
	} {
		before := len(collector.roots())
		r.post(body)
		await(t, func() bool { return len(collector.roots()) == before+1 })
		root := collector.roots()[before]
		attributes := spanAttributes(root)
		if got := [2]string{attributes["mcp.policy.decision"], attributes["error.type"]}; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		await(t, func() bool { return collector.children(root)["pii_scan"] != nil })
	}
}
