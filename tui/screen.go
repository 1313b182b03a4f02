package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
)

// Screen is the program without a terminal: it is driven by calls, asks its
// plane within them, and follows no source. Recordings and tests draw with it;
// it is used by one goroutine.
type Screen struct {
	m     *Model
	state feedState
}

// NewScreen returns a screen of w by h cells. True colour is used when the
// options ask for colour.
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

// Feed lets traces come in.
func (s *Screen) Feed(events ...Event) {
	rows := make([]*row, len(events))
	for i, ev := range events {
		rows[i] = newRow(ev)
	}
	s.m.applyBatch(batch{rows: rows, state: s.state})
}

// Lose reports that the stream broke and when the next attempt is made.
func (s *Screen) Lose(err error, attempt int, in time.Duration) {
	s.state = feedState{phase: waiting, err: err, attempt: attempt, retryAt: s.m.s.now().Add(in)}
	s.Feed()
}

// keyTypes are the keys that have a name.
var keyTypes = map[string]tea.KeyType{
	"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "tab": tea.KeyTab, "shift+tab": tea.KeyShiftTab,
	"backspace": tea.KeyBackspace, "ctrl+c": tea.KeyCtrlC, "ctrl+u": tea.KeyCtrlU, "ctrl+d": tea.KeyCtrlD, "space": tea.KeySpace,
}

// Key presses keys: names such as "enter" and "up", or a text to type.
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

// Click presses the left button of the mouse at a cell.
func (s *Screen) Click(x, y int) {
	s.m.Update(tea.MouseMsg{X: x, Y: y, Button: tea.MouseButtonLeft, Action: tea.MouseActionPress})
}

// View is what the terminal shows.
func (s *Screen) View() string { return s.m.View() }
