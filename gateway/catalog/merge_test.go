package catalog

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
)

// A merge has a list in memory once however often it is read, and its items stay the same ones until
// their definitions change. A kind that another part of the gateway needs is not in it.
func TestAListThatDoesNotChangeIsMergedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, merges := new(shelf), new(atomic.Int32)
		var m *Merge
		r, stop := reading(nil, func(r *Reader) {
			r.Feed("a").Follow(Need{Kinds: []mcp.ListKind{mcp.Prompt}, Interval: time.Hour})
			m = NewMerge(MergeOptions{
				Lists: r, Feeds: r.Feeds(), Need: Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: time.Minute}, Now: time.Now, Wait: time.Second, StaleFor: time.Hour,
				Owners: RoutedOwners(func(string) (string, bool) { return "a", true }), Changed: func(_, _ *Snapshot) { merges.Add(1) },
			})
		}, s)
		defer stop()
		shared := func() *Catalog {
			v := m.For(t.Context(), nil, mcp.Tool)
			defer v.End()
			return v.Catalog
		}
		first := shared()
		before, _, _ := r.Feed("a").last()
		<-time.After(time.Minute + time.Second)
		again := shared()
		after, _, _ := r.Feed("a").last()
		if s.count(mcp.MethodToolsList) != 2 || merges.Load() < 2 || first == again {
			t.Fatalf("read %d times, merged %d times", s.count(mcp.MethodToolsList), merges.Load())
		}
		if len(first.Items(mcp.Tool)) != 1 || !slices.Equal(first.Items(mcp.Tool), again.Items(mcp.Tool)) {
			t.Errorf("%d items, then %d others", len(first.Items(mcp.Tool)), len(again.Items(mcp.Tool)))
		}
		if before == after || !slices.EqualFunc(before.List(mcp.Tool).Items, after.List(mcp.Tool).Items, sameBytes) {
			t.Error("the same list is in memory twice")
		}
		if n := len(before.List(mcp.Prompt).Items); n != 1 || len(again.Items(mcp.Prompt)) != 0 {
			t.Errorf("%d prompts were read, %d are merged", n, len(again.Items(mcp.Prompt)))
		}
	})
}

// What a catalog read of the lists before is used only for the same lists under the same names, and
// the owners are those of now.
func TestCatalogsAfterOthers(t *testing.T) {
	plain, prefixed := mustNames(t, Naming{Upstream: "a"}, Naming{Upstream: "b"}), mustNames(t, Naming{Upstream: "a", Prefix: "a_"}, Naming{Upstream: "b"})
	owners := memoryOwners(t)
	lists := []Listing{catalogList("a", "tool:x", "tool:x", "tool:y"), catalogList("b", "tool:x", "tool:z")}
	c := Build(plain, owners, nil, lists)
	want := []string{"a x", "a y", "b z"}
	equal(t, "at first", shown(c, mcp.Tool), want...)
	left := len(c.LeftOut())
	c = Build(plain, owners, c, lists)
	equal(t, "again", shown(c, mcp.Tool), want...)
	if len(c.LeftOut()) != left || left != 2 {
		t.Errorf("left out: %v, %d before", c.LeftOut(), left)
	}
	y, _ := c.Item(mcp.Tool, "y")
	changed := []Listing{catalogList("a", "tool:w", "tool:y"), lists[1]}
	c = Build(plain, owners, c, changed)
	equal(t, "after a change", shown(c, mcp.Tool), "a w", "a y", "b z")
	if now, ok := c.Item(mcp.Tool, "y"); !ok || now != y {
		t.Error("an unchanged item is another one")
	}
	if _, err := owners.Release("a", "x"); err != nil {
		t.Fatal(err)
	}
	equal(t, "after a release", shown(Build(plain, owners, c, changed), mcp.Tool), "a w", "a y", "b x", "b z")
	equal(t, "under other names", shown(Build(prefixed, memoryOwners(t), c, changed), mcp.Tool), "a a_w", "a a_y", "b x", "b z")
	routed := RoutedOwners(func(tool string) (string, bool) { return "b", tool != "z" })
	equal(t, "by routes, with the upstreams' own names", shown(Build(nil, routed, nil, []Listing{catalogList("a", "tool:x", "tool:y/é"), catalogList("b", "tool:x", "tool:z", "tool:ö")}), mcp.Tool), "b x", "b ö")
}
