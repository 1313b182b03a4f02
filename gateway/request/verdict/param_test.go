package verdict

import (
	"encoding/base64"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
	"svc/store/api"
)

// After rules and policies, a field that mirrors an argument has the argument's new
// value, or is omitted.
func TestFieldsThatMirrorArguments(t *testing.T) {
	rules, err := policy.Compile(policy.Config{Rules: []policy.RuleConfig{{
		ID: "r", Action: "redact", When: &policy.When{}, Redact: []policy.Substitution{{Regex: "secret", Replacement: "hidden"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := plane.Compile(&api.Governance{
		HashKey: base64.StdEncoding.EncodeToString(make([]byte, 32)),
		Policies: []api.GovernancePolicy{{
			ID: "p", Name: "p", On: "*", Phase: "request", Action: "redact", RedactionStrategy: "replace", Condition: api.Condition{Type: "pii_detected"},
		}},
	}, plane.Built{})
	if err != nil {
		t.Fatal(err)
	}
	set := bundle.For("agent")
	message := func(value string) *mcp.Message {
		return scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"q":"`+value+`"}}}`)
	}
	const broken = "=?base64?!?="
	for _, tt := range []struct {
		name        string
		params      Params
		value, want string // empty: omitted
	}{
		{"nothing was rewritten", Params{Message: message("secret")}, "secret", "secret"},
		{"nothing was rewritten, and it is not read", Params{Message: message("secret")}, broken, broken},
		{"the rule redacted it", Params{Message: message("a hidden word"), Rule: rules.Rules()[0], Redacted: true}, "a secret word", "a hidden word"},
		{"the rule redacted another", Params{Message: message("plain"), Rule: rules.Rules()[0], Redacted: true}, "plain", "plain"},
		{"the rule redacted it, and it mirrors nothing", Params{Message: message("x"), Rule: rules.Rules()[0], Redacted: true}, "a secret word", ""},
		{"the rule redacted, and it cannot be read", Params{Message: message("hidden"), Rule: rules.Rules()[0], Redacted: true}, broken, ""},
		{"rules looked at the arguments", Params{Message: message("plain"), ByArguments: true}, "plain", "plain"},
		{"rules looked at other arguments", Params{Message: message("plain"), ByArguments: true}, "/etc/passwd", ""},
		{"rules looked, and it cannot be read", Params{Message: message("plain"), ByArguments: true}, broken, ""},
		{"the argument of that name has another value", Params{Message: scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"note":"/etc/passwd","q":"/srv"}}}`), ByArguments: true}, "/etc/passwd", ""},
		{"the argument of that name has the value", Params{Message: scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"note":"/etc/passwd","deep":[{"q":"/srv"}]}}}`), ByArguments: true}, "/srv", "/srv"},
		{"no argument has that name", Params{Message: scan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"note":"/srv","list":["q","a"],"o":{"q":{"x":1}}}}}`), ByArguments: true}, "/srv", "/srv"},
		{"policies look at it", Params{Message: message("plain"), Policies: set}, "plain", "plain"},
		{"policies never saw it", Params{Message: message("plain"), Policies: set}, "eve@example.com", ""},
		{"policies look, and it cannot be read", Params{Message: message("plain"), Policies: set}, broken, ""},
	} {
		got, ok := tt.params.Rewrite("Q", tt.value)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %q %v, want %q", tt.name, got, ok, tt.want)
		}
	}
	// Text that policies removed from the body is removed from the field too.
	m := message("write to eve@example.com now")
	in := inputOf(t, snapshotOf(t, "http://127.0.0.1:1/", ruleOf(policy.Allow, policy.ClientToServer)), ways[0], nil, withPolicies{&host{}, set})
	r := Judge(in, m)
	p := Params{Message: m, Rule: r.Decision.Rule, Policies: set, Fired: r.Governed.Fired, Changed: r.Governed.Changed}
	got, ok := p.Rewrite("Q", "write to eve@example.com now")
	if !r.Governed.Changed || !ok || !mcp.HasScalar(m.Body, m.Spans.Arguments, got) {
		t.Errorf("%q %v, and the message %s", got, ok, m.Body)
	}
}

// withPolicies is a host whose caller has policies.
type withPolicies struct {
	*host
	set *plane.Set
}

func (h withPolicies) Policies() (*plane.Set, *refusal.Refusal) { return h.set, nil }
