package policy

import (
	"fmt"
	"slices"
	"testing"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
)

func ptr[T any](v T) *T { return &v }

// mustCompile compiles a valid section.
func mustCompile(t testing.TB, cfg Config) *Set {
	t.Helper()
	report := diag.New()
	cfg.Validate(report.Root().Field("policy"))
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	s, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rules returns allow rules for conditions, named r0, r1 and so on.
func rules(when ...When) []RuleConfig {
	var list []RuleConfig
	for i := range when {
		list = append(list, RuleConfig{ID: fmt.Sprintf("r%d", i), Action: "allow", When: &when[i]})
	}
	return list
}

// toolCall is a tools/call from a client.
func toolCall(tool string) Request {
	return Request{Method: mcp.MethodToolsCall, Tool: tool, HasTool: true}
}

func TestMatching(t *testing.T) {
	frame := func(method string) Request { return Request{Direction: ServerToClient, Method: method} }
	caller := func(q Request, c Claims) Request { q.Claims = &c; return q }
	answer := Request{Direction: ServerToClient, ResultType: "input_required"}
	for _, c := range []struct {
		name string
		when When
		q    Request
		want bool
	}{
		{"empty when is a catch-all", When{}, toolCall("x"), true},
		{"empty when matches other methods", When{}, Request{Method: "tasks/get"}, true},
		{"empty when matches answers of the client", When{}, Request{}, true},
		{"empty when is client to server", When{}, frame("notifications/message"), false},

		{"tool_name exact", When{ToolName: ptr("add")}, toolCall("add"), true},
		{"tool_name is case-sensitive", When{ToolName: ptr("add")}, toolCall("Add"), false},
		{"tool_name is no prefix", When{ToolName: ptr("add")}, toolCall("adder"), false},
		{"tool_name with a trailing space", When{ToolName: ptr("delete")}, toolCall("delete "), false},
		{"tool_name in Cyrillic", When{ToolName: ptr("delete")}, toolCall("dеlete"), false},
		{"tool_name in another normal form", When{ToolName: ptr("\u00e9")}, toolCall("e\u0301"), false},
		{"tool_name does not match other methods", When{ToolName: ptr("add")}, Request{Method: "prompts/get", Tool: "add", HasTool: true}, false},
		{"tool_name * matches any tool", When{ToolName: ptr("*")}, toolCall("x"), true},
		{"tool_name * matches tools/list", When{ToolName: ptr("*")}, Request{Method: "tools/list"}, true},
		{"tool_name * matches initialize", When{ToolName: ptr("*")}, Request{Method: "initialize"}, true},
		{"tool_name * after the method check", When{ToolName: ptr("*"), Method: "ping"}, Request{Method: "initialize"}, false},
		{"tool_name * after the direction check", When{ToolName: ptr("*")}, frame("ping"), false},
		{"tool_name * on frames", When{ToolName: ptr("*"), Direction: ptr("server_to_client")}, frame("ping"), true},

		{"tool_prefix", When{ToolPrefix: ptr("db_")}, toolCall("db_drop"), true},
		{"tool_prefix the whole name", When{ToolPrefix: ptr("db_")}, toolCall("db_"), true},
		{"tool_prefix longer than the name", When{ToolPrefix: ptr("db_")}, toolCall("db"), false},
		{"tool_prefix other methods", When{ToolPrefix: ptr("tools")}, Request{Method: "tools/list"}, false},

		{"tool_glob", When{ToolGlob: ptr("*_delete")}, toolCall("user_delete"), true},
		{"tool_glob does not match other methods", When{ToolGlob: ptr("*")}, Request{Method: "initialize"}, false},
		{"tool_glob * matches any tool", When{ToolGlob: ptr("*")}, toolCall("x"), true},

		{"tool_regex is anchored", When{ToolRegex: ptr("a|b")}, toolCall("ab"), false},
		{"tool_regex is anchored at the start", When{ToolRegex: ptr("a|b")}, toolCall("xb"), false},
		{"tool_regex is anchored at the end", When{ToolRegex: ptr("a|b")}, toolCall("ax"), false},
		{"tool_regex alternative", When{ToolRegex: ptr("a|b")}, toolCall("b"), true},
		{"tool_regex does not end before a line feed", When{ToolRegex: ptr("a")}, toolCall("a\n"), false},
		{"tool_regex with flags", When{ToolRegex: ptr("(?i)del.*")}, toolCall("DELETE"), true},
		{"tool_regex with multi-line flag stays anchored", When{ToolRegex: ptr("(?m)a$")}, toolCall("a\nb"), false},
		{"tool_regex with its own anchors", When{ToolRegex: ptr("^ab$")}, toolCall("ab"), true},

		{"tool_name_in", When{ToolNameIn: []string{"a", "b"}}, toolCall("b"), true},
		{"tool_name_in none", When{ToolNameIn: []string{"a", "b"}}, toolCall("c"), false},
		{"tool_name_in * is a name", When{ToolNameIn: []string{"*"}}, toolCall("c"), false},

		{"method exact", When{Method: "tasks/get"}, Request{Method: "tasks/get"}, true},
		{"method is case-sensitive", When{Method: "tasks/get"}, Request{Method: "tasks/Get"}, false},
		{"method with tool matcher", When{Method: "tools/call", ToolName: ptr("a")}, toolCall("a"), true},
		{"method does not match answers", When{Method: "ping"}, Request{}, false},

		{"direction server_to_client", When{Method: "x", Direction: ptr("server_to_client")}, frame("x"), true},
		{"direction server_to_client, other way", When{Method: "x", Direction: ptr("server_to_client")}, Request{Method: "x"}, false},
		{"direction client_to_server", When{Method: "x", Direction: ptr("client_to_server")}, frame("x"), false},
		{"direction empty is any, frames", When{Method: "x", Direction: ptr("")}, frame("x"), true},
		{"direction empty is any, requests", When{Method: "x", Direction: ptr("")}, Request{Method: "x"}, true},
		{"frames have no tool name", When{ToolName: ptr("a"), Direction: ptr("")}, Request{Direction: ServerToClient, Method: "tools/call", Tool: "a", HasTool: true}, false},

		{"result_type", When{ResultType: "input_required", Direction: ptr("server_to_client")}, answer, true},
		{"result_type other", When{ResultType: "input_required", Direction: ptr("server_to_client")}, Request{Direction: ServerToClient, ResultType: "complete"}, false},
		{"result_type embedded in a request", When{ResultType: "input_required", Direction: ptr("server_to_client")}, Request{Method: "tools/call", ResultType: "input_required"}, false},

		{"claims without identity", When{Claims: &ClaimsConfig{Groups: []string{"a"}}}, toolCall("x"), false},
		{"empty claims are no constraint", When{Claims: &ClaimsConfig{}}, toolCall("x"), true},
		{"empty lists are no constraint", When{Claims: &ClaimsConfig{Groups: []string{}, ScopesIn: []string{}}}, toolCall("x"), true},
		{"groups all", When{Claims: &ClaimsConfig{Groups: []string{"a", "b"}}}, caller(toolCall("x"), Claims{Groups: []string{"b", "c", "a"}}), true},
		{"groups one missing", When{Claims: &ClaimsConfig{Groups: []string{"a", "b"}}}, caller(toolCall("x"), Claims{Groups: []string{"a"}}), false},
		{"groups_in one", When{Claims: &ClaimsConfig{GroupsIn: []string{"a", "b"}}}, caller(toolCall("x"), Claims{Groups: []string{"b"}}), true},
		{"groups_in none", When{Claims: &ClaimsConfig{GroupsIn: []string{"a", "b"}}}, caller(toolCall("x"), Claims{Groups: []string{"c"}}), false},
		{"groups_in of no groups", When{Claims: &ClaimsConfig{GroupsIn: []string{"a"}}}, caller(toolCall("x"), Claims{}), false},
		{"scopes_in", When{Claims: &ClaimsConfig{ScopesIn: []string{"read"}}}, caller(toolCall("x"), Claims{Scopes: []string{"read"}}), true},
		{"scopes_in is no substring", When{Claims: &ClaimsConfig{ScopesIn: []string{"read"}}}, caller(toolCall("x"), Claims{Scopes: []string{"readonly"}}), false},
		{"subject_in", When{Claims: &ClaimsConfig{SubjectIn: []string{"u1", "u2"}}}, caller(toolCall("x"), Claims{Subject: "u2"}), true},
		{"subject_in other", When{Claims: &ClaimsConfig{SubjectIn: []string{"u1"}}}, caller(toolCall("x"), Claims{Subject: "u3"}), false},
		{"claims are ANDed", When{Claims: &ClaimsConfig{GroupsIn: []string{"a"}, ScopesIn: []string{"s"}}}, caller(toolCall("x"), Claims{Groups: []string{"a"}}), false},
		{"claims with a tool", When{ToolName: ptr("x"), Claims: &ClaimsConfig{GroupsIn: []string{"a"}}}, caller(toolCall("x"), Claims{Groups: []string{"a"}}), true},
		{"claims on frames", When{Direction: ptr("server_to_client"), Claims: &ClaimsConfig{GroupsIn: []string{"a"}}}, caller(frame("x"), Claims{Groups: []string{"a"}}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustCompile(t, Config{DefaultAction: ptr("allow"), Rules: rules(c.when)})
			if d := s.Decide(&c.q); (d.Rule != nil) != c.want || d.Default == c.want {
				t.Errorf("got %+v, want a match: %v", d, c.want)
			}
		})
	}
}

func TestFirstMatchWins(t *testing.T) {
	cfg := Config{DefaultAction: ptr("allow"), Rules: []RuleConfig{
		{ID: "deny-drop", Action: "deny", When: &When{ToolName: ptr("db_drop")}},
		{ID: "limit-db", Action: "rate_limit", TokensPerSecond: ptr(0.5), When: &When{ToolPrefix: ptr("db_")}},
		{ID: "strip", Action: "strip_app", When: &When{ToolGlob: ptr("*_ui")}},
		{ID: "wildcard", Action: "redact", When: &When{ToolName: ptr("*")}, Redact: []Substitution{{Regex: "a"}}},
		{ID: "shadowed", Action: "deny", When: &When{ToolName: ptr("mail")}},
	}}
	s := mustCompile(t, cfg)
	for tool, want := range map[string]string{"db_drop": "deny-drop", "db_get": "limit-db", "db_ui": "limit-db", "x_ui": "strip", "mail": "wildcard"} {
		q := toolCall(tool)
		if d := s.Decide(&q); d.RuleID != want {
			t.Errorf("%s: rule %q, want %q", tool, d.RuleID, want)
		}
	}
	if got := s.Order(); !slices.Equal(got, []string{"deny-drop", "limit-db", "strip", "wildcard", "shadowed"}) {
		t.Errorf("order is %v", got)
	}
	q := toolCall("db_get")
	if r := s.Decide(&q).Rule; r.Burst != 1 || r.TokensPerSecond != 0.5 || r.Action != RateLimit {
		t.Errorf("rule is %+v", r)
	}
}

func TestDefaultAction(t *testing.T) {
	type verdict struct {
		action Action
		rule   string
	}
	denied, passes := verdict{Deny, "default_deny"}, verdict{Allow, ""}
	for _, c := range []struct {
		name            string
		q               Request
		omit, deny, all verdict
	}{
		{"tool call", toolCall("x"), denied, denied, passes},
		{"method outside the allowlist", Request{Method: "resources/read"}, passes, denied, passes},
		{"listen", Request{Method: "subscriptions/listen"}, passes, denied, passes},
		{"tasks", Request{Method: "tasks/cancel"}, passes, denied, passes},
		{"other notification", Request{Method: "notifications/progress"}, passes, denied, passes},
		{"initialize", Request{Method: "initialize"}, passes, passes, passes},
		{"server/discover", Request{Method: "server/discover"}, passes, passes, passes},
		{"notifications/cancelled", Request{Method: "notifications/cancelled"}, passes, passes, passes},
		{"answer of the client", Request{}, passes, passes, passes},
		{"frame", Request{Direction: ServerToClient, Method: "notifications/message"}, passes, passes, passes},
		{"frame that says tools/call", Request{Direction: ServerToClient, Method: "tools/call"}, passes, passes, passes},
	} {
		t.Run(c.name, func(t *testing.T) {
			for action, want := range map[string]verdict{"": c.omit, "deny": c.deny, "allow": c.all} {
				cfg := Config{}
				if action != "" {
					cfg.DefaultAction = &action
				}
				d := mustCompile(t, cfg).Decide(&c.q)
				if (verdict{d.Action, d.RuleID}) != want || !d.Default || d.Rule != nil {
					t.Errorf("default_action %q: got %+v, want %+v", action, d, want)
				}
			}
		})
	}
}

// A caller with groups that cannot be read may be in any group: a deny rule with groups_in or groups
// matches, an allow rule does not, and a rule with another action denies. The same holds for scopes and
// the subject; claims that are known decide as ever.
func TestRulesFailClosedOnUnreadableClaims(t *testing.T) {
	groups := &ClaimsConfig{GroupsIn: []string{"contractors"}}
	all := &ClaimsConfig{Groups: []string{"contractors", "night"}}
	both := &ClaimsConfig{GroupsIn: []string{"contractors"}, ScopesIn: []string{"write"}}
	limit := func(r *RuleConfig) { r.TokensPerSecond = ptr(5.0) }
	redact := func(r *RuleConfig) { r.Redact = []Substitution{{Regex: "x", Replacement: "y"}} }
	guard := func(r *RuleConfig) { r.Guardrail = ptr("scan") }
	const denied, by = "deny " + ReasonClaimsUnreadable, " by r"
	for _, c := range []struct {
		name, action string
		claims       *ClaimsConfig
		set          func(*RuleConfig)
		caller       Claims
		want         string
	}{
		{"deny, groups_in", "deny", groups, nil, Claims{Unreadable: UnreadableGroups}, denied + by},
		{"deny, groups", "deny", all, nil, Claims{Unreadable: UnreadableGroups}, denied + by},
		{"deny, groups, one is known", "deny", all, nil, Claims{Groups: []string{"night"}, Unreadable: UnreadableGroups}, denied + by},
		{"deny, a member among unknown groups", "deny", groups, nil, Claims{Groups: []string{"contractors"}, Unreadable: UnreadableGroups}, "deny by r"},
		{"deny, scopes_in", "deny", &ClaimsConfig{ScopesIn: []string{"write"}}, nil, Claims{Unreadable: UnreadableScopes}, denied + by},
		{"deny, subject_in", "deny", &ClaimsConfig{SubjectIn: []string{"ina"}}, nil, Claims{Unreadable: UnreadableSubject}, denied + by},
		{"deny, no groups", "deny", groups, nil, Claims{}, "allow"},
		{"deny, another claim is unreadable", "deny", groups, nil, Claims{Unreadable: UnreadableScopes | UnreadableSubject}, "allow"},
		{"deny, a known claim does not meet it", "deny", both, nil, Claims{Unreadable: UnreadableGroups, Scopes: []string{"read"}}, "allow"},
		{"deny, a known claim meets the rest", "deny", both, nil, Claims{Unreadable: UnreadableGroups, Scopes: []string{"write"}}, denied + by},
		{"allow", "allow", groups, nil, Claims{Unreadable: UnreadableGroups}, "allow"},
		{"allow, groups", "allow", all, nil, Claims{Unreadable: UnreadableGroups}, "allow"},
		{"allow, a member among unknown groups", "allow", groups, nil, Claims{Groups: []string{"contractors"}, Unreadable: UnreadableGroups}, "allow by r"},
		{"redact", "redact", groups, redact, Claims{Unreadable: UnreadableGroups}, denied + by},
		{"rate_limit", "rate_limit", groups, limit, Claims{Unreadable: UnreadableGroups}, denied + by},
		{"rate_limit, a member", "rate_limit", groups, limit, Claims{Groups: []string{"contractors"}, Unreadable: UnreadableGroups}, "rate_limit by r"},
		{"guardrail", "guardrail", groups, guard, Claims{Unreadable: UnreadableGroups}, denied + by},
		{"strip_app", "strip_app", groups, nil, Claims{Unreadable: UnreadableGroups}, denied + by},
	} {
		for _, tool := range []*string{nil, ptr("pay"), ptr("p*")} { // each is found through another index
			for _, way := range []Direction{ClientToServer, ServerToClient} {
				when := When{Claims: c.claims, Direction: ptr(way.String())}
				if tool != nil {
					if way == ServerToClient {
						continue
					}
					when.ToolGlob = tool
				}
				r := RuleConfig{ID: "r", Action: c.action, When: &when}
				if c.set != nil {
					c.set(&r)
				}
				watched := r
				watched.ID, watched.Mode = "w", ModeObserve
				s := mustCompile(t, Config{DefaultAction: ptr("allow"), Rules: []RuleConfig{watched, r}})
				q := toolCall("pay")
				q.Claims = &c.caller
				q.Direction = way
				d, observed := NewMemory(s).Observe(&q)
				got := d.Action.String()
				if d.Reason != "" {
					got += " " + d.Reason
				}
				if d.RuleID != "" {
					got += " by " + d.RuleID
				}
				if got != c.want {
					t.Errorf("%s, %s: %s, want %s", c.name, way, got, c.want)
				}
				if would := len(observed) > 0 && observed[0].Reason == d.Reason && observed[0].Action == d.Action; would == d.Default {
					t.Errorf("%s, %s: observed %+v beside %s", c.name, way, observed, got)
				}
			}
		}
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	s := mustCompile(t, mixedRules(1000))
	queries := mixedQueries(1000)
	i := 0
	if n := testing.AllocsPerRun(1000, func() { s.Decide(&queries[i%len(queries)]); i++ }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// mixedRules returns n rules of all kinds, for distinct tools.
func mixedRules(n int) Config {
	cfg := Config{DefaultAction: ptr("deny")}
	for i := range n {
		w := &When{}
		switch i % 10 {
		case 0, 1, 2, 3:
			w.ToolName = ptr(fmt.Sprintf("tool_%04d", i))
		case 4, 5:
			w.ToolPrefix = ptr(fmt.Sprintf("group%04d_", i))
		case 6:
			w.ToolGlob = ptr(fmt.Sprintf("svc%04d_*_read", i))
		case 7:
			w.ToolRegex = ptr(fmt.Sprintf("api%04d_(get|list)_[a-z]+", i))
		case 8:
			w.ToolNameIn = []string{fmt.Sprintf("in_%04d_a", i), fmt.Sprintf("in_%04d_b", i), fmt.Sprintf("in_%04d_c", i)}
		case 9:
			w.ToolName = ptr(fmt.Sprintf("claimed_%04d", i))
			w.Claims = &ClaimsConfig{GroupsIn: []string{"staff", fmt.Sprintf("team-%d", i)}}
		}
		cfg.Rules = append(cfg.Rules, RuleConfig{ID: fmt.Sprintf("rule-%d", i), Action: "allow", When: w})
	}
	return cfg
}

// mixedQueries returns calls that match rules of each kind in a list of n, and
// some that match none: the same number for every n.
func mixedQueries(n int) []Request {
	var list []Request
	who := &Claims{Subject: "u", Groups: []string{"staff"}}
	for k := range 5 {
		base := (n / 5 * k) / 10 * 10
		for _, tool := range []string{
			fmt.Sprintf("tool_%04d", base), fmt.Sprintf("group%04d_x", base+4), fmt.Sprintf("svc%04d_users_read", base+6),
			fmt.Sprintf("api%04d_get_users", base+7), fmt.Sprintf("in_%04d_b", base+8), fmt.Sprintf("claimed_%04d", base+9), "unknown_tool",
		} {
			q := toolCall(tool)
			q.Claims = who
			list = append(list, q)
		}
	}
	return list
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{50, 1000} {
		s := mustCompile(b, mixedRules(n))
		queries := mixedQueries(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Decide(&queries[i])
				if i++; i == len(queries) {
					i = 0
				}
			}
		})
	}
}

// Each action has a distinct name, and the name is accepted in a rule.
func TestEveryActionHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for a := range ActionCount {
		name := a.String()
		if name == "" || name == "unknown" || seen[name] {
			t.Errorf("action %d is named %q", a, name)
		}
		seen[name] = true
	}
	if got := ActionNames(); len(got) != int(ActionCount) || len(seen) != len(got) {
		t.Errorf("names %q", got)
	}
}
