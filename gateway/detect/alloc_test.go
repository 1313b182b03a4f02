//go:build !race

package detect

import (
	"strings"
	"testing"
)

// TestScoreAllocatesNothingOnCleanText holds the promise of docs/detectors.md.
// The race detector makes a pool forget a part of what it is given, so that
// nothing could be said there.
func TestScoreAllocatesNothingOnCleanText(t *testing.T) {
	for _, text := range []string{
		prose[:2000], code[:2000],
		"Der Vorstand hat beschlossen, die Mitgliederversammlung auf Dienstag zu verschieben; Anträge bitte schriftlich einreichen.",
		"1 12 3 44 5 6 7 8 9 10 11 12 13 " + strings.Repeat("the old house by the sea and the boat ", 50),
	} {
		b := []byte(text)
		if n := testing.AllocsPerRun(200, func() { ScoreInjection(b) }); n > 0.5 { // the pool may be emptied in between
			t.Errorf("%.30q: %v allocations", text, n)
		}
	}
}
