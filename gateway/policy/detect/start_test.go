package detect

import (
	"testing"
	"time"
)

// TestTablesAreReadQuickly checks that loading the tables does not delay the first message
// noticeably.
func TestTablesAreReadQuickly(t *testing.T) {
	least := fastest(10, func() { newLexicon(lexiconTable) })
	t.Logf("the lexicon is loaded in %v", least)
	if least > 50*time.Millisecond && !raceEnabled {
		t.Errorf("the lexicon takes %v to load", least)
	}
}

func BenchmarkLexicon(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newLexicon(lexiconTable)
	}
}
