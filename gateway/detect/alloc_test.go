//go:build !race

package detect

import "testing"

// TestScoreAllocatesNothingOnCleanText holds the promise of docs/detectors.md.
// The race detector makes a pool forget a part of what it is given, so that
// nothing could be said there.
func TestScoreAllocatesNothingOnCleanText(t *testing.T) {
	text := []byte(prose[:2000])
	if n := testing.AllocsPerRun(200, func() { ScoreInjection(text) }); n > 0.5 { // the pool may be emptied in between
		t.Errorf("%v allocations", n)
	}
}
