package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"svc/store/api"
)

// onArguments is a policy for the tool "send".
func onArguments(action, arguments string) api.GovernancePolicy {
	p := api.GovernancePolicy{Action: action, Condition: api.Condition{Type: "tool_arguments", ToolName: "s*", Arguments: json.RawMessage(arguments)}}
	if action == "redact" {
		p.RedactionStrategy = "mask"
	}
	return p
}

// TestArgumentConditions: block matches as a deny rule does, warn whenever block would, redact as
// a redact rule does; a call that redact cannot evaluate is denied, and warn denies nothing.
func TestArgumentConditions(t *testing.T) {
	const within = `{"/path":{"path_within":"/srv"}}`
	many := `{"list":[` + strings.Repeat("1,", 100_000) + `1]}`
	for _, row := range []struct {
		name, arguments, call string
		fires, redacts        bool
		err                   error // of redact
	}{
		{"holds", within, `{"path":"/srv/a"}`, true, true, nil},
		{"does not hold", within, `{"path":"/etc"}`, false, false, nil},
		{"is missing", within, `{}`, true, false, nil},
		{"is of another type", within, `{"path":1}`, true, true, ErrArgumentType},
		{"can be read in two ways", within, `{"path":"/etc","PATH":"/srv"}`, true, true, ErrArgumentType},
		{"is beyond the bounds", `{"/list/*":{"equals":2}}`, many, true, true, ErrArgumentLimit},
		{"one element is enough", `{"/to/*":{"suffix":"@x.io"}}`, `{"to":["a@y.io","b@x.io"]}`, true, true, nil},
		{"all were asked", `{"/to/*":{"suffix":"@x.io","match":"all"}}`, `{"to":["a@y.io","b@x.io"]}`, false, false, nil},
		{"absent was asked", `{"/force":{"absent":true}}`, `{}`, true, true, nil},
		{"null is a value", `{"/force":{"equals":null}}`, `{"force":null}`, true, true, nil},
	} {
		for _, action := range []string{"block", "warn", "redact"} {
			b, err := Compile(bundle(onArguments(action, row.arguments)), plainDetectors{})
			if err != nil {
				t.Fatal(row.name, err)
			}
			v := b.For("planner").Judge(Request, input(callWith(row.call)))
			fires, wantErr := row.fires, error(nil)
			if action == "redact" {
				fires, wantErr = row.redacts, row.err
			}
			if len(v.Fired) > 0 != fires || !errors.Is(v.Err, wantErr) || (v.Block != nil) != (fires && action == "block") || !v.ByArguments {
				t.Errorf("%s, %s: fired %q, block %v, %v", row.name, action, ids(v.Fired), v.Block, v.Err)
			}
		}
	}
}

// TestArgumentConditionsLookAtCallsOfTheirTool, and at no other messages.
func TestArgumentConditionsLookAtCallsOfTheirTool(t *testing.T) {
	b, err := Compile(bundle(onArguments("block", `{"/a":{"equals":1}}`)), plainDetectors{})
	if err != nil {
		t.Fatal(err)
	}
	for body, blocks := range map[string]bool{
		callWith(`{"a":1}`): true,
		strings.Replace(callWith(`{"a":1}`), `"name":"send"`, `"name":"other"`, 1):                     false,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"send","arguments":{"a":1}}}`: false,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                               false,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                     false,
	} {
		in := input(body)
		in.HasTool = in.Message.Method == "tools/call"
		if v := b.For("a").Judge(Request, in); (v.Block != nil) != blocks || v.ByArguments != blocks {
			t.Errorf("%s: %v, %v", body, v.Block, v.ByArguments)
		}
	}
	if v := b.For("a").Judge(Response, input(callWith(`{"a":1}`))); len(v.Fired) > 0 {
		t.Error("fires on an answer")
	}
	if b.For("a").BlocksTool("send") {
		t.Error("the tool is not listed, although some of its calls pass")
	}
}

// TestArgumentConditionsOfAgents: the policies of another agent neither match nor count toward
// the bounds, and a redaction does not change the message for other policies.
func TestArgumentConditionsOfAgents(t *testing.T) {
	other := onArguments("block", `{"/list/*":{"equals":2},"/list/*/x":{"absent":true},"/rest/*":{"type":"number"}}`)
	other.On = "other"
	own := onArguments("redact", `{"/list/*":{"equals":1}}`)
	own.On = "planner"
	all := onArguments("warn", `{"/to":{"suffix":"@x.io"}}`)
	b, err := Compile(bundle(other, own, all), plainDetectors{})
	if err != nil {
		t.Fatal(err)
	}
	call := `{"to":"bob@x.io","list":[` + strings.Repeat("1,", 60_000) + `1]}`
	v := b.For("planner").Judge(Request, input(callWith(call)))
	if got := ids(v.Fired); got != "pol_1 pol_2" || v.Err != nil || !v.Changed || strings.Contains(string(v.Redacted.Body), "bob@") {
		t.Errorf("fired %q, %v, changed %v", got, v.Err, v.Changed)
	}
}

// TestBundlesWithConditionsThatCannotBeEnforced are rejected as a whole, with the policy named.
func TestBundlesWithConditionsThatCannotBeEnforced(t *testing.T) {
	response := onArguments("block", `{"/a":{"equals":1}}`)
	response.Phase = "response"
	nameless := onArguments("block", `{"/a":{"equals":1}}`)
	nameless.Condition.ToolName = ""
	for _, p := range []api.GovernancePolicy{response, nameless, onArguments("block", ""), onArguments("block", `{}`),
		onArguments("block", `[]`), onArguments("block", `{"/a":{"regex":"("}}`), onArguments("block", `{"/a":{"new_matcher":1}}`)} {
		if _, err := Compile(bundle(p), plainDetectors{}); !errors.Is(err, errBundle) || !strings.Contains(err.Error(), "pol_0") {
			t.Errorf("%s: %v", p.Condition.Arguments, err)
		}
	}
}

// TestManyArgumentConditions: 10,000 policies, each with a pointer of its own.
func TestManyArgumentConditions(t *testing.T) {
	list := make([]api.GovernancePolicy, maxPolicies)
	for i := range list {
		list[i] = onArguments("warn", fmt.Sprintf(`{"/a%d":{"equals":%d},"/deep/*/b%d":{"prefix":"x"}}`, i, i, i))
	}
	b, err := Compile(bundle(list...), plainDetectors{})
	if err != nil {
		t.Fatal(err)
	}
	v := b.For("planner").Judge(Request, input(callWith(`{"a77":77,"deep":[{"b77":"xy"}]}`)))
	if len(v.Fired) != maxPolicies || v.Err != nil { // a missing argument matches for warn as for deny
		t.Errorf("%d fired, %v", len(v.Fired), v.Err)
	}
}
