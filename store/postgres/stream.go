package postgres

import (
	"context"
	"encoding/binary"
	"strconv"

	"svc/store"
)

// stream reads committed traces from the database by their number in commit order: it
// has no queue, and ingest does not depend on it.
type stream struct {
	t       *tenant
	n       int32
	changed func() <-chan struct{} // returns a channel that the next commit closes
	end     func()
	opts    store.StreamOptions
	cursor  int64
	opened  int64 // the newest commit when the stream was opened
}

// streamBatches bounds the batches that one transaction reads.
const streamBatches = 32

// cursorOf formats a commit number as a cursor, which is valid in every process.
func cursorOf(seq int64) store.Cursor {
	if seq == 0 {
		return store.CursorStart
	}
	return store.Cursor("p" + strconv.FormatInt(seq, 10))
}

// StreamTraces opens a stream.
func (t *tenant) StreamTraces(ctx context.Context, opts store.StreamOptions) (store.TraceStream, error) {
	s := &stream{t: t, opts: opts.Bounded()}
	after, err := opts.After.Number()
	if err != nil {
		return nil, err
	}
	err = t.read(ctx, func(d *data) error {
		s.n = d.n
		_, err := d.one([]any{&s.opened}, `SELECT seq FROM trace_state WHERE tenant = $1`, d.n)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cursor = s.opened
	if opts.After != "" {
		s.cursor = min(after, s.opened)
	}
	s.changed, s.end = t.s.feeds.Follow(s.n)
	return s, nil
}

// Cursor returns the position up to which everything has been read.
func (s *stream) Cursor() store.Cursor { return cursorOf(s.cursor) }

// Close ends the stream.
func (s *stream) Close() { s.end() }

// Next waits for matching traces.
func (s *stream) Next(ctx context.Context) ([]store.TraceEvent, error) {
	return store.Following{Changed: s.changed, Read: s.read, Closed: s.t.s.closed}.Next(ctx)
}

// read returns the next matching traces, and whether there may be more after the scanned
// ones.
func (s *stream) read(ctx context.Context) (events []store.TraceEvent, more bool, err error) {
	var cursor int64
	err = s.t.read(ctx, func(d *data) error {
		events, more, cursor = nil, false, s.cursor
		var newest, horizon int64
		if _, err := d.one([]any{&newest, &horizon}, `SELECT seq, horizon FROM trace_state WHERE tenant = $1`, d.n); err != nil {
			return err
		}
		if lag := newest - max(cursor, s.opened); s.opts.MaxLag > 0 && lag > int64(s.opts.MaxLag) {
			return store.ErrTooSlow
		}
		if cursor >= newest {
			return nil
		}
		list, more_, err := d.commitsAfter(cursor)
		if err != nil {
			return err
		}
		traces, err := d.tracesOf(list, horizon)
		if err != nil {
			return err
		}
		for _, c := range list {
			if len(events) >= s.opts.Batch {
				more = true
				return nil
			}
			cursor = c.n
			if tr, ok := traces[c.seq]; ok && s.opts.Filter.Match(&tr) {
				events = append(events, store.TraceEvent{Cursor: cursorOf(c.n), Trace: tr})
			}
		}
		if more = more_; !more {
			cursor = max(cursor, newest)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	s.cursor = cursor
	return events, more, nil
}

// committedTrace is the key of a trace's row, and its number in commit order.
type committedTrace struct{ n, seq, created int64 }

// commitsAfter returns the traces of the next batches after a number, in order, and
// whether there are more batches.
func (d *data) commitsAfter(after int64) (list []committedTrace, more bool, err error) {
	var last int64
	var created, seqs []byte
	batches := 0
	err = d.each([]any{&last, &created, &seqs}, func() error {
		batches++
		count := int64(len(seqs) / 8)
		for i := range count {
			n := last - count + 1 + i
			if n > after {
				list = append(list, committedTrace{n, int64(binary.BigEndian.Uint64(seqs[8*i:])), int64(binary.BigEndian.Uint64(created[8*i:]))})
			}
		}
		return nil
	}, `SELECT n, created, seqs FROM trace_batches WHERE tenant = $1 AND n > $2 ORDER BY n LIMIT $3`, d.n, after, streamBatches)
	return list, batches == streamBatches, err
}

// tracesOf reads traces by their keys, as lists show them, except for removed ones.
func (d *data) tracesOf(list []committedTrace, horizon int64) (map[int64]store.Trace, error) {
	var r traceRow
	return d.tracesAt(list, horizon, listColumns, &r, r.list())
}

// wholeTracesOf is tracesOf with all fields.
func (d *data) wholeTracesOf(list []committedTrace, horizon int64) (map[int64]store.Trace, error) {
	var r traceRow
	return d.tracesAt(list, horizon, wholeColumns, &r, r.whole())
}

func (d *data) tracesAt(list []committedTrace, horizon int64, columns string, r *traceRow, into []any) (map[int64]store.Trace, error) {
	traces := make(map[int64]store.Trace, len(list))
	var created, seqs []int64
	for _, c := range list {
		if c.created >= horizon {
			created, seqs = append(created, c.created), append(seqs, c.seq)
		}
	}
	if len(seqs) == 0 {
		return traces, nil
	}
	err := d.each(into, func() error {
		tr, err := r.trace()
		traces[r.seq] = tr
		return err
	}, `SELECT `+columns+` FROM unnest($2::bigint[], $3::bigint[]) AS k (c, s) JOIN traces ON tenant = $1 AND created = k.c AND seq = k.s`, d.n, created, seqs)
	return traces, err
}
