package record

import (
	"errors"
	"testing"
	"time"

	"svc/store"
)

// TestAUseDuringAFlushIsNotLost: a use of a key that is recorded while an earlier one is
// being written stays in the buffer, and so does one that could not be written.
func TestAUseDuringAFlushIsNotLost(t *testing.T) {
	var u Uses
	k, first := UsedKey{"t", "k"}, time.Unix(1_800_000_000, 5).UTC()
	u.add(k, first)
	u.add(k, first.Add(-time.Minute)) // an earlier one does not count
	wrong := errors.New("wrong")
	if err := u.Flush(func(map[UsedKey][]byte) error { return wrong }); !errors.Is(err, wrong) || !u.last(k).Equal(first) {
		t.Errorf("after a failed write the buffer holds %v, %v", u.last(k), err)
	}
	if err := u.Flush(func(batch map[UsedKey][]byte) error {
		if len(batch) != 1 || len(batch[k]) != 8 {
			t.Errorf("the batch is %v", batch)
		}
		u.add(k, first.Add(time.Minute))
		return nil
	}); err != nil || !u.last(k).Equal(first.Add(time.Minute)) {
		t.Errorf("the buffer holds %v after the write, want the later use, %v", u.last(k), err)
	}
	if err := u.Flush(func(map[UsedKey][]byte) error { return nil }); err != nil || !u.last(k).IsZero() {
		t.Errorf("%v is left after a write, %v", u.last(k), err)
	}
}

// TestFollowing: the id behind an id sorts next, also where digits carry over.
func TestFollowing(t *testing.T) {
	for id, want := range map[string]string{"aev_01": "aev_02", "aev_0z": "aev_10", "aev_0hzz": "aev_0j00"} {
		if got := following(id); got != want || got <= id {
			t.Errorf("behind %s is %s, want %s", id, got, want)
		}
	}
}

// TestTimeIn: the time that an id was made from is read from it.
func TestTimeIn(t *testing.T) {
	for _, at := range []time.Time{time.UnixMilli(0), time.UnixMilli(1_800_000_000_123), time.UnixMilli(1<<48 - 1)} {
		if got := timeIn(store.FirstID(store.PrefixAuditEvent, at)); got != at.UnixMilli() {
			t.Errorf("%d in the id of %d", got, at.UnixMilli())
		}
	}
}
