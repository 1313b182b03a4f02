package retry

import (
	"sync"
	"time"
)

// Repeats bounds the log lines about something that repeats: one line at once, then at
// most one per interval, with the number of events since the last line. The zero value is
// ready, and safe for concurrent use.
type Repeats struct {
	mu    sync.Mutex
	last  time.Time
	count uint64
}

// Due counts an event. It reports whether a line is due, and the number of events since
// the last line, this one included.
func (r *Repeats) Due(now time.Time, every time.Duration) (count uint64, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if !r.last.IsZero() && now.Sub(r.last) < every {
		return 0, false
	}
	count, r.count, r.last = r.count, 0, now
	return count, true
}
