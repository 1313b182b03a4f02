package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"svc/store"
)

// reportOf is a report of an unsigned process that runs.
func reportOf(gateway, instance string, seq int64) store.GatewayReport {
	return store.GatewayReport{Gateway: gateway, Instance: instance, Seq: seq, Governed: true, Revision: 1,
		Report: json.RawMessage(`{"version": "<1>"}`), KeyID: "key_1", GatewayCounters: store.GatewayCounters{Calls: seq}}
}

// testGateways: reports are listed as they come, in the order of their numbers, and their times are known
// before they are written.
func testGateways(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	report := func(r store.GatewayReport) {
		t.Helper()
		if err := tn.ReportGateway(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	first := o.Clock.Now()
	report(reportOf("b", "i2", 1))
	report(reportOf("b", "i1", 1))
	report(reportOf("a", "i3", 1))
	list := must(tn.ListGateways(ctx))(t)
	if len(list) != 3 || list[0].Instance != "i3" || list[1].Instance != "i1" || list[2].Instance != "i2" {
		t.Fatalf("list %+v", list)
	}
	// The clock of the test advances by microseconds with every call.
	near := func(at, want time.Time) bool { return at.Sub(want).Abs() < time.Second }
	if g := list[0]; !near(g.SeenAt, first) || !near(g.ReportedAt, first) || g.KeyID != "key_1" || string(g.Report) != `{"version":"\u003c1\u003e"}` {
		t.Errorf("got %+v", g)
	}
	if n := len(must(other.ListGateways(ctx))(t)); n != 0 {
		t.Errorf("another tenant sees %d", n)
	}

	// Only counters change: the times and counters are new, also when they have been written.
	for i := range int64(6) {
		o.Clock.Advance(30 * time.Second)
		report(reportOf("a", "i3", 2+i))
		g := must(tn.ListGateways(ctx))(t)[0]
		if !near(g.SeenAt, o.Clock.Now()) || !near(g.ReportedAt, first) || g.Calls != 2+i || g.Seq != 2+i {
			t.Errorf("after report %d: %+v", 2+i, g)
		}
	}
	now := o.Clock.Now()
	for _, g := range must(tn.ListGateways(ctx))(t) {
		if silent := g.Silent(now, first); silent != (g.Gateway == "b") {
			t.Errorf("%s %s is silent: %t", g.Gateway, g.Instance, silent)
		}
		if g.Silent(now, now) {
			t.Errorf("%s %s is silent for a process that has just begun", g.Gateway, g.Instance)
		}
	}

	wantKind(t, tn.ReportGateway(ctx, reportOf("a", "i3", 6)), store.Conflict, "seq")
	// The last one again, of which the answer was lost or which somebody has captured: it does not keep the
	// process alive, and another one with its number is none.
	seen := must(tn.ListGateways(ctx))(t)[0].SeenAt
	o.Clock.Advance(time.Second)
	report(reportOf("a", "i3", 7))
	if g := must(tn.ListGateways(ctx))(t)[0]; !g.SeenAt.Equal(seen) {
		t.Errorf("the last report again, at %v: %+v", o.Clock.Now(), g)
	}
	stopped := reportOf("a", "i3", 7)
	stopped.Stopped = true
	wantKind(t, tn.ReportGateway(ctx, stopped), store.Conflict, "seq")
	stopped.Seq = 8
	report(stopped)
	report(stopped)
	wantKind(t, tn.ReportGateway(ctx, reportOf("a", "i3", 7)), store.Conflict, "seq")
	o.Clock.Advance(time.Hour)
	if g := must(tn.ListGateways(ctx))(t)[0]; !g.Stopped || g.Silent(o.Clock.Now(), first) {
		t.Errorf("a stopped process: %+v", g)
	}

	if err := tn.ForgetGateway(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if list := must(tn.ListGateways(ctx))(t); len(list) != 1 || list[0].Gateway != "a" {
		t.Errorf("after b was forgotten: %+v", list)
	}
	wantKind(t, tn.ForgetGateway(ctx, "b"), store.NotFound, "")
	if e := eventsOf(t, tn, store.AuditEventFilter{Kind: "gateway"}); len(e) != 1 || e[0].Name != "b" || e[0].After != "" {
		t.Errorf("events %+v", e)
	}
	report(reportOf("b", "i1", 9)) // it still runs
	o.Clock.Advance(store.GatewayKept - time.Minute)
	res := must(tn.ApplyRetention(ctx, store.RetentionBounds{Gateways: o.Clock.Now().Add(-store.GatewayKept)}))(t)
	if list := must(tn.ListGateways(ctx))(t); res.Gateways != 1 || len(list) != 1 || list[0].Gateway != "b" {
		t.Errorf("retention removed %d, left %+v", res.Gateways, list)
	}
	wantKind(t, tn.ReportGateway(ctx, store.GatewayReport{Gateway: "a\x00", Instance: "i"}), store.Invalid, "gateway")
	wantKind(t, tn.ReportGateway(ctx, store.GatewayReport{Gateway: "a"}), store.Invalid, "instance")
}

// testGatewaysMove: a process that reports to one process of the control plane and then to the other one is
// silent for neither, all the time.
func testGatewaysMove(t testing.TB, o Opened) {
	if o.Another == nil {
		return
	}
	tn := NewTenant(t, o, "t")
	records, _ := o.Another(t)
	handles, began := []store.Tenant{tn, records.Tenant(tn.ID())}, o.Clock.Now()
	seq := int64(0)
	for _, to := range []int{0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0} {
		seq++
		if err := handles[to].ReportGateway(ctx, reportOf("g", "i", seq)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			o.Clock.Advance(10 * time.Second)
			for n, h := range handles {
				if g := must(h.ListGateways(ctx))(t)[0]; g.Silent(o.Clock.Now(), began) {
					t.Errorf("report %d, handle %d: silent at %v: %+v", seq, n, o.Clock.Now(), g)
				}
			}
		}
	}
	o.Clock.Advance(store.GatewaySilent + store.GatewayWritten)
	for n, h := range handles {
		if g := must(h.ListGateways(ctx))(t)[0]; !g.Silent(o.Clock.Now(), began) {
			t.Errorf("handle %d: not silent: %+v", n, g)
		}
	}
}

// testGatewayKeys: the first key binds a name, others are refused with one event an hour, and unsigned
// reports replace no signed ones.
func testGatewayKeys(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	signed := func(instance, key string, seq int64) store.GatewayReport {
		r := reportOf("g", instance, seq)
		r.PublicKey = key
		return r
	}
	if err := errors.Join(tn.ReportGateway(ctx, signed("i1", "k1", 1)), tn.ReportGateway(ctx, signed("i2", "k1", 1)), tn.ReportGateway(ctx, reportOf("g", "i3", 1))); err != nil {
		t.Fatal(err)
	}
	refusals := func() int { return len(eventsOf(t, tn, store.AuditEventFilter{Kind: "refusedKey"})) }
	for range 3 {
		wantKind(t, tn.ReportGateway(ctx, signed("i4", "k2", 1)), store.Conflict, "publicKey")
	}
	wantKind(t, tn.ReportGateway(ctx, signed("i1", "k2", 2)), store.Conflict, "publicKey")
	if n := refusals(); n != 1 {
		t.Errorf("%d events of one key, want 1", n)
	}
	o.Clock.Advance(store.GatewayRefusedEvery)
	wantKind(t, tn.ReportGateway(ctx, signed("i4", "k2", 1)), store.Conflict, "publicKey")
	if n := refusals(); n != 2 {
		t.Errorf("%d events after an hour, want 2", n)
	}
	for i := range 40 {
		wantKind(t, tn.ReportGateway(ctx, signed("i4", fmt.Sprint("other", i), 1)), store.Conflict, "publicKey")
	}
	if n := refusals(); n > 2+store.MaxOfferedKeys {
		t.Errorf("%d events of 40 keys", n)
	}
	wantKind(t, tn.ReportGateway(ctx, reportOf("g", "i1", 2)), store.Conflict, "signature")
	if list := must(tn.ListGateways(ctx))(t); len(list) != 3 || list[0].PublicKey != "k1" || list[0].Seq != 1 || list[2].PublicKey != "" {
		t.Errorf("list %+v", list)
	}
	if _, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "g", Trail: "t", Seq: 1, Hash: "h", PublicKey: "k2"}); store.KindOf(err) != store.Conflict {
		t.Errorf("an audit head with another key: %v", err)
	}
	if key, err := tn.GatewayKey(ctx, "g"); err != nil || key != "k1" {
		t.Errorf("the key of the name is %q, %v", key, err)
	}
	if _, err := tn.AcceptAuditKey(ctx, "g", "k2"); err != nil {
		t.Fatal(err)
	}
	if key, err := tn.GatewayKey(ctx, "g"); err != nil || key != "k2" {
		t.Errorf("the accepted key of the name is %q, %v", key, err)
	}
	if key, err := tn.GatewayKey(ctx, "unbound"); err != nil || key != "" {
		t.Errorf("a name without a key has %q, %v", key, err)
	}
	if err := tn.ReportGateway(ctx, signed("i4", "k2", 2)); err != nil {
		t.Error(err)
	}
}

// testGatewayNames: the name of a gateway that is gone is free again after GatewayKept, unless it has audit heads, or
// another key was offered for it.
func testGatewayNames(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	signed := func(gateway, key string, seq int64) store.GatewayReport {
		r := reportOf(gateway, "i", seq)
		r.PublicKey = key
		return r
	}
	names := []string{"gone", "headed", "unsigned", "wanted", "forgotten", "runs"}
	for _, name := range names {
		if err := tn.ReportGateway(ctx, signed(name, "k1", 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []store.AuditHead{{Gateway: "headed", PublicKey: "k1"}, {Gateway: "unsigned"}} {
		h.Trail, h.Seq, h.Hash = "t", 1, "h"
		if _, _, err := tn.ReportAuditHead(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, tn.ReportGateway(ctx, signed("wanted", "k2", 2)), store.Conflict, "publicKey")
	// free are the names that are bound to no key. What is tried with another key is not, or is bound to it.
	free := func() (free string) {
		must(tn.ApplyRetention(ctx, store.RetentionBounds{Gateways: o.Clock.Now().Add(-store.GatewayKept)}))(t)
		for _, name := range names {
			if _, err := tn.AcceptAuditKey(ctx, name, "k1"); store.KindOf(err) == store.NotFound {
				free += name + " "
			}
		}
		return free
	}
	o.Clock.Advance(store.GatewayKept - time.Hour)
	if err := tn.ForgetGateway(ctx, "forgotten"); err != nil {
		t.Fatal(err)
	}
	if err := tn.ReportGateway(ctx, signed("runs", "k1", 2)); err != nil {
		t.Fatal(err)
	}
	if got := free(); got != "" {
		t.Errorf("free before the time: %s", got)
	}
	o.Clock.Advance(2 * time.Hour)
	if got := free(); got != "gone " {
		t.Errorf("free after the time: %s", got)
	}
	if err := tn.ReportGateway(ctx, signed("gone", "k2", 1)); err != nil {
		t.Errorf("a free name: %v", err)
	}
	wantKind(t, tn.ReportGateway(ctx, signed("headed", "k2", 2)), store.Conflict, "publicKey")
	o.Clock.Advance(store.GatewayKept)
	if got := free(); got != "forgotten runs " && got != "gone forgotten runs " {
		t.Errorf("free a week later: %s", got)
	}
}

// testGatewayBounds: when there is no room, what has ended gives way, and nothing signed to what is not.
func testGatewayBounds(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	report := func(gateway string, key string, stopped bool) error {
		r := reportOf(gateway, "i", 1)
		r.PublicKey, r.Stopped = key, stopped
		return tn.ReportGateway(ctx, r)
	}
	if err := errors.Join(report("signed-old", "k", true), report("unsigned-old", "", true)); err != nil {
		t.Fatal(err)
	}
	o.Clock.Advance(time.Second)
	const writers = 16 // engines commit what arrives together in one transaction
	var filling sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		filling.Go(func() {
			for i := 2 + w; i < store.MaxGatewayInstances && errs[w] == nil; i += writers {
				errs[w] = report(fmt.Sprintf("g%03d", i), "k", false)
			}
		})
	}
	filling.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	have := func() map[string]bool {
		names := map[string]bool{}
		for _, g := range must(tn.ListGateways(ctx))(t) {
			names[g.Gateway] = true
		}
		return names
	}
	if err := report("unsigned-new", "", false); err != nil || have()["unsigned-old"] || !have()["signed-old"] {
		t.Errorf("an unsigned one: %v", err)
	}
	wantKind(t, report("unsigned-more", "", false), store.Invalid, "gateway")
	if err := report("signed-new", "k", false); err != nil || have()["unsigned-new"] {
		t.Errorf("a signed one in place of one that is not: %v", err)
	}
	if err := report("signed-more", "k", false); err != nil || have()["signed-old"] {
		t.Errorf("a signed one in place of one that has stopped: %v", err)
	}
	must(tn.ApplyRetention(ctx, store.RetentionBounds{Gateways: o.Clock.Now().Add(-time.Hour)}))(t)
	wantKind(t, report("signed-old", "k2", false), store.Conflict, "publicKey") // whoever makes it give way does not get its name
	wantKind(t, report("signed-last", "k", false), store.Invalid, "gateway")
	o.Clock.Advance(store.GatewaySilent + store.GatewayWritten + time.Second)
	if err := report("signed-last", "k", false); err != nil || len(have()) > store.MaxGatewayInstances || len(have()) < store.MaxGatewayInstances*9/10 {
		t.Errorf("a signed one in place of a silent one: %v", err)
	}
}

// testPolicyRevision: each change of a policy makes a revision that the policy has and that is greater than
// all before, whatever the clock does; other changes make none.
func testPolicyRevision(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	last := must(tn.PolicyRevision(ctx))(t)
	if last != 0 {
		t.Errorf("revision %d before the first policy", last)
	}
	grew := func(what string, p *store.Policy) {
		t.Helper()
		now := must(tn.PolicyRevision(ctx))(t)
		if now <= last || p != nil && p.Revision != now {
			t.Errorf("%s: revision %d after %d, policy %+v", what, now, last, p)
		}
		last = now
	}
	p := must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "p", Enabled: true}))(t)[0]
	grew("created", &p)
	digest := p.Object().Digest()
	o.Clock.Advance(-time.Hour)
	on := true
	p = must(tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Enabled: &on}, nil))(t)
	grew("changed, with a clock that went back", &p)
	if p.Object().Digest() != digest {
		t.Error("the revision is part of the digest")
	}
	if again := must(tn.GetPolicy(ctx, p.ID))(t); again.Revision != p.Revision {
		t.Errorf("read %d, want %d", again.Revision, p.Revision)
	}
	off := false
	p = must(tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Enabled: &off}, nil))(t)
	grew("disabled", nil)
	message := "no"
	p = must(tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Message: &message}, nil))(t)
	must(tn.CreateAgent(ctx, store.AgentCreate{Name: "a"}))(t)
	if now := must(tn.PolicyRevision(ctx))(t); now != last {
		t.Error("an agent, or a policy that is disabled, changed the revision of the policies")
	}
	p = must(tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Enabled: &on}, nil))(t)
	grew("enabled", &p)
	if err := tn.DeletePolicy(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	grew("deleted", nil)
	if now := must(other.PolicyRevision(ctx))(t); now != 0 {
		t.Errorf("another tenant has revision %d", now)
	}
}
