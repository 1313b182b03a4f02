package bolt

import (
	"context"
	"testing"

	"go.etcd.io/bbolt"

	"svc/store"
)

// TestMarksInTheFutureDoNotOutrankLaterEvents: a file can contain marks of events
// that were dated in the future; current events take effect nevertheless.
func TestMarksInTheFutureDoNotOutrankLaterEvents(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s := openTemp(t, Options{Now: clock.Now, NoSync: true})
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	tn := &tenant{s: s, id: "t"}
	now := clock.Now()
	if _, err := tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, CreatedAt: now, UserID: "u", Email: "u@x.io"}); err != nil {
		t.Fatal(err)
	}
	err := tn.update(ctx, func(_ *bbolt.Tx, d data) error {
		u, _, err := getJSON[userRecord](d.in(inUsers), "u")
		if err != nil {
			return err
		}
		u.State.At, u.Profile.At = now.AddDate(1, 0, 0), now.AddDate(1, 0, 0)
		return putJSON(d.in(inUsers), "u", u)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []store.UserEventType{store.UserUpdated, store.UserSuspended} {
		out, err := tn.ApplyUserEvent(ctx, store.UserEvent{Type: typ, CreatedAt: clock.Now(), UserID: "u", Email: "new@x.io"})
		if err != nil || !out.Applied {
			t.Errorf("%s: %+v, %v", typ, out, err)
		}
	}
}
