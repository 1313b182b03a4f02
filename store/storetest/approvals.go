package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// approver is a tenant with the key of a gateway and the key of a person who decides.
type approver struct {
	testing.TB
	Tenant
	clock   *Ticking
	gateway string
	person  string
	calls   int
}

func newApprover(t testing.TB, o Opened) *approver {
	t.Helper()
	a := &approver{TB: t, Tenant: NewTenant(t, o, "t"), clock: o.Clock}
	a.gateway = a.key(store.KeyCreate{Name: "gateway", Scope: store.ScopeIngest, Prefix: "svc_ingest_abcd"})
	must(a.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "usr_Ann", "Ann@example.com")))(t)
	a.person = a.key(store.KeyCreate{Name: "ann", Scope: store.ScopeAPI, CreatedBy: "usr_Ann"})
	return a
}

func (a *approver) key(in store.KeyCreate) string {
	a.Helper()
	a.calls++
	in.Digest = store.DigestKey(fmt.Sprint(a.ID(), " ", a.calls))
	if in.CreatedBy == "" {
		in.CreatedBy = store.DefaultAdminID
	}
	return must(a.CreateKey(ctx, in))(a).ID
}

// aCall is a call of the tool pay by a principal.
func aCall(principal string, digest int, reasons ...string) store.ApprovalCall {
	c := store.ApprovalCall{Digest: fmt.Sprintf("%064x", digest), KeyTag: "00c0ffee", Tool: "pay", Method: "tools/call", AgentName: "billing",
		Principal: principal, Upstream: "bank", Gateway: "gw", RequestID: "req", ValidFor: time.Hour, Expires: 24 * time.Hour,
		NotSelf: store.SelfForbidden, Show: store.ShowAll,
		Arguments: []store.ApprovalArgument{{Pointer: "/amount", Value: "12", Tag: fmt.Sprintf("%08x", digest)}, {Pointer: "/to", Value: `"x"`, Tag: "1"}}}
	for _, r := range append(reasons, "r1")[:max(len(reasons), 1)] {
		c.Reasons = append(c.Reasons, store.ApprovalReason{RuleID: r})
	}
	return c
}

func (a *approver) request(c store.ApprovalCall) store.ApprovalOutcome {
	a.Helper()
	return must(a.RequestApproval(ctx, a.gateway, c))(a)
}

func (a *approver) decide(id, decision string) store.Approval {
	a.Helper()
	return must(a.DecideApproval(ctx, id, store.ApprovalDecision{KeyID: a.person, Decision: decision, Note: "n"}))(a)
}

func (a *approver) claim(of store.Approval, nonce string) store.ApprovalClaim {
	return store.ApprovalClaim{KeyID: a.gateway, Nonce: nonce, Digest: of.Digest}
}

// status checks the status in every read: of one approval, and of the lists.
func (a *approver) status(id, want string) store.Approval {
	a.Helper()
	got := must(a.GetApproval(ctx, id, a.person, ""))(a)
	if got.Status != want {
		a.Fatalf("approval %s is %s, want %s", id, got.Status, want)
	}
	for _, f := range []string{"", want} {
		list := first(a.ListApprovals(ctx, store.ApprovalFilter{Status: f}, store.Page{}))
		if f != "" && want == store.ApprovalExpired {
			continue // listed when EndApprovals has run
		}
		if i := slices.IndexFunc(list, func(o store.Approval) bool { return o.ID == id }); i < 0 || list[i].Status != want || list[i].Arguments != nil {
			a.Errorf("the list of status %q has %+v, want %s as %s", f, list, id, want)
		}
	}
	return got
}

func testApprovals(t testing.TB, o Opened) {
	a := newApprover(t, o)
	made := a.request(aCall("key:bob", 1))
	if !made.Created || made.Status != store.ApprovalPending || !made.Until.Equal(made.CreatedAt.Add(24*time.Hour)) || made.RequestedBy.Prefix != "svc_ingest_abcd" {
		t.Fatalf("made %+v", made)
	}
	if again := a.request(aCall("key:bob", 1)); again.Created || again.ID != made.ID {
		t.Errorf("the same call again: %+v", again)
	}
	if other := must(a.RequestApproval(ctx, a.key(store.KeyCreate{Scope: store.ScopeIngest}), aCall("key:bob", 1)))(t); !other.Created {
		t.Error("another key's approval was returned")
	}
	if got := a.status(made.ID, store.ApprovalPending); len(got.Arguments) != 2 || got.Arguments[0].Value != "12" {
		t.Errorf("arguments %+v", got.Arguments)
	}
	_, err := a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "1"))
	wantKind(t, err, store.Conflict, "")
	granted := a.decide(made.ID, store.DecisionGrant)
	if granted.GrantedBy() != "usr_Ann" || granted.Until.Sub(granted.Decisions[0].At) != time.Hour || granted.Decisions[0].Note != "n" {
		t.Errorf("granted %+v", granted)
	}
	if again := a.decide(made.ID, store.DecisionGrant); len(again.Decisions) != 1 {
		t.Errorf("decided twice: %+v", again.Decisions)
	}
	_, err = a.DecideApproval(ctx, made.ID, store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionDeny})
	wantKind(t, err, store.Conflict, "decision")
	if known := a.request(aCall("key:bob", 1)); known.ID != made.ID || known.Status != store.ApprovalGranted {
		t.Errorf("a granted call is %+v", known)
	}
	for _, bad := range []store.ApprovalClaim{{KeyID: a.person, Nonce: "1", Digest: made.Digest}, {KeyID: a.gateway, Nonce: "1", Digest: "x"}} {
		_, err = a.ClaimApproval(ctx, made.ID, bad)
		wantKind(t, err, map[bool]store.Kind{true: store.NotFound, false: store.Conflict}[bad.Digest != "x"], "")
	}
	for range 2 {
		if used := must(a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "1")))(t); used.Status != store.ApprovalUsed || used.GrantedBy() != "usr_Ann" {
			t.Errorf("claimed %+v", used)
		}
	}
	_, err = a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "2"))
	wantKind(t, err, store.Conflict, "")
	a.status(made.ID, store.ApprovalUsed)

	// Release: by the nonce of the claim, within its time, and never for that nonce again.
	_, err = a.ReleaseApproval(ctx, made.ID, a.claim(made.Approval, "2"))
	wantKind(t, err, store.Conflict, "nonce")
	for range 2 {
		if back := must(a.ReleaseApproval(ctx, made.ID, a.claim(made.Approval, "1")))(t); back.Status != store.ApprovalGranted || !back.Until.Equal(granted.Until) {
			t.Errorf("released %+v", back)
		}
	}
	_, err = a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "1"))
	wantKind(t, err, store.Conflict, "nonce")
	must(a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "3")))(t)
	o.Clock.Advance(store.ReleaseWithin + time.Second)
	_, err = a.ReleaseApproval(ctx, made.ID, a.claim(made.Approval, "3"))
	wantKind(t, err, store.Conflict, "")
	next := a.request(aCall("key:bob", 1))
	if !next.Created {
		t.Error("a used approval is found again")
	}
	must(a.ClaimApproval(ctx, a.decide(next.ID, store.DecisionGrant).ID, a.claim(next.Approval, "4")))(t)
	if again := a.request(aCall("key:bob", 1)); !again.Created {
		t.Error("a used approval is found again")
	}
	_, err = a.ReleaseApproval(ctx, next.ID, a.claim(next.Approval, "4"))
	wantKind(t, err, store.Conflict, "")

	// A refusal is remembered, and a revoked grant is one.
	for i, decisions := range [][]string{{store.DecisionDeny}, {store.DecisionGrant, store.DecisionRevoke}} {
		made := a.request(aCall("key:bob", 10+i))
		for _, d := range decisions {
			a.decide(made.ID, d)
		}
		if known := a.request(aCall("key:bob", 10+i, "r2")); known.ID != made.ID || known.Status != store.ApprovalDenied {
			t.Errorf("after %v: %+v", decisions, known)
		}
		a.status(made.ID, store.ApprovalDenied)
		_, err = a.ClaimApproval(ctx, made.ID, a.claim(made.Approval, "1"))
		wantKind(t, err, store.Conflict, "")
		o.Clock.Advance(time.Hour)
		if got := a.status(made.ID, store.ApprovalDenied); !got.Until.IsZero() {
			t.Errorf("a refusal is remembered until %v", got.Until)
		}
		if again := a.request(aCall("key:bob", 10+i)); !again.Created {
			t.Error("a refusal is remembered for ever")
		}
	}
	for _, err := range []error{second(a.GetApproval(ctx, "apr_x", a.person, "")), second(a.ClaimApproval(ctx, "apr_x", store.ApprovalClaim{})),
		second(a.DecideApproval(ctx, "apr_x", store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionGrant}))} {
		wantKind(t, err, store.NotFound, "")
	}
	list, _, err := a.ListAuditEvents(ctx, store.AuditEventFilter{Kind: "approval", ObjectID: granted.ID}, store.Page{})
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Changed, []string{"decision", "note", "status"}) || list[0].Name != "pay" {
		t.Errorf("events of a decision: %+v, %v", list, err)
	}
}

// testApprovalRace: of concurrent claims by several processes one wins.
func testApprovalRace(t testing.TB, o Opened) {
	a := newApprover(t, o)
	handles := []store.Approvals{a.Tenant.Tenant}
	if o.Another != nil {
		records, _ := o.Another(t)
		handles = append(handles, records.Tenant(a.ID()))
	}
	var made atomic.Int32
	race(racers, func(i int) {
		if out, err := handles[i%len(handles)].RequestApproval(ctx, a.gateway, aCall("key:bob", 1)); err != nil {
			t.Error(err)
		} else if out.Created {
			made.Add(1)
		}
	})
	one := a.request(aCall("key:bob", 1))
	a.decide(one.ID, store.DecisionGrant)
	var won atomic.Int32
	race(racers, func(i int) {
		switch _, err := handles[i%len(handles)].ClaimApproval(ctx, one.ID, a.claim(one.Approval, fmt.Sprint(i))); {
		case err == nil:
			won.Add(1)
		case store.KindOf(err) != store.Conflict:
			t.Error(err)
		}
	})
	if made.Load() != 1 || won.Load() != 1 {
		t.Errorf("%d made and %d claimed of %d, want 1 and 1", made.Load(), won.Load(), racers)
	}
}

// testApprovalMerge: reasons and terms of several requests for one call.
func testApprovalMerge(t testing.TB, o Opened) {
	a := newApprover(t, o)
	one := a.request(aCall("oauth:bob", 1))
	stricter := aCall("oauth:bob", 1, "r2", "r1")
	stricter.ValidFor, stricter.Expires, stricter.NotSelf, stricter.Show, stricter.Persons = time.Minute, time.Hour, store.SelfStrict, store.ShowNone, []string{"bob"}
	for _, c := range []store.ApprovalCall{stricter, aCall("oauth:bob", 1)} { // laxer terms change nothing
		got := a.request(c)
		if got.ID != one.ID || len(got.Reasons) != 2 || got.ValidFor != time.Minute || !got.Until.Equal(one.CreatedAt.Add(time.Hour)) || got.NotSelf != store.SelfStrict || len(got.Persons) != 1 {
			t.Errorf("merged %+v", got.Approval)
		}
	}
	if got := a.status(one.ID, store.ApprovalPending); got.Arguments != nil {
		t.Errorf("arguments that must not be shown: %+v", got.Arguments)
	}
	for _, read := range []int{0, 1, 3} { // of what was merged nobody has read
		_, err := a.DecideApproval(ctx, one.ID, store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionGrant, Version: read})
		wantKind(t, err, store.Conflict, "version")
	}
	if got := must(a.DecideApproval(ctx, one.ID, store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionGrant, Version: 2}))(t); got.Version != 2 {
		t.Errorf("granted %+v", got)
	}
	if got := a.request(aCall("oauth:bob", 1, "r2")); got.ID != one.ID || got.Status != store.ApprovalGranted {
		t.Errorf("one of two reasons: %+v", got)
	}
	other := a.request(aCall("oauth:bob", 1, "r1", "r3"))
	if !other.Created || other.Status != store.ApprovalPending || len(other.Reasons) != 2 {
		t.Errorf("a reason that was not approved: %+v", other)
	}
	a.status(one.ID, store.ApprovalExpired)
	_, err := a.ClaimApproval(ctx, one.ID, a.claim(one.Approval, "1"))
	wantKind(t, err, store.Conflict, "")
	var many []string
	for i := range store.MaxApprovalReasons {
		many = append(many, fmt.Sprint("m", i))
	}
	if got := a.request(aCall("oauth:bob", 1, many...)); !got.Created || len(got.Reasons) != store.MaxApprovalReasons {
		t.Errorf("more reasons than the bound: %+v", got)
	}
	a.status(other.ID, store.ApprovalExpired)

	// Terms whose time is over already make another one.
	o.Clock.Advance(2 * time.Second)
	short := aCall("oauth:bob", 1)
	short.Expires = time.Second
	if got := a.request(short); !got.Created || got.Expires != time.Second {
		t.Errorf("over by the stricter terms: %+v", got)
	}
	// Two session keys under one API key.
	c := aCall("oauth:bob", 2)
	for i, step := range []struct {
		tag string
		new bool
		n   int
	}{{"00c0ffee", false, 1}, {"0badcafe", true, 2}, {"00c0ffee", false, 2}, {"0badcafe", false, 2}} {
		c.KeyTag = step.tag
		if got := a.request(c); got.NewKeyTag != step.new || must(a.GetKey(ctx, a.gateway))(t).SessionKeys != step.n {
			t.Errorf("tag %d: new %v, %d", i, got.NewKeyTag, must(a.GetKey(ctx, a.gateway))(t).SessionKeys)
		}
	}
	o.Clock.Advance(store.KeyTagsWithin)
	if n := must(a.GetKey(ctx, a.gateway))(t).SessionKeys; n != 0 {
		t.Errorf("%d session keys after a day", n)
	}
}

// testApprovalDeciders: who may decide, and read the arguments.
func testApprovalDeciders(t testing.TB, o Opened) {
	a := newApprover(t, o)
	team := must(a.CreateTeam(ctx, store.TeamCreate{Name: "team", Scopes: []string{"policies:write"}}))(t)
	limited := a.key(store.KeyCreate{Name: "limited", Scope: store.ScopeAPI, TeamID: team.ID})
	others := must(a.CreateTeam(ctx, store.TeamCreate{Name: "others", Scopes: []string{"policies:write"}}))(t)
	of := func(name, team string) store.Agent {
		return must(a.CreateAgent(ctx, store.AgentCreate{Name: name, TeamID: team}))(t)
	}
	name, none := "of the team", ""
	must(a.UpdateAgent(ctx, of("formerly", team.ID).ID, store.AgentUpdate{Name: &name}))(t)
	of("of others", others.ID)
	must(a.UpdateAgent(ctx, of("left", team.ID).ID, store.AgentUpdate{TeamID: &none}))(t)
	if err := a.DeleteAgent(ctx, of("gone", team.ID).ID); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, test := range map[string]struct {
		key     string
		change  func(*store.ApprovalCall)
		refused bool // a grant; a strict one alone can be denied, and is read
	}{
		"somebody else":                  {a.person, func(*store.ApprovalCall) {}, false},
		"the id, in other case":          {a.person, func(c *store.ApprovalCall) { c.Persons = []string{"x", " USR_ANN "} }, true},
		"the address, in other case":     {a.person, func(c *store.ApprovalCall) { c.Persons = []string{"ANN@Example.COM"} }, true},
		"the principal":                  {a.person, func(c *store.ApprovalCall) { c.Principal = "oauth:ann@example.com" }, true},
		"the principal with its kind":    {a.person, func(c *store.ApprovalCall) { c.Principal = "usr_Ann" }, true},
		"the caller where that is right": {a.person, func(c *store.ApprovalCall) { c.Principal, c.NotSelf = "oauth:usr_ann", store.SelfAllowed }, false},
		"strict, an unknown caller":      {a.person, func(c *store.ApprovalCall) { c.NotSelf = store.SelfStrict }, true},
		"strict, a known caller":         {a.person, func(c *store.ApprovalCall) { c.NotSelf, c.Persons = store.SelfStrict, []string{"bob"} }, false},
		"a user without an address":      {"", func(c *store.ApprovalCall) { c.Persons = []string{""} }, false},
		"another team":                   {limited, func(*store.ApprovalCall) {}, true},
		"an agent of the team":           {limited, func(c *store.ApprovalCall) { c.AgentName = "of the team" }, false},
		"its former name":                {limited, func(c *store.ApprovalCall) { c.AgentName = "formerly" }, false},
		"an agent of another team":       {limited, func(c *store.ApprovalCall) { c.AgentName = "of others" }, true},
		"an agent that left the team":    {limited, func(c *store.ApprovalCall) { c.AgentName = "left" }, true},
		"an agent that is gone":          {limited, func(c *store.ApprovalCall) { c.AgentName = "gone" }, true},
	} {
		n++
		c := aCall("key:bob", n)
		test.change(&c)
		made := a.request(c)
		if test.key == "" {
			test.key = first(a.ListKeys(ctx, store.KeyFilter{Scope: store.ScopeAPI}, store.Page{}))[2].ID // of the administrator
		}
		denies := !test.refused || c.NotSelf == store.SelfStrict
		if got := must(a.GetApproval(ctx, made.ID, test.key, ""))(t); denies != (got.Arguments != nil) && test.key != limited {
			t.Errorf("%s: reads %+v", name, got.Arguments)
		}
		if test.key == limited {
			got, err := a.GetApproval(ctx, made.ID, limited, team.ID)
			list, n, listErr := a.ListApprovals(ctx, store.ApprovalFilter{TeamID: team.ID}, store.Page{Limit: 1})
			open := total(a.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalPending, TeamID: team.ID}, store.Page{}))
			if listErr != nil || (err == nil) == test.refused || (got.Arguments == nil) != test.refused || (len(list) == 1 && list[0].ID == made.ID) == test.refused ||
				len(list) != min(n, 1) || open > n {
				t.Errorf("%s: a key of the team reads %+v, %v, and lists %+v of %d, %d open", name, got, err, list, n, open)
			}
		}
		late := a.key(store.KeyCreate{Name: "late", Scope: store.ScopeAPI})
		for _, d := range []string{store.DecisionGrant, store.DecisionDeny} {
			_, err := a.DecideApproval(ctx, made.ID, store.ApprovalDecision{KeyID: late, Decision: d})
			wantKind(t, err, store.Forbidden, "")
		}
		if got := must(a.GetApproval(ctx, made.ID, late, ""))(t); got.Arguments != nil {
			t.Error("a later key reads the arguments")
		}
		_, err := a.DecideApproval(ctx, made.ID, store.ApprovalDecision{KeyID: test.key, Decision: store.DecisionGrant})
		want := store.Forbidden
		if test.key == limited {
			want = store.NotFound
		}
		if refused := store.KindOf(err) == want; refused != test.refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if test.refused {
			if _, err := a.DecideApproval(ctx, made.ID, store.ApprovalDecision{KeyID: test.key, Decision: store.DecisionDeny}); (err == nil) != denies {
				t.Errorf("%s: a denial: %v", name, err)
			}
		}
		if err := a.DeleteKey(ctx, late); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"", "key_x", a.gateway} {
		if got, err := a.GetApproval(ctx, a.request(aCall("key:x", 99)).ID, id, ""); err != nil || id != a.gateway && got.Arguments != nil {
			t.Errorf("%q reads %+v, %v", id, got.Arguments, err)
		}
	}
}

// testApprovalMessages: each change that a message is about queues it once, in the transaction
// of the change, and no message has arguments.
func testApprovalMessages(t testing.TB, o Opened) {
	a := newApprover(t, o)
	team := must(a.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	agent := must(a.CreateAgent(ctx, store.AgentCreate{Name: "billing", Environment: "staging", TeamID: team.ID}))(t)
	events := []string{store.EventApprovalRequested, store.EventApprovalDecided, store.EventApprovalExpired}
	all := webhook(t, a.Tenant, "all", events...)
	var limited []string
	for name, in := range map[string]store.WebhookCreate{"team": {TeamID: team.ID}, "environment": {Environment: "staging"}, "agent": {AgentID: agent.ID}} {
		in.Name, in.Events, in.Enabled = name, events, true
		limited = append(limited, must(a.CreateWebhook(ctx, in))(t).ID)
	}
	other := must(a.CreateWebhook(ctx, store.WebhookCreate{Name: "other", Environment: "production", Events: events, Enabled: true}))(t)

	const secret = "SECRET-ARGUMENT"
	call := func(digest int, reasons ...string) store.ApprovalCall {
		c := aCall("oauth:bob@example.com", digest, reasons...)
		c.Arguments[0].Value, c.Persons = secret, []string{secret}
		return c
	}
	var want []string // the types and the statuses of the messages so far
	expect := func(what string, more ...string) {
		t.Helper()
		want = append(want, more...)
		for _, hook := range append(limited, all.ID) {
			list := queued(t, a.Tenant, hook)
			got := ids(list, func(d store.Delivery) string { return fmt.Sprintf("%s %v", d.Event.Type, d.Event.Data["status"]) })
			if !slices.Equal(got, want) {
				t.Errorf("%s: queued are %q, want %q", what, got, want)
			}
			for i := range list {
				if text := fmt.Sprintf("%+v", list[i]); strings.Contains(text, secret) || strings.Contains(text, "bob@") || strings.Contains(text, "/amount") {
					t.Errorf("%s: the message has what it must not have: %s", what, text)
				}
			}
		}
		if list := queued(t, a.Tenant, other.ID); len(list) != 0 {
			t.Errorf("%s: a webhook for other agents gets %+v", what, list)
		}
	}
	if o.Fail != nil {
		o.Fail(func() error { return errors.New("disk") })
		if _, err := a.RequestApproval(ctx, a.gateway, call(1)); err == nil {
			t.Error("a failed write was no error")
		}
		o.Fail(nil)
		expect("a failed write")
	}
	one := a.request(call(1))
	a.request(call(1))
	expect("requested", "approval.requested pending")
	expect("requested again")
	for range 2 {
		a.decide(one.ID, store.DecisionGrant)
	}
	expect("granted", "approval.decided granted")
	if d := queued(t, a.Tenant, all.ID)[1].Event; d.Data["decision"] != store.DecisionGrant || d.Data["decidedBy"] != "usr_Ann" || d.Data["selfCheck"] != "known" || d.Subject != (store.Subject{Kind: "approval", ID: one.ID, Name: "pay"}) {
		t.Errorf("event %+v", d)
	}
	must(a.ClaimApproval(ctx, one.ID, a.claim(one.Approval, "1")))(t)
	must(a.ReleaseApproval(ctx, one.ID, a.claim(one.Approval, "1")))(t)
	expect("claimed and released")
	a.request(call(1, "r3"))
	expect("superseded", "approval.expired expired", "approval.requested pending")
	two := a.request(call(2))
	a.request(call(2, "r1", "r2")) // a further reason
	if two = a.request(call(2)); two.Version != 2 {
		t.Errorf("merged %+v", two)
	}
	must(a.DecideApproval(ctx, two.ID, store.ApprovalDecision{KeyID: a.person, Decision: store.DecisionGrant, Version: two.Version}))(t)
	a.decide(two.ID, store.DecisionRevoke)
	a.decide(a.request(call(3)).ID, store.DecisionDeny)
	expect("revoked and denied", "approval.requested pending", "approval.decided granted", "approval.decided denied", "approval.requested pending", "approval.decided denied")
	o.Clock.Advance(24 * time.Hour)
	for range 2 {
		if _, _, err := a.EndApprovals(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expect("after the time", "approval.expired expired")
}
