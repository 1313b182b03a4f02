package tui

import (
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
)

// setFilter sets a filter; an invalid filter changes nothing and its error is
// shown.
func (t *tracesPage) setFilter(s string) {
	f, err := parseFilter(s, t.s.now())
	if t.filterErr = err; err != nil {
		return
	}
	t.text = strings.TrimSpace(s)
	t.filter = f
	t.forgetOlder()
	t.rematch()
}

// quoted quotes a value for a term of a filter if necessary.
func quoted(s string) string {
	s = strings.ReplaceAll(s, `"`, "")
	if strings.ContainsAny(s, " ,") {
		return `"` + s + `"`
	}
	return s
}

// typeKey edits the filter, which is applied while it is typed.
func (t *tracesPage) typeKey(k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "enter":
		if t.filterErr == nil {
			t.typing = false
		}
		return t.fill()
	case "esc":
		t.typing, t.filterErr = false, nil
		t.setFilter("")
		return nil
	case "up", "down", "pgup", "pgdown":
		t.list.key(k.String())
		t.moved()
		return nil
	}
	before := t.input.Value()
	t.input, _ = t.input.Update(k)
	if t.input.Value() != before {
		t.setFilter(t.input.Value())
	}
	return nil
}

func (t *tracesPage) footer(w int) (string, bool) {
	if !t.typing {
		return "", false
	}
	p := t.s.styles
	var l line
	l.add(p.accent, " / ")
	drawInput(&l, p, &t.input, w/2-3)
	switch {
	case t.filterErr != nil:
		l.add(p.bad, "  "+clean(t.filterErr.Error()))
	case t.input.Value() == "":
		l.add(p.dim, " agent:x status:error tool:y ms:>500 -env:test text · enter keeps, esc clears")
	default:
		l.add(p.dim, "  enter keeps it · esc clears it")
	}
	return l.fit(w), true
}

// drawInput adds a text that is being edited, with its cursor. The part before the cursor has at most
// that many cells.
func drawInput(l *line, p *styles, input *textinput.Model, most int) {
	value, at := []rune(input.Value()), input.Position()
	before, under, after := clean(string(value[:at])), " ", ""
	if at < len(value) {
		under, after = clean(string(value[at])), clean(string(value[at+1:]))
	}
	if width(before) > most { // the end of the text is shown, because that is edited
		r := []rune(before)
		for len(r) > 0 && width(string(r)) > most {
			r = r[1:]
		}
		before = "…" + string(r)
	}
	l.add(p.plain, before)
	cursor := p.selected
	if cursor.on == "" && under == " " {
		under = "_"
	}
	l.add(cursor, under)
	l.add(p.plain, after)
}
