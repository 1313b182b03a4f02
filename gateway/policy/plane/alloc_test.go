//go:build !race

package plane

import (
	"testing"

	"svc/store/api"
)

// TestArgumentConditionsDoNotAllocate: a call with conditions allocates no more than one without.
func TestArgumentConditionsDoNotAllocate(t *testing.T) {
	measure := func(policies ...api.GovernancePolicy) float64 {
		b, err := Compile(bundle(policies...), plainDetectors{})
		if err != nil {
			t.Fatal(err)
		}
		set, in := b.For("planner"), input(callWith(`{"path":"/srv/data","amount":12.5,"to":["a","b"]}`))
		return testing.AllocsPerRun(100, func() { set.Judge(Request, in) })
	}
	none := measure(api.GovernancePolicy{Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "never"}})
	some := measure(onArguments("block", `{"/amount":{"min":100},"/to/*":{"equals":"c"}}`))
	if some > none {
		t.Errorf("%v allocations with conditions, %v without", some, none)
	}
}
