package bolt

import (
	"testing"
	"time"

	"svc/store"
)

// A use of a key that is recorded while an earlier one is being written is
// written next time: the write removes from the buffer only the uses that it
// has written.
func TestAUseDuringAFlushIsNotLost(t *testing.T) {
	s := openTemp(t, Options{FlushEvery: time.Hour})
	_, key, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t", OrgID: "org",
		Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Prefix: "svc_api_abcd", Digest: store.DigestKey("secret")}})
	if err != nil {
		t.Fatal(err)
	}
	tn := &tenant{s: s, id: "t"}
	first := s.now()
	tn.RecordKeyUse(key.ID, first)
	batch := s.usedSoFar()
	tn.RecordKeyUse(key.ID, first.Add(time.Minute))
	s.usedWritten(batch)
	if got := s.usedSoFar()[usedKey{"t", key.ID}]; !got.Equal(first.Add(time.Minute)) {
		t.Errorf("the buffer holds %v after the flush, want the later use", got)
	}
	if err := s.flushUsed(); err != nil {
		t.Fatal(err)
	}
	if n := len(s.usedSoFar()); n != 0 {
		t.Errorf("%d uses are left after a flush", n)
	}
}
