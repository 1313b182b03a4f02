package federation

import (
	"slices"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
)

// A client that watches at a view is notified of changes in the view, and of no others.
func TestWhatChangesAtAView(t *testing.T) {
	names, err := catalog.NewNames([]catalog.Naming{{Upstream: "crm", Prefix: "crm_"}, {Upstream: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	owners, err := catalog.OpenOwners("", []catalog.Identity{{Upstream: "crm"}, {Upstream: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	lists := func(crm, web string, prompt string) *catalog.Catalog {
		listing := func(upstream, tool, prompt string) catalog.Listing {
			l := catalog.Listing{Upstream: upstream}
			l.Items[mcp.Tool] = [][]byte{[]byte(`{"name":"get","description":"` + tool + `"}`), []byte(`{"name":"set"}`)}
			l.Items[mcp.Prompt] = [][]byte{[]byte(`{"name":"p","description":"` + prompt + `"}`)}
			return l
		}
		return catalog.Build(names, owners, nil, []catalog.Listing{listing("crm", crm, prompt), listing("web", web, "")})
	}
	set := auth.New([]auth.ViewConfig{{Name: "crm", Upstreams: []string{"crm"}, Tools: []string{"crm_g*"}, Prompts: auth.None, Resources: auth.All}, {Name: "web", Upstreams: []string{"web"}}})
	before := lists("1", "1", "1")
	for _, tt := range []struct {
		name         string
		after        *catalog.Catalog
		all, crm, of []mcp.ListKind
	}{
		{"nothing", lists("1", "1", "1"), nil, nil, nil},
		{"a tool of crm", lists("2", "1", "1"), []mcp.ListKind{mcp.Tool}, []mcp.ListKind{mcp.Tool}, nil},
		{"a tool of web", lists("1", "2", "1"), []mcp.ListKind{mcp.Tool}, nil, []mcp.ListKind{mcp.Tool}},
		{"a prompt of crm", lists("1", "1", "2"), []mcp.ListKind{mcp.Prompt}, nil, nil},
	} {
		for view, want := range map[string][]mcp.ListKind{"": tt.all, "crm": tt.crm, "web": tt.of} {
			var got []mcp.ListKind
			for kind, d := range differences(set.Named(view), before, tt.after) {
				if len(d.before)+len(d.after) > 0 {
					got = append(got, mcp.ListKind(kind))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, at %q: %v, want %v", tt.name, view, got, want)
			}
		}
	}
}
