package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// listed is what a list answered, and how many there are: more than are shown
// where there are very many.
type listed[R any] struct {
	rows  []R
	total int
}

// tablePage is a page that shows one list of the control plane: what agents,
// policies, budgets and SLA targets have in common.
type tablePage[R any] struct {
	s     *shared
	name  string
	noun  string    // of the rows, for their number
	empty [2]string // what an empty list says
	id    func(R) string
	load  loader[listed[R]]
	at    string // id of the selected row, which stays selected when rows move
	list  list[R]
	// detail is what is shown below the list of the selected row, where there is
	// room; nil for nothing.
	detail func(R) []field
	// opened is what a row shows when it is opened; nil for detail.
	opened func(R) []field
}

func (t *tablePage[R]) title() string  { return t.name }
func (t *tablePage[R]) enter() tea.Cmd { return t.load.load(t.s) }
func (t *tablePage[R]) leave()         { t.load.stop() }
func (t *tablePage[R]) tick() tea.Cmd  { return t.load.tick(t.s) }

// sync tells the list what there is, and finds the selected row again.
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

// moved notes which row was selected.
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
	t.sync()
	if k.String() == "r" {
		return t.load.load(t.s)
	}
	if t.list.key(k.String()) {
		t.moved()
	}
	return nil
}

func (t *tablePage[R]) click(_, y int) tea.Cmd { t.press(y); return nil }

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
		n := count(int64(len(t.load.data.rows)))
		if t.load.data.total > len(t.load.data.rows) {
			n += " of " + count(int64(t.load.data.total))
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

func (t *tablePage[R]) hints() []hint {
	return []hint{{"r", "refresh"}, {"tab", "next"}, {"↑↓", "move"}}
}
