package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// pulse finds out within a second that a control plane does not answer. The stream alone would not show it: a
// stream without traces is silent for 15 s.
type pulse struct {
	ctx     context.Context
	ping    func(context.Context) error
	every   time.Duration // between an answer and the next request
	timeout time.Duration
	now     func() time.Time
	changes chan time.Time
}

// waitsSince is the time of the first request without an answer; zero when the control plane answers again.
type waitsSince time.Time

func newPulse(ctx context.Context, ping func(context.Context) error, timeout time.Duration, now func() time.Time) *pulse {
	return &pulse{ctx: ctx, ping: ping, every: slowAnswer, timeout: timeout, now: now, changes: make(chan time.Time)}
}

// run sends requests, one after the other, until ctx ends.
func (p *pulse) run() tea.Msg {
	var since time.Time
	patience := slowAnswer
	for p.ctx.Err() == nil {
		asked := p.now()
		answer := make(chan error, 1)
		ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
		go func() { answer <- p.ping(ctx) }()
		timer := time.NewTimer(patience)
		var err error
		select {
		case err = <-answer:
		case <-timer.C:
			if since.IsZero() {
				since = asked
				p.change(since)
			}
			err = <-answer
		}
		timer.Stop()
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if took := p.now().Sub(asked); since.IsZero() { // a network may always be that slow
			patience = max(slowAnswer, min(3*took, p.timeout/2))
		}
		if !since.IsZero() { // an error is an answer too: the feed shows what is wrong
			since = time.Time{}
			p.change(since)
		}
		timer.Reset(p.every)
		select {
		case <-p.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

func (p *pulse) change(since time.Time) {
	select {
	case <-p.ctx.Done():
	case p.changes <- since:
	}
}

// next is a command that waits for a change.
func (p *pulse) next() tea.Msg {
	select {
	case <-p.ctx.Done():
		return nil
	case since := <-p.changes:
		return waitsSince(since)
	}
}
