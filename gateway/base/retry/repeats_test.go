package retry

import (
	"testing"
	"time"
)

// The first event has a line at once; those of the next interval are counted in one line.
func TestRepeats(t *testing.T) {
	var r Repeats
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		after time.Duration
		count uint64
		due   bool
	}{{0, 1, true}, {time.Second, 0, false}, {59 * time.Second, 0, false}, {time.Minute, 3, true}, {2 * time.Minute, 1, true}} {
		if count, due := r.Due(start.Add(c.after), time.Minute); count != c.count || due != c.due {
			t.Errorf("after %s: %d, %v; want %d, %v", c.after, count, due, c.count, c.due)
		}
	}
}
