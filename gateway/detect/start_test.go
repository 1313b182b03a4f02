package detect

import (
	"testing"
	"time"
)

// TestTablesAreReadQuickly holds that the first score does not keep a message waiting.
func TestTablesAreReadQuickly(t *testing.T) {
	least := fastest(10, func() { newLexicon(lexiconTable) })
	t.Logf("the lexicon is read in %v", least)
	if least > 50*time.Millisecond && !raceEnabled {
		t.Errorf("the lexicon takes %v to read", least)
	}
}

func BenchmarkLexicon(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newLexicon(lexiconTable)
	}
}
