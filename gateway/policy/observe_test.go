package policy

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"svc/gateway/base/diag"
)

// Rules in mode observe decide nothing, for all rules and requests: the first
// enforced rule decides, and all observing rules that match before it are
// reported in order.
func TestObserveModel(t *testing.T) {
	when, request := modelWhen(), modelRequest()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Rules: rules(rapid.SliceOfN(when, 0, 12).Draw(t, "rules")...)}
		drawActions(t, cfg.Rules)
		for i := range cfg.Rules {
			cfg.Rules[i].Mode = rapid.SampledFrom([]string{"", "enforce", "observe"}).Draw(t, "mode")
		}
		s, err := Compile(cfg, modelNames.List()...)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			q := request.Draw(t, "request")
			decided, observed := -1, []int(nil)
			for i, r := range cfg.Rules {
				if !naiveMatch(&r, &q) {
					continue
				}
				if r.Mode == "observe" {
					observed = append(observed, i)
					continue
				}
				decided = i
				break
			}
			d := s.Decide(&q)
			got := -1
			if d.Rule != nil {
				got = d.Rule.Index
			}
			var told []int
			for _, r := range s.Observed(&q, d) {
				told = append(told, r.Index)
			}
			if got != decided || fmt.Sprint(told) != fmt.Sprint(observed) {
				t.Fatalf("rule %d and observed %v, want %d and %v, for %+v", got, told, decided, observed, q)
			}
			if explained, _ := s.Explain(&q); explained != d {
				t.Fatalf("explained %+v, decided %+v", explained, d)
			}
		}
	})
}

func TestObserveValidate(t *testing.T) {
	for mode, want := range map[string]int{"": 0, "enforce": 0, "observe": 0, "Observe": 1, "off": 1} {
		cfg := Config{Rules: []RuleConfig{{ID: "r", Action: "deny", Mode: mode, When: &When{}}}}
		report := diag.New()
		cfg.Validate(report.Root())
		if found := report.Findings(); len(found) != want || want == 1 && found[0].Path != "rules[0].mode" {
			t.Errorf("mode %q: %v", mode, found)
		}
		if _, err := Compile(cfg); (err != nil) != (want == 1) {
			t.Errorf("mode %q compiles: %v", mode, err)
		}
	}
}

func TestObservedDoesNotAllocateWithoutObservers(t *testing.T) {
	s := mustCompile(t, mixedRules(1000))
	q := toolCall("tool_500")
	d := s.Decide(&q)
	if n := testing.AllocsPerRun(100, func() { s.Observed(&q, d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
