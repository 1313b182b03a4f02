package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"svc/gateway/base/diag"
	"svc/gateway/policy"
)

func ptr[T any](v T) *T { return &v }

// everyRequest are messages that distinguish all generated rules: all short names, methods of
// rules and one other, and callers with every combination of claims.
func everyRequest() []policy.Request {
	var names []string
	for _, a := range []string{"a", "b", "c", "x", "A"} {
		names = append(names, a)
		for _, b := range []string{"a", "b", "_x", "c", "_xc"} {
			names = append(names, a+b, a+b+"_x", a+b+"c")
		}
	}
	var callers []*policy.Claims
	callers = append(callers, nil)
	for _, s := range []string{"s1", "s2", "other"} {
		for _, g := range [][]string{nil, {"g1"}, {"g2"}, {"g1", "g2"}} {
			for _, scopes := range [][]string{nil, {"p1"}, {"p2"}, {"p1", "p2"}} {
				callers = append(callers, &policy.Claims{Subject: s, Groups: g, Scopes: scopes})
			}
		}
	}
	var out []policy.Request
	for _, who := range callers {
		for _, n := range names {
			out = append(out, policy.Request{Method: "tools/call", Tool: n, HasTool: true, Claims: who})
		}
		for _, m := range []string{"", "ping", "tasks/get", "prompts/get", "resources/read", "x/other"} {
			out = append(out, policy.Request{Method: m, Claims: who}, policy.Request{Direction: policy.ServerToClient, Method: m, Claims: who})
		}
		for _, m := range []string{"resources/read", "resources/subscribe"} {
			for _, uri := range []string{"file:///x/1", "file:///x/y/1", "file:///z", "file:///%25252525252e"} {
				out = append(out, policy.Request{Method: m, URI: uri, Claims: who})
			}
		}
		out = append(out, policy.Request{Direction: policy.ServerToClient, Method: "tools/call", Claims: who},
			policy.Request{Direction: policy.ServerToClient, ResultType: "input_required", Claims: who})
	}
	for _, q := range slices.Clone(out) {
		for q.Labels = 1; q.Labels < 4 && q.Direction == policy.ClientToServer; q.Labels++ {
			out = append(out, q)
		}
	}
	for _, q := range slices.Clone(out) {
		for _, q.Upstream = range []string{"u1", "u2"} {
			out = append(out, q)
		}
	}
	return out
}

// someWhen generates conditions with few names, methods and claims.
func someWhen() *rapid.Generator[policy.When] {
	pick := func(list ...string) *rapid.Generator[string] { return rapid.SampledFrom(list) }
	some := func(list ...string) *rapid.Generator[[]string] {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(list), 0, 2, rapid.ID)
	}
	return rapid.Custom(func(t *rapid.T) policy.When {
		w := policy.When{Method: pick("", "", "", "tools/call", "prompts/get", "resources/read", "ping", "tasks/get").Draw(t, "method")}
		switch rapid.IntRange(0, 7).Draw(t, "matcher") {
		case 1:
			w.ToolName = ptr(pick("a", "ab", "*").Draw(t, "name"))
		case 2:
			w.ToolPrefix = ptr(pick("a", "b", "ab").Draw(t, "prefix"))
		case 3:
			w.ToolGlob = ptr(pick("*", "?", "a*", "*_x", "[ab]*", "??*").Draw(t, "glob"))
		case 4:
			w.ToolRegex = ptr(pick("a|b", "[^a].*", ".*_x", "a.*|b.*|c.*", "(?i)A.*").Draw(t, "regex"))
		case 5:
			w.ToolNameIn = rapid.SliceOfN(pick("a", "b", "ab"), 1, 3).Draw(t, "list")
		}
		switch rapid.IntRange(0, 4).Draw(t, "direction") {
		case 1:
			w.Direction = ptr("")
		case 2:
			w.Direction = ptr("server_to_client")
			w.ResultType = pick("", "input_required").Draw(t, "result")
		}
		if rapid.IntRange(0, 2).Draw(t, "claimed") == 0 {
			w.Claims = &policy.ClaimsConfig{Groups: some("g1", "g2").Draw(t, "groups"), GroupsIn: some("g1", "g2").Draw(t, "groups_in"),
				ScopesIn: some("p1", "p2").Draw(t, "scopes_in"), SubjectIn: some("s1", "s2").Draw(t, "subject_in")}
		}
		w.Upstream = rapid.SampledFrom([][]string{nil, nil, {"u1"}, {"u2"}, {"u1", "u2"}}).Draw(t, "upstream")
		if w.Direction != nil {
			return w
		}
		w.LabelsAll = rapid.SampledFrom([][]string{nil, nil, nil, {"a"}, {"a", "b"}}).Draw(t, "labels_all")
		w.LabelsAny = rapid.SampledFrom([][]string{nil, nil, nil, {"a"}, {"b"}, {"a", "b"}}).Draw(t, "labels_any")
		if tool := w.Tool(); len(tool.Keys()) == 0 && (w.Method == "" || w.Method == "resources/read") {
			w.URIPrefix = rapid.SampledFrom([]*string{nil, nil, ptr("file:///x"), ptr("file:///x/y")}).Draw(t, "uri_prefix")
		}
		return w
	})
}

// TestShadowedIsExact: a rule is reported as shadowed exactly when the engine never reaches it
// for any message.
func TestShadowedIsExact(t *testing.T) {
	when, requests := someWhen(), everyRequest()
	rapid.Check(t, func(t *rapid.T) {
		var cfg policy.Config
		for i, w := range rapid.SliceOfN(when, 1, 6).Draw(t, "rules") {
			r := policy.RuleConfig{ID: fmt.Sprintf("r%d", i), Action: rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "action"), When: &w}
			if w.Direction == nil && (w.Method == "" || policy.Approvable(w.Method)) && rapid.Bool().Draw(t, "approval") {
				r.Action = "allow"
				r.Approval = new(policy.ApprovalConfig)
				r.Approval.SetDefaults()
			}
			if r.Approval == nil && (w.LabelsAll != nil || w.LabelsAny != nil) {
				r.Action = "deny"
			}
			cfg.Rules = append(cfg.Rules, r)
		}
		set, err := policy.Compile(cfg, "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		decided := make([]bool, len(cfg.Rules))
		for i := range requests {
			if d := set.Decide(&requests[i]); d.Rule != nil {
				decided[d.Rule.Index] = true
			}
		}
		p := &pass{budget: newWorkBound(budget), rules: readRules(&cfg)}
		if len(p.rules) != len(cfg.Rules) {
			t.Fatalf("%d rules read", len(p.rules))
		}
		for i := range p.rules {
			r := &p.rules[i]
			cells := r.cells()
			if len(cells) == 0 {
				if decided[i] {
					t.Fatalf("rule %d has no cells and decides: %+v", i, r.When)
				}
				continue
			}
			v, by := p.covered(r, cells, p.before(r))
			if v == coversUnknown || (v == coversNotAll) != decided[i] {
				text, _ := json.Marshal(cfg.Rules)
				t.Fatalf("rule %d: %v, it decides: %v: %s", i, v, decided[i], text)
			}
			if v == coversAll && len(by) == 0 {
				t.Fatalf("rule %d is covered by nothing", i)
			}
		}
	})
}

// TestShadowedRuleNames: the finding names the rules above, only one if it suffices, and a
// shadowed rule is reported by one warning only.
func TestShadowedRuleNames(t *testing.T) {
	const head = "policy:\n  default_action: deny\n  filter_lists: true\n  rules:\n"
	line := func(id, action, when string) string {
		extra := ""
		if action == "redact" {
			extra = ", redact: [{regex: secret, replacement: x}]"
		}
		return "    - {id: " + id + ", action: " + action + ", when: {" + when + "}" + extra + "}\n"
	}
	for _, c := range []struct {
		name, rules string
		want        []string // "code path: part of the message"
	}{
		{"prefix above name", line("a", "allow", "tool_prefix: db_") + line("b", "deny", "tool_name: db_drop"),
			[]string{`shadowed-rule policy.rules[1].id: "a" (line 5) above it matches`}},
		{"same action", line("a", "deny", "tool_prefix: db_") + line("b", "deny", "tool_name: db_drop"),
			[]string{"shadowed-rule policy.rules[1].id: with the same action"}},
		{"two together", line("a", "allow", "tool_name: x") + line("b", "allow", "tool_name: y") + line("c", "deny", "tool_name_in: [x, y]"),
			[]string{`shadowed-rule policy.rules[2].id: "a" (line 5) and "b" (line 6) above it match together`}},
		{"one of many suffices", line("a", "allow", "tool_name: x") + line("b", "allow", "tool_prefix: x") + line("c", "deny", "tool_name: x1"),
			[]string{`shadowed-rule policy.rules[2].id: "b" (line 6) above it matches`}},
		{"claims do not take the others away", line("a", "allow", "tool_prefix: x, claims: {groups: [g]}") + line("b", "deny", "tool_prefix: x"), nil},
		{"claims of a narrower caller", line("a", "allow", "tool_prefix: x, claims: {groups_in: [g, h]}") + line("b", "deny", "tool_prefix: x, claims: {groups: [g, i]}"),
			[]string{"shadowed-rule policy.rules[1].id: matches all"}},
		{"disjoint callers together", line("a", "allow", "tool_prefix: x, claims: {groups_in: [g]}") + line("b", "allow", "tool_prefix: x, claims: {groups_in: [h]}") +
			line("c", "deny", "tool_prefix: x, claims: {groups_in: [g, h]}"), []string{"shadowed-rule policy.rules[2].id: match together"}},
		{"wildcard redact over deny is told once", line("m", "redact", `tool_name: "*", direction: ""`) + line("d", "deny", "tool_name: x"),
			[]string{`wildcard-redact-above-deny policy.rules[0].id: "d" (line 6)`}},
		{"a redact for a part is no wildcard", line("m", "redact", `tool_prefix: x, direction: ""`) + line("d", "deny", "tool_name: y"), nil},
		{"method above tool", line("a", "deny", "method: tools/call") + line("b", "deny", "tool_name: x"),
			[]string{"shadowed-rule policy.rules[1].id: same action"}},
		{"an observing rule takes nothing away", line("a", "allow, mode: observe", "tool_prefix: x") + line("b", "deny", "tool_name: x"),
			[]string{"observing-rule policy.rules[0].mode: not enforced"}},
		{"the other direction is another matter", line("a", "deny", "direction: server_to_client") + line("b", "deny", "tool_name: x"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := lintRun(head + c.rules)
			for _, want := range c.want {
				code, rest, _ := strings.Cut(want, " ")
				path, part, _ := strings.Cut(rest, ": ")
				hit := false
				for i, f := range found {
					if f.Code == code && f.Path == path && strings.Contains(f.Message, part) {
						hit, found = true, append(found[:i:i], found[i+1:]...)
						break
					}
				}
				if !hit {
					t.Errorf("no finding %s", want)
				}
			}
			for _, f := range found {
				if f.Code != "catch-all-allow" && f.Code != "redact-request-only" {
					t.Errorf("more: %v", f)
				}
			}
		})
	}
}

// TestManyRules: a large file is analyzed within seconds, and rules that were not analyzed
// completely are in one finding.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("policy:\n  default_action: deny\n  filter_lists: true\n  rules:\n")
	for i := range 1500 {
		when := fmt.Sprintf("tool_prefix: group%d_", i)
		switch i % 3 {
		case 1:
			when = fmt.Sprintf(`tool_glob: "*_%d_*x"`, i)
		case 2:
			when = fmt.Sprintf(`tool_regex: "(read|write)_.*[%d-9]{3}"`, i%9)
		}
		fmt.Fprintf(&b, "    - {id: r%d, action: allow, when: {%s}}\n", i, when)
	}
	began := time.Now()
	found := lintRun(b.String())
	if d := time.Since(began); d > 3*time.Minute { // some seconds on a quiet machine
		t.Errorf("took %v", d)
	} else {
		t.Logf("took %v", d)
	}
	infos := 0
	for _, f := range found {
		if f.Severity == diag.Error {
			t.Fatal(f)
		}
		if f.Severity == diag.Info {
			infos++
		}
	}
	if infos > 2 {
		t.Errorf("%d infos", infos)
	}
}
