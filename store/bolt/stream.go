package bolt

import (
	"context"
	"encoding/binary"

	"svc/store"
)

// stream reads committed traces by their commit number, from the file: it holds
// no queue, and ingest does not know of it.
type stream struct {
	t      *tenant
	st     *tenantState
	opts   store.StreamOptions
	cursor uint64
	opened uint64 // the newest commit when it was opened
}

const (
	defaultStreamBatch = 256
	// streamScan bounds the records that one transaction looks at.
	streamScan = 8192
)

// StreamTraces opens a stream.
func (t *tenant) StreamTraces(ctx context.Context, opts store.StreamOptions) (store.TraceStream, error) {
	s := &stream{t: t, opts: opts}
	if s.opts.Batch <= 0 {
		s.opts.Batch = defaultStreamBatch
	}
	err := t.view(ctx, func(d data) error {
		s.opened = d.counter(stateSeq)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.st = t.s.state(t.id)
	s.cursor = s.opened
	if opts.After != nil {
		s.cursor = min(uint64(*opts.After), s.opened)
	}
	return s, nil
}

// Cursor is the place up to which everything has been read.
func (s *stream) Cursor() store.Cursor { return store.Cursor(s.cursor) }

// Close ends the stream; there is nothing to release.
func (s *stream) Close() {}

// Next waits for traces that match.
func (s *stream) Next(ctx context.Context) ([]store.TraceEvent, error) {
	for {
		// Taken before the read, so that a commit between the two wakes.
		changed := s.st.nextCommit()
		events, more, err := s.read(ctx)
		if err != nil || len(events) > 0 {
			return events, err
		}
		if more {
			continue
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

// read returns the next traces that match, and whether there may be more behind
// what it looked at.
func (s *stream) read(ctx context.Context) (events []store.TraceEvent, more bool, err error) {
	cursor := s.cursor
	err = s.t.view(ctx, func(d data) error {
		newest := d.counter(stateSeq)
		if lag := newest - min(newest, max(cursor, s.opened)); s.opts.MaxLag > 0 && lag > uint64(s.opts.MaxLag) {
			return store.ErrTooSlow
		}
		if cursor >= newest {
			return nil
		}
		f, text := d.filter(&s.opts.Filter), names{d: d}
		if f.none {
			cursor = newest
			return nil
		}
		c := d.in(inTraces).Cursor()
		k, rec := c.Seek(bytes8(cursor + 1))
		for looked := 0; k != nil; k, rec = c.Next() {
			if looked++; looked > streamScan || len(events) >= s.opts.Batch {
				more = true
				return nil
			}
			cursor = binary.BigEndian.Uint64(k)
			if !f.matchRecord(rec) {
				continue
			}
			tr, r, err := decodeRecord(rec, false)
			if err != nil {
				return err
			}
			text.fill(&tr, r)
			events = append(events, store.TraceEvent{Cursor: store.Cursor(cursor), Trace: tr})
		}
		cursor = max(cursor, newest)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	s.cursor = cursor
	return events, more, nil
}
