package tui

import (
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/display"
)

// listed is the result of a list: its rows and the total, which can be larger.
type listed[R any] struct {
	rows  []R
	total int
}

// table describes a list of the control plane: its columns, its loading function, and
// its keys.
type table[R any] struct {
	noun  string    // name of the rows, for their number
	empty [2]string // text of an empty list
	id    func(R) string

	fetch func(context.Context) (listed[R], error)
	every time.Duration // between refreshes

	columns []column[R]
	// detail is shown below the list for the selected row, when there is room; nil for
	// none.
	detail func(R) []field
	// opened is the text of the page of an opened row; nil for detail. A list without
	// both opens the page that open returns.
	opened func(R) []field
	open   func(R) page
	// traces returns the filter for the traces of a row, and tracesHint is its text.
	traces     func(R) string
	tracesHint string
}

// tablePage is a page that shows one list of the control plane.
type tablePage[R any] struct {
	table[R]
	s    *shared
	name string
	self page // the page that embeds this one
	load loader[listed[R]]
	at   string // id of the selected row, which stays selected when rows move
	list list[R]
}

// newTablePage returns the page of a list that consists only of its table.
func newTablePage[R any](s *shared, title string, t table[R]) *tablePage[R] {
	p := &tablePage[R]{}
	p.init(s, title, p, t)
	return p
}

// init initializes the page; self is the page that embeds it, or the page itself.
func (t *tablePage[R]) init(s *shared, title string, self page, of table[R]) {
	t.table, t.s, t.name, t.self = of, s, title, self
	t.load.fetch, t.load.every = of.fetch, of.every
	t.list.columns = of.columns
}

func (t *tablePage[R]) title() string  { return t.name }
func (t *tablePage[R]) enter() tea.Cmd { return t.load.load(t.s) }
func (t *tablePage[R]) leave()         { t.load.stop() }
func (t *tablePage[R]) tick() tea.Cmd  { return t.load.tick(t.s) }

// sync passes the rows to the list and selects the same row as before.
func (t *tablePage[R]) sync() {
	rows := t.load.data.rows
	t.list.set(len(rows), func(i int) R { return rows[i] })
	if t.at == "" || len(rows) > 0 && t.id(rows[t.list.sel]) == t.at {
		return
	}
	if i := slices.IndexFunc(rows, func(r R) bool { return t.id(r) == t.at }); i >= 0 {
		t.list.sel = i
	}
}

// seek selects the row of an id, as soon as it is in the list.
func (t *tablePage[R]) seek(id string) { t.at = id }

// moved stores which row is selected.
func (t *tablePage[R]) moved() {
	if r, ok := t.list.selected(); ok {
		t.at = t.id(r)
	}
}

// press selects the row at a line of the list.
func (t *tablePage[R]) press(line int) (again, ok bool) {
	t.sync()
	again, ok = t.list.click(line)
	t.moved()
	return again, ok
}

func (t *tablePage[R]) selected() (R, bool) {
	t.sync()
	return t.list.selected()
}

func (t *tablePage[R]) key(k tea.KeyMsg) tea.Cmd {
	r, ok := t.selected()
	switch name := k.String(); {
	case name == "r":
		return t.self.enter()
	case name == "enter":
		return t.openRow()
	case name == "t" && ok && t.traces != nil:
		return t.s.show(t.traces(r))
	case name == "y" && ok:
		t.s.copyText("id", t.id(r))
	case t.list.key(name):
		t.moved()
	}
	return nil
}

// openRow opens the selected row.
func (t *tablePage[R]) openRow() tea.Cmd {
	r, ok := t.selected()
	switch {
	case !ok:
		return nil
	case t.open != nil:
		return t.s.open(t.open(r))
	case t.opened == nil && t.detail == nil:
		return nil
	}
	return t.openDetails(t.self)
}

func (t *tablePage[R]) click(_, y int) tea.Cmd {
	if again, ok := t.press(y); ok && again {
		return t.openRow()
	}
	return nil
}

func (t *tablePage[R]) wheel(by int) {
	t.sync()
	t.list.move(by)
	t.moved()
}

func (t *tablePage[R]) footer(int) (string, bool) { return "", false }

func (t *tablePage[R]) status(w int) string {
	p := t.s.styles
	var l line
	if t.load.have {
		n := display.Count(int64(len(t.load.data.rows)))
		if t.load.data.total > len(t.load.data.rows) {
			n += " of " + display.Count(int64(t.load.data.total))
		}
		l.add(p.dim, " "+n+" "+t.noun+" · as of "+t.load.at.UTC().Format("15:04:05 UTC"))
	}
	if text, style := t.load.state(t.s); text != "" && (t.load.have || t.load.err == nil) {
		l.add(style, " "+text)
	}
	return l.fit(w)
}

func (t *tablePage[R]) view(w, h int) []string {
	t.sync()
	rows := t.load.data.rows
	switch {
	case !t.load.have && t.load.err != nil:
		why := userMessage(t.load.err)
		if forbidden(t.load.err) {
			why = "This key may not see them (403). An api key without a team sees everything."
		}
		return centred(t.s.styles, w, h, t.name+" cannot be shown", why)
	case !t.load.have:
		return centred(t.s.styles, w, h, "Asking the control plane…", "")
	case len(rows) == 0:
		return centred(t.s.styles, w, h, t.empty[0], t.empty[1])
	}
	r, _ := t.list.selected()
	if t.detail == nil || h < 14 {
		return t.list.view(t.s.styles, w, h)
	}
	below := drawFields(t.s.styles, t.detail(r), w)
	top := min(len(rows)+1, h-len(below)-1)
	lines := append(t.list.view(t.s.styles, w, top), "")
	return append(lines, below...)
}

func (t *tablePage[R]) hints() []hint { return t.hintsWith() }

// hintsWith returns the hints of the list with those of the page that embeds it.
func (t *tablePage[R]) hintsWith(own ...hint) []hint {
	hints := append([]hint{{"enter", "open"}}, own...)
	if t.traces != nil {
		hints = append(hints, hint{"t", t.tracesHint})
	}
	return append(hints, hint{"y", "copy id"}, hint{"r", "refresh"}, hint{"tab", "next"}, hint{"↑↓", "move"})
}
