package store

import (
	"context"
	"errors"
)

// Following defines how a trace stream waits for new traces. It is shared by the engines.
type Following struct {
	// Changed returns a channel that the next commit closes.
	Changed func() <-chan struct{}
	// Read returns the next matching traces, and whether there may be more after the rows
	// that it scanned.
	Read func(ctx context.Context) (events []TraceEvent, more bool, err error)
	// Closed is closed together with the store.
	Closed <-chan struct{}
}

// Next waits for matching traces. While the engine is unavailable there are none: the stream
// waits for Changed, which is closed when the engine can be reached again.
func (f Following) Next(ctx context.Context) ([]TraceEvent, error) {
	for {
		// Changed is called before Read, so that a commit between the two still wakes the
		// stream.
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
