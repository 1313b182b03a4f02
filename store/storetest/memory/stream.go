package memory

import (
	"context"
	"strconv"
	"strings"

	"svc/store"
)

// stream reads committed traces by their position in commit order.
type stream struct {
	t      *tenant
	opts   store.StreamOptions
	cursor uint64
	opened uint64 // the newest commit when the stream was opened
}

const defaultBatch = 256

// cursorOf formats a position as a cursor.
func cursorOf(seq uint64) store.Cursor {
	if seq == 0 {
		return store.CursorStart
	}
	return store.Cursor("m" + strconv.FormatUint(seq, 10))
}

func parseCursor(c store.Cursor) (seq uint64, err error) {
	if digits, ok := strings.CutPrefix(string(c), "m"); ok {
		seq, err = strconv.ParseUint(digits, 10, 64)
	}
	if err != nil || cursorOf(seq) != c {
		return 0, store.BadCursor()
	}
	return seq, nil
}

// StreamTraces opens a stream.
func (t *tenant) StreamTraces(ctx context.Context, opts store.StreamOptions) (store.TraceStream, error) {
	s := &stream{t: t, opts: opts}
	if s.opts.Batch <= 0 {
		s.opts.Batch = defaultBatch
	}
	err := t.traces(ctx, func(_ *engine, tr *traces) error {
		s.opened, s.cursor = tr.seq, tr.seq
		if opts.After == "" {
			return nil
		}
		after, err := parseCursor(opts.After)
		s.cursor = min(after, tr.seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Cursor returns the position up to which everything has been read.
func (s *stream) Cursor() store.Cursor { return cursorOf(s.cursor) }

// Close ends the stream; there is nothing to release.
func (s *stream) Close() {}

// Next waits for matching traces.
func (s *stream) Next(ctx context.Context) (events []store.TraceEvent, err error) {
	for {
		var changed chan struct{}
		err := s.t.traces(ctx, func(_ *engine, tr *traces) error {
			changed = tr.changed
			if s.opts.MaxLag > 0 && tr.seq-max(s.cursor, s.opened) > uint64(s.opts.MaxLag) {
				return store.ErrTooSlow
			}
			events = s.read(tr)
			return nil
		})
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-s.t.s.closed:
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read returns the next matching traces and moves the cursor past the scanned
// ones.
func (s *stream) read(tr *traces) (events []store.TraceEvent) {
	for _, one := range tr.stored {
		if one.seq <= s.cursor {
			continue
		}
		if len(events) == s.opts.Batch {
			return events
		}
		s.cursor = one.seq
		if s.opts.Filter.Match(&one.trace) {
			events = append(events, store.TraceEvent{Cursor: cursorOf(one.seq), Trace: listed(one.trace)})
		}
	}
	s.cursor = max(s.cursor, tr.seq)
	return events
}
