package background

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// The number of background calls is bounded: a call beyond the bound is refused and not started,
// and the end of a call frees a slot.
func TestBackgroundCallsAreBounded(t *testing.T) {
	calls := New(slog.New(slog.DiscardHandler))
	release := make(chan struct{})
	started := 0
	for range maxCalls {
		if calls.Run(func(context.Context) { <-release }) {
			started++
		}
	}
	if started != maxCalls {
		t.Errorf("%d were started, want %d", started, maxCalls)
	}
	if calls.Run(func(context.Context) { t.Error("one too many was started") }) {
		t.Error("one too many was accepted")
	}
	close(release)
	calls.wg.Wait()
	ran := false
	if !calls.Run(func(context.Context) { ran = true }) {
		t.Error("no slot is free again")
	}
	calls.Stop()
	if !ran {
		t.Error("the end did not wait for a call")
	}
}

// A panic in a background call is logged, and ends neither the process nor the set.
func TestAPanicInABackgroundCallIsLogged(t *testing.T) {
	var out bytes.Buffer
	calls := New(slog.New(slog.NewTextHandler(&out, nil)))
	calls.Run(func(context.Context) { panic("in a call") })
	calls.wg.Wait()
	if !strings.Contains(out.String(), "in a call") {
		t.Errorf("log: %s", out.String())
	}
	if !calls.Run(func(context.Context) {}) {
		t.Error("the next call was not accepted")
	}
	calls.Stop()
}
