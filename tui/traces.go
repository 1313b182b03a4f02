package tui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"svc/server/display"
)

// tracesPage is the live list. It has the memory of traces, the filter and
// the pause.
type tracesPage struct {
	s       *shared
	history *history
	series  *series
	list    list[*row]
	matches []*row // the rows that pass the filter, by number; first those that are not in the history any more
	older   older
	gone    time.Time // start of the latest trace that has left the history
	noted   bool      // whether a line above the rows was drawn

	follow   bool // whether the newest row stays selected
	paused   bool
	seen     uint64 // while paused: the number of the first row that is not shown
	held     int    // while paused: how many new rows pass the filter
	newer    int    // while scrolled up: how many rows have been added
	dropped  uint64
	received uint64

	filter    filter
	text      string // error or text of the current filter
	input     textinput.Model
	typing    bool
	filterErr error
}

func newTracesPage(s *shared) *tracesPage {
	t := &tracesPage{s: s, history: newHistory(historySize), series: newSeries(s.now()), follow: true, input: textinput.New()}
	t.input.CharLimit = 200
	t.list.columns = t.columns()
	t.list.set(0, t.row)
	t.older.next = firstRow
	t.older.load.done = t.gotOlder
	return t
}

func (t *tracesPage) columns() []column[*row] {
	p := t.s.styles
	text := func(title string, min, max, priority int, get func(*row) string) column[*row] {
		return column[*row]{title: title, min: min, max: max, priority: priority,
			cell: func(r *row, _ int) (string, style) { return get(r), p.plain }}
	}
	right := func(c column[*row]) column[*row] { c.right = true; return c }
	dim := func(c column[*row]) column[*row] {
		plain := c.cell
		c.cell = func(r *row, w int) (string, style) { s, _ := plain(r, w); return s, p.dim }
		return c
	}
	return []column[*row]{
		dim(text("TIME (UTC)", 12, 0, 60, func(r *row) string { return clock(r.trace.CreatedAt, t.s.now()) })),
		{title: "STATUS", min: 7, priority: 90, cell: func(r *row, _ int) (string, style) { return r.outcome.String(), p.of(r.outcome) }},
		text("AGENT", 14, 28, 80, func(r *row) string { return r.agent }),
		text("TOOL", 17, 40, 100, func(r *row) string { return display.OrDash(r.tool) }),
		right(text("LATENCY", 8, 9, 70, func(r *row) string { return r.ms })),
		right(text("COST", 8, 0, 50, func(r *row) string { return r.cost })),
		{title: "WHY", min: 18, max: 44, priority: 45, cell: func(r *row, _ int) (string, style) { return r.why, p.of(r.outcome) }},
		{title: "POLICIES", min: 18, max: 44, priority: 40, cell: func(r *row, _ int) (string, style) { return r.policies, p.warn }},
		text("MODEL", 18, 36, 30, func(r *row) string { return r.model }),
		right(text("TOKENS", 6, 0, 28, func(r *row) string { return r.tokens })),
		text("ENV", 10, 16, 26, func(r *row) string { return r.env }),
		{title: "PII", min: 10, max: 24, priority: 20, cell: func(r *row, _ int) (string, style) { return r.pii, p.warn }},
		dim(text("SESSION", 12, 24, 16, func(r *row) string { return r.session })),
		dim(text("ID", 36, 36, 10, func(r *row) string { return r.id })),
	}
}

// of is the colour of an outcome.
func (p *styles) of(o outcome) style { return [...]style{p.good, p.bad, p.block}[o] }

func (t *tracesPage) row(i int) *row { return t.matches[i] }

// add adds rows in the order of their arrival.
func (t *tracesPage) add(rows []*row) {
	now := t.s.now()
	for _, r := range rows {
		if gone := t.history.add(r); gone != nil && gone.trace.CreatedAt.After(t.gone) {
			t.gone = gone.trace.CreatedAt
		}
		t.series.add(r, now)
		t.received++
		if !t.filter.match(r) {
			continue
		}
		if t.paused {
			t.held++
			continue
		}
		t.matches = append(t.matches, r)
		if !t.follow {
			t.newer++
		}
	}
	gone := t.past()
	if t.older.open && t.s.plane != nil { // somebody reads them: as many stay as the history has
		if gone = max(0, gone-len(t.history.rows)); gone > 0 {
			t.older.forgetCursor()
		}
	}
	t.matches = slices.Delete(t.matches, 0, gone)
	t.list.top = max(0, t.list.top-gone)
	t.list.sel = max(0, t.list.sel-gone)
	t.shown()
}

// shown passes the matching rows to the list.
func (t *tracesPage) shown() {
	t.list.set(len(t.matches), t.row)
	if t.follow && !t.paused {
		t.list.sel = max(0, len(t.matches)-1)
		t.newer = 0
	}
}

// past returns the number of rows that pass the filter and are not in the history.
func (t *tracesPage) past() int { return t.indexOf(t.history.first) }

// indexOf returns the index of the first row with at least a number.
func (t *tracesPage) indexOf(n uint64) int {
	i, _ := slices.BinarySearchFunc(t.matches, n, func(r *row, n uint64) int { return cmp.Compare(r.n, n) })
	return i
}

// clear removes all traces, because the following ones are of another
// history.
func (t *tracesPage) clear() {
	t.history.clear()
	*t.series = *newSeries(t.s.now())
	t.matches, t.held, t.newer, t.seen, t.gone = nil, 0, 0, t.history.next, time.Time{}
	t.older.reset()
	t.shown()
}

// rematch applies the filter to all rows in memory. The selected row stays
// selected if it passes.
func (t *tracesPage) rematch() {
	selected := t.history.next
	if t.list.sel < len(t.matches) && !t.follow {
		selected = t.matches[t.list.sel].n
	}
	t.matches, t.held = slices.Clone(t.matches[:t.past()]), 0
	for n := t.history.first; n < t.history.next; n++ {
		r := t.history.at(n)
		if !t.filter.match(r) {
			continue
		}
		if t.paused && n >= t.seen {
			t.held++
			continue
		}
		t.matches = append(t.matches, r)
	}
	t.newer = 0
	t.list.sel = max(0, t.indexOf(selected+1)-1)
	t.shown()
}

// forgetOlder removes the rows that are not in the history.
func (t *tracesPage) forgetOlder() {
	t.matches = t.matches[t.past():]
	t.older.reset()
}

func (t *tracesPage) pause() {
	if t.paused = !t.paused; t.paused {
		t.seen = t.history.next
		return
	}
	if t.history.first > t.seen { // rows have left the history that were never shown
		t.forgetOlder()
	}
	t.follow = true
	t.rematch()
}

func (t *tracesPage) title() string  { return "Traces" }
func (t *tracesPage) enter() tea.Cmd { return nil }
func (t *tracesPage) leave()         {}
func (t *tracesPage) tick() tea.Cmd  { return t.fill() }

func (t *tracesPage) key(k tea.KeyMsg) tea.Cmd {
	if t.typing {
		return t.typeKey(k)
	}
	switch k.String() {
	case "p", " ":
		t.pause()
	case "/":
		t.typing = true
		t.input.SetValue(t.text)
		t.input.CursorEnd()
		t.input.Focus()
	case "esc":
		t.setFilter("")
	case "e":
		if t.text == "status:error" {
			t.setFilter("")
		} else {
			t.setFilter("status:error")
		}
	case "a":
		if r, ok := t.list.selected(); ok {
			t.setFilter("agent:" + quoted(r.agent))
		}
	case "y":
		if r, ok := t.list.selected(); ok {
			t.s.copyText("id", r.trace.ID)
		}
	case "enter":
		return t.openSelected()
	case "w":
		return t.askRange()
	default:
		if t.list.key(k.String()) {
			t.moved()
			if t.list.sel == 0 && slices.Contains(upKeys, k.String()) {
				return t.moreOlder()
			}
		}
	}
	return nil
}

// moved follows the newest row again when it is selected, and stops
// otherwise.
func (t *tracesPage) moved() {
	if t.follow = t.list.sel >= t.list.n-1; t.follow {
		t.newer = 0
	}
}

func (t *tracesPage) openSelected() tea.Cmd {
	if _, ok := t.list.selected(); !ok {
		return nil
	}
	t.follow = false
	return t.s.open(newTracePage(t.s, t, t.matches[t.list.sel]))
}

func (t *tracesPage) click(_, y int) tea.Cmd {
	if t.noted && y > 0 {
		y--
	}
	again, ok := t.list.click(y)
	if !ok {
		return nil
	}
	t.moved()
	if again {
		return t.openSelected()
	}
	return nil
}

func (t *tracesPage) wheel(by int) {
	t.list.move(by)
	t.moved()
	t.older.wanted = by < 0 && t.list.sel == 0
}

func (t *tracesPage) status(w int) string {
	p := t.s.styles
	var l line
	switch {
	case t.paused:
		l.add(p.badge, " PAUSED ")
		l.add(p.warn, " "+display.Plural(t.held, "new trace waits", "new traces wait"))
	case t.filter.ended(t.s.now()):
		l.add(p.badge, " PAST ")
	case t.follow:
		l.add(p.good, " ▶ following")
	case t.newer == 0:
		l.add(p.dim, " ▲ not following")
	default:
		l.add(p.dim, " ▲ "+display.Plural(t.newer, "newer trace below", "newer traces below"))
	}
	switch {
	case t.filter.empty():
		l.add(p.dim, " · "+display.Plural(t.history.len()+t.past(), "trace", "traces"))
	case t.filter.ended(t.s.now()):
		more := "+"
		if t.older.end || t.s.plane == nil {
			more = ""
		}
		l.add(p.dim, " "+display.Count(int64(len(t.matches)))+more+" match ")
		l.add(p.accent, clean(t.text))
	default:
		l.add(p.dim, fmt.Sprintf(" · %s of %s match ", display.Count(int64(len(t.matches))), display.Plural(max(t.history.len()+t.older.looked, len(t.matches)), "trace", "traces")))
		l.add(p.accent, clean(t.text))
	}
	if t.filter.ended(t.s.now()) {
		l.add(p.dim, " · w: live again")
	}
	if t.dropped > 0 {
		l.add(p.warn, " · "+display.Count(int64(t.dropped))+" came too fast and are not shown")
	}
	return l.fit(w)
}

func (t *tracesPage) view(w, h int) []string {
	note, style := t.olderNote()
	if t.noted = false; t.list.n > 0 {
		lines := t.list.view(t.s.styles, w, h)
		if note == "" || t.list.top > 0 || h < 3 {
			return lines
		}
		lines = t.list.view(t.s.styles, w, h-1)
		t.noted = true
		return slices.Insert(lines, 1, style.paint(cut(" ▲ "+note, w)))
	}
	switch {
	case note != "":
		return centred(t.s.styles, w, h, "No trace passes the filter", note)
	case t.history.len() == 0 && t.s.plane == nil:
		return centred(t.s.styles, w, h, "No requests yet", "They appear here as the gateway writes them to "+t.s.name+".")
	case t.history.len() == 0 && t.filter.empty():
		return centred(t.s.styles, w, h, "No traces yet", "They appear here as agents call tools through a gateway, or as POST /api/traces brings them.")
	}
	return centred(t.s.styles, w, h, "No trace passes the filter", "esc clears it, / changes it, ↑ looks for older ones.")
}

func (t *tracesPage) hints() []hint {
	pause := "pause"
	if t.paused {
		pause = "go on"
	}
	return []hint{{"enter", "open"}, {"/", "filter"}, {"p", pause}, {"s", "statistics"}, {"e", "errors"}, {"a", "this agent"}, {"w", "time"}, {"i", "id"}, {"G", "newest"}, {"y", "copy id"}, {"tab", "next"}, {"↑↓", "move"}}
}
