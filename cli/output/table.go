package output

import (
	"bytes"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"svc/cli/process"
)

// cells returns the width of a text on a terminal: two cells for wide characters and
// emoji, none for combining marks.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// gap is the space between two columns.
const gap = "  "

// minCells is the least width to which a column is truncated.
const minCells = 8

// TableWriter writes rows in aligned columns, page by page: a column is as wide as its
// widest cell so far. TableWriter cleans the cells.
type TableWriter struct {
	Out io.Writer
	// width is the width of the terminal in cells, to which rows are truncated; 0
	// truncates nothing. Identifiers, in columns named ID, are never truncated.
	Width int
	// Color colors the cells of columns with states, such as STATUS.
	Color  bool
	header []string
	fixed  []bool // columns of identifiers
	widths []int
}

// Write writes rows. The first row of the first call is the header.
func (t *TableWriter) Write(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if t.widths == nil {
		t.widths, t.fixed = make([]int, len(rows[0])), make([]bool, len(rows[0]))
		t.header = rows[0]
		for i, name := range rows[0] {
			t.fixed[i] = name == "ID"
		}
	}
	for _, row := range rows {
		for i := range row {
			row[i] = Clean(row[i])
			t.widths[i] = max(t.widths[i], cells.StringWidth(row[i]))
		}
	}
	t.fit()
	var b bytes.Buffer
	for _, row := range rows {
		for i, cell := range row {
			if n := cells.StringWidth(cell); n > t.widths[i] {
				cell = cells.Truncate(cell, t.widths[i], "…")
			}
			if t.Color {
				b.WriteString(paint(t.header[i], cell))
			} else {
				b.WriteString(cell)
			}
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", max(t.widths[i]-cells.StringWidth(cell), 0)) + gap)
			}
		}
		b.Truncate(len(bytes.TrimRight(b.Bytes(), " ")))
		b.WriteByte('\n')
	}
	_, err := t.Out.Write(b.Bytes())
	return err
}

// fit narrows the widest columns until the row fits the terminal, but not below minCells.
func (t *TableWriter) fit() {
	if t.Width <= 0 {
		return
	}
	total := len(gap) * (len(t.widths) - 1)
	for _, w := range t.widths {
		total += w
	}
	for ; total > t.Width; total-- {
		widest := -1
		for i, w := range t.widths {
			if !t.fixed[i] && w > minCells && (widest < 0 || w > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		t.widths[widest]--
	}
}

// NewTable returns a table on standard output that fits the terminal, in color if enabled.
func NewTable(env process.Env) *TableWriter {
	return &TableWriter{Out: env.Stdout, Width: env.TableWidth(), Color: env.Colour(env.StdoutTTY)}
}

// ShowTable writes rows under a header to standard output, as [NewTable] does.
func ShowTable(env process.Env, header []string, rows [][]string) error {
	return NewTable(env).Write(append([][]string{header}, rows...))
}

// WriteTable writes rows with a header, without truncation and color.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	t := TableWriter{Out: w}
	return t.Write(append([][]string{header}, rows...))
}
