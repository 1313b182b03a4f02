package server

import (
	"context"
	"time"
)

// SharedWindows are request windows that all processes of a store share. Implementations
// are safe for concurrent use.
type SharedWindows interface {
	// Take counts a request in the window of a name when fewer than limit requests were
	// counted within length. It returns the count after that, and the age of the oldest
	// request. After an error the state of the window is unknown.
	Take(ctx context.Context, name string, limit int, length time.Duration) (taken bool, count int, oldest time.Duration, err error)
	// Failing reports whether requests are currently not counted there. Failures returns
	// the number of failed calls.
	Failing() bool
	Failures() uint64
}

// takeShared is take for the windows that all processes share. The windows of this
// process count the accepted requests too, and are used while the shared ones are
// unavailable.
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
