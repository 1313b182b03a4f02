package store

import (
	"context"
	"errors"
)

// Following is how a stream of an engine waits for traces. Engines share it.
type Following struct {
	// Changed returns what is closed by the next commit.
	Changed func() <-chan struct{}
	// Read returns the next traces that match, and whether there may be more behind what it
	// looked at.
	Read func(ctx context.Context) (events []TraceEvent, more bool, err error)
	// Closed is closed with the store.
	Closed <-chan struct{}
}

// Next waits for traces that match. While the engine cannot be reached there is nothing new:
// Changed wakes the stream when it can be again.
func (f Following) Next(ctx context.Context) ([]TraceEvent, error) {
	for {
		// Taken before the read, so that a commit between the two wakes.
		changed := f.Changed()
		events, more, err := f.Read(ctx)
		if err != nil && !errors.Is(err, ErrUnavailable) || len(events) > 0 {
			return events, err
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-f.Closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
