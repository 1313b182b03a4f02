package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Lose reports a lost connection and the time of the next attempt.
func (s *Screen) Lose(err error, attempt int, in time.Duration) {
	s.state = feedState{phase: waiting, err: err, attempt: attempt, retryAt: s.m.s.now().Add(in)}
	s.Feed()
}

// Click presses the left button of the mouse at a cell.
func (s *Screen) Click(x, y int) {
	s.m.Update(tea.MouseMsg{X: x, Y: y, Button: tea.MouseButtonLeft, Action: tea.MouseActionPress})
}

// Wait reports a control plane that has not answered for a while.
func (s *Screen) Wait(d time.Duration) { s.m.waits = s.m.s.now().Add(-d) }
