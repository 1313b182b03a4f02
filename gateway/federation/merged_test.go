package federation

import (
	"slices"
	"testing"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/transport"
	"svc/gateway/views"
)

// A caller whose lists are unchanged is answered from the cached catalog; for another caller,
// another list and new offers the lists are merged again, and the cache is bounded.
func TestMergedListsAreKeptForTheirCaller(t *testing.T) {
	caller := func(name string) *transport.Caller {
		return &transport.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: name}}
	}
	var l mergedLists
	builds := 0
	build := func(size int) func(*merged) *merged {
		return func(*merged) *merged {
			builds++
			return &merged{bytes: size}
		}
	}
	tools, prompts := []catalog.Kind{catalog.Tool}, []catalog.Kind{catalog.Prompt}
	s, one, two := &snapshot{}, []*lister.Offer{{}}, []*lister.Offer{{}}
	for i, step := range []struct {
		caller *transport.Caller
		kinds  []catalog.Kind
		s      *snapshot
		offers []*lister.Offer
		want   int
	}{
		{caller("a"), tools, s, one, 1},
		{caller("a"), tools, s, one, 1},
		{caller("b"), tools, s, one, 2},
		{caller("a"), prompts, s, one, 3},
		{caller("a"), tools, s, two, 4},
		{caller("a"), tools, s, two, 4},
		{caller("a"), tools, &snapshot{}, two, 5},
		{&transport.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "a"}}, tools, s, one, 6},
		{&transport.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "a"}}, tools, s, one, 7},
	} {
		if l.get(mergedKey(step.caller, step.kinds), step.s, step.offers, build(1)); builds != step.want {
			t.Fatalf("step %d: merged %d times, want %d", i, builds, step.want)
		}
	}
	for i := range 2 * maxMerged {
		l.get(mergedKey(caller(string(rune('0'+i))), tools), s, one, build(maxMergedBytes/10))
	}
	if len(l.byKey) > 10 || l.bytes > maxMergedBytes {
		t.Errorf("%d are kept, %d bytes", len(l.byKey), l.bytes)
	}
	if l.get(mergedKey(caller("huge"), tools), s, one, build(maxMergedBytes+1)); l.bytes > maxMergedBytes {
		t.Errorf("%d bytes are kept", l.bytes)
	}
}

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
			l.Items[catalog.Tool] = [][]byte{[]byte(`{"name":"get","description":"` + tool + `"}`), []byte(`{"name":"set"}`)}
			l.Items[catalog.Prompt] = [][]byte{[]byte(`{"name":"p","description":"` + prompt + `"}`)}
			return l
		}
		return catalog.Build(names, owners, nil, []catalog.Listing{listing("crm", crm, prompt), listing("web", web, "")})
	}
	set := views.New([]views.Config{{Name: "crm", Upstreams: []string{"crm"}, Tools: []string{"crm_g*"}, Prompts: views.None, Resources: views.All}, {Name: "web", Upstreams: []string{"web"}}})
	before := lists("1", "1", "1")
	for _, tt := range []struct {
		name         string
		after        *catalog.Catalog
		all, crm, of []catalog.Kind
	}{
		{"nothing", lists("1", "1", "1"), nil, nil, nil},
		{"a tool of crm", lists("2", "1", "1"), []catalog.Kind{catalog.Tool}, []catalog.Kind{catalog.Tool}, nil},
		{"a tool of web", lists("1", "2", "1"), []catalog.Kind{catalog.Tool}, nil, []catalog.Kind{catalog.Tool}},
		{"a prompt of crm", lists("1", "1", "2"), []catalog.Kind{catalog.Prompt}, nil, nil},
	} {
		for view, want := range map[string][]catalog.Kind{"": tt.all, "crm": tt.crm, "web": tt.of} {
			if got := changedKinds(set.Named(view), before, tt.after); !slices.Equal(got, want) {
				t.Errorf("%s, at %q: %v, want %v", tt.name, view, got, want)
			}
		}
	}
}
