// Package backoff computes growing pauses between attempts.
package backoff

import "time"

// Pauses computes how long to wait before something that failed is tried again:
// Min, then twice as long each time, up to Max.
type Pauses struct {
	Min, Max time.Duration
	Due      time.Duration // the one returned last; 0 before
}

// Next returns the pause after an attempt. One that lasted at least as long as
// the pause that is due was a success: the pauses begin again.
func (b *Pauses) Next(lasted time.Duration) time.Duration {
	due := min(2*b.Due, b.Max)
	if b.Due == 0 || lasted >= due {
		due = b.Min
	}
	b.Due = due
	return due
}

// After returns the pause after a number of failures in a row, at least one: min, then
// twice as long each time, up to max.
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
