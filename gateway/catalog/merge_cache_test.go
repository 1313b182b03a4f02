package catalog

import (
	"testing"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// A caller whose lists are unchanged is answered from the cached catalog; for another caller,
// another list and new offers the lists are merged again, and the cache is bounded.
func TestMergedListsAreKeptForTheirCaller(t *testing.T) {
	caller := func(name string) *upstream.Caller {
		return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: name}}
	}
	var l mergedLists
	builds, space := 0, make([]byte, maxMergedBytes+1)
	build := func(size int) func(*Catalog) *Catalog {
		return func(*Catalog) *Catalog {
			builds++
			c := new(Catalog)
			c.items[mcp.Tool] = []*Item{{JSON: space[:size]}}
			return c
		}
	}
	tools, prompts := []mcp.ListKind{mcp.Tool}, []mcp.ListKind{mcp.Prompt}
	s, one, two := &Snapshot{Catalog: new(Catalog)}, []*Offer{{}}, []*Offer{{}}
	for i, step := range []struct {
		caller *upstream.Caller
		kinds  []mcp.ListKind
		s      *Snapshot
		offers []*Offer
		want   int
	}{
		{caller("a"), tools, s, one, 1},
		{caller("a"), tools, s, one, 1},
		{caller("b"), tools, s, one, 2},
		{caller("a"), prompts, s, one, 3},
		{caller("a"), tools, s, two, 4},
		{caller("a"), tools, s, two, 4},
		{caller("a"), tools, &Snapshot{Catalog: new(Catalog)}, two, 5},
		{&upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "a"}}, tools, s, one, 6},
		{&upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "a"}}, tools, s, one, 7},
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
