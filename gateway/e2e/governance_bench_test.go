package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/mcp"
	"svc/gateway/policy/plane"
	"svc/store/api"
)

// benchmarkGoverned is a call under policies.
func benchmarkGoverned(b *testing.B, message string, policies ...api.GovernancePolicy) {
	g := &governor{}
	g.give(policies...)
	benchmarkCall(b, governance, message, func(o *gateway.Options) {
		o.Governance, o.SinkStatus = g, func(error) (int, time.Duration) { return 0, 0 }
	})
}

// BenchmarkGoverned is the small call of BenchmarkSmallCall without policies, under a policy that
// reads no text, and under the template policies for personal data and injections; then the same
// with four kilobytes of prose, and with a number that is masked.
func BenchmarkGoverned(b *testing.B) {
	half := 0.5
	tool := api.GovernancePolicy{Phase: "request", Action: "warn", Condition: api.Condition{Type: "tool_name", ToolName: "delete_*"}}
	pii := []api.GovernancePolicy{
		requestPII("redact", "mask", "EMAIL", "PHONE", "CREDIT_CARD", "IBAN", "SSN", "IP_ADDRESS"),
		responsePII("redact", "mask", "EMAIL", "PHONE", "CREDIT_CARD", "IBAN", "SSN", "IP_ADDRESS"),
	}
	injection := api.GovernancePolicy{Phase: "request", Action: "warn", Condition: api.Condition{Type: "injection_score", Threshold: &half}}
	arguments := func(text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{"text":%q}}}`, text)
	}
	small, prose := call("1", "safe"), arguments(strings.Repeat("The parcel left the harbour on Tuesday and should be there by noon. ", 60))
	for _, row := range []struct {
		name, message string
		policies      []api.GovernancePolicy
	}{
		{"small/no policy", small, nil},
		{"small/tool name", small, []api.GovernancePolicy{tool}},
		{"small/personal data", small, pii},
		{"small/personal data and injection", small, append(pii[:2:2], injection)},
		{"4KiB/no policy", prose, nil},
		{"4KiB/personal data", prose, pii},
		{"4KiB/personal data and injection", prose, append(pii[:2:2], injection)},
		{"masked", arguments("pay with " + cardNumber), pii},
	} {
		b.Run(row.name, func(b *testing.B) { benchmarkGoverned(b, row.message, row.policies...) })
	}
}

// BenchmarkJudge is the cost of policies alone, without a request around them.
func BenchmarkJudge(b *testing.B) {
	g := &governor{}
	half := 0.5
	g.give(requestPII("redact", "mask", "EMAIL", "PHONE", "CREDIT_CARD", "IBAN", "SSN", "IP_ADDRESS"),
		api.GovernancePolicy{On: "scored", Phase: "request", Action: "warn", Condition: api.Condition{Type: "injection_score", Threshold: &half}})
	bundle, err := plane.Compile(g.bundle, plane.Built{})
	if err != nil {
		b.Fatal(err)
	}
	prose := strings.Repeat("The parcel left the harbour on Tuesday and should be there by noon. ", 60)
	for _, row := range []struct{ name, agent, text string }{
		{"a word", "any", "x"},
		{"4KiB", "any", prose},
		{"4KiB scored", "scored", prose},
		{"masked", "any", "pay with " + cardNumber},
	} {
		b.Run(row.name, func(b *testing.B) {
			body := callWith(fmt.Sprintf(`{"text":%q}`, row.text))
			var m mcp.Message
			if err := mcp.Scan([]byte(body), &m); err != nil {
				b.Fatal(err)
			}
			set := bundle.For(row.agent)
			in := plane.Input{Message: &m, Tool: m.Name, HasTool: true, Now: time.Now}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				set.Judge(plane.Request, &in)
			}
		})
	}
}
