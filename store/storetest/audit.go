package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// testAuditHeads: a head supersedes the one that it continues, and the store keeps
// the one that it contradicts.
func testAuditHeads(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	hash := func(c string) string { return strings.Repeat(c, 64) }
	report := func(gateway, trail string, seq uint64, hash string) store.AuditHead {
		t.Helper()
		stored, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: gateway, Trail: trail, Seq: seq, Hash: hash})
		if err != nil {
			t.Fatal(err)
		}
		return stored
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
	if moved, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "b", Trail: "x", Seq: 5, Hash: hash("a"), OldestLine: 3}); err != nil || moved.OldestLine != 3 || moved.Passed != nil {
		t.Errorf("the same head with another oldest line: %+v, %v", moved, err)
	}
	if list := must(tn.ListAuditHeads(ctx))(t); len(list) != 1 || list[0].OldestLine != 3 {
		t.Errorf("the oldest line is not kept: %+v", list)
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
		_, _, err := tn.ReportAuditHead(ctx, bad)
		if store.KindOf(err) != store.Invalid {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// testAuditEvidence: the first contradicted head, and the highest one, are kept
// whatever is reported after them.
func testAuditEvidence(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	report := func(seq uint64) (store.AuditHead, *store.EarlierHead) {
		t.Helper()
		o.Clock.Advance(time.Minute)
		stored, contradicted, err := tn.ReportAuditHead(ctx, store.AuditHead{
			Gateway: "g", Trail: "x", Seq: seq, Hash: fmt.Sprintf("%064d", seq), PublicKey: "key"})
		if err != nil {
			t.Fatal(err)
		}
		return stored, contradicted
	}
	for _, seq := range []uint64{100, 200, 300} {
		if _, contradicted := report(seq); contradicted != nil {
			t.Errorf("%d contradicts %+v", seq, contradicted)
		}
	}
	if _, contradicted := report(50); contradicted == nil || contradicted.Seq != 300 {
		t.Errorf("50 contradicts %+v", contradicted)
	}
	for range 3 * store.MaxEarlierHeads {
		report(49)
		report(48)
	}
	report(1_000) // the highest, in the middle of a flood
	var last store.AuditHead
	for range 3 * store.MaxEarlierHeads {
		report(49)
		last, _ = report(48)
	}
	if n := len(last.Earlier); n != store.MaxEarlierHeads {
		t.Errorf("%d earlier heads are kept", n)
	}
	kept := map[uint64]bool{}
	for _, e := range last.Earlier {
		kept[e.Seq] = true
	}
	for _, seq := range []uint64{100, 200, 300, 50, 1_000} {
		if !kept[seq] {
			t.Errorf("head %d is missing in %+v", seq, last.Earlier)
		}
	}
}

// testAuditKeys: the name of a gateway is bound to the first key that signs a head
// of it, and unsigned heads are stored separately.
func testAuditKeys(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	report := func(gateway, key string, seq uint64) error {
		o.Clock.Advance(time.Minute)
		_, _, err := tn.ReportAuditHead(ctx, store.AuditHead{
			Gateway: gateway, Trail: "x", Seq: seq, Hash: fmt.Sprintf("%064d", seq), PublicKey: key})
		return err
	}
	check := func(err error, kind store.Kind) {
		t.Helper()
		if store.KindOf(err) != kind {
			t.Errorf("got %v, want %v", err, kind)
		}
	}
	none := store.KindOf(nil)
	check(report("g", "", 7), none) // before any head is signed
	check(report("g", "key", 10), none)
	check(report("g", "other", 20), store.Conflict)
	check(report("g", "other", 21), store.Conflict)
	check(report("g", "", 5), none)
	for i := range 2 * store.MaxOfferedKeys {
		check(report("g", fmt.Sprint("flood", i), 30), store.Conflict)
	}
	check(report("g", "key", 11), none)
	list := must(tn.ListAuditHeads(ctx))(t)
	if len(list) != 2 || list[0].PublicKey != "key" || list[0].Seq != 11 || len(list[0].Earlier) != 0 {
		t.Fatalf("heads: %+v", list)
	}
	if list[1].PublicKey != "" || list[1].Seq != 5 || len(list[1].Earlier) != 1 || list[1].Offered != nil {
		t.Errorf("the unsigned head: %+v", list[1])
	}
	if offered := list[0].Offered; len(offered) != store.MaxOfferedKeys || offered[0].PublicKey != "other" || offered[0].OfferedAt.IsZero() {
		t.Errorf("offered keys: %+v", offered)
	}
	_, err := tn.AcceptAuditKey(ctx, "nobody", "other")
	check(err, store.NotFound)
	_, err = tn.AcceptAuditKey(ctx, "g", "")
	check(err, store.Invalid)
	bound := must(tn.AcceptAuditKey(ctx, "g", "other"))(t)
	if bound.PublicKey != "other" || bound.Offered != nil || bound.BoundAt.IsZero() {
		t.Errorf("bound: %+v", bound)
	}
	check(report("g", "other", 22), none)
	check(report("g", "key", 23), store.Conflict)
	if list := must(tn.ListAuditHeads(ctx))(t); list[0].PublicKey != "other" || list[0].Seq != 22 || len(list[0].Passed) != 2 {
		t.Errorf("after the change: %+v", list)
	}

	for i := range 99 { // and g: the API guarantees space for a hundred
		check(report(fmt.Sprint("unsigned", i), "", 1), none)
	}
	check(report("one more", "", 1), store.Invalid)
	check(report("unsigned3", "", 2), none)
	check(report("one more", "its key", 1), none)
}
