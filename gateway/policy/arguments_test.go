package policy

import (
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
)

// request scans a message of a client.
func request(t testing.TB, body string) Request {
	t.Helper()
	var m mcp.Message
	if err := mcp.Scan([]byte(body), &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return RequestOf(&m, ClientToServer, nil)
}

func call(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":` + arguments + `}}`
}

// within is a rule with a condition on the argument path.
func within(id, action string) RuleConfig {
	r := RuleConfig{ID: id, Action: action, When: &When{
		ToolName: new("read"), Arguments: arguments.Config{"/path": {Test: arguments.Test{PathWithin: new("/srv/data")}}}}}
	switch action {
	case "redact":
		r.Redact = []Substitution{{Regex: "x", Replacement: "y"}}
	case "rate_limit":
		r.TokensPerSecond = new(1.0)
	case "guardrail":
		r.Guardrail = new("g")
	}
	return r
}

// The effect of a missing argument, and of one of another type, depends on the action of
// the rule.
func TestArgumentsByAction(t *testing.T) {
	const inside, outside, missing, wrong = `{"path":"/srv/data/x"}`, `{"path":"/etc/passwd"}`, `{}`, `{"path":["/srv/data/x"]}`
	for _, action := range ActionNames() {
		cfg := Config{DefaultAction: new("allow"), Rules: []RuleConfig{within("r", action), {ID: "rest", Action: "allow", When: &When{}}}}
		if action == "allow" {
			cfg.Rules[1].Action = "deny"
		}
		s, err := Compile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for args, want := range map[string]struct{ rule, reason string }{
			inside:                       {"r", ""},
			outside:                      {"rest", ""},
			missing:                      {map[bool]string{true: "r", false: "rest"}[action == "deny"], ""},
			wrong:                        {map[bool]string{true: "rest", false: "r"}[action == "allow"], map[bool]string{true: "", false: ReasonArgumentType}[action == "allow" || action == "deny"]},
			`{"path":"/srv/x","PATH":1}`: {map[bool]string{true: "rest", false: "r"}[action == "allow"], map[bool]string{true: "", false: ReasonArgumentType}[action == "allow" || action == "deny"]},
		} {
			q := request(t, call(args))
			for name, d := range map[string]Decision{"Decide": s.Decide(&q), "Memory": NewMemory(s).Decide(&q)} {
				if d.RuleID != want.rule || d.Reason != want.reason || d.Reason != "" && d.Action != Deny {
					t.Errorf("%s, %s of %s: rule %s, action %v, reason %q; want %s, %q", name, action, args, d.RuleID, d.Action, d.Reason, want.rule, want.reason)
				}
			}
			if d, steps := s.Explain(&q); d.RuleID != want.rule || d.Reason != want.reason || steps[len(steps)-1].Rule.ID != want.rule {
				t.Errorf("Explain, %s of %s: %+v", action, args, d)
			}
		}
	}
}

// A rule on arguments matches tools/call and prompts/get, and no other method.
func TestArgumentsOfOtherMethods(t *testing.T) {
	s, err := Compile(Config{DefaultAction: new("allow"), Rules: []RuleConfig{{ID: "r", Action: "deny", When: &When{
		Arguments: arguments.Config{"/a": {Test: arguments.Test{Absent: true}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for body, denied := range map[string]bool{
		call(`{}`): true,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`:                                                   true,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"a":"1"}}}`:                             false,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}}`: false,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///x"}}`:                                         false,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                                                    false,
	} {
		q := request(t, body)
		if d := s.Decide(&q); (d.Action == Deny) != denied {
			t.Errorf("%s: %v", body, d.Action)
		}
	}
}

// The decision about one call is not cached for a call with other arguments, and
// decisions about other tools are still cached.
func TestMemoryDoesNotMixArguments(t *testing.T) {
	observing := within("watch", "deny")
	observing.Mode = "observe"
	for _, rules := range [][]RuleConfig{{within("r", "allow")}, {observing}} {
		s, err := Compile(Config{DefaultAction: new("deny"), Rules: append(rules, RuleConfig{ID: "other", Action: "allow", When: &When{ToolName: new("other")}})})
		if err != nil {
			t.Fatal(err)
		}
		m := NewMemory(s)
		for range 2 {
			for _, args := range []string{`{"path":"/srv/data"}`, `{"path":"/etc"}`, `{"path":"/srv/data"}`} {
				q, plain := request(t, call(args)), request(t, call(args))
				got, seen := m.Observe(&q)
				if want := s.Decide(&plain); got != want {
					t.Errorf("%s: %+v, want %+v", args, got, want)
				}
				if again := s.Observed(&plain, got); len(again) != len(seen) {
					t.Errorf("%s: observed %d, want %d", args, len(seen), len(again))
				}
			}
		}
		q := request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other","arguments":{}}}`)
		m.Decide(&q)
		if n := testing.AllocsPerRun(100, func() { m.Decide(&q) }); n > 0 {
			t.Errorf("a decision that asks for no arguments is not remembered: %v allocations", n)
		}
	}
}

// A tool is listed if some call of it may be allowed.
func TestRequestsWithAnyArguments(t *testing.T) {
	for action, want := range map[string]Action{"allow": Allow, "deny": Deny, "redact": Redact} {
		s, err := Compile(Config{DefaultAction: new("deny"), Rules: []RuleConfig{within("r", action)}})
		if err != nil {
			t.Fatal(err)
		}
		q := Request{Method: mcp.MethodToolsCall, Tool: "read", HasTool: true, AnyArguments: true}
		d := s.Decide(&q)
		if d.Action != want || (action == "deny") != d.Default {
			t.Errorf("%s: %+v", action, d)
		}
		if r := s.AsksForArguments(q); r == nil || r.ID != "r" {
			t.Errorf("%s: the decision depends on %v", action, r)
		}
		q.Tool = "other"
		if r := s.AsksForArguments(q); r != nil {
			t.Errorf("%s: a call of another tool depends on %v", action, r)
		}
	}
}

// TestObservedRulesHaveTheActionThatWouldHaveBeenTaken: the observed action is deny when
// a rule with another action could not have evaluated an argument.
func TestObservedRulesHaveTheActionThatWouldHaveBeenTaken(t *testing.T) {
	rule := within("watch", "redact")
	rule.Mode, rule.Redact = "observe", []Substitution{{Regex: "x", Replacement: "y"}}
	s, err := Compile(Config{DefaultAction: new("allow"), Rules: []RuleConfig{rule}})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"path":"/srv/data"}`:               "redact",
		`{"path":7}`:                         "deny argument_type",
		`{"path":"/srv/data","PATH":"/etc"}`: "deny argument_type",
		`{"path":"/etc"}`:                    "",
		`{}`:                                 "",
	} {
		q := request(t, call(args))
		d := s.Decide(&q)
		got := ""
		for _, o := range s.Observed(&q, d) {
			got = strings.TrimSpace(o.Action.String() + " " + o.Reason)
		}
		if got != want || d.Action != Allow {
			t.Errorf("%s: observed %q, decided %v, want %q", args, got, d.Action, want)
		}
	}
}
