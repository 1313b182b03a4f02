package federation

import (
	"testing"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/lister"
	"svc/gateway/transport"
)

// A caller whose lists stayed is answered from what was merged before; another caller,
// another list and new offers are merged anew, and what is kept is bounded.
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
