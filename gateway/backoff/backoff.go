// Package backoff computes growing pauses between attempts (exponential backoff).
package backoff

import "time"

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
