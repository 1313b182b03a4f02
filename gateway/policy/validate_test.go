package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"svc/gateway/base/diag"
)

// check returns the findings of a section as path: code, warnings marked.
func check(cfg Config) []string {
	report := diag.New()
	cfg.Validate(report.Root().Field("policy"))
	var list []string
	for _, f := range report.Findings() {
		s := strings.TrimPrefix(f.Path, "policy.") + ": " + f.Code
		if f.Severity == diag.Warning {
			s += " (warning)"
		}
		list = append(list, s)
	}
	return list
}

func TestValidate(t *testing.T) {
	one := func(r RuleConfig) Config {
		if r.ID == "" {
			r.ID = "r"
		}
		if r.Action == "" {
			r.Action = "allow"
		}
		if r.When == nil {
			r.When = &When{}
		}
		return Config{Rules: []RuleConfig{r}}
	}
	when := func(w When) Config { return one(RuleConfig{When: &w}) }
	redact := func(s ...Substitution) Config { return one(RuleConfig{Action: "redact", Redact: s}) }
	for _, c := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"empty section", Config{}, nil},
		{"default_action allow", Config{DefaultAction: ptr("allow")}, nil},
		{"default_action deny", Config{DefaultAction: ptr("deny")}, nil},
		{"default_action other", Config{DefaultAction: ptr("Deny")}, []string{"default_action: enum"}},
		{"default_action empty", Config{DefaultAction: ptr("")}, []string{"default_action: enum"}},

		{"unique rule ids", Config{Rules: []RuleConfig{{ID: "a", Action: "allow", When: &When{}}, {ID: "a", Action: "deny", When: &When{}}}}, []string{"rules[1].id: duplicate"}},
		{"id missing", Config{Rules: []RuleConfig{{Action: "allow", When: &When{}}}}, []string{"rules[0].id: required"}},
		{"id of the default", one(RuleConfig{ID: "default_deny"}), []string{"rules[0].id: reserved"}},
		{"action missing", Config{Rules: []RuleConfig{{ID: "a", When: &When{}}}}, []string{"rules[0].action: required"}},
		{"action outside the six", one(RuleConfig{Action: "observe"}), []string{"rules[0].action: enum"}},
		{"when missing", Config{Rules: []RuleConfig{{ID: "a", Action: "allow"}}}, []string{"rules[0].when: required"}},

		{"guardrail without name", one(RuleConfig{Action: "guardrail"}), []string{"rules[0].guardrail: required"}},
		{"guardrail empty", one(RuleConfig{Action: "guardrail", Guardrail: ptr("")}), []string{"rules[0].guardrail: required"}},
		{"guardrail on another action", one(RuleConfig{Guardrail: ptr("g")}), []string{"rules[0].guardrail: unused"}},
		{"guardrail", one(RuleConfig{Action: "guardrail", Guardrail: ptr("g")}), nil},
		{"frames on another action", one(RuleConfig{Frames: true, When: &When{Direction: ptr("server_to_client")}}), []string{"rules[0].frames: unused"}},
		{"frames without a direction", one(RuleConfig{Action: "guardrail", Guardrail: ptr("g"), Frames: true}), []string{"rules[0].frames: unused"}},
		{"frames of a client", one(RuleConfig{Action: "guardrail", Guardrail: ptr("g"), Frames: true, When: &When{Direction: ptr("client_to_server")}}),
			[]string{"rules[0].frames: unused"}},
		{"frames of a server", one(RuleConfig{Action: "guardrail", Guardrail: ptr("g"), Frames: true, When: &When{Direction: ptr("server_to_client")}}), nil},
		{"frames in any direction", one(RuleConfig{Action: "guardrail", Guardrail: ptr("g"), Frames: true, When: &When{Direction: ptr("")}}), nil},

		{"direction empty", when(When{Direction: ptr("")}), nil},
		{"direction client_to_server", when(When{Direction: ptr("client_to_server")}), nil},
		{"direction server_to_client", when(When{Direction: ptr("server_to_client")}), nil},
		{"direction other", when(When{Direction: ptr("both")}), []string{"rules[0].when.direction: enum"}},
		{"two tool matchers", when(When{ToolName: ptr("a"), ToolPrefix: ptr("b")}), []string{"rules[0].when: matcher"}},
		{"five tool matchers", when(When{ToolName: ptr("a"), ToolPrefix: ptr("b"), ToolGlob: ptr("c"), ToolRegex: ptr("d"), ToolNameIn: []string{"e"}}), []string{"rules[0].when: matcher"}},
		{"tool_name empty", when(When{ToolName: ptr("")}), []string{"rules[0].when.tool_name: required"}},
		{"tool_prefix empty", when(When{ToolPrefix: ptr("")}), []string{"rules[0].when.tool_prefix: required"}},
		{"tool_name_in empty", when(When{ToolNameIn: []string{}}), []string{"rules[0].when.tool_name_in: required"}},
		{"tool_name_in with an empty name", when(When{ToolNameIn: []string{"a", ""}}), []string{"rules[0].when.tool_name_in[1]: required"}},
		{"tool_name_in with a star", when(When{ToolNameIn: []string{"*"}}), []string{"rules[0].when.tool_name_in[0]: literal-star (warning)"}},
		{"tool_glob valid", when(When{ToolGlob: ptr("db_[a-z]*")}), nil},
		{"tool_glob [", when(When{ToolGlob: ptr("[")}), []string{"rules[0].when.tool_glob: glob"}},
		{"tool_glob empty", when(When{ToolGlob: ptr("")}), []string{"rules[0].when.tool_glob: required"}},
		{"tool_regex does not compile", when(When{ToolRegex: ptr("(")}), []string{"rules[0].when.tool_regex: regex"}},
		{"tool_regex that would compile only in brackets", when(When{ToolRegex: ptr("a)(b")}), []string{"rules[0].when.tool_regex: regex"}},
		{"tool_regex with lookahead", when(When{ToolRegex: ptr("(?=a)")}), []string{"rules[0].when.tool_regex: regex"}},
		{"tool_regex empty", when(When{ToolRegex: ptr("")}), []string{"rules[0].when.tool_regex: required"}},

		{"result_type", when(When{ResultType: "input_required", Direction: ptr("server_to_client")}), nil},
		{"result_type without direction", when(When{ResultType: "input_required"}), []string{"rules[0].when.result_type: direction"}},
		{"result_type with any direction", when(When{ResultType: "input_required", Direction: ptr("")}), []string{"rules[0].when.result_type: direction"}},
		{"result_type other", when(When{ResultType: "task", Direction: ptr("server_to_client")}), []string{"rules[0].when.result_type: enum"}},
		{"claims with an empty entry", when(When{Claims: &ClaimsConfig{Groups: []string{""}, SubjectIn: []string{"a", ""}}}),
			[]string{"rules[0].when.claims.groups[0]: required", "rules[0].when.claims.subject_in[1]: required"}},

		{"redact", redact(Substitution{Regex: "a"}), nil},
		{"redact missing", one(RuleConfig{Action: "redact"}), []string{"rules[0].redact: required"}},
		{"redact empty", redact(), []string{"rules[0].redact: required"}},
		{"redact without regex", redact(Substitution{Replacement: "x"}), []string{"rules[0].redact[0].regex: required"}},
		{"redact with a bad regex", redact(Substitution{Regex: "a"}, Substitution{Regex: "["}), []string{"rules[0].redact[1].regex: regex"}},
		{"redact with jsonpath", redact(Substitution{JSONPath: ptr("$.a")}), []string{"rules[0].redact[0].jsonpath: reserved"}},
		{"redact with regex and jsonpath", redact(Substitution{Regex: "a", JSONPath: ptr("")}), []string{"rules[0].redact[0].jsonpath: reserved"}},
		{"redact with a group that is not there", redact(Substitution{Regex: "(a)", Replacement: "$1x${2}$0"}),
			[]string{"rules[0].redact[0].replacement: template (warning)", "rules[0].redact[0].replacement: template (warning)"}},
		{"redact on another action", one(RuleConfig{Redact: []Substitution{{Regex: "a"}}}), []string{"rules[0].redact: unused"}},

		{"rate_limit", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(0.001)}), nil},
		{"rate_limit without rate", one(RuleConfig{Action: "rate_limit"}), []string{"rules[0].tokens_per_second: required"}},
		{"rate_limit of 0", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(0.0)}), []string{"rules[0].tokens_per_second: range"}},
		{"rate_limit of NaN", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(math.NaN())}), []string{"rules[0].tokens_per_second: range"}},
		{"rate_limit of infinity", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(math.Inf(1))}), []string{"rules[0].tokens_per_second: range"}},
		{"burst 0", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(1.0), Burst: ptr(0)}), []string{"rules[0].burst: range"}},
		{"burst 1", one(RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(1.0), Burst: ptr(1)}), nil},
		{"rate on another action", one(RuleConfig{TokensPerSecond: ptr(1.0), Burst: ptr(1)}), []string{"rules[0].tokens_per_second: unused", "rules[0].burst: unused"}},

		{"tool matcher with another method", when(When{ToolName: ptr("a"), Method: "prompts/get"}), []string{"rules[0].when.method: never-matches (warning)"}},
		{"tool matcher with tools/call", when(When{ToolName: ptr("a"), Method: "tools/call"}), nil},
		{"any tool with another method", when(When{ToolName: ptr("*"), Method: "prompts/get"}), nil},
		{"tool matcher on frames", when(When{ToolPrefix: ptr("a"), Direction: ptr("server_to_client")}), []string{"rules[0].when.direction: never-matches (warning)"}},
		{"result_type with method", when(When{ResultType: "input_required", Method: "x", Direction: ptr("server_to_client")}), []string{"rules[0].when.method: never-matches (warning)"}},

		{"all findings at once", Config{DefaultAction: ptr("x"), Rules: []RuleConfig{{ID: "a", Action: "y"}, {ID: "a", Action: "redact", When: &When{Direction: ptr("z")}}}},
			[]string{"default_action: enum", "rules[0].action: enum", "rules[0].when: required", "rules[1].id: duplicate", "rules[1].when.direction: enum", "rules[1].redact: required"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(c.cfg)
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			// A section that passes validation compiles, and a section that
			// fails it never makes the compiler panic.
			errs := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return strings.HasSuffix(s, "(warning)") })
			if _, err := Compile(c.cfg); err != nil && len(errs) == 0 {
				t.Errorf("compile: %v", err)
			}
		})
	}
}

func TestFindingsSayWhatToDo(t *testing.T) {
	report := diag.New()
	cfg := Config{DefaultAction: ptr("x"), Rules: []RuleConfig{
		{}, {ID: "a", Action: "redact", When: &When{ToolGlob: ptr("["), ResultType: "x", ToolRegex: ptr("(")}},
		{ID: "a", Action: "rate_limit", When: &When{Direction: ptr("x"), ToolNameIn: []string{}}},
	}}
	cfg.Validate(report.Root())
	for _, f := range report.Findings() {
		if f.Hint == "" {
			t.Errorf("%v has no hint", f)
		}
	}
}

func TestCheckGuardrails(t *testing.T) {
	cfg := Config{Rules: []RuleConfig{
		{ID: "a", Action: "guardrail", Guardrail: ptr("dlp"), When: &When{}},
		{ID: "b", Action: "guardrail", Guardrail: ptr("pii"), When: &When{}},
		{ID: "c", Action: "allow", When: &When{}},
	}}
	for _, c := range []struct {
		names []string
		want  int
	}{{[]string{"dlp", "pii"}, 0}, {[]string{"pii"}, 1}, {nil, 2}} {
		report := diag.New()
		cfg.CheckGuardrails(report.Root().Field("policy"), c.names)
		if got := report.Findings(); len(got) != c.want {
			t.Errorf("with %v: %v", c.names, got)
		}
	}
}

func ExampleSet_Decide() {
	s, err := Compile(Config{Rules: []RuleConfig{
		{ID: "deny-deletes", Action: "deny", When: &When{ToolGlob: ptr("*_delete")}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := s.Decide(&Request{Method: "tools/call", Tool: "user_delete", HasTool: true})
	fmt.Println(d.Action, d.RuleID)
	// Output: deny deny-deletes
}
