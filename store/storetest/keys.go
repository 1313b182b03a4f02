package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"svc/store"
)

// testLastUnlimitedKey: the last working unlimited key cannot be deleted, even by
// concurrent deletions.
func testLastUnlimitedKey(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	list, _, err := tn.ListKeys(ctx, store.KeyFilter{}, store.Page{})
	if err != nil || len(list) != 1 {
		t.Fatalf("keys %+v, %v", list, err)
	}
	first := list[0].ID
	wantKind(t, tn.DeleteKey(ctx, first), store.Invalid, "id")
	n := 0
	another := func(in store.KeyCreate) store.Key {
		t.Helper()
		n++
		in.Name, in.Digest = "k", store.DigestKey(fmt.Sprint("key ", n))
		if in.CreatedBy == "" {
			in.CreatedBy = store.DefaultAdminID
		}
		return must(tn.CreateKey(ctx, in))(t)
	}
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team", Scopes: []string{"keys:write"}}))(t)
	limited := another(store.KeyCreate{Scope: store.ScopeAPI, TeamID: team.ID})
	ingest := another(store.KeyCreate{Scope: store.ScopeIngest})
	must(tn.ApplyUserEvent(ctx, userAt(1, store.UserCreated, "u", "u@x.io")))(t)
	theirs := another(store.KeyCreate{Scope: store.ScopeAPI, CreatedBy: "u"})
	if out := must(tn.ApplyUserEvent(ctx, userAt(2, store.UserSuspended, "u", "")))(t); out.LockedOut {
		t.Error("locked out although the first key works")
	}
	wantKind(t, tn.DeleteKey(ctx, first), store.Invalid, "id") // no other one works
	for _, k := range []store.Key{limited, ingest} {
		if err := tn.DeleteKey(ctx, k.ID); err != nil {
			t.Errorf("key of scope %s: %v", k.Scope, err)
		}
	}
	must(tn.ApplyUserEvent(ctx, userAt(3, store.UserReactivated, "u", "")))(t)

	var gone atomic.Int32
	var wg sync.WaitGroup
	for _, id := range []string{first, theirs.ID} {
		wg.Go(func() {
			if tn.DeleteKey(ctx, id) == nil {
				gone.Add(1)
			}
		})
	}
	wg.Wait()
	if gone.Load() != 1 {
		t.Errorf("%d of two concurrent deletions succeeded, want 1", gone.Load())
	}
}

// testTenantKey: an operator can create a key of a tenant whatever the state of
// its users.
func testTenantKey(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	n := 0
	makeKey := func() store.Key {
		t.Helper()
		n++
		digest := store.DigestKey(fmt.Sprint("operator ", n))
		k := must(o.Records.CreateTenantKey(ctx, tn.ID(), store.KeyCreate{Name: "operator", Scope: store.ScopeIngest, TeamID: "team_x",
			CreatedBy: "nobody", Digest: digest}))(t)
		if cred := must(o.Records.Authenticate(ctx, digest))(t); !cred.Key.Unlimited() || cred.TenantID != tn.ID() {
			t.Errorf("credential %+v", cred)
		}
		return k
	}
	if k := makeKey(); k.CreatedBy != store.DefaultAdminID {
		t.Errorf("the key belongs to %s", k.CreatedBy)
	}
	out := must(tn.ApplyUserEvent(ctx, userAt(1, store.UserSuspended, store.DefaultAdminID, "")))(t)
	if !out.LockedOut {
		t.Error("the outcome does not report the lockout")
	}
	k := makeKey()
	if u := must(tn.GetUser(ctx, k.CreatedBy))(t); u.ID == store.DefaultAdminID || u.Status != store.UserActive || u.Role != "owner" {
		t.Errorf("the key belongs to %+v", u)
	}
	if u := must(tn.GetUser(ctx, store.DefaultAdminID))(t); u.Status != store.UserDeactivated {
		t.Errorf("the deactivated user is %s", u.Status)
	}
	_, err := o.Records.CreateTenantKey(ctx, "unknown", store.KeyCreate{Name: "k", Digest: store.DigestKey("x")})
	wantKind(t, err, store.NotFound, "")
}
