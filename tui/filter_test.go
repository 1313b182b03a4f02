package tui

import (
	"strings"
	"testing"

	"svc/store/api"
)

func filterRow() *row {
	return newRow(Event{Trace: api.Trace{TraceItem: api.TraceItem{
		ID: "019a-7f", AgentName: "Support-Bot", ToolName: "refund order", Status: "error", Blocked: true, Environment: "production",
		ModelProvider: "openai", ModelName: "gpt-mini", SessionID: "ses_1", DurationMs: 750, CostUSD: 0.02, InjectionScore: 0.9,
		PIIDetected: []string{"EMAIL"}, PoliciesFired: []api.PolicyFired{{ID: "pol_1", Name: "no-refunds", Action: "block"}},
	}}})
}

func TestFilter(t *testing.T) {
	for _, row := range []struct {
		filter string
		want   bool
	}{
		{"", true}, {"   ", true},
		{"agent:support", true}, {"AGENT:SUPPORT", true}, {"agent:billing", false}, {"agent:billing,support", true},
		{"status:blocked", true}, {"status:error", true}, {"status:ok", false}, {"status:success", false}, {"status:bl", true}, {"status:s", false}, {"status:ok,blocked", true},
		{`tool:"refund order"`, true}, {`tool:"refund  order"`, false}, {"tool:refund", true},
		{"env:prod", true}, {"model:openai/gpt", true}, {"session:ses_1", true}, {"id:7f", true}, {"pii:email", true}, {"policy:no-refunds", true}, {"policy:block", true},
		{"ms:>500", true}, {"ms:>=750", true}, {"ms:<100", false}, {"cost:>0.01", true}, {"score:>0.95", false},
		{"refund", true}, {"refund production", true}, {"refund staging", false}, {"blocked", true},
		{"-agent:billing", true}, {"-agent:support", false}, {"-refund", false}, {"-staging refund", true}, {"-status:ok", true},
		{"agent:support -env:production", false},
		{"http://x", false}, {"-", true}, {"%", false}, {`"`, true}, {`refund"`, true},
	} {
		t.Run(row.filter, func(t *testing.T) {
			f, err := parseFilter(row.filter, noon)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.match(filterRow()); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestFilterErrors(t *testing.T) {
	for _, row := range []struct{ filter, want string }{
		{"agnt:x", `no field "agnt": agent status`}, {"agent:", "agent: needs a value"}, {"status:late", `status: "late" is none of ok, error, blocked`},
		{"ms:500", "write it like ms:>500"}, {"ms:>x", `"x" is not a number`}, {"cost:>", `"" is not a number`}, {`tool:""`, "tool: needs a value"},
	} {
		if _, err := parseFilter(row.filter, noon); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.filter, err, row.want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"agent:x status:error,blocked -env:y ms:>1 text", `tool:"a b`, "-:", "::", "ms:>=", "a:,", "status:,"} {
		f.Add(s)
	}
	r := filterRow()
	f.Fuzz(func(t *testing.T, s string) {
		if parsed, err := parseFilter(s, noon); err == nil {
			parsed.match(r)
		}
	})
}
