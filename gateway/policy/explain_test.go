package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Explain decides like Decide for all rules and requests; each step except a
// deciding last one gives the reason why its rule did not match, and the naive
// evaluator agrees.
func TestExplainAgreesWithDecide(t *testing.T) {
	when, request := modelWhen(), modelRequest()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Rules: rules(rapid.SliceOfN(when, 0, 12).Draw(t, "rules")...)}
		drawActions(t, cfg.Rules)
		for i := range cfg.Rules {
			if rapid.IntRange(0, 4).Draw(t, "observes") == 0 {
				cfg.Rules[i].Mode = "observe"
			}
		}
		if a := rapid.SampledFrom([]string{"", "allow", "deny"}).Draw(t, "default"); a != "" {
			cfg.DefaultAction = &a
		}
		s, err := Compile(cfg, modelNames.List()...)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			q := request.Draw(t, "request")
			got, steps := s.Explain(&q)
			if want := s.Decide(&q); got != want {
				t.Fatalf("explained %+v, decided %+v, for %+v", got, want, q)
			}
			for i, step := range steps {
				if step.Rule.Index != i || step.Matched != naiveMatch(&cfg.Rules[i], &q) ||
					!step.Matched && step.Reason == "" || step.Matched != (step.Failed == "") {
					t.Fatalf("step %d is %+v, for %+v", i, step, q)
				}
			}
			last := Step{}
			if len(steps) > 0 {
				last = steps[len(steps)-1]
			}
			if decided := last.Matched && !last.Rule.Observe; decided == got.Default || decided && last.Action != got.Action || got.Default && len(steps) != len(cfg.Rules) {
				t.Fatalf("%d steps for %+v", len(steps), got)
			}
		}
	})
}

func TestExplainReasons(t *testing.T) {
	down := ptr("server_to_client")
	alice := &Claims{Subject: "alice", Groups: []string{"staff"}}
	for _, c := range []struct {
		name   string
		when   When
		q      Request
		failed Condition
		want   string
	}{
		{"direction", When{Direction: down}, toolCall("a"), ConditionDirection, "direction is client_to_server, the rule is for server_to_client"},
		{"method", When{Method: "ping"}, toolCall("a"), ConditionMethod, "method is tools/call, the rule is for ping"},
		{"answer", When{Method: "ping"}, Request{}, ConditionMethod, "a response has no method, the rule is for ping"},
		{"name", When{ToolName: ptr("b")}, toolCall("a"), ConditionTool, `tool "a" is not matched by tool_name "b"`},
		{"prefix", When{ToolPrefix: ptr("db_")}, toolCall("a"), ConditionTool, `tool "a" is not matched by tool_prefix "db_"`},
		{"glob that is a prefix", When{ToolGlob: ptr("db_*")}, toolCall("a"), ConditionTool, `tool_glob "db_*"`},
		{"regex", When{ToolRegex: ptr("b|c")}, toolCall("a"), ConditionTool, `tool_regex "b|c"`},
		{"list", When{ToolNameIn: strings.Fields("b c d e f g h i j k")}, toolCall("a"), ConditionTool, `tool_name_in ["b", "c", "d", "e", "f", "g", "h", "i", and 2 more]`},
		{"tool matcher and another method", When{ToolName: ptr("b")}, Request{Method: "ping"}, ConditionTool, `tool_name matches tools/call only, the method is "ping"`},
		{"tool matcher on a frame", When{ToolName: ptr("b"), Direction: ptr("")}, Request{Direction: ServerToClient, Method: "tools/call"}, ConditionTool, "tool_name matches tools/call of clients only"},
		{"result type", When{Direction: down, ResultType: "input_required"}, Request{Direction: ServerToClient, ResultType: "complete"}, ConditionResultType, `result type is "complete", the rule is for input_required`},
		{"no identity", When{Claims: &ClaimsConfig{GroupsIn: []string{"x"}}}, toolCall("a"), ConditionClaims, "no verified OAuth identity"},
		{"groups", When{Claims: &ClaimsConfig{Groups: []string{"staff", "root"}}}, Request{Claims: alice}, ConditionClaims, `not in the group "root"`},
		{"groups_in", When{Claims: &ClaimsConfig{GroupsIn: []string{"x"}}}, Request{Claims: alice}, ConditionClaims, `no group of groups_in ["x"]`},
		{"unreadable groups", When{Claims: &ClaimsConfig{GroupsIn: []string{"x"}}}, Request{Claims: &Claims{Unreadable: UnreadableGroups}}, ConditionClaims, "cannot be read, and an allow rule needs to know them: the caller is in no group"},
		{"scopes_in", When{Claims: &ClaimsConfig{ScopesIn: []string{"x"}}}, Request{Claims: alice}, ConditionClaims, `no scope of scopes_in ["x"]`},
		{"subject_in", When{Claims: &ClaimsConfig{SubjectIn: []string{"bob"}}}, Request{Claims: alice}, ConditionClaims, `the subject "alice" is not in subject_in ["bob"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustCompile(t, Config{DefaultAction: ptr("allow"), Rules: rules(c.when)})
			_, steps := s.Explain(&c.q)
			if len(steps) != 1 || steps[0].Failed != c.failed || !strings.Contains(steps[0].Reason, c.want) {
				t.Errorf("got %+v, want %s: %s", steps, c.failed, c.want)
			}
		})
	}
}

// A rule that matches although an argument of its conditions is missing or cannot be evaluated
// says so, and what happens to the call.
func TestExplainSaysThatAnArgumentIsMissing(t *testing.T) {
	for _, c := range []struct {
		action, arguments string
		does              Action
		want              string
	}{
		{"deny", `{}`, Deny, "there is no argument /path, and a deny rule matches then"},
		{"deny", `{"path": 7}`, Deny, "the argument /path is of another type than its matcher takes, or ambiguous, and a deny rule matches then"},
		{"deny", `{"path": "/srv/data/a"}`, Deny, ""},
		{"guardrail", `{"path": 7}`, Deny, "the argument /path is of another type than its matcher takes, or ambiguous, and the call is denied then"},
	} {
		s := mustCompile(t, Config{Rules: []RuleConfig{within("only-data", c.action)}})
		q := request(t, call(c.arguments))
		d, steps := s.Explain(&q)
		if len(steps) != 1 || !steps[0].Matched || steps[0].Action != c.does || d.Action != c.does || steps[0].Reason != c.want {
			t.Errorf("%s %s: %+v, decision %+v", c.action, c.arguments, steps, d)
		}
	}
}

// The description of the default agrees with the default's decision.
func TestFallbackInWords(t *testing.T) {
	for _, action := range []string{"", "allow", "deny"} {
		cfg := Config{}
		if action != "" {
			cfg.DefaultAction = &action
		}
		s := mustCompile(t, cfg)
		for _, q := range []Request{toolCall("a"), {Method: "tools/list"}, {Method: "tasks/get"}, {}, {Direction: ServerToClient, Method: "ping"}} {
			words := s.Fallback(&q)
			denies := words == "default_action is deny" || words == "default_action is not set, and then tool calls are denied"
			if denies != (s.Decide(&q).Action == Deny) {
				t.Errorf("default %q, %+v: %s", action, q, words)
			}
		}
	}
}
