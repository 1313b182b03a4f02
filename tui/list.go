package tui

import "strings"

// column is one column of a list of R.
type column[R any] struct {
	title    string
	min      int  // width in cells
	max      int  // maximum width; 0: always min
	right    bool // right-aligned, for numbers
	priority int  // columns with the lowest priority are omitted first when there is no room
	cell     func(r R, w int) (string, style)
}

// list is a scrollable table that draws only the visible rows.
type list[R any] struct {
	columns []column[R]
	n       int // rows
	at      func(i int) R
	sel     int // index of the selected row
	top     int // index of the first visible row
	height  int // number of visible rows, as last drawn
}

const marker = "▌ " // before the selected row, so that it is visible without color

// move moves the selection by a number of rows.
func (l *list[R]) move(by int) { l.sel = max(0, min(l.n-1, l.sel+by)) }

// set replaces the rows.
func (l *list[R]) set(n int, at func(int) R) {
	l.n, l.at = n, at
	l.sel = max(0, min(n-1, l.sel))
}

// selected returns the selected row.
func (l *list[R]) selected() (r R, ok bool) {
	if l.sel < 0 || l.sel >= l.n {
		return r, false
	}
	return l.at(l.sel), true
}

// key moves the selection; it reports whether the key was handled.
func (l *list[R]) key(k string) bool {
	page := max(1, l.height-1)
	switch k {
	case "up", "k":
		l.move(-1)
	case "down", "j":
		l.move(1)
	case "pgup", "ctrl+b":
		l.move(-page)
	case "pgdown", "ctrl+f":
		l.move(page)
	case "ctrl+u":
		l.move(-page / 2)
	case "ctrl+d":
		l.move(page / 2)
	case "home", "g":
		l.sel = 0
	case "end", "G":
		l.sel = max(0, l.n-1)
	default:
		return false
	}
	return true
}

// click selects the row at a line of the list as drawn; the first line is the
// heading. It reports whether the row was selected before.
func (l *list[R]) click(line int) (again, ok bool) {
	i := l.top + line - 1
	if line < 1 || line > l.height || i >= l.n {
		return false, false
	}
	again = i == l.sel
	l.sel = i
	return again, true
}

// layout returns the columns that are shown and their widths.
func layout[R any](columns []column[R], w int) (shown []int, widths []int) {
	gap := gapOf(w)
	need := -gap
	for i, c := range columns {
		shown = append(shown, i)
		need += c.min + gap
	}
	for need > w && len(shown) > 1 {
		drop := 0
		for i := range shown {
			if columns[shown[i]].priority < columns[shown[drop]].priority {
				drop = i
			}
		}
		need -= columns[shown[drop]].min + gap
		shown = append(shown[:drop:drop], shown[drop+1:]...)
	}
	widths = make([]int, len(shown))
	for i, c := range shown {
		widths[i] = columns[c].min
	}
	if need > w {
		widths[0] = max(1, w)
	}
	// The remaining width is distributed among the columns that can grow.
	for left := w - need; left > 0; {
		given := false
		for i, c := range shown {
			if left > 0 && widths[i] < columns[c].max {
				widths[i]++
				left--
				given = true
			}
		}
		if !given {
			break
		}
	}
	return shown, widths
}

func gapOf(w int) int {
	if w < 100 {
		return 1
	}
	return 2
}

// view draws the heading and the visible rows in h lines of w cells.
func (l *list[R]) view(p *styles, w, h int) []string {
	l.height = max(0, h-1)
	l.scroll()
	inner := w - width(marker)
	shown, widths := layout(l.columns, inner)
	gap := blanks(gapOf(inner))
	lines := make([]string, 0, h)
	var b strings.Builder
	for i, c := range shown {
		if i > 0 {
			b.WriteString(gap)
		}
		b.WriteString(fit(l.columns[c].title, widths[i], l.columns[c].right))
	}
	lines = append(lines, p.dim.paint(fit(blanks(width(marker))+b.String(), w, false)))
	for i := l.top; i < l.n && len(lines) < h; i++ {
		r := l.at(i)
		b.Reset()
		selected := i == l.sel
		if selected {
			b.WriteString(marker)
		} else {
			b.WriteString(blanks(width(marker)))
		}
		for j, c := range shown {
			if j > 0 {
				b.WriteString(gap)
			}
			text, style := l.columns[c].cell(r, widths[j])
			text = fit(text, widths[j], l.columns[c].right)
			if selected {
				text = p.selected.withBackground(style, text)
			} else {
				text = style.paint(text)
			}
			b.WriteString(text)
		}
		line := b.String()
		if selected {
			line = p.selected.paint(line + blanks(w-width(marker)-used(widths, len(gap))))
		}
		lines = append(lines, line)
	}
	return lines
}

// used is the total width of columns.
func used(widths []int, gap int) int {
	n := gap * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// scroll makes the selected row visible and fills the height.
func (l *list[R]) scroll() {
	l.top = min(l.top, l.sel)
	l.top = max(l.top, l.sel-l.height+1, 0)
	l.top = min(l.top, max(0, l.n-l.height))
}
