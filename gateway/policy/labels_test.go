package policy

import (
	"slices"
	"strings"
	"testing"

	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/gateway/policy/arguments"
	"svc/gateway/policy/flow"
)

// flowRules are rules that look at labels and URIs, between rules that do not.
func flowRules(t *testing.T, extra ...RuleConfig) *Set {
	t.Helper()
	s, err := Compile(Config{DefaultAction: ptr("allow"), Rules: append(extra,
		RuleConfig{ID: "trusted", Action: "allow", When: &When{ToolName: ptr("safe")}},
		RuleConfig{ID: "no-exfiltration", Action: "deny", When: &When{ToolPrefix: ptr("send_"), LabelsAll: []string{"untrusted", "private"}}},
		RuleConfig{ID: "slower", Action: "rate_limit", TokensPerSecond: ptr(1.0), When: &When{Method: "prompts/get", LabelsAny: []string{"private"}}},
		RuleConfig{ID: "ask", Action: "allow", Approval: withDefaults(), When: &When{ToolPrefix: ptr("shell_"), LabelsAny: []string{"untrusted", "private"}}},
		RuleConfig{ID: "shell", Action: "allow", When: &When{ToolPrefix: ptr("shell_")}},
		RuleConfig{ID: "mail", Action: "deny", When: &When{Upstream: []string{"mail"}, LabelsAny: []string{"private"}}},
		RuleConfig{ID: "keys", Action: "deny", When: &When{URIPrefix: ptr("file:///keys/")}},
		RuleConfig{ID: "docs", Action: "deny", When: &When{URIPrefix: ptr("file:///docs/"), LabelsAny: []string{"untrusted"}}},
	)}, modelNames.List()...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRulesLookAtLabels(t *testing.T) {
	s := flowRules(t)
	m := NewMemory(s)
	if !s.UsesLabels() || !m.UsesLabels() || !s.UsesURI() || !m.UsesURI() {
		t.Error("the rules do not use labels and URIs")
	}
	read := func(uri string) Request { return Request{Method: mcp.MethodResourcesRead, URI: uri} }
	for _, c := range []struct {
		name   string
		q      Request
		labels []string
		want   string
	}{
		{"no label", toolCall("send_x"), nil, ""},
		{"one of two", toolCall("send_x"), []string{"private"}, ""},
		{"both", toolCall("send_x"), []string{"private", "untrusted"}, "no-exfiltration"},
		{"another tool", toolCall("read_x"), []string{"private", "untrusted"}, ""},
		{"a rule above", toolCall("safe"), []string{"private", "untrusted"}, "trusted"},
		{"any", toolCall("shell_x"), []string{"untrusted"}, "ask"},
		{"without labels the next rule decides", toolCall("shell_x"), nil, "shell"},
		{"a method", Request{Method: "prompts/get"}, []string{"private"}, "slower"},
		{"an upstream", Request{Method: "ping", Upstream: "mail"}, []string{"private"}, "mail"},
		{"a message of a server", Request{Direction: ServerToClient, Method: "ping", Upstream: "mail"}, []string{"private"}, ""},
		{"below the prefix", read("file:///keys/a"), nil, "keys"},
		{"not below it", read("file:///other/a"), nil, ""},
		{"subscribing", Request{Method: "resources/subscribe", URI: "file:///keys/a"}, nil, "keys"},
		{"a method that asks for no URI", Request{Method: "completion/complete", URI: "file:///keys/a"}, nil, ""},
		{"no URI that can be read", Request{Method: "resources/subscribe"}, nil, "keys"},
		{"prefix and label", read("file:///docs/a"), []string{"untrusted"}, "docs"},
		{"prefix without the label", read("file:///docs/a"), nil, ""},
	} {
		c.q.Labels = modelNames.Of(c.labels...)
		for range 2 { // the second time from the cache
			if got := m.Decide(&c.q).RuleID; got != c.want {
				t.Errorf("%s: rule %q, want %q", c.name, got, c.want)
			}
		}
	}
}

// A URI without one plain form is what a rule that restricts is about, and no other.
func TestUnclearURI(t *testing.T) {
	for _, c := range []struct {
		rule RuleConfig
		want bool
	}{
		{RuleConfig{Action: "deny"}, true},
		{RuleConfig{Action: "allow", Approval: withDefaults()}, true},
		{RuleConfig{Action: "allow"}, false},
		{RuleConfig{Action: "rate_limit", TokensPerSecond: ptr(1.0)}, false},
		{RuleConfig{Action: "strip_app"}, false},
	} {
		c.rule.ID, c.rule.When = "r", &When{URIPrefix: ptr("file:///a/")}
		s := mustCompile(t, Config{DefaultAction: ptr("allow"), Rules: []RuleConfig{c.rule}})
		q := Request{Method: mcp.MethodResourcesRead, URI: "file:///%25252525252e"}
		if d, steps := s.Explain(&q); (d.Rule != nil) != c.want || !strings.Contains(steps[0].Reason, "no single plain form") {
			t.Errorf("%s (approval: %v): %+v", c.rule.Action, c.rule.Approval != nil, steps[0])
		}
	}
}

func TestDecideFlow(t *testing.T) {
	down := ptr(serverToClient)
	s := flowRules(t,
		RuleConfig{ID: "watched", Mode: ModeObserve, Action: "deny", When: &When{LabelsAny: []string{"private"}}},
		RuleConfig{ID: "frames", Action: "allow", When: &When{Direction: down}},
		RuleConfig{ID: "small", Action: "allow", When: &When{ToolPrefix: ptr("send_"), Arguments: arguments.Config{"/n": {Test: arguments.Test{PathWithin: ptr("/a")}}}}},
		RuleConfig{ID: "large", Action: "deny", When: &When{ToolName: ptr("pay"), Arguments: arguments.Config{"/n": {Test: arguments.Test{PathWithin: ptr("/a")}}}, LabelsAny: []string{"private"}}},
		RuleConfig{ID: "mail-back", Action: "deny", When: &When{ToolName: ptr("back"), Restores: []string{"EMAIL"}, LabelsAny: []string{"private"}}},
		RuleConfig{ID: "staff", Action: "deny", When: &When{ToolName: ptr("hr"), LabelsAny: []string{"private"}, Claims: &ClaimsConfig{SubjectIn: []string{"bob"}}}},
	)
	at := func(q Request, upstream string) Request { q.Upstream = upstream; return q }
	as := func(q Request, c *Claims) Request { q.Claims = c; return q }
	for _, c := range []struct {
		name   string
		q      Request
		labels []string
		want   string
	}{
		{"no label", at(toolCall("send_x"), "web"), nil, ""},
		{"a label that the rule does not look at", at(toolCall("send_x"), "web"), []string{"private"}, ""},
		{"denied, though an allow rule looks at arguments", at(toolCall("send_x"), "web"), []string{"private", "untrusted"}, "no-exfiltration"},
		{"a rule without labels decided", at(toolCall("safe"), "web"), []string{"private", "untrusted"}, ""},
		{"approval", at(toolCall("shell_x"), "web"), []string{"untrusted"}, "ask"},
		{"arguments hold", at(toolCall("pay"), "web"), []string{"private"}, "large"},
		{"restored values hold", at(toolCall("back"), "web"), []string{"private"}, "mail-back"},
		{"claims", as(at(toolCall("hr"), "web"), &Claims{Subject: "bob"}), []string{"private"}, "staff"},
		{"claims of another", as(at(toolCall("hr"), "web"), &Claims{Subject: "eve"}), []string{"private"}, ""},
		{"claims that cannot be read", as(at(toolCall("hr"), "web"), &Claims{Unreadable: UnreadableSubject}), []string{"private"}, "staff"},
		{"upstream", at(toolCall("x"), "mail"), []string{"private"}, "mail"},
		{"upstream not known", toolCall("x"), []string{"private"}, "mail"},
		{"tool not known", at(Request{Method: mcp.MethodToolsCall}, "web"), []string{"private", "untrusted"}, "large"},
		{"tool not known, one label", at(Request{Method: mcp.MethodToolsCall}, "web"), []string{"untrusted"}, "ask"},
		{"call not known", at(Request{}, "web"), []string{"untrusted"}, "ask"},
		{"prompt", at(Request{Method: "prompts/get"}, "web"), []string{"private"}, "slower"},
		{"URI", at(Request{Method: mcp.MethodResourcesRead, URI: "file:///docs/x"}, "web"), []string{"untrusted"}, "docs"},
		{"another URI", at(Request{Method: mcp.MethodResourcesRead, URI: "file:///x"}, "web"), []string{"untrusted"}, ""},
		{"URI not known", at(Request{Method: mcp.MethodResourcesRead}, "web"), []string{"untrusted"}, "docs"},
	} {
		c.q.Labels = modelNames.Of(c.labels...)
		got := ""
		if r := s.DecideFlow(&c.q); r != nil {
			got = r.ID
		}
		if got != c.want {
			t.Errorf("%s: rule %q, want %q", c.name, got, c.want)
		}
	}
}

func TestValidateFlow(t *testing.T) {
	down, both := ptr(serverToClient), ptr("")
	deny := func(w When) RuleConfig { return RuleConfig{ID: "r", Action: "deny", When: &w} }
	for _, c := range []struct {
		name string
		rule RuleConfig
		want []string
	}{
		{"deny", deny(When{LabelsAll: []string{"a"}, LabelsAny: []string{"b"}}), nil},
		{"rate_limit", RuleConfig{ID: "r", Action: "rate_limit", TokensPerSecond: ptr(1.0), When: &When{LabelsAny: []string{"a"}}}, nil},
		{"approval", RuleConfig{ID: "r", Action: "allow", Approval: withDefaults(), When: &When{LabelsAny: []string{"a"}}}, nil},
		{"allow", RuleConfig{ID: "r", Action: "allow", When: &When{LabelsAny: []string{"a"}}}, []string{"labels_any: action"}},
		{"strip_app", RuleConfig{ID: "r", Action: "strip_app", When: &When{LabelsAll: []string{"a"}}}, []string{"labels_all: action"}},
		{"empty lists", deny(When{LabelsAll: []string{}, LabelsAny: []string{}}), []string{"labels_all: required", "labels_any: required"}},
		{"down", deny(When{Direction: down, LabelsAny: []string{"a"}}), []string{"labels_any: direction"}},
		{"both directions", deny(When{Direction: both, LabelsAny: []string{"a"}}), []string{"labels_any: direction"}},
		{"uri_prefix", deny(When{URIPrefix: ptr("file:///a/")}), nil},
		{"uri_prefix and its method", deny(When{URIPrefix: ptr("file:///a/"), Method: "skills/get"}), nil},
		{"uri_prefix of an allow rule", RuleConfig{ID: "r", Action: "allow", When: &When{URIPrefix: ptr("file:///a/")}}, nil},
		{"uri_prefix and another method", deny(When{URIPrefix: ptr("file:///a/"), Method: "tools/call"}), []string{"method: never-matches"}},
		{"uri_prefix and a tool", deny(When{URIPrefix: ptr("file:///a/"), ToolName: ptr("x")}), []string{"uri_prefix: never-matches"}},
		{"uri_prefix and any tool", deny(When{URIPrefix: ptr("file:///a/"), ToolName: ptr("*")}), nil},
		{"uri_prefix down", deny(When{URIPrefix: ptr("file:///a/"), Direction: down}), []string{"uri_prefix: direction"}},
		{"no URI", deny(When{URIPrefix: ptr("docs/")}), []string{"uri_prefix: uri"}},
	} {
		cfg := Config{Rules: []RuleConfig{c.rule}}
		got := check(cfg)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "rules[0].when.")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if _, err := Compile(cfg, "a", "b"); (err != nil) != (c.want != nil) {
			t.Errorf("%s: compiling: %v", c.name, err)
		}
	}
}

func TestCheckLabels(t *testing.T) {
	cfg := Config{Rules: []RuleConfig{{ID: "a", Action: "deny"}, {ID: "b", Action: "deny", When: &When{LabelsAll: []string{"x", "y"}, LabelsAny: []string{"z"}}}}}
	for _, c := range []struct {
		declared []string
		want     []string
	}{
		{[]string{"x", "y", "z"}, nil},
		{[]string{"y"}, []string{"policy.rules[1].when.labels_all[0]", "policy.rules[1].when.labels_any[0]"}},
	} {
		report := diag.New()
		cfg.CheckLabels(report.Root().Field("policy"), flow.NewNames(c.declared...))
		var got []string
		for _, f := range report.Findings() {
			got = append(got, f.Path)
			if f.Code != CodeUnknownLabel || f.Hint == "" {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("declared %v: %v, want %v", c.declared, got, c.want)
		}
	}
	if _, err := Compile(Config{Rules: cfg.Rules[1:]}, "x", "y"); err == nil {
		t.Error("a rule with a label that is not declared was compiled")
	}
}

func TestRequestOfNamesTheURI(t *testing.T) {
	for _, c := range []struct{ method, want string }{
		{"resources/read", "file:///a"}, {"resources/subscribe", "file:///a"}, {"resources/unsubscribe", "file:///a"},
		{"skills/get", "file:///a"}, {"resources/directory/read", "file:///a"}, {"tools/call", ""}, {"completion/complete", ""},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{"name":"x","uri":"file:///a"}}`), &m); err != nil {
			t.Fatal(err)
		}
		if q := RequestOf(&m, ClientToServer, nil); q.URI != c.want {
			t.Errorf("%s: %q, want %q", c.method, q.URI, c.want)
		}
	}
}
