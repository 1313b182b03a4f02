package plane

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc/store/api"
)

// A policy with data_flow looks at the labels of the caller and, with a tool, at the call that a message
// is, or belongs to.
func TestDataFlow(t *testing.T) {
	all := func(tool string, labels ...string) api.GovernancePolicy {
		return api.GovernancePolicy{ID: "p", Action: "block", Condition: api.Condition{Type: "data_flow", LabelsAll: labels, ToolName: tool}}
	}
	anyOf := func(labels ...string) api.GovernancePolicy {
		return api.GovernancePolicy{ID: "p", Action: "block", Condition: api.Condition{Type: "data_flow", LabelsAny: labels}}
	}
	ask := func(p api.GovernancePolicy) api.GovernancePolicy { p.Approval = &api.Approval{}; return p }
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`
	send, read := &Continued{Tool: "send", HasTool: true}, &Continued{Tool: "read", HasTool: true}
	for _, row := range []struct {
		name      string
		policy    api.GovernancePolicy
		labels    string
		body      string
		continues *Continued
		want      string // block, ask or empty
	}{
		{"all labels", all("", "private", "untrusted"), "private untrusted", callWith(`{}`), nil, "block"},
		{"one of two", all("", "private", "untrusted"), "private", callWith(`{}`), nil, ""},
		{"no label", all("", "private"), "", callWith(`{}`), nil, ""},
		{"any label", anyOf("private", "untrusted"), "untrusted", callWith(`{}`), nil, "block"},
		{"none of them", anyOf("private"), "untrusted", callWith(`{}`), nil, ""},
		{"a label that nobody declares", all("", "private", "other"), "private untrusted", callWith(`{}`), nil, ""},
		{"the tool", all("s*", "private"), "private", callWith(`{}`), nil, "block"},
		{"another tool", all("r*", "private"), "private", callWith(`{}`), nil, ""},
		{"a list, by the tool", all("s*", "private"), "private", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, ""},
		{"a list", all("", "private"), "private", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, "block"},
		{"ping", all("", "private"), "private", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, ""},
		{"a cancellation", all("", "private"), "private", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, send, ""},
		{"an answer to a question of the tool", all("s*", "private"), "private", answer, send, "block"},
		{"an answer to a question of another tool", all("s*", "private"), "private", answer, read, ""},
		{"an answer to a question of a tool that is not known", all("s*", "private"), "private", answer, &Continued{AnyTool: true}, "block"},
		{"an answer to a question of no tool", all("s*", "private"), "private", answer, &Continued{}, ""},
		{"a call that needs approval", ask(all("s*", "private")), "private", callWith(`{}`), nil, "ask"},
		{"a list, for which nobody is asked", ask(all("", "private")), "private", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, ""},
		{"an answer, which cannot wait for approval", ask(all("s*", "private")), "private", answer, send, "block"},
		{"another condition looks at the message itself", api.GovernancePolicy{ID: "p", Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "s*"}}, "private", answer, send, ""},
	} {
		b, err := Compile(bundle(row.policy), plainDetectors{})
		if err != nil {
			t.Fatal(row.name, err)
		}
		set, in := b.For("planner"), input(row.body)
		in.Labels, in.Continues = strings.Fields(row.labels), row.continues
		v := set.Judge(Request, in)
		got := ""
		switch {
		case v.Block != nil:
			got = "block"
		case len(v.Asks) > 0:
			got = "ask"
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if set.UsesLabels() != (row.policy.Condition.Type == "data_flow") {
			t.Errorf("%s: uses labels: %v", row.name, set.UsesLabels())
		}
	}
}

func TestDataFlowThatCannotBeEnforced(t *testing.T) {
	for name, p := range map[string]api.GovernancePolicy{
		"no label":  {Condition: api.Condition{Type: "data_flow", ToolName: "x"}},
		"responses": {Phase: "response", Condition: api.Condition{Type: "data_flow", LabelsAny: []string{"a"}}},
	} {
		p.Action = "block"
		if _, err := Compile(bundle(p), plainDetectors{}); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}

// Labels of policies that the gateway does not declare are logged once, at the start, with a new bundle
// and after a reload.
func TestLabelsThatNobodyDeclares(t *testing.T) {
	var log bytes.Buffer
	declared := []string{"private", "untrusted"}
	dir := t.TempDir()
	open := func() *Syncer {
		s, err := Open(Options{
			Source: &plane{}, Status: statusOf, Origin: []string{"http://plane"}, StateDir: dir, Interval: time.Minute,
			Detectors: plainDetectors{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Labels: func() []string { return declared },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	of := func(labels ...string) *api.Governance {
		return bundle(api.GovernancePolicy{Action: "warn", Condition: api.Condition{Type: "data_flow", LabelsAny: labels}})
	}
	logged := func(when, want string) {
		t.Helper()
		if n := strings.Count(log.String(), "does not declare"); (want == "") != (n == 0) || n > 1 || !strings.Contains(log.String(), want) {
			t.Errorf("%s: %s", when, log.String())
		}
		log.Reset()
	}
	s := open()
	if err := s.take(of("private"), `"1"`); err != nil {
		t.Fatal(err)
	}
	logged("declared", "")
	if err := s.take(of("private", "secret"), `"2"`); err != nil {
		t.Fatal(err)
	}
	logged("a new bundle", "labels=[secret]")
	s.Reloaded()
	logged("a reload that changes nothing", "")
	declared = declared[1:]
	s.Reloaded()
	logged("a reload", `labels="[private secret]"`)
	open()
	logged("a restart", `labels="[private secret]"`)
	(*Syncer)(nil).Reloaded()
}
