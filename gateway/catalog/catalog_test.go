package catalog

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"svc/gateway/mcp"
)

// catalogList makes a listing: each text is a kind, a colon and a key.
func catalogList(upstream string, items ...string) Listing {
	l := Listing{Upstream: upstream}
	for _, text := range items {
		for _, kind := range mcp.ListKinds {
			if rest, ok := cutKind(text, kind); ok {
				raw, _ := json.Marshal(map[string]string{"description": "of " + upstream, kind.Key(): rest})
				l.Items[kind] = append(l.Items[kind], raw)
			}
		}
	}
	return l
}

func cutKind(text string, kind mcp.ListKind) (string, bool) {
	name := kind.String() + ":"
	if len(text) < len(name) || text[:len(name)] != name {
		return "", false
	}
	return text[len(name):], true
}

// shown lists the merged items, with the upstream.
func shown(c *Catalog, kind mcp.ListKind) (out []string) {
	for _, it := range c.Items(kind) {
		out = append(out, it.Upstream+" "+it.Visible)
	}
	return out
}

func memoryOwners(t *testing.T) *Owners {
	t.Helper()
	o, err := OpenOwners("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// The order of the file decides at the first read only: a name stays with its owner while the
// owner is down, does not list the name, or responds later.
func TestAnOwnerKeepsItsName(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	owners := memoryOwners(t)
	c := Build(names, owners, nil, []Listing{catalogList("b", "tool:x", "tool:y"), catalogList("a", "tool:x")})
	equal(t, "first", shown(c, mcp.Tool), "a x", "b y")
	if got := c.LeftOut(); len(got) != 1 || got[0] != (LeftOut{Upstream: "b", Kind: mcp.Tool, Own: "x", Visible: "x", Reason: ReasonClaimed, Owner: "a"}) {
		t.Errorf("left out: %+v", got)
	}
	c = Build(names, owners, c, []Listing{catalogList("b", "tool:x", "tool:y")})
	equal(t, "a is down", shown(c, mcp.Tool), "b y")
	if up, ok := names.Owner(owners, mcp.Tool, "x"); !ok || up != "a" {
		t.Errorf("a call of x goes to %q", up)
	}
	c = Build(names, owners, c, []Listing{catalogList("a", "tool:y", "tool:x"), catalogList("b", "tool:x", "tool:y")})
	equal(t, "a claims y", shown(c, mcp.Tool), "a x", "b y")
	if n, err := owners.Release("a", "x"); n != 1 || err != nil {
		t.Errorf("x was not released: %d, %v", n, err)
	}
	c = Build(names, owners, c, []Listing{catalogList("b", "tool:x")})
	equal(t, "released", shown(c, mcp.Tool), "b x")
}

// Owners survive a restart. The names of an upstream are released when it is removed or its
// settings change.
func TestOwnersSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owners.json")
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	open := func(ids ...Identity) *Owners {
		t.Helper()
		o, err := OpenOwners(path, ids)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	both := []Identity{{"a", "1"}, {"b", "1"}}
	owners := open(both...)
	Build(names, owners, nil, []Listing{catalogList("a", "tool:x", "resource:file:///é", "template:file:///t/{p}"), catalogList("b", "prompt:x")})
	if err := owners.Save(); err != nil {
		t.Fatal(err)
	}
	claim := func(o *Owners) []string {
		c := Build(names, o, nil, []Listing{catalogList("b", "tool:x", "resource:file:///é", "resource:file:///t/1")})
		return append(shown(c, mcp.Tool), shown(c, mcp.Resource)...)
	}
	equal(t, "restarted", claim(open(both...)))
	equal(t, "a has other settings", claim(open(Identity{"a", "2"}, Identity{"b", "1"})), "b x", "b file:///é", "b file:///t/1")
	equal(t, "a was removed", claim(open(Identity{"b", "1"})), "b x", "b file:///é", "b file:///t/1")
}

// Neither a uri nor a template can take over a uri that another upstream owns.
func TestTakeOverByTemplateOrURI(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	owners := memoryOwners(t)
	c := Build(names, owners, nil, []Listing{
		catalogList("a", "template:file:///srv/a/{path}", "resource:db://a/1", "template:{anything}"),
		catalogList("b", "template:file:///srv/{path}", "template:file:///srv/a/deep/{path}", "template:file:///srv/b/{path}", "template:db://{x}",
			"resource:file:///srv/a/secret", "resource:db://a/1", "resource:db://a/2"),
	})
	equal(t, "templates", shown(c, mcp.Template), "a file:///srv/a/{path}", "a {anything}", "b file:///srv/b/{path}", "b db://{x}")
	equal(t, "resources", shown(c, mcp.Resource), "a db://a/1", "b db://a/2")
	for uri, want := range map[string]string{
		"file:///srv/a/x": "a", "file:///srv/b/x": "b", "file:///srv/c": "", "db://a/1": "a", "db://a/3": "b", "plain": "",
	} {
		if got, _ := names.Owner(owners, mcp.Resource, uri); got != want {
			t.Errorf("%s is read at %q, want %q", uri, got, want)
		}
	}
	// The uris that a lists now stay with a although b owns a template that matches them.
	c = Build(names, owners, c, []Listing{catalogList("a", "resource:db://a/1", "resource:db://a/9"), catalogList("b", "template:db://{x}")})
	equal(t, "resources later", shown(c, mcp.Resource), "a db://a/1")
}

func TestOddItemsAreLeftOut(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a", Prefix: "a_"})
	l := Listing{Upstream: "a"}
	for _, raw := range []string{
		`{"name":"x"}`, `{"name":"x","description":"again"}`, `{"title":"no name"}`, `{"name":5}`, `{"name":""}`, `[]`, `null`, ``,
		`{"name":"b c"}`, `{"name":"\u0078\u0079"}`,
	} {
		l.Items[mcp.Tool] = append(l.Items[mcp.Tool], []byte(raw))
	}
	c := Build(names, memoryOwners(t), nil, []Listing{l})
	equal(t, "tools", shown(c, mcp.Tool), "a a_x", "a a_xy")
	var reasons []string
	for _, out := range c.LeftOut() {
		reasons = append(reasons, string(out.Reason))
	}
	equal(t, "reasons", reasons, "listed_twice", "malformed", "malformed", "malformed", "malformed", "malformed", "malformed", "name")
	it, ok := c.Item(mcp.Tool, "a_x")
	if !ok || string(it.JSON) != `{"name":"a_x"}` || it.Own != "x" {
		t.Errorf("%+v", it)
	}
}

func TestTooManyItems(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"})
	l := Listing{Upstream: "a"}
	for i := range MaxItems + 5 {
		l.Items[mcp.Prompt] = append(l.Items[mcp.Prompt], fmt.Appendf(nil, `{"name":"p%d"}`, i))
	}
	c := Build(names, memoryOwners(t), nil, []Listing{l})
	if out := c.LeftOut(); len(c.Items(mcp.Prompt)) != MaxItems || len(out) != 1 || out[0].Reason != ReasonTooMany {
		t.Errorf("%d prompts, left out %+v", len(c.Items(mcp.Prompt)), out)
	}
}

// A client that pages through lists that change meanwhile gets each item that kept its position
// once.
func TestPagesOfAListThatChanges(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a", Prefix: "a_"}, Naming{Upstream: "b", Prefix: "b_"})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(upstream, label string) Listing {
			var items []string
			for i := range 12 {
				if rapid.Bool().Draw(t, label) {
					items = append(items, fmt.Sprintf("tool:%02d", i)) // always in one order
				}
			}
			return catalogList(upstream, items...)
		}
		owners, _ := OpenOwners("", nil)
		var c *Catalog
		stayed := map[string]int{}
		after, changes := "", 0
		var got []string
		for more := true; more; changes++ {
			c = Build(names, owners, c, []Listing{draw("a", "a"), draw("b", "b")})
			for _, it := range c.Items(mcp.Tool) {
				stayed[it.Visible]++
			}
			page, rest, ok := c.Page(mcp.Tool, after, rapid.IntRange(1, 5).Draw(t, "limit"), func(*Item) bool { return true })
			if !ok {
				t.Fatalf("the position after %q is lost", after)
			}
			for _, it := range page {
				got = append(got, it.Visible)
				after = it.Visible
			}
			more = rest
		}
		for name, n := range stayed {
			seen := 0
			for _, g := range got {
				if g == name {
					seen++
				}
			}
			if n == changes && seen != 1 || seen > 1 {
				t.Errorf("%s was listed %d times of %d, and shown %d times: %q", name, n, changes, seen, got)
			}
		}
	})
}
