package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
)

// slowAnswer is the time after which a screen says that it waits for an answer.
const slowAnswer = 400 * time.Millisecond

// result is the result of a command. It is applied in Update, which alone
// changes the screens.
type result func() tea.Cmd

// loader loads the data of a screen, once and then periodically while the
// screen is visible.
type loader[T any] struct {
	fetch func(context.Context) (T, error)
	every time.Duration  // between refreshes; 0: once
	done  func() tea.Cmd // called when a request has ended; may be nil

	data   T
	have   bool // whether data was loaded at least once
	err    error
	at     time.Time // time of the data
	due    time.Time // time of the next refresh
	asked  time.Time // time of the request in flight
	busy   bool
	gen    int
	cancel context.CancelFunc
}

// load starts a request and cancels the previous one.
func (l *loader[T]) load(s *shared) tea.Cmd {
	l.stop()
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	l.cancel, l.busy, l.asked = cancel, true, s.now()
	gen, fetch := l.gen, l.fetch
	cmd := func() tea.Msg {
		data, err := fetch(ctx)
		cancel()
		return result(func() tea.Cmd {
			if gen != l.gen {
				return nil
			}
			l.apply(s.now(), data, err)
			if l.done == nil {
				return nil
			}
			return l.done()
		})
	}
	if s.inline {
		return cmd().(result)()
	}
	return cmd
}

func (l *loader[T]) apply(now time.Time, data T, err error) {
	l.busy, l.err = false, err
	l.due = now.Add(max(l.every, time.Second))
	var answer *client.Error
	switch {
	case err == nil:
		l.data, l.have, l.at = data, true, now
	case errors.As(err, &answer) && answer.RetryAfter > 0:
		l.due = now.Add(answer.RetryAfter)
	case forbidden(err):
		l.have = false // when the key has lost the permission, the data is removed
		l.due = now.Add(time.Minute)
	}
}

// tick starts a request when a refresh is due.
func (l *loader[T]) tick(s *shared) tea.Cmd {
	if l.busy || l.every == 0 && l.have || s.now().Before(l.due) {
		return nil
	}
	return l.load(s)
}

// stop cancels the request in flight.
func (l *loader[T]) stop() {
	l.gen++
	if l.cancel != nil {
		l.cancel()
	}
	l.busy = false
}

// state returns the age of the data and the last error.
func (l *loader[T]) state(s *shared) (string, style) {
	switch {
	case l.busy && l.err == nil && s.now().Sub(l.asked) >= slowAnswer:
		return "no answer yet, asked at " + l.asked.UTC().Format("15:04:05 UTC"), s.styles.warn
	case l.err != nil && l.have:
		return userMessage(l.err) + " · from " + l.at.UTC().Format("15:04:05 UTC"), s.styles.warn
	case l.err != nil:
		return userMessage(l.err), s.styles.bad
	case !l.have:
		return "asking…", s.styles.dim
	}
	return "", s.styles.dim
}
