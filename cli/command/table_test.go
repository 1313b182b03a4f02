package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableCountsCellsAndFitsTheTerminal(t *testing.T) {
	var b bytes.Buffer
	table := TableWriter{Out: &b, Width: 40}
	rows := [][]string{{"ID", "NAME", "WHAT"}, {"agt_01k5m3n8p2q4r6", "日本語", "short"}, {"agt_2", "\u26a1 Zoë", strings.Repeat("long ", 20)}}
	if err := table.Write(rows); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := cells.StringWidth(strings.TrimRight(line, "\n")); n > 40 {
			t.Errorf("%d cells: %q", n, line)
		}
	}
	if want := "agt_01k5m3n8p2q4r6  日本語  short\nagt_2               ⚡ Zoë  long "; !strings.Contains(b.String(), want) {
		t.Errorf("wide characters shift the columns, or an id was shortened:\n%s", &b)
	}
	if !strings.Contains(b.String(), "…\n") {
		t.Errorf("nothing shows that a cell was shortened:\n%s", &b)
	}
}
