package record

import (
	"fmt"
	"testing"
	"time"

	"svc/store"
)

// TestFleetForgetsWhatIsWritten: processes of gateways come and go, so the buffer keeps none of them.
func TestFleetForgetsWhatIsWritten(t *testing.T) {
	var f Fleet
	at, due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for i := range 5000 {
		at = at.Add(time.Second)
		key := fmt.Appendf(nil, "instance %d", i)
		if f.add("t", key, heard{seq: 1, at: at}) {
			due++
			f.wrote("t", f.unwritten("t"))
		}
		f.add("t", key, heard{seq: 2, at: at})
		f.forget("t", key)
		f.add("t", []byte("always"), heard{seq: int64(i), at: at})
	}
	if n := len(f.unwritten("t")); n > int(store.GatewayWritten/time.Second)+1 || due < 80 {
		t.Errorf("%d processes are kept, %d writes", n, due)
	}
	if h := f.last("t", []byte("always")); h.seq != 4999 {
		t.Errorf("last %+v", h)
	}
}

// TestAFullFleetIsNotReadEachTime: while there is no room, a flood of new processes reads the rows once a
// second, and forgetting a gateway makes room at once.
func TestAFullFleetIsNotReadEachTime(t *testing.T) {
	var f Fleet
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if f.isFull("t", false, false, now) {
		t.Error("full at first")
	}
	f.isFull("t", false, true, now)
	if !f.isFull("t", false, false, now.Add(fullFor-1)) || f.isFull("t", true, false, now) || f.isFull("other", false, false, now) || f.isFull("t", false, false, now.Add(fullFor)) {
		t.Error("not full for a second, for what does not sign")
	}
	f.isFull("t", false, true, now)
	f.forget("t", []byte("x"))
	if f.isFull("t", false, false, now) {
		t.Error("full after a gateway was forgotten")
	}
}
