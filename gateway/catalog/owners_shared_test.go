package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svc/gateway/mcp"
)

// claims is a SharedClaims in memory, in place of Redis. down makes it fail.
type claims struct {
	fields    map[string]string
	born      int
	count     int
	down      bool
	onClaim   func() // called before the next claim, once
	conflicts int
}

var errStore = errors.New("the store is down")

func (c *claims) version() string {
	if c.fields == nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", c.born, c.count)
}

// lose makes the store lose its data.
func (c *claims) lose() {
	c.fields, c.count = nil, 0
	c.born++
}

func catalogName(holder string) string {
	_, name, _ := strings.Cut(holder, " ")
	return name
}

func (c *claims) Claim(_ context.Context, own, fields, holders []string, version string) (kept []string, before, after string, err error) {
	if c.down {
		return nil, "", "", errStore
	}
	if f := c.onClaim; f != nil && len(fields) > 0 {
		c.onClaim = nil
		f()
	}
	before = c.version()
	if version != "" && version != before {
		c.conflicts++
		return nil, before, before, nil
	}
	if c.fields == nil {
		c.fields = map[string]string{}
	}
	configured := map[string]bool{}
	for _, holder := range own {
		configured[catalogName(holder)] = true
	}
	for i, field := range fields {
		held, ok := c.fields[field]
		if !ok || held != holders[i] && (catalogName(held) == catalogName(holders[i]) || !configured[catalogName(held)]) {
			c.fields[field] = holders[i]
			c.count++
		}
		kept = append(kept, c.fields[field])
	}
	return kept, before, c.version(), nil
}

func (c *claims) Load(context.Context) (map[string]string, string, error) {
	if c.down {
		return nil, "", errStore
	}
	return maps.Clone(c.fields), c.version(), nil
}

func (c *claims) Drop(_ context.Context, fields, names []string) error {
	if c.down {
		return errStore
	}
	for i, field := range fields {
		if held, ok := c.fields[field]; ok && catalogName(held) == names[i] {
			delete(c.fields, field)
			c.count++
		}
	}
	return nil
}

func store() (Shared, *claims, *claims) {
	items, templates := new(claims), new(claims)
	return Shared{items, templates}, items, templates
}

var identities = []Identity{{"a", "1"}, {"b", "1"}}

// replica opens the owners of one replica.
func replica(t testing.TB, path string, s Shared, ids ...Identity) *Owners {
	o, err := OpenOwners(path, ids)
	if err != nil {
		t.Fatal(err)
	}
	_ = o.Share(s) // the error of a store that is down
	return o
}

// The owner that one replica saw first is the owner at all of them, whatever they list and in
// which order, also after a restart of both replicas with only the store.
func TestReplicasHaveTheSameOwners(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, _, _ := store()
	one, other := replica(t, "", s, identities...), replica(t, "", s, identities...)
	c := Build(names, one, nil, []Listing{catalogList("b", "tool:x", "prompt:p", "resource:db://1", "template:file:///b/{p}")})
	equal(t, "one", shown(c, mcp.Tool), "b x")
	everything := []Listing{
		catalogList("a", "tool:x", "tool:y", "prompt:p", "resource:db://1", "resource:file:///b/1", "template:file:///{p}"),
		catalogList("b", "tool:x", "tool:y"),
	}
	for _, o := range []*Owners{other, one, replica(t, "", s, identities...)} {
		c = Build(names, o, nil, everything)
		equal(t, "tools", shown(c, mcp.Tool), "a y", "b x")
		equal(t, "prompts, resources and templates", slices.Concat(shown(c, mcp.Prompt), shown(c, mcp.Resource), shown(c, mcp.Template)))
		if owner, _ := names.Owner(o, mcp.Resource, "file:///b/2"); owner != "b" {
			t.Errorf("a uri of b's template is read at %q", owner)
		}
	}
}

// A replica that never reached an upstream reads from the store what the upstream owns, and what
// an operator has released at another replica.
func TestReplicasLearnFromEachOther(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, _, _ := store()
	one, other := replica(t, "", s, identities...), replica(t, "", s, identities...)
	Build(names, one, nil, []Listing{catalogList("a", "tool:x")})
	poll := func(o *Owners, want bool) {
		t.Helper()
		if changed, err := o.Poll(); changed != want || err != nil {
			t.Errorf("changed %v, %v, want %v", changed, err, want)
		}
	}
	poll(other, true)
	poll(other, false)
	if owner, _ := other.Of(mcp.Tool, "x"); owner != "a" {
		t.Errorf("x is called at %q", owner)
	}
	if _, err := other.Release("a", "x"); err != nil {
		t.Fatal(err)
	}
	poll(one, true)
	if _, ok := one.Of(mcp.Tool, "x"); ok {
		t.Error("x was released at the other replica")
	}
	equal(t, "released", shown(Build(names, one, nil, []Listing{catalogList("b", "tool:x")}), mcp.Tool), "b x")
}

// A claim that somebody else has replaced in the store does not move a name: the owner stays, and
// claims it again; a replica that does not know the name ignores it.
func TestForgedClaimsDoNotMoveNames(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, items, _ := store()
	one := replica(t, "", s, identities...)
	both := []Listing{catalogList("b", "tool:x"), catalogList("a", "tool:x")}
	Build(names, one, nil, both[:1])
	equal(t, "at first", shown(Build(names, one, nil, both), mcp.Tool), "b x")
	claim := items.fields["tool x"]
	items.fields["tool x"] = "" // as Load returns a claim without a valid code
	items.count++
	if changed, err := one.Poll(); !changed || err != nil {
		t.Errorf("poll: %v, %v", changed, err)
	}
	other := replica(t, "", s, identities...)
	if owner, ok := other.Of(mcp.Tool, "x"); ok {
		t.Errorf("a forged claim gave the name to %q", owner)
	}
	delete(items.fields, "tool x") // the claim below replaces it
	equal(t, "afterwards", shown(Build(names, one, nil, both), mcp.Tool), "b x")
	if items.fields["tool x"] != claim {
		t.Errorf("the store has %q, want %q", items.fields["tool x"], claim)
	}
}

// Two overlapping templates cannot both be claimed, also when two replicas claim them at the same
// time.
func TestTemplatesOfTwoReplicasAtTheSameTime(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, _, templates := store()
	one, other := replica(t, "", s, identities...), replica(t, "", s, identities...)
	templates.onClaim = func() { Build(names, other, nil, []Listing{catalogList("b", "template:file:///srv/deep/{p}")}) }
	c := Build(names, one, nil, []Listing{catalogList("a", "template:file:///srv/{p}")})
	equal(t, "templates", shown(c, mcp.Template))
	if templates.conflicts != 1 || len(templates.fields) != 1 {
		t.Errorf("%d conflicts, the store has %v", templates.conflicts, templates.fields)
	}
}

// While the store is down each replica decides alone; when it is back, the first claim of a name
// takes effect. Earlier owners stay, also when the store has lost everything, and after a restart
// with only the file.
func TestOwnersWithoutTheStore(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, items, templates := store()
	path := filepath.Join(t.TempDir(), "owners.json")
	one, other := replica(t, path, s, identities...), replica(t, "", s, identities...)
	Build(names, one, nil, []Listing{catalogList("a", "tool:x", "template:t://{p}")})
	items.down, templates.down = true, true
	equal(t, "other alone", shown(Build(names, other, nil, []Listing{catalogList("b", "tool:y")}), mcp.Tool), "b y")
	equal(t, "one alone", shown(Build(names, one, nil, []Listing{catalogList("a", "tool:y"), catalogList("b", "tool:x")}), mcp.Tool), "a y")
	if one.SharedErr() == nil || other.SharedErr() == nil {
		t.Error("no error of the store")
	}
	if err := one.Save(); err != nil {
		t.Fatal(err)
	}
	items.lose()
	templates.lose()
	items.down, templates.down = false, false
	for range 2 {
		if _, err := other.Poll(); err != nil {
			t.Fatal(err)
		}
		equal(t, "other", shown(Build(names, other, nil, []Listing{catalogList("b", "tool:y", "tool:z")}), mcp.Tool), "b y", "b z")
	}
	one = replica(t, path, s, identities...) // y was decided at the other replica meanwhile
	equal(t, "one", shown(Build(names, one, nil, []Listing{catalogList("a", "tool:y"), catalogList("b", "tool:x", "tool:y")}), mcp.Tool), "b y")
	if owner, _ := one.Of(mcp.Tool, "x"); owner != "a" {
		t.Errorf("x belongs to %q", owner)
	}
	if _, err := other.Poll(); err != nil {
		t.Fatal(err)
	}
	if owner, _ := other.Of(mcp.Tool, "x"); owner != "a" {
		t.Errorf("x belongs to %q at the other one", owner)
	}
	if one.SharedErr() != nil {
		t.Error(one.SharedErr())
	}
}

// An upstream with the same name and other settings keeps its names until a replica with the new
// settings lists them.
func TestReplicasOfTwoConfigurations(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	s, _, _ := store()
	before, after := replica(t, "", s, identities...), replica(t, "", s, Identity{"a", "2"}, Identity{"b", "1"})
	Build(names, before, nil, []Listing{catalogList("a", "tool:x", "tool:y")})
	c := Build(names, after, nil, []Listing{catalogList("a", "tool:x"), catalogList("b", "tool:x", "tool:y")})
	equal(t, "after", shown(c, mcp.Tool), "a x")
	removed := replica(t, "", s, Identity{"b", "1"})
	equal(t, "a is not configured", shown(Build(mustNames(t, Naming{Upstream: "b"}), removed, nil, []Listing{catalogList("b", "tool:x", "tool:y")}), mcp.Tool), "b x", "b y")
}

// Whatever replicas list, in whatever order, and whenever the store fails or loses its data: once
// it is available, all have the same owners; and if it never failed, no name ever changed its
// owner.
func TestReplicasAgree(t *testing.T) {
	names := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"})
	pool := []string{"tool:x", "tool:y", "prompt:x", "resource:f://s/1", "resource:f://t", "template:f://{p}", "template:f://s/{p}", "template:g://{p}"}
	rapid.Check(t, func(t *rapid.T) {
		s, items, templates := store()
		replicas := []*Owners{replica(nil, "", s, identities...), replica(nil, "", s, identities...), replica(nil, "", s, identities...)}
		first := map[string]string{}
		failed := false
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				items.down = !items.down
				failed = true
			case 1:
				templates.down = !templates.down
				failed = true
			case 2:
				items.lose()
				failed = true
			case 3:
				_, _ = replicas[rapid.IntRange(0, 2).Draw(t, "replica")].Poll()
			default:
				var all []Listing
				for _, upstream := range []string{"a", "b"} {
					all = append(all, catalogList(upstream, rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, 5, rapid.ID).Draw(t, upstream)...))
				}
				c := Build(names, replicas[rapid.IntRange(0, 2).Draw(t, "replica")], nil, all)
				for _, kind := range mcp.ListKinds {
					for _, it := range c.Items(kind) {
						key := kind.String() + " " + it.Visible
						if owner, ok := first[key]; ok && owner != it.Upstream && !failed {
							t.Fatalf("the owner of %s was %s and is %s", key, owner, it.Upstream)
						}
						first[key] = it.Upstream
					}
				}
			}
		}
		items.down, templates.down = false, false
		for range 3 {
			for _, o := range replicas {
				if _, err := o.Poll(); err != nil {
					t.Fatal(err)
				}
				Build(names, o, nil, nil)
			}
		}
		known := func(o *Owners) string {
			out := map[ownerKey]string{}
			for k, w := range o.owned {
				out[k] = fmt.Sprint(w.upstream, w.pending, w.foreign)
			}
			return fmt.Sprint(out)
		}
		for _, o := range replicas[1:] {
			if known(o) != known(replicas[0]) {
				t.Fatalf("%s\n%s\n%v", known(replicas[0]), known(o), items.fields)
			}
		}
	})
}
