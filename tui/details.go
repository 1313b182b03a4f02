package tui

import tea "github.com/charmbracelet/bubbletea"

// detailsPage shows the selected row of a list on a page of its own. The keys
// for the row are those of the list, which continues to refresh.
type detailsPage struct {
	s      *shared
	list   page
	name   string
	fields func() ([]field, bool)
	scroll scroller
}

// openDetails opens the selected row of a list that a page shows.
func (t *tablePage[R]) openDetails(list page) tea.Cmd {
	if _, ok := t.selected(); !ok || !t.load.have {
		return nil
	}
	t.moved()
	of := t.opened
	if of == nil {
		of = t.detail
	}
	at := t.at
	return t.s.open(&detailsPage{s: t.s, list: list, name: t.name, fields: func() ([]field, bool) {
		r, ok := t.selected()
		if !ok || !t.load.have || t.id(r) != at {
			return nil, false
		}
		return of(r), true
	}})
}

func (d *detailsPage) title() string               { return d.name }
func (d *detailsPage) enter() tea.Cmd              { return d.list.enter() }
func (d *detailsPage) leave()                      {} // the list is left with its tab
func (d *detailsPage) tick() tea.Cmd               { return d.list.tick() }
func (d *detailsPage) click(int, int) tea.Cmd      { return nil }
func (d *detailsPage) wheel(by int)                { d.scroll.move(by) }
func (d *detailsPage) footer(w int) (string, bool) { return d.list.footer(w) }
func (d *detailsPage) status(w int) string         { return d.list.status(w) }

func (d *detailsPage) key(k tea.KeyMsg) tea.Cmd {
	_, asks := d.list.footer(1)
	_, there := d.fields()
	switch name := k.String(); {
	case asks || name == "r":
		return d.list.key(k)
	case name == "enter":
	case name == "backspace":
		d.s.back()
	case d.scroll.key(name) || !there:
	default:
		return d.list.key(k)
	}
	return nil
}

func (d *detailsPage) view(w, h int) []string {
	fields, ok := d.fields()
	if !ok {
		return centred(d.s.styles, w, h, "It is not in the list any more", "esc goes back.")
	}
	return d.scroll.show(drawFields(d.s.styles, fields, w), h)
}

func (d *detailsPage) hints() []hint {
	hints := []hint{{"esc", "back"}}
	for _, h := range d.list.hints() {
		if h.key != "enter" && h.key != "tab" && h.key != "↑↓" {
			hints = append(hints, h)
		}
	}
	return hints
}
