package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"svc/store"
)

// digestOf is the digest of a session's secret.
func digestOf(secret string, n int) store.KeyDigest { return store.DigestKey(fmt.Sprint(secret, n)) }

// begin begins a session of a key.
func begin(t testing.TB, tn Tenant, key string, digest store.KeyDigest) {
	t.Helper()
	if err := tn.CreateSession(ctx, key, digest); err != nil {
		t.Fatal(err)
	}
}

// lasts reports whether a session can be resumed.
func lasts(t testing.TB, tn Tenant, key string, digest store.KeyDigest) bool {
	t.Helper()
	cred, err := tn.ResumeSession(ctx, key, digest)
	if err == nil && (cred.TenantID != tn.ID() || cred.Key.ID != key) {
		t.Errorf("the session of %s is of %+v", key, cred)
	}
	if err != nil {
		wantKind(t, err, store.Unauthorized, "")
	}
	return err == nil
}

// unlimited makes a key of scope api.
func unlimited(t testing.TB, tn Tenant, name string) store.Key {
	t.Helper()
	return must(tn.CreateKey(ctx, store.KeyCreate{Name: name, Scope: store.ScopeAPI, Digest: store.DigestKey("key " + tn.ID() + name), CreatedBy: store.DefaultAdminID}))(t)
}

// testSessions: a session is known by its tenant, its key and its secret, and ends after its time, also when the clock
// goes back.
func testSessions(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	a, b, theirs := unlimited(t, tn, "a"), unlimited(t, tn, "b"), unlimited(t, other, "a")
	one, two := digestOf("s", 1), digestOf("s", 2)
	begin(t, tn, a.ID, one)
	for range 2 {
		if !lasts(t, tn, a.ID, one) {
			t.Fatal("the session has ended")
		}
	}
	for what, found := range map[string]bool{
		"another secret":             lasts(t, tn, a.ID, two),
		"another key":                lasts(t, tn, b.ID, one),
		"another tenant":             lasts(t, other, a.ID, one),
		"a key of another tenant":    lasts(t, other, theirs.ID, one),
		"an unknown key":             lasts(t, tn, "key_unknown", one),
		"no key":                     lasts(t, tn, "", one),
		"a key that is no key":       lasts(t, tn, "a\x00b", one),
		"the digest of the API key":  lasts(t, tn, a.ID, store.DigestKey("key "+tn.ID()+"a")),
		"a prefix of the key's name": lasts(t, tn, a.ID[:len(a.ID)-1], one),
	} {
		if found {
			t.Errorf("%s has the session", what)
		}
	}
	if _, err := o.Records.Authenticate(ctx, one); store.KindOf(err) != store.Unauthorized {
		t.Errorf("the secret of a session is an API key: %v", err)
	}
	for _, key := range []string{"key_unknown", "", theirs.ID, "a\x00b"} {
		wantKind(t, tn.CreateSession(ctx, key, two), store.Unauthorized, "")
	}

	// Ending is for one session.
	begin(t, tn, a.ID, two)
	for _, end := range []struct {
		tn     Tenant
		key    string
		digest store.KeyDigest
	}{{other, a.ID, two}, {tn, b.ID, two}, {tn, a.ID, digestOf("s", 3)}, {tn, "", two}, {tn, a.ID, one}, {tn, a.ID, one}} {
		if err := end.tn.EndSession(ctx, end.key, end.digest); err != nil {
			t.Errorf("%+v: %v", end, err)
		}
	}
	if lasts(t, tn, a.ID, one) || !lasts(t, tn, a.ID, two) {
		t.Error("another session was ended")
	}

	o.Clock.Advance(store.SessionLasts - time.Second)
	if !lasts(t, tn, a.ID, two) {
		t.Error("the session has ended early")
	}
	o.Clock.Advance(2 * time.Second) // use does not make it longer
	if lasts(t, tn, a.ID, two) {
		t.Error("the session lasts too long")
	}
	begin(t, tn, a.ID, one)
	o.Clock.Advance(-time.Hour)
	if !lasts(t, tn, a.ID, one) {
		t.Error("the session has ended with the clock going back a little")
	}
	o.Clock.Advance(-store.SessionLasts)
	if lasts(t, tn, a.ID, one) {
		t.Error("a clock that went back makes the session longer")
	}
}

// testSessionsOfAKey: a key has a bounded number of sessions; the one that was not used for the longest time gives way,
// also among concurrent sign-ins. Those that have ended are removed.
func testSessionsOfAKey(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	a, b := unlimited(t, tn, "a"), unlimited(t, tn, "b")
	begin(t, tn, b.ID, digestOf("b", 0))
	for i := range store.MaxKeySessions {
		begin(t, tn, a.ID, digestOf("a", i))
		o.Clock.Advance(time.Second)
	}
	o.Clock.Advance(store.SessionWritten + time.Second)
	if !lasts(t, tn, a.ID, digestOf("a", 0)) { // used
		t.Fatal("the first session has ended")
	}
	begin(t, tn, a.ID, digestOf("a", store.MaxKeySessions))
	begin(t, tn, a.ID, digestOf("a", store.MaxKeySessions+1))
	for i := range store.MaxKeySessions + 2 {
		if gone := i == 1 || i == 2; lasts(t, tn, a.ID, digestOf("a", i)) == gone {
			t.Errorf("session %d has ended: %t", i, !gone)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := tn.CreateSession(ctx, a.ID, digestOf("race", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for i := range store.MaxKeySessions + 2 {
		if lasts(t, tn, a.ID, digestOf("a", i)) {
			n++
		}
	}
	for i := range 8 {
		if lasts(t, tn, a.ID, digestOf("race", i)) {
			n++
		}
	}
	if n != store.MaxKeySessions {
		t.Errorf("%d sessions", n)
	}
	if !lasts(t, tn, b.ID, digestOf("b", 0)) {
		t.Error("the session of another key has ended")
	}

	trimmed := func(limit int) store.RetentionResult {
		t.Helper()
		return must(tn.ApplyRetention(ctx, store.RetentionBounds{Limit: limit}))(t)
	}
	if res := trimmed(0); res.Sessions != 0 || res.More {
		t.Errorf("removed %+v", res)
	}
	o.Clock.Advance(store.SessionLasts)
	if res := trimmed(20); res.Sessions != 20 || !res.More {
		t.Errorf("removed %+v", res)
	}
	if res := trimmed(20); res.Sessions != store.MaxKeySessions+1-20 || res.More {
		t.Errorf("removed %+v", res)
	}
}

// testSessionsEnd: a session ends with the key, its owner and its team, and does not begin again with them; what a team
// may do later holds for the session at once.
func testSessionsEnd(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "u", "u@x.io")))(t)
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team", Scopes: []string{"traces:read"}}))(t)
	key := func(in store.KeyCreate) store.Key {
		t.Helper()
		in.Name, in.Scope, in.Digest = "k", store.ScopeAPI, store.DigestKey(in.CreatedBy+in.TeamID)
		return must(tn.CreateKey(ctx, in))(t)
	}
	mine, theirs, limited := unlimited(t, tn, "mine"), key(store.KeyCreate{CreatedBy: "u"}), key(store.KeyCreate{CreatedBy: store.DefaultAdminID, TeamID: team.ID})
	digest := digestOf("s", 1)
	for _, k := range []store.Key{mine, theirs, limited} {
		begin(t, tn, k.ID, digest)
	}
	check := func(what string, want map[string]bool) {
		t.Helper()
		for id, lives := range want {
			if lasts(t, tn, id, digest) != lives {
				t.Errorf("%s: the session of %s lasts: %t", what, id, !lives)
			}
		}
	}
	check("at first", map[string]bool{mine.ID: true, theirs.ID: true, limited.ID: true})

	scopes := []string{"policies:read"}
	must(tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Scopes: &scopes}))(t)
	if cred := must(tn.ResumeSession(ctx, limited.ID, digest))(t); cred.Team == nil || fmt.Sprint(cred.Team.Scopes) != "[policies:read]" {
		t.Errorf("the team is %+v", cred.Team)
	}
	must(tn.ApplyUserEvent(ctx, userAt(2, store.UserSuspended, "u", "")))(t)
	check("the user is deactivated", map[string]bool{mine.ID: true, theirs.ID: false, limited.ID: true})
	wantKind(t, tn.CreateSession(ctx, theirs.ID, digestOf("s", 2)), store.Unauthorized, "")
	must(tn.ApplyUserEvent(ctx, userAt(3, store.UserRemoved, "u", "")))(t)
	check("the user is deleted", map[string]bool{mine.ID: true, theirs.ID: false, limited.ID: true})
	if err := tn.DeleteTeam(ctx, team.ID); err != nil {
		t.Fatal(err)
	}
	check("the team is deleted", map[string]bool{mine.ID: true, limited.ID: false})
	if err := tn.DeleteKey(ctx, mine.ID); err != nil {
		t.Fatal(err)
	}
	check("the key is deleted", map[string]bool{mine.ID: false, theirs.ID: false, limited.ID: false})
	wantKind(t, tn.CreateSession(ctx, mine.ID, digest), store.Unauthorized, "")

	// A store that takes no writes can be read by those who are signed in.
	if o.Fail == nil {
		return
	}
	last := unlimited(t, tn, "last")
	begin(t, tn, last.ID, digest)
	o.Clock.Advance(store.SessionWritten + time.Minute)
	o.Fail(func() error { return store.ErrUnavailable })
	defer o.Fail(nil)
	if cred, err := tn.ResumeSession(ctx, last.ID, digest); err != nil || cred.Key.ID != last.ID {
		t.Errorf("while writes fail: %+v, %v", cred, err)
	}
}
