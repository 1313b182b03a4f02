package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// feed publishes the commits of a tenant whose traces are streamed at this handle.
type feed struct {
	followers int
	seq       int64         // number of the newest known commit
	changed   chan struct{} // closed and replaced with every newer commit
}

// followEvery is the interval of polls for commits of other processes.
const followEvery = 200 * time.Millisecond

// follow starts polling for the commits of a tenant.
func (s *Store) follow(n int32) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[n]
	if f == nil {
		f = &feed{changed: make(chan struct{})}
		s.feeds[n] = f
	}
	f.followers++
	return f
}

func (s *Store) unfollow(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[n]; f != nil {
		if f.followers--; f.followers == 0 {
			delete(s.feeds, n)
		}
	}
}

// nextCommit returns a channel that is closed by the next commit.
func (s *Store) nextCommit(f *feed) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.changed
}

// committed wakes the streams of a tenant if the commit is newer than the last known
// one.
func (s *Store) committed(n int32, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[n]; f != nil && seq > f.seq {
		f.seq = seq
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// poll reads the newest commits of all streamed tenants with one query.
func (s *Store) poll(ctx context.Context) error {
	s.mu.Lock()
	followed := make([]int32, 0, len(s.feeds))
	for n := range s.feeds {
		followed = append(followed, n)
	}
	s.mu.Unlock()
	if len(followed) == 0 {
		return nil
	}
	type state struct {
		tenant int32
		seq    int64
	}
	var list []state
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		list = list[:0]
		var one state
		return rows(ctx, tx, `SELECT tenant, seq FROM trace_state WHERE tenant = ANY($1)`, []any{followed}, []any{&one.tenant, &one.seq}, func() error {
			list = append(list, one)
			return nil
		})
	})
	for _, one := range list {
		s.committed(one.tenant, one.seq)
	}
	return err
}
