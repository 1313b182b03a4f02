package gateway

import "time"

// backoff tells how long to wait before something that failed is tried again:
// first, then twice as long each time, up to last.
type backoff struct {
	first, last time.Duration
	pause       time.Duration // the one returned last; 0 before
}

// next returns the pause after an attempt. One that lasted at least as long as
// the pause that is due was a success: the pauses begin again.
func (b *backoff) next(lasted time.Duration) time.Duration {
	due := min(2*b.pause, b.last)
	if b.pause == 0 || lasted >= due {
		due = b.first
	}
	b.pause = due
	return due
}
