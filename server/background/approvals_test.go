package background

import (
	"context"
	"testing"
	"time"

	"svc/store"
	"svc/store/storetest/memory"
)

// TestApprovalsEnd: a pass writes the ends of approvals of all tenants, and counts the open ones.
func TestApprovalsEnd(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := memory.Open(memory.Options{Now: func() time.Time { return now }})
	t.Cleanup(func() { _ = st.Close() })
	var tenants []store.Tenant
	for _, id := range []string{"one", "two"} {
		_, key, err := st.CreateTenant(ctx, store.TenantCreate{ID: id, Name: id, Key: &store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: store.DigestKey(id)}})
		if err != nil {
			t.Fatal(err)
		}
		tenant := st.Tenant(id)
		tenants = append(tenants, tenant)
		for i, expires := range []time.Duration{time.Minute, time.Hour} {
			_, err := tenant.RequestApproval(ctx, key.ID, store.ApprovalCall{Digest: string(rune('a' + i)), Principal: "key:p", ValidFor: time.Hour, Expires: expires})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	a := NewApprovals(EvaluatorOptions{Records: st, Now: func() time.Time { return now }})
	for _, want := range []struct {
		after         time.Duration
		open, expired int
	}{{0, 4, 0}, {time.Minute, 2, 1}, {0, 2, 1}, {time.Hour, 0, 2}} {
		now = now.Add(want.after)
		if err := a.end(ctx); err != nil {
			t.Fatal(err)
		}
		if a.Open() != int64(want.open) {
			t.Errorf("%d open, want %d", a.Open(), want.open)
		}
		for _, tenant := range tenants {
			if _, n, err := tenant.ListApprovals(ctx, store.ApprovalFilter{Status: store.ApprovalExpired}, store.Page{}); err != nil || n != want.expired {
				t.Errorf("tenant %s: %d expired, want %d (%v)", tenant.ID(), n, want.expired, err)
			}
		}
	}
}
