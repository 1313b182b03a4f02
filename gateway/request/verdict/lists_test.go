package verdict

import (
	"fmt"
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/store/api"
)

// With filter_lists, resources and templates are listed by the URI that rules look at, and what only a
// label denies stays.
func TestListsByURIAndLabels(t *testing.T) {
	allow, deny := "allow", "deny"
	rule := func(action, uri string, labels ...string) policy.RuleConfig {
		return policy.RuleConfig{ID: action + uri, Action: action, When: &policy.When{URIPrefix: &uri, LabelsAny: labels}}
	}
	names := flow.NewNames("private")
	set := policiesOf(t, api.GovernancePolicy{ID: "p", Action: "block", Condition: api.Condition{Type: "data_flow", LabelsAny: []string{"private"}}})
	uris := []string{"file:///keys/a", "file:///keys", "file:///KEYS/../keys/a", "file:///%25252525", "file:///docs/a", "db://x/y"}
	templates := []string{"file:///keys/{name}", "file:///keys/a{?q}", "file:///{path}", "file:///docs/{x}", "file:///ke{x}", "db://{t}", "{+uri}", "file:///keys/b"}
	for _, c := range []struct {
		name      string
		fallback  *string
		rules     []policy.RuleConfig
		uris      string
		templates string
	}{
		{"no rule", &allow, nil, strings.Join(uris, " "), strings.Join(templates, " ")},
		{"denied", &allow, []policy.RuleConfig{rule("deny", "file:///keys/")},
			"file:///docs/a db://x/y", "file:///{path} file:///docs/{x} file:///ke{x} db://{t} {+uri}"},
		{"denied by a label alone", &allow, []policy.RuleConfig{rule("deny", "file:///keys/", "private")}, strings.Join(uris, " "), strings.Join(templates, " ")},
		{"allowed", &deny, []policy.RuleConfig{rule("allow", "file:///docs")}, "file:///docs/a", "file:///{path} file:///docs/{x} file:///ke{x} {+uri}"},
		{"nothing allowed", &deny, nil, "", ""},
	} {
		rules, err := policy.Compile(policy.Config{DefaultAction: c.fallback, Rules: c.rules}, names.List()...)
		if err != nil {
			t.Fatal(err)
		}
		s := &Snapshot{Rules: policy.NewMemory(rules), FilterLists: true}
		for _, l := range []struct {
			kind  mcp.ListKind
			items []string
			want  string
		}{{mcp.Resource, uris, c.uris}, {mcp.Template, templates, c.templates}} {
			in := inputOf(t, s, way{direction: policy.ServerToClient}, nil, &host{})
			in.Asked, in.Policies, in.Flow, in.Labels = scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+l.kind.Method()+`"}`), set, names, names.Every()
			var list []string
			for _, item := range l.items {
				list = append(list, fmt.Sprintf(`{"name":"n","%s":"%s"}`, l.kind.Key(), item))
			}
			m := scan(t, `{"jsonrpc":"2.0","id":1,"result":{"`+l.kind.Member()+`":[`+strings.Join(list, ",")+`]}}`)
			if r := Judge(in, m); r.Refused != nil {
				t.Fatalf("%s: %+v", c.name, r)
			}
			var got []string
			for it := mcp.Elements(m.Body, mcp.Find(m.Body, m.Spans.Result, l.kind.Member())); it.Next(); {
				uri, _ := mcp.StringValue(mcp.Find(m.Body, it.Value(), l.kind.Key()).Of(m.Body))
				got = append(got, uri)
			}
			if strings.Join(got, " ") != l.want {
				t.Errorf("%s: %s lists\n%v, want\n%v", c.name, l.kind, strings.Join(got, " "), l.want)
			}
		}
	}
}
