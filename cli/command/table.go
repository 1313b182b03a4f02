package command

import (
	"bytes"
	"io"
	"slices"
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
	// Width is the width of the terminal in cells, to which rows are truncated; 0
	// truncates nothing. Identifiers and times, in columns named ID, TIME and CREATED, are
	// never truncated. Where the rows do not fit even so, columns are left out from the right,
	// and the header ends with more; identifiers stay.
	Width int
	// Color colors the cells of columns with states, such as STATUS.
	Color  bool
	header []string
	widths []int  // the widest cell of each column so far
	gone   []bool // columns that were left out; they stay out, so that rows stay under their header
}

// more stands at the end of a header that leaves out columns.
const more = "…"

// Write writes rows. The first row of the first call is the header.
func (t *TableWriter) Write(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	first := t.widths == nil
	if first {
		t.widths, t.gone = make([]int, len(rows[0])), make([]bool, len(rows[0]))
		t.header = rows[0]
	}
	for _, row := range rows {
		for i := range row {
			row[i] = Clean(row[i])
			t.widths[i] = max(t.widths[i], cells.StringWidth(row[i]))
		}
	}
	widths := t.fit()
	var b bytes.Buffer
	for n, row := range rows {
		space := 0 // between the cell before and this one
		for i, cell := range row {
			if t.gone[i] {
				continue
			}
			if cells.StringWidth(cell) > widths[i] {
				cell = cells.Truncate(cell, widths[i], more)
			}
			b.WriteString(strings.Repeat(" ", space))
			if t.Color {
				b.WriteString(paint(t.header[i], cell))
			} else {
				b.WriteString(cell)
			}
			space = len(gap) + max(widths[i]-cells.StringWidth(cell), 0)
		}
		if first && n == 0 && slices.Contains(t.gone, true) {
			b.WriteString(strings.Repeat(" ", space) + more)
		}
		b.Truncate(len(bytes.TrimRight(b.Bytes(), " ")))
		b.WriteByte('\n')
	}
	_, err := t.Out.Write(b.Bytes())
	return err
}

// fit returns the widths of the columns in which a row fits the terminal. It narrows the widest
// columns, but not below minCells, and then leaves out columns.
func (t *TableWriter) fit() []int {
	for {
		widths, fits := t.narrowed()
		last := len(t.header) - 1
		for last > 0 && (t.gone[last] || t.header[last] == "ID") {
			last--
		}
		if fits || last <= 0 {
			return widths
		}
		t.gone[last] = true
	}
}

// narrowed returns widths for the columns that are not left out, and whether a row fits then.
func (t *TableWriter) narrowed() ([]int, bool) {
	widths := slices.Clone(t.widths)
	total := -len(gap)
	for i, w := range widths {
		if !t.gone[i] {
			total += w + len(gap)
		}
	}
	if slices.Contains(t.gone, true) {
		total += len(gap) + cells.StringWidth(more)
	}
	for ; t.Width > 0 && total > t.Width; total-- {
		widest := -1
		for i, w := range widths {
			fixed := t.gone[i] || t.header[i] == "ID" || t.header[i] == "TIME" || t.header[i] == "CREATED"
			if !fixed && w > minCells && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
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
