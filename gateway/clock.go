package gateway

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// clockInterval is the time between two looks at the clock.
	clockInterval = 10 * time.Second
	// clockStep is how far the clock must move against the time that passed before it is
	// logged. Time synchronization corrects smaller differences gradually.
	clockStep = 5 * time.Second
)

// watchClock counts each step of the clock in jumps and logs a warning, until ctx ends: a step moves
// the expiry of tokens, keys, sessions and the license, and the times of audit lines. now is the
// clock; the time that passed is the monotonic one.
func watchClock(ctx context.Context, now func() time.Time, jumps *atomic.Uint64, log *slog.Logger) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	began, from := time.Now(), now().Round(0) // Round removes the monotonic time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed, at := time.Since(began), now().Round(0)
		expected := from.Add(passed)
		if step := at.Sub(expected); step.Abs() >= clockStep {
			jumps.Add(1)
			log.Warn("the clock has jumped: it was set, or the machine was suspended; tokens, keys, sessions and the license expire by the new time, and audit lines have it. If it is wrong, set it right",
				"expected", expected.UTC(), "clock", at.UTC(), "step", step.Round(time.Second).String())
		}
		began, from = began.Add(passed), at
	}
}
