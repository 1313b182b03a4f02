package storetest

import (
	"testing"
	"time"

	"svc/store"
)

// userAt returns a user event at a minute of a fixed hour.
func userAt(minute int, typ store.UserEventType, id, email string) store.UserEvent {
	return store.UserEvent{Type: typ, CreatedAt: time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC), UserID: id, Email: email}
}

func testUserEvents(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	apply := func(ev store.UserEvent) store.UserEventOutcome {
		t.Helper()
		return must(tn.ApplyUserEvent(ctx, ev))(t)
	}
	created := userAt(1, store.UserCreated, "u", "U@x.io")
	created.DisplayName = "Uma"
	if out := apply(created); !out.Applied || out.User.Status != store.UserActive || out.User.Role != store.DefaultRole || out.User.Email != "u@x.io" {
		t.Errorf("created: %+v", out)
	}
	if out := apply(created); out.Applied {
		t.Error("a replay was applied")
	}
	digest := store.DigestKey("of u")
	must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: "u"}))(t)
	must(tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "u"}))(t)

	if out := apply(userAt(2, store.UserUpdated, "u", "new@x.io")); out.User.Email != "new@x.io" || out.User.DisplayName != "Uma" {
		t.Errorf("updated: %+v", out.User)
	}
	apply(userAt(3, store.UserSuspended, "u", ""))
	_, err := o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")
	_, err = tn.CreateKey(ctx, store.KeyCreate{Name: "k", Digest: store.DigestKey("z"), CreatedBy: "u"})
	wantKind(t, err, store.Invalid, "userId")
	apply(userAt(4, store.UserReactivated, "u", ""))
	must(o.Records.Authenticate(ctx, digest))(t)
	apply(userAt(5, store.SessionTerminated, "u", ""))
	if u := must(tn.GetUser(ctx, "u"))(t); u.LastSessionEndedAt.Minute() != 5 {
		t.Errorf("session end not recorded: %+v", u)
	}
	if out := apply(store.UserEvent{Type: "user.unheard_of", CreatedAt: o.Clock.Now(), UserID: "u"}); out.Applied {
		t.Error("an unknown type was applied")
	}
	out := apply(userAt(6, store.UserRemoved, "u", ""))
	if out.KeysDeleted != 1 || out.MembershipsDeleted != 1 {
		t.Errorf("deleted: %+v", out)
	}
	_, err = o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")
	_, err = tn.GetUser(ctx, "u")
	wantKind(t, err, store.NotFound, "")
	if n := must(tn.GetTeam(ctx, team.ID))(t).MemberCount; n != 0 {
		t.Errorf("memberCount %d after deletion", n)
	}
	_, err = tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "u"})
	wantKind(t, err, store.Invalid, "userId")
	if list, total, err := tn.ListUserEvents(ctx, store.Page{Limit: 1}); err != nil || total != 8 || list[0].Event.Type != store.UserRemoved || !list[0].Applied {
		t.Errorf("events %+v, %d, %v", list, total, err)
	}
	_, err = tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, CreatedAt: o.Clock.Now()})
	wantKind(t, err, store.Invalid, "data.userId")
	_, err = tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, UserID: "x"})
	wantKind(t, err, store.Invalid, "createdAt")
}

// testUserEventOrder delivers events late and twice, in every order: the final
// state is that of the newest events.
func testUserEventOrder(t testing.TB, o Opened) {
	for _, row := range []struct {
		name   string
		events []store.UserEvent
		status store.UserStatus
		email  string
	}{
		{"deleted before created", []store.UserEvent{userAt(5, store.UserRemoved, "", ""), userAt(1, store.UserCreated, "", "a@x.io")}, store.UserDeleted, ""},
		{"deleted then late reactivated", []store.UserEvent{userAt(1, store.UserCreated, "", "a@x.io"), userAt(5, store.UserRemoved, "", ""), userAt(4, store.UserReactivated, "", "")}, store.UserDeleted, ""},
		{"deleted then newer update", []store.UserEvent{userAt(5, store.UserRemoved, "", ""), userAt(6, store.UserUpdated, "", "a@x.io")}, store.UserDeleted, ""},
		{"deleted then created anew", []store.UserEvent{userAt(5, store.UserRemoved, "", ""), userAt(6, store.UserCreated, "", "a@x.io")}, store.UserActive, "a@x.io"},
		{"retried deactivation", []store.UserEvent{userAt(1, store.UserCreated, "", "a@x.io"), userAt(2, store.UserSuspended, "", ""), userAt(3, store.UserReactivated, "", ""), userAt(2, store.UserSuspended, "", "")}, store.UserActive, "a@x.io"},
		{"deactivated before created", []store.UserEvent{userAt(2, store.UserSuspended, "", "a@x.io"), userAt(1, store.UserCreated, "", "a@x.io")}, store.UserDeactivated, "a@x.io"},
		{"late update after deactivation", []store.UserEvent{userAt(1, store.UserCreated, "", "a@x.io"), userAt(3, store.UserSuspended, "", ""), userAt(2, store.UserUpdated, "", "b@x.io")}, store.UserDeactivated, "b@x.io"},
		{"older update", []store.UserEvent{userAt(1, store.UserCreated, "", "a@x.io"), userAt(3, store.UserUpdated, "", "c@x.io"), userAt(2, store.UserUpdated, "", "b@x.io")}, store.UserActive, "c@x.io"},
		{"update before created", []store.UserEvent{userAt(2, store.UserUpdated, "", "b@x.io"), userAt(1, store.UserCreated, "", "a@x.io")}, store.UserActive, "b@x.io"},
		{"one time", []store.UserEvent{userAt(1, store.UserRemoved, "", ""), userAt(1, store.UserCreated, "", "a@x.io")}, store.UserDeleted, ""},
	} {
		tn := NewTenant(t, o, row.name)
		var last store.UserEventOutcome
		for range 2 { // deliver all events once more
			for _, ev := range row.events {
				ev.UserID = "u"
				last = must(tn.ApplyUserEvent(ctx, ev))(t)
			}
		}
		if last.User.Status != row.status || last.User.Email != row.email {
			t.Errorf("%s: user is %s with %q, want %s with %q", row.name, last.User.Status, last.User.Email, row.status, row.email)
		}
	}
}

func testInvitedUsers(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	one := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "one"}))(t)
	two := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "two"}))(t)
	invited := must(tn.AddMember(ctx, one.ID, store.MemberAdd{Email: "ann@x.io", Role: "owner"}))(t)
	must(tn.AddMember(ctx, two.ID, store.MemberAdd{Email: "ann@x.io"}))(t)
	must(tn.AddMember(ctx, two.ID, store.MemberAdd{UserID: "idp_ann"}))(t) // the same person, not recognized as such yet
	digest := store.DigestKey("of ann")
	must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: invited.UserID}))(t)
	must(o.Records.Authenticate(ctx, digest))(t)

	out := must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "idp_ann", "Ann@x.io")))(t)
	if !out.Applied || out.User.Status != store.UserActive {
		t.Errorf("announced: %+v", out)
	}
	_, err := tn.GetUser(ctx, invited.UserID)
	wantKind(t, err, store.NotFound, "")
	if list := must(tn.ListMembers(ctx, one.ID))(t); len(list) != 1 || list[0].UserID != "idp_ann" || list[0].Role != "owner" || list[0].Email != "ann@x.io" {
		t.Errorf("members of one: %+v", list)
	}
	if list := must(tn.ListMembers(ctx, two.ID))(t); len(list) != 1 || must(tn.GetTeam(ctx, two.ID))(t).MemberCount != 1 {
		t.Errorf("members of two: %+v", list)
	}
	if cred := must(o.Records.Authenticate(ctx, digest))(t); cred.Key.CreatedBy != "idp_ann" {
		t.Errorf("key belongs to %s", cred.Key.CreatedBy)
	}
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserSuspended, "idp_ann", "")))(t)
	_, err = o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")

	byID := must(tn.AddMember(ctx, one.ID, store.MemberAdd{UserID: "idp_bob"}))(t)
	out = must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "idp_bob", "bob@x.io")))(t)
	if byID.UserID != "idp_bob" || out.User.Status != store.UserActive || out.User.Email != "bob@x.io" {
		t.Errorf("invited by id: %+v", out.User)
	}
}

// testInvitedUserIsDeleted: a deletion that arrives as the first event of a user
// ends the access of the invitation of the user's address, and a late, older
// announcement does not restore it.
func testInvitedUserIsDeleted(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	invited := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "ann@x.io"}))(t)
	digest := store.DigestKey("of ann")
	must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: invited.UserID}))(t)

	out := must(tn.ApplyUserEvent(ctx, userAt(5, store.UserRemoved, "idp_ann", "ann@x.io")))(t)
	if out.KeysDeleted != 1 || out.MembershipsDeleted != 1 {
		t.Errorf("deleted: %+v", out)
	}
	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "idp_ann", "ann@x.io")))(t)
	_, err := o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")
	if list := must(tn.ListMembers(ctx, team.ID))(t); len(list) != 0 || must(tn.GetTeam(ctx, team.ID))(t).MemberCount != 0 {
		t.Errorf("members left: %+v", list)
	}
	again := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "ann@x.io"}))(t)
	if again.UserID == invited.UserID || again.UserID == "idp_ann" {
		t.Errorf("a new invitation revives %s", again.UserID)
	}

	// The deletion of a known user does not affect the invitation of another
	// user.
	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "idp_bob", "bob@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserRemoved, "idp_bob", "ann@x.io")))(t)
	if list := must(tn.ListMembers(ctx, team.ID))(t); len(list) != 1 {
		t.Errorf("members %+v, want the invited one", list)
	}
}

// testInvitedAddressMovesOn: when an invited user turns out to be a user who now
// has another address, the invited address is free again.
func testInvitedAddressMovesOn(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	one := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "one"}))(t)
	invited := must(tn.AddMember(ctx, one.ID, store.MemberAdd{Email: "old@x.io"}))(t)
	must(tn.ApplyUserEvent(ctx, userAt(9, store.UserCreated, "idp_ann", "new@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserUpdated, "idp_ann", "old@x.io")))(t) // a late event
	if list := must(tn.ListMembers(ctx, one.ID))(t); len(list) != 1 || list[0].UserID != "idp_ann" || list[0].Email != "new@x.io" {
		t.Errorf("members %+v", list)
	}
	two := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "two"}))(t)
	if m := must(tn.AddMember(ctx, two.ID, store.MemberAdd{Email: "old@x.io"}))(t); m.UserID == invited.UserID {
		t.Errorf("%s was merged into another user and is invited again", m.UserID)
	}
}

// testInvitedAddressIsTaken: a user who takes the invited address of somebody
// else, or whose first event is an update with that address, does not get the
// invitation. The user who is announced with the address gets it.
func testInvitedAddressIsTaken(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	invited := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "boss@x.io", Role: "owner"}))(t)
	digest := store.DigestKey("of boss")
	must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: invited.UserID}))(t)
	stays := func(after string) {
		t.Helper()
		if list := must(tn.ListMembers(ctx, team.ID))(t); len(list) != 1 || list[0].UserID != invited.UserID || list[0].Email != "boss@x.io" {
			t.Errorf("%s: members %+v", after, list)
		}
		if cred := must(o.Records.Authenticate(ctx, digest))(t); cred.Key.CreatedBy != invited.UserID {
			t.Errorf("%s: the key belongs to %s", after, cred.Key.CreatedBy)
		}
	}
	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "mallory", "mallory@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserUpdated, "mallory", "boss@x.io")))(t)
	stays("an announced user took the address")
	must(tn.ApplyUserEvent(ctx, userAt(3, store.UserSuspended, "mallory", "boss@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(4, store.UserReactivated, "mallory", "boss@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(5, store.UserRemoved, "mallory", "boss@x.io")))(t)
	stays("that user was suspended and deleted")
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserUpdated, "trudy", "boss@x.io")))(t)
	must(tn.ApplyUserEvent(ctx, userAt(3, store.UserReactivated, "trent", "boss@x.io")))(t)
	stays("users who were never announced took the address")

	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "idp_boss", "boss@x.io")))(t)
	if list := must(tn.ListMembers(ctx, team.ID))(t); len(list) != 1 || list[0].UserID != "idp_boss" || list[0].Role != "owner" {
		t.Errorf("members after the announcement: %+v", list)
	}
	if cred := must(o.Records.Authenticate(ctx, digest))(t); cred.Key.CreatedBy != "idp_boss" {
		t.Errorf("after the announcement the key belongs to %s", cred.Key.CreatedBy)
	}
}

// testInvitedAndNeverAnnounced: a user who existed at the provider before it was
// connected is never announced. A suspension or a deletion ends the access of an
// invitation of the user's address.
func testInvitedAndNeverAnnounced(t testing.TB, o Opened) {
	for _, typ := range []store.UserEventType{store.UserSuspended, store.UserRemoved} {
		for _, known := range []bool{false, true} {
			tn := NewTenant(t, o, string(typ)+map[bool]string{true: " known"}[known])
			team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
			invited := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "ann@x.io"}))(t)
			digest := store.DigestKey("of ann in " + tn.ID())
			must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: invited.UserID}))(t)
			email := "ann@x.io"
			if known { // by an event about the profile; the event about the state has no address
				must(tn.ApplyUserEvent(ctx, userAt(1, store.UserUpdated, "idp_ann", email)))(t)
				email = ""
			}
			must(tn.ApplyUserEvent(ctx, userAt(2, typ, "idp_ann", email)))(t)
			_, err := o.Records.Authenticate(ctx, digest)
			wantKind(t, err, store.Unauthorized, "")
		}
	}
}

// testEventDatedInTheFuture: an event with a date in the future counts as of its
// receipt, so that later events take effect.
func testEventDatedInTheFuture(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	digest := store.DigestKey("of u")
	at := func(typ store.UserEventType, ahead time.Duration) store.UserEventOutcome {
		t.Helper()
		o.Clock.Advance(time.Minute)
		return must(tn.ApplyUserEvent(ctx, store.UserEvent{Type: typ, CreatedAt: o.Clock.Now().Add(ahead), UserID: "u", Email: "u@x.io"}))(t)
	}
	const year = 365 * 24 * time.Hour
	at(store.UserCreated, year)
	must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: digest, CreatedBy: "u"}))(t)
	at(store.UserReactivated, year)
	at(store.SessionTerminated, year)
	if out := at(store.UserUpdated, 0); !out.Applied {
		t.Error("an update of today was taken for older than one dated in the future")
	}
	if out := at(store.SessionTerminated, 0); !out.Applied {
		t.Error("an end of session of today was taken for older than one dated in the future")
	}
	if out := at(store.UserSuspended, 0); out.User.Status != store.UserDeactivated {
		t.Errorf("suspended today: %+v", out)
	}
	_, err := o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")
	if out := at(store.UserReactivated, 0); out.User.Status != store.UserActive {
		t.Errorf("reactivated today: %+v", out)
	}
	if out := at(store.UserRemoved, 0); out.User.Status != store.UserDeleted || out.KeysDeleted != 1 {
		t.Errorf("deleted today: %+v", out)
	}
	list, _, err := tn.ListUserEvents(ctx, store.Page{})
	if err != nil || len(list) != 8 || !list[7].Event.CreatedAt.After(list[7].ReceivedAt) {
		t.Errorf("the events are not recorded as they came: %+v, %v", list, err)
	}
}
