package retry

import (
	"context"
	"time"
)

// Pauses computes the pause before the next attempt: Min, then twice as long each time, up to
// Max.
type Pauses struct {
	Min, Max time.Duration
	Due      time.Duration // the pause returned last; 0 at first
}

// Next returns the pause after an attempt. An attempt that lasted at least as long as the pause
// that would be next counts as a success: the pauses start again with Min.
func (b *Pauses) Next(lasted time.Duration) time.Duration {
	due := min(2*b.Due, b.Max)
	if b.Due == 0 || lasted >= due {
		due = b.Min
	}
	b.Due = due
	return due
}

// After returns the pause after a number of consecutive failures, at least one: min, then twice
// as long each time, up to max.
func After(failures int, min, max time.Duration) time.Duration {
	pause := min
	for range failures - 1 {
		if pause >= max/2 {
			return max
		}
		pause *= 2
	}
	return pause
}

// Wait waits for d, and reports whether ctx has not ended before.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
