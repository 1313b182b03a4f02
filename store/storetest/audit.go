package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// testAuditHeads: a head replaces the one it goes on from, and keeps the one
// that it contradicts.
func testAuditHeads(t *testing.T, o Opened) {
	tn, other := NewTenant(t, o.Store, "t"), NewTenant(t, o.Store, "other")
	hash := func(c string) string { return strings.Repeat(c, 64) }
	report := func(gateway, trail string, seq uint64, hash string) store.AuditHead {
		t.Helper()
		return must(tn.ReportAuditHead(ctx, store.AuditHead{Gateway: gateway, Trail: trail, Seq: seq, Hash: hash}))(t)
	}
	if list := must(tn.ListAuditHeads(ctx))(t); list == nil || len(list) != 0 {
		t.Errorf("heads of nobody: %v", list)
	}
	first := report("b", "x", 5, hash("a"))
	if first.ReportedAt.IsZero() || first.Earlier != nil {
		t.Errorf("first report: %+v", first)
	}
	o.Clock.Advance(time.Minute)
	if again := report("b", "x", 5, hash("a")); !again.ReportedAt.Equal(first.ReportedAt) {
		t.Errorf("the same head again: %+v", again)
	}
	if on := report("b", "x", 9, hash("b")); on.Seq != 9 || on.Earlier != nil || len(on.Passed) != 1 || on.Passed[0].Seq != 5 || !on.ReportedAt.After(first.ReportedAt) {
		t.Errorf("a head that goes on: %+v", on)
	}
	cut := report("b", "x", 7, hash("c"))
	if len(cut.Earlier) != 1 || cut.Earlier[0].Seq != 9 || cut.Earlier[0].Hash != hash("b") || cut.Earlier[0].ReportedAt.IsZero() {
		t.Errorf("a head that was cut back: %+v", cut)
	}
	if changed := report("b", "x", 7, hash("d")); len(changed.Earlier) != 2 || changed.Earlier[0].Hash != hash("c") {
		t.Errorf("the same line with another hash: %+v", changed)
	}
	for i := range 2 * store.MaxEarlierHeads {
		report("b", "x", 1, fmt.Sprintf("%064d", i))
	}
	for seq := range uint64(5 * store.MaxPassedHeads) {
		report("long", "x", 1+10*seq, fmt.Sprintf("%064d", seq))
	}
	long := report("long", "x", 100_000, hash("9"))
	if n := len(long.Passed); n != store.MaxPassedHeads || long.Passed[n-1].Seq != 1 || long.Passed[0].Seq != 1+10*(5*store.MaxPassedHeads-1) {
		t.Errorf("%d passed heads, from %d back to %d", n, long.Passed[0].Seq, long.Passed[n-1].Seq)
	}
	for i := 1; i < len(long.Passed); i++ {
		if long.Passed[i].Seq >= long.Passed[i-1].Seq {
			t.Errorf("passed heads are not newest first: %+v", long.Passed)
		}
	}
	if again := report("long", "x", 5, hash("8")); again.Passed != nil {
		t.Errorf("heads of a chain that ended: %+v", again.Passed)
	}
	report("b", "w", 1, hash("e"))
	report("a", "x", 1, hash("f"))
	list := must(tn.ListAuditHeads(ctx))(t)
	if len(list) != 4 || list[0].Gateway != "a" || list[1].Trail != "w" || list[2].Trail != "x" || list[3].Gateway != "long" {
		t.Fatalf("heads: %+v", list)
	}
	if n := len(list[2].Earlier); n != store.MaxEarlierHeads {
		t.Errorf("%d earlier heads are kept", n)
	}
	if list := must(other.ListAuditHeads(ctx))(t); len(list) != 0 {
		t.Errorf("another tenant sees %v", list)
	}
	for field, bad := range map[string]store.AuditHead{
		"gateway": {Trail: "x", Seq: 1, Hash: hash("a")},
		"trail":   {Gateway: "g", Trail: "a\x00b", Seq: 1, Hash: hash("a")},
		"seq":     {Gateway: "g", Trail: "x", Hash: hash("a")},
		"hash":    {Gateway: "g", Trail: "x", Seq: 1},
	} {
		_, err := tn.ReportAuditHead(ctx, bad)
		if store.KindOf(err) != store.Invalid {
			t.Errorf("%s: %v", field, err)
		}
	}
}
