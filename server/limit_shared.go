package server

import (
	"context"
	"time"
)

// SharedWindows are request windows that all processes of one store share.
type SharedWindows interface {
	// Take counts a request in the window of a name, if fewer than limit were counted
	// within length. It returns how many there are then, and how old the oldest is. After
	// an error nothing is known.
	Take(ctx context.Context, name string, limit int, length time.Duration) (taken bool, count int, oldest time.Duration, err error)
	// Failing reports whether requests go uncounted there at present, and Failures how
	// many calls have failed.
	Failing() bool
	Failures() uint64
}

// takeShared is take in the windows that all processes share. The windows of this
// process count what it accepts too, and decide while the shared ones do not answer.
func (ws *windows) takeShared(ctx context.Context, shared SharedWindows, name string, now time.Time) quota {
	taken, count, oldest, err := shared.Take(ctx, ws.kind+":"+name, ws.limit, windowLength)
	if err != nil {
		return ws.take(name, now)
	}
	q := quota{allowed: taken, limit: ws.limit, remaining: max(ws.limit-count, 0), reset: now.Add(windowLength - oldest)}
	if taken {
		ws.note(name, now)
	} else {
		q.wait = q.reset.Sub(now)
	}
	return q
}
