package tui

import (
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"svc/store/api"
)

// The selected row stays selected when a refresh moves it; when it is
// removed, another one is selected.
func TestSelectionFollowsItsRow(t *testing.T) {
	s := testScreen(100, 30)
	p := newTablePage(s.m.s, "Budgets", budgetsTable(s.m.s))
	answer := func(ids ...string) {
		var rows []api.Budget
		for _, id := range ids {
			rows = append(rows, api.Budget{ID: id, Name: id})
		}
		p.load.apply(noon, listed[api.Budget]{rows, len(rows)}, nil)
		p.view(100, 20)
	}
	selected := func() string {
		r, _ := p.selected()
		return r.ID
	}
	answer("a", "b", "c")
	p.key(tea.KeyMsg{Type: tea.KeyDown})
	answer("c", "a", "b")
	if selected() != "b" {
		t.Errorf("after the rows have moved: %s", selected())
	}
	p.click(0, 1)
	if selected() != "c" {
		t.Errorf("after a click: %s", selected())
	}
	answer("a", "b")
	if selected() != "a" {
		t.Errorf("after the row has gone: %s", selected())
	}
	answer()
	if r, ok := p.selected(); ok {
		t.Errorf("selected %v of nothing", r)
	}
	p.key(tea.KeyMsg{Type: tea.KeyEnter})
	p.wheel(3)
}
