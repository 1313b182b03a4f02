package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
)

// Screen is the program without a terminal: it is driven by calls, calls its
// plane synchronously, and follows no source. It is used for recordings and
// tests, by one goroutine.
type Screen struct {
	m     *Model
	state feedState
}

// NewScreen returns a screen of w by h cells. It uses true color when the
// options enable color.
func NewScreen(o Options, w, h int) *Screen {
	m := New(context.Background(), o)
	profile := termenv.TrueColor
	m.s.inline = true
	*m.s.styles = *newStyles(o.Output, o.Colour, o.Theme, &profile)
	s := &Screen{m: m, state: feedState{phase: live}}
	s.Resize(w, h)
	s.Feed()
	return s
}

// Resize changes the size of the terminal.
func (s *Screen) Resize(w, h int) { s.m.Update(tea.WindowSizeMsg{Width: w, Height: h}) }

// Feed adds traces as if they had arrived.
func (s *Screen) Feed(events ...Event) {
	rows := make([]*row, len(events))
	for i, ev := range events {
		rows[i] = newRow(ev)
	}
	s.m.applyBatch(batch{rows: rows, state: s.state})
}

// keyTypes are the keys with names.
var keyTypes = map[string]tea.KeyType{
	"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "tab": tea.KeyTab, "shift+tab": tea.KeyShiftTab,
	"backspace": tea.KeyBackspace, "ctrl+c": tea.KeyCtrlC, "ctrl+u": tea.KeyCtrlU, "ctrl+d": tea.KeyCtrlD, "space": tea.KeySpace,
}

// Key presses keys: names such as "enter" and "up", or text to type.
func (s *Screen) Key(keys ...string) {
	for _, k := range keys {
		if t, ok := keyTypes[k]; ok {
			s.m.Update(tea.KeyMsg{Type: t, Runes: map[bool][]rune{true: {' '}}[t == tea.KeySpace]})
			continue
		}
		for _, r := range k {
			s.m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		}
	}
}

// View returns the contents of the terminal.
func (s *Screen) View() string { return s.m.View() }
