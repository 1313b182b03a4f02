package gateway

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"svc/gateway/policy"
)

// What is remembered is what the rules say, for any request, from several
// goroutines at once.
func TestDecisionsAreThoseOfTheRules(t *testing.T) {
	text := func(s string) *string { return &s }
	deny := "deny"
	rules, err := policy.Compile(policy.Config{DefaultAction: &deny, Rules: []policy.RuleConfig{
		{ID: "prefix", Action: "allow", When: &policy.When{ToolPrefix: text("get_1")}},
		{ID: "regex", Action: "deny", When: &policy.When{ToolRegex: text("get_[0-9]*7")}},
		{ID: "method", Action: "deny", When: &policy.When{Method: "resources/read"}},
		{ID: "back", Action: "deny", When: &policy.When{Direction: text("server_to_client"), ResultType: "input_required"}},
		{ID: "claims", Action: "allow", When: &policy.When{ToolPrefix: text("get_"), Claims: &policy.ClaimsConfig{SubjectIn: []string{"alice"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := newDecisions()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 20_000 {
				q := policy.Request{Direction: policy.Direction(r.IntN(2)), Method: "tools/call"}
				switch r.IntN(4) {
				case 0:
					q.Method = []string{"resources/read", "tools/list", ""}[r.IntN(3)]
				case 1:
					q.ResultType = "input_required"
				default:
					q.Tool, q.HasTool = fmt.Sprintf("get_%d", r.IntN(10_000)), true
				}
				if r.IntN(5) == 0 {
					q.Claims = &policy.Claims{Subject: []string{"alice", "bob"}[r.IntN(2)]}
				}
				if got, want := d.decide(rules, &q), rules.Decide(&q); got != want {
					t.Errorf("%+v: got %+v, want %+v", q, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
