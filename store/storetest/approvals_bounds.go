package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// testApprovalLimits: the bounds, each by the rule that it belongs to.
func testApprovalLimits(t testing.TB, o Opened) {
	a := newApprover(t, o)
	n := 0
	ask := func(key, principal string, more ...func(*store.ApprovalCall)) error {
		t.Helper()
		n++
		c := aCall(principal, n)
		for _, f := range more {
			f(&c)
		}
		_, err := a.RequestApproval(ctx, key, c)
		return err
	}
	wantLimit := func(err error, text string, wait time.Duration) {
		t.Helper()
		var limit *store.ApprovalLimitError
		if !errors.As(err, &limit) || !strings.Contains(limit.Limit, text) || limit.RetryAfter > wait || limit.RetryAfter < wait-time.Minute {
			t.Fatalf("error %v, want one about %q and %v", err, text, wait)
		}
	}
	fill := func(key, principal string, times int) {
		t.Helper()
		for range times {
			if err := ask(key, principal); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(a.gateway, "key:bob", store.MaxOpenApprovalsPrincipal)
	wantLimit(ask(a.gateway, "key:bob"), "the principal has 20", time.Minute)
	wantLimit(ask(a.key(store.KeyCreate{Scope: store.ScopeIngest}), "key:bob"), "the principal has 20", time.Minute)
	if known := a.request(aCall("key:bob", 1)); known.Created {
		t.Error("a known call was made again")
	}
	began := o.Clock.Now()
	for _, status := range []string{store.DecisionGrant, store.DecisionGrant} { // decided ones are not open
		for _, open := range first(a.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})) {
			a.decide(open.ID, status)
		}
		fill(a.gateway, "key:bob", store.MaxOpenApprovalsPrincipal)
	}
	for _, open := range first(a.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})) {
		a.decide(open.ID, store.DecisionGrant)
	}
	wantLimit(ask(a.gateway, "key:bob"), "60 in an hour", time.Hour)
	o.Clock.Advance(time.Hour - o.Clock.Now().Sub(began))
	fill(a.gateway, "key:bob", 1)

	// Five refusals of a principal and tool within ten minutes.
	for i := range store.MaxRefusals {
		made := a.request(aCall("key:eve", 100_000+i))
		a.decide(made.ID, store.DecisionDeny)
	}
	wantLimit(ask(a.gateway, "key:eve"), "refused", store.RefusalPause)
	if err := ask(a.gateway, "key:eve", func(c *store.ApprovalCall) { c.Tool = "other" }); err != nil {
		t.Errorf("another tool: %v", err)
	}
	o.Clock.Advance(store.RefusalPause)
	fill(a.gateway, "key:eve", 1)
	for i := range store.MaxRefusals {
		made := a.request(aCall("key:slow", 200_000+i))
		a.decide(made.ID, store.DecisionDeny)
		o.Clock.Advance(store.RefusalPause / 4)
	}
	fill(a.gateway, "key:slow", 1) // within more than ten minutes

	open := total(a.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{}))
	keys := []string{a.gateway}
	for i := 0; open < store.MaxOpenApprovals; i++ {
		err := ask(keys[len(keys)-1], fmt.Sprint("ip:", i))
		if err == nil {
			open++
			continue
		}
		wantLimit(err, "the gateway's key has 250", time.Minute)
		keys = append(keys, a.key(store.KeyCreate{Scope: store.ScopeIngest}))
	}
	if len(keys) != 4 && len(keys) != 5 {
		t.Errorf("%d keys for %d approvals", len(keys), open)
	}
	wantLimit(ask(a.key(store.KeyCreate{Scope: store.ScopeIngest}), "ip:last"), "the tenant has 1000", time.Minute)
	if err := a.DeleteKey(ctx, keys[0]); err != nil { // nobody can claim them
		t.Fatal(err)
	}
	if _, _, err := a.EndApprovals(ctx); err != nil {
		t.Fatal(err)
	}
	if err := ask(a.key(store.KeyCreate{Scope: store.ScopeIngest}), "ip:last"); err != nil {
		t.Errorf("after a key was deleted: %v", err)
	}
}

// testApprovalEnds: statuses end at their times in every read, the pass writes that, and
// retention removes arguments and approvals.
func testApprovalEnds(t testing.TB, o Opened) {
	a := newApprover(t, o)
	pending, granted := a.request(aCall("key:bob", 1)), a.request(aCall("key:bob", 2))
	if got := granted.Similar; len(got) != 1 || got[0].ID != pending.ID || !slices.Equal(got[0].Differs, []string{"/amount"}) {
		t.Errorf("similar calls %+v", got)
	}
	longer := aCall("key:bob", 3)
	longer.Arguments = append(longer.Arguments[:1:1], store.ApprovalArgument{Pointer: "/new", Tag: "2"})
	if got := a.request(longer).Similar; len(got) != 2 || !slices.Equal(got[0].Differs, []string{"/amount", "/new", "/to"}) {
		t.Errorf("similar calls %+v", got)
	}
	a.decide(granted.ID, store.DecisionGrant)
	o.Clock.Advance(time.Hour)
	a.status(granted.ID, store.ApprovalExpired)
	_, err := a.ClaimApproval(ctx, granted.ID, a.claim(granted.Approval, "1"))
	wantKind(t, err, store.Conflict, "")
	if again := a.request(aCall("key:bob", 2)); !again.Created {
		t.Error("a grant whose time is over is found again")
	}
	o.Clock.Advance(23 * time.Hour)
	a.status(pending.ID, store.ApprovalExpired)
	_, err = a.DecideApproval(ctx, pending.ID, store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionGrant})
	wantKind(t, err, store.Conflict, "decision")
	if open, more, err := a.EndApprovals(ctx); err != nil || more || open != 1 {
		t.Errorf("%d open, %v, %v", open, more, err)
	}
	for _, list := range [][]store.Approval{first(a.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalExpired}, store.Page{})),
		first(a.ListApprovals(ctx, store.ApprovalFilter{}, store.Page{Offset: 1}))} {
		if len(list) != 3 || list[0].ID <= list[1].ID || list[2].ID != pending.ID || list[2].Status != store.ApprovalExpired {
			t.Errorf("expired: %+v", list)
		}
	}
	page := store.Page{Limit: 2, After: store.Place{ID: granted.ID}}
	for _, status := range []string{"", store.ApprovalExpired} {
		if list, n, err := a.ListApprovals(ctx, store.ApprovalFilter{Status: status}, page); err != nil || len(list) != 1 || list[0].ID != pending.ID || n < 3 {
			t.Errorf("behind %s: %+v of %d, %v", granted.ID, list, n, err)
		}
	}

	// A restored backup.
	alive := a.request(aCall("key:bob", 4))
	a.decide(alive.ID, store.DecisionGrant)
	if err := a.LapseApprovals(ctx); err != nil {
		t.Fatal(err)
	}
	a.status(alive.ID, store.ApprovalExpired)
	_, err = a.ClaimApproval(ctx, alive.ID, a.claim(alive.Approval, "1"))
	wantKind(t, err, store.Conflict, "")
	if open, _, err := a.EndApprovals(ctx); err != nil || open != 0 {
		t.Errorf("%d open after a restore, %v", open, err)
	}

	now := o.Clock.Now()
	for _, step := range []struct {
		bounds          store.RetentionBounds
		removed         int
		arguments, left bool
	}{
		{store.RetentionBounds{ApprovalArguments: now.Add(-25 * time.Hour), Approvals: now.Add(-25 * time.Hour)}, 0, true, true},
		{store.RetentionBounds{ApprovalArguments: now}, 5, false, true},
		{store.RetentionBounds{ApprovalArguments: now}, 0, false, true},
		{store.RetentionBounds{Approvals: now, Limit: 2}, 2, false, false},
		{store.RetentionBounds{Approvals: now}, 3, false, false},
	} {
		res := must(a.ApplyRetention(ctx, step.bounds))(t)
		got, err := a.GetApproval(ctx, pending.ID, a.person, "")
		if res.Approvals != step.removed || res.More != (step.bounds.Limit > 0) || (err == nil) != step.left || (got.Arguments != nil) != step.arguments {
			t.Errorf("%+v removed %+v, and left %+v, %v", step.bounds, res, got.Arguments, err)
		}
	}
	if n := total(a.ListApprovals(ctx, store.ApprovalFilter{}, store.Page{})); n != 0 {
		t.Errorf("%d approvals left", n)
	}
	if again := a.request(aCall("key:bob", 1)); !again.Created {
		t.Error("a removed approval is found")
	}
}
