package gateway

import (
	"context"
	"testing"
)

// Background calls are bounded: one too many is refused and not started, and one
// that ends makes room.
func TestBackgroundCallsAreBounded(t *testing.T) {
	r := newRig(t, basic(newUpstream(t, echo).URL))
	release, ended := make(chan struct{}), make(chan struct{}, maxErrands)
	wait := func(context.Context) {
		<-release
		ended <- struct{}{}
	}
	started := 0
	for range maxErrands {
		if r.gateway.errands.run(wait) {
			started++
		}
	}
	if started != maxErrands {
		t.Errorf("%d were started, want %d", started, maxErrands)
	}
	if r.gateway.errands.run(func(context.Context) { t.Error("one too many was started") }) {
		t.Error("one too many was taken")
	}
	close(release)
	for range maxErrands {
		<-ended
	}
	eventually(t, "no slot is free again", func() bool { return r.gateway.errands.run(func(context.Context) {}) })
}
