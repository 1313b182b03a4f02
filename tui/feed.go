package tui

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
)

// phase is the state of a connection to the source.
type phase uint8

const (
	connecting phase = iota
	live
	waiting // until the next attempt
)

// feedState is the state of the feed for the screen.
type feedState struct {
	phase   phase
	attempt int // number of failed attempts in a row
	err     error
	retryAt time.Time
}

// batch has the rows since the last frame.
type batch struct {
	rows    []*row
	dropped uint64 // number of rows that were dropped because the screen was too slow
	state   feedState
	reset   bool // whether earlier rows must be removed, because the control plane has another history
}

// feed follows a source while the program runs, and delivers the events in
// batches, at most one per frame.
type feed struct {
	source  Source
	frame   time.Duration // minimum time between batches
	timeout time.Duration // timeout of opening the source
	limit   int           // bound on rows that wait for the screen
	now     func() time.Time

	ctx      context.Context
	retryNow chan struct{} // signals an immediate retry
	wake     chan struct{} // signals that a batch is ready

	mu      sync.Mutex
	pending []*row
	dropped uint64
	reset   bool
	state   feedState
}

func newFeed(ctx context.Context, source Source, timeout time.Duration, now func() time.Time) *feed {
	return &feed{source: source, frame: time.Second / 30, timeout: timeout, limit: historySize, now: now,
		ctx: ctx, retryNow: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// run follows the source until ctx ends. It runs as a command, so that the
// terminal is restored after a panic.
func (f *feed) run() tea.Msg {
	cursor, attempt := "", 0
	var err error
	for f.ctx.Err() == nil {
		f.set(feedState{phase: connecting, attempt: attempt, err: err})
		var opened bool
		opened, err = f.follow(&cursor)
		if f.ctx.Err() != nil {
			break
		}
		if opened {
			attempt = 0
		}
		if cursor != "" && !opened && gap(err) {
			cursor = ""
		}
		attempt++
		wait := backoff(attempt, err, rand.Float64())
		f.set(feedState{phase: waiting, attempt: attempt, err: err, retryAt: f.now().Add(wait)})
		timer := time.NewTimer(wait)
		select {
		case <-f.ctx.Done():
		case <-f.retryNow:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// follow opens the source and reads events until the stream ends. It reports
// whether an event arrived, or the stream was open for a while.
func (f *feed) follow(cursor *string) (worked bool, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	late := time.AfterFunc(f.timeout, cancel)
	stream, err := f.source.Open(ctx, *cursor)
	if !late.Stop() && err != nil && f.ctx.Err() == nil {
		return false, errSilent
	}
	if err != nil {
		return false, err
	}
	defer stream.Close()
	if *cursor == "" {
		f.forget() // the first events of the source may be known already
	}
	since := time.Now()
	f.set(feedState{phase: live})
	for {
		ev, err := stream.Next()
		if c := stream.Cursor(); c != "" {
			*cursor = c
		}
		if err != nil {
			return worked || time.Since(since) > 5*time.Second, err
		}
		worked = true
		f.push(newRow(ev))
	}
}

// backoff returns the pause before the next attempt: half a second at first,
// doubled each time, up to 15 s; jitter from 0 to 1 varies it by up to a fifth.
// Retry-After of the control plane takes precedence.
func backoff(attempt int, err error, jitter float64) time.Duration {
	var answer *client.Error
	if errors.As(err, &answer) && answer.RetryAfter > 0 {
		return min(answer.RetryAfter, time.Minute)
	}
	d := min(500*time.Millisecond<<min(attempt-1, 8), 15*time.Second)
	return d + time.Duration(jitter*float64(d)/5)
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *feed) set(s feedState) {
	f.mu.Lock()
	f.state = s
	f.mu.Unlock()
	f.signal()
}

func (f *feed) push(r *row) {
	f.mu.Lock()
	if len(f.pending) >= f.limit {
		f.pending = f.pending[1:]
		f.dropped++
	}
	f.pending = append(f.pending, r)
	f.mu.Unlock()
	f.signal()
}

func (f *feed) forget() {
	f.mu.Lock()
	f.pending, f.reset = nil, true
	f.mu.Unlock()
	f.signal()
}

// retry ends the wait for the next attempt.
func (f *feed) retry() {
	select {
	case f.retryNow <- struct{}{}:
	default:
	}
}

// next is a command that waits for a batch, and until a frame has passed, so
// that rows that arrive together are drawn together.
func (f *feed) next() tea.Msg {
	select {
	case <-f.ctx.Done():
		return nil
	case <-f.wake:
	}
	timer := time.NewTimer(f.frame)
	defer timer.Stop()
	select {
	case <-f.ctx.Done():
		return nil
	case <-timer.C:
	}
	return f.take()
}

func (f *feed) take() batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := batch{rows: f.pending, dropped: f.dropped, reset: f.reset, state: f.state}
	f.pending, f.reset = nil, false
	return b
}
