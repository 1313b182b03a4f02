package bolt

import (
	"context"
	"encoding/binary"
	"strconv"

	"svc/store"
)

// stream reads committed traces from the file by their commit number: it has no queue,
// and ingest does not depend on it.
type stream struct {
	t      *tenant
	st     *tenantState
	opts   store.StreamOptions
	cursor uint64
	opened uint64 // the newest commit when the stream was opened
}

// streamScan bounds the records that one transaction scans.
const streamScan = 8192

// StreamTraces opens a stream.
func (t *tenant) StreamTraces(ctx context.Context, opts store.StreamOptions) (store.TraceStream, error) {
	s := &stream{t: t, opts: opts.Bounded()}
	after, err := opts.After.Number()
	if err != nil {
		return nil, err
	}
	err = t.view(ctx, func(d data) error {
		s.opened = d.counter(stateSeq)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.st = t.s.state(t.id)
	s.cursor = s.opened
	if opts.After != "" {
		s.cursor = min(uint64(after), s.opened)
	}
	return s, nil
}

// cursorOf formats a commit number as a cursor: its decimal digits.
func cursorOf(seq uint64) store.Cursor { return store.Cursor(strconv.FormatUint(seq, 10)) }

// Cursor returns the position up to which everything has been read.
func (s *stream) Cursor() store.Cursor { return cursorOf(s.cursor) }

// Close ends the stream; there is nothing to release.
func (s *stream) Close() {}

// Next waits for matching traces.
func (s *stream) Next(ctx context.Context) ([]store.TraceEvent, error) {
	return store.Following{Changed: s.st.nextCommit, Read: s.read, Closed: s.t.s.closed}.Next(ctx)
}

// read returns the next matching traces, and whether there may be more after the scanned
// ones.
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
		f, text := d.filter(&s.opts.Filter), dictReader{d: d}
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
			if ok, err := f.matchDetails(rec); err != nil {
				return err
			} else if !ok {
				continue
			}
			tr, r, err := decodeRecord(rec, false)
			if err != nil {
				return err
			}
			text.fill(&tr, r)
			events = append(events, store.TraceEvent{Cursor: cursorOf(cursor), Trace: tr})
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
