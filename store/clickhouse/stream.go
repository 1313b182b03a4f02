package clickhouse

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

// followEvery is the interval of polls for commits of other processes.
const followEvery = 200 * time.Millisecond

// committed records traces that this process has written.
func (s *Store) committed(tenant string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.fresh[tenant]
	if u == nil {
		u = &unmerged{looked: time.Now()}
		s.fresh[tenant] = u
	}
	u.n += n
	s.feeds.Wake(tenant)
}

// pollFollowed polls one shard for commits of other processes. Each shard has its own
// goroutine, so that a frozen shard does not block the others.
func (sh *shard) pollFollowed() {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-sh.s.closed:
			return
		case <-tick.C:
			sh.poll(sh.s.ended)
		}
	}
}

// followed returns the tenants of the shard that are streamed. The shard of a tenant
// without traces is the one that its id chooses.
func (sh *shard) followed() (list []string) {
	s := sh.s
	tenants := s.feeds.Followed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tenant := range tenants {
		home := s.homes[tenant]
		if home == nil {
			home = s.chosen(tenant)
		}
		if home == sh {
			list = append(list, tenant)
		}
	}
	return list
}

// poll reads the newest commits of all streamed tenants of the shard with one query.
func (sh *shard) poll(ctx context.Context) {
	s, tenants := sh.s, sh.followed()
	if len(tenants) == 0 {
		return
	}
	var tenant string
	var n uint64
	var newest int64
	// The watch of the shard logs the error; the next poll retries.
	_ = sh.rows(ctx, fmt.Sprintf("SELECT tenant, count(), max(seq) FROM feed WHERE tenant IN (%s) AND %s GROUP BY tenant", quoted(tenants), committedBehind(sh.clock()-2*int64(s.opts.settle))),
		[]any{&tenant, &n, &newest}, func() error {
			s.feeds.Committed(tenant, [2]int64{int64(n), newest})
			return nil
		})
}

// stream reads committed traces from the engine in commit order: it has no queue, and
// ingest does not depend on it.
type stream struct {
	t       *tenant
	changed func() <-chan struct{} // returns a channel that the next commit closes
	end     func()
	opts    store.StreamOptions
	cursor  cursor
	opened  cursor // the newest commits when the stream was opened
}

// StreamTraces opens a stream.
func (t *tenant) StreamTraces(ctx context.Context, opts store.StreamOptions) (store.TraceStream, error) {
	s := &stream{t: t, opts: opts.Bounded()}
	var after cursor
	if opts.After != "" {
		var err error
		if after, err = parseCursor(opts.After); err != nil {
			return nil, err
		}
	}
	err := t.on(ctx, func(sh *shard) (err error) {
		s.opened, err = t.newest(ctx, sh)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cursor = s.opened.clone()
	if opts.After != "" {
		s.cursor = after
		// A position in the future comes from another store: the stream starts at the
		// current time.
		if now := s.opened; after.floor > now.floor+2*int64(t.s.opts.settle) {
			s.cursor = now.clone()
		}
	}
	s.changed, s.end = t.s.feeds.Follow(t.id)
	return s, nil
}

// newest returns the position after everything that is committed.
func (t *tenant) newest(ctx context.Context, sh *shard) (cursor, error) {
	c := cursor{floor: max(sh.clock()-int64(t.s.opts.settle), 0), seen: map[uint64]int64{}}
	var writer uint64
	var seq int64
	err := sh.rows(ctx, fmt.Sprintf("SELECT writer, max(seq) FROM feed WHERE tenant = %s AND %s GROUP BY writer", quote(t.id), committedBehind(c.floor)),
		[]any{&writer, &seq}, func() error {
			c.seen[writer] = seq
			return nil
		})
	return c, err
}

// Cursor returns the position up to which everything has been read.
func (s *stream) Cursor() store.Cursor { return s.cursor.text() }

// Close ends the stream.
func (s *stream) Close() { s.end() }

// Next waits for matching traces.
func (s *stream) Next(ctx context.Context) ([]store.TraceEvent, error) {
	return store.Following{Changed: s.changed, Read: s.read, Closed: s.t.s.closed}.Next(ctx)
}

// read returns the next matching traces, and whether there may be more after the scanned
// ones.
func (s *stream) read(ctx context.Context) (events []store.TraceEvent, more bool, err error) {
	c := s.cursor.clone()
	err = s.t.on(ctx, func(sh *shard) error {
		if err := s.tooSlow(ctx, sh); err != nil {
			return err
		}
		var list []place
		var p place
		err := sh.rows(ctx, fmt.Sprintf("SELECT created, seq, writer, id FROM feed WHERE tenant = %s AND %s ORDER BY seq, writer LIMIT %d", quote(s.t.id), c.behind(), s.opts.Batch),
			p.list(), func() error {
				list = append(list, p)
				return nil
			})
		if err != nil || len(list) == 0 {
			return err
		}
		more = len(list) == s.opts.Batch
		events, err = s.events(ctx, sh, &c, list)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	s.cursor = c
	return events, more, nil
}

// events returns the matching traces of commits, and moves the cursor past all of the
// commits.
func (s *stream) events(ctx context.Context, sh *shard, c *cursor, list []place) (events []store.TraceEvent, err error) {
	traces := map[place]store.Trace{}
	for begin := 0; begin < len(list); begin += rowsAtOnce {
		part, err := s.t.at(ctx, sh, list[begin:min(begin+rowsAtOnce, len(list))])
		if err != nil {
			return nil, err
		}
		for p, tr := range part {
			traces[p] = tr
		}
	}
	firsts, err := s.t.firsts(ctx, sh, list)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		c.read(p.seq, p.writer, int64(s.t.s.opts.settle))
		tr, ok := traces[p]
		if first, known := firsts[p.id]; !ok || !known || first != p || !s.opts.Filter.Match(&tr) {
			continue // the trace was removed, is a duplicate row, or does not match
		}
		events = append(events, store.TraceEvent{Cursor: c.text(), Trace: tr})
	}
	return events, nil
}

// firsts returns, for each trace that may be stored twice, the row that counts.
func (t *tenant) firsts(ctx context.Context, sh *shard, list []place) (map[string]place, error) {
	firsts := make(map[string]place, len(list))
	for begin := 0; begin < len(list); begin += rowsAtOnce {
		ids := make([]string, 0, rowsAtOnce)
		for _, p := range list[begin:min(begin+rowsAtOnce, len(list))] {
			ids = append(ids, p.id)
		}
		var p place
		err := sh.rows(ctx, fmt.Sprintf("SELECT created, seq, writer, id FROM ids WHERE tenant = %s AND id IN (%s) AND created >= %s", quote(t.id), quoted(ids), horizonOf(t.id)),
			p.list(), func() error {
				if first, ok := firsts[p.id]; !ok || p.seq < first.seq || p.seq == first.seq && p.writer < first.writer {
					firsts[p.id] = p
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
	}
	return firsts, nil
}

// tooSlow ends a stream that lags by more than MaxLag. Commits before the stream was opened
// do not count.
func (s *stream) tooSlow(ctx context.Context, sh *shard) error {
	if s.opts.MaxLag <= 0 {
		return nil
	}
	var n uint64
	err := sh.row(ctx, fmt.Sprintf("SELECT count() FROM (SELECT seq FROM feed WHERE tenant = %s AND %s AND %s LIMIT %d)",
		quote(s.t.id), s.cursor.behind(), s.opened.behind(), s.opts.MaxLag+1), &n)
	if err == nil && n > uint64(s.opts.MaxLag) {
		err = store.ErrTooSlow
	}
	return err
}
