package postgres

import (
	"context"
	"errors"
	"time"

	"svc/store"
)

// background starts the periodic work of a handle. Close waits for it.
func (s *Store) background() {
	if s.role != tool {
		s.every("renew the row of this process in the table handles", handleEvery, s.renewHandle)
	}
	if s.role == serving {
		s.work.Go(func() { s.watch(s.opts.watched) })
	}
	if s.role == exporting || s.role == importing {
		return
	}
	s.every("write the uses of keys", s.opts.FlushEvery, s.flushUsed)
	s.every("poll for traces of other processes", followEvery, s.poll)
	s.every("renew the rows of requests in flight", renewEvery, s.renewRequests)
	s.every("remove the rows of requests that are no longer in flight", settleEvery, s.settleRequests)
	s.every("remove the rows of requests that have expired", expiredEvery, s.dropExpired)
	s.every("read the clock", time.Minute, s.readClock)
	s.every("make partitions", 10*time.Minute, s.makeDaysAhead)
	s.every("remove old traces", time.Minute, s.sweep)
	if s.opts.MergeEvery > 0 {
		s.every("merge statistics", s.opts.MergeEvery, s.mergeDue)
	}
}

// every runs do periodically until the store is closed. Only the first of successive
// failures is logged, and the next success.
func (s *Store) every(what string, pause time.Duration, do func(context.Context) error) {
	s.work.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		failing := false
		for {
			select {
			case <-s.closed:
				return
			case <-tick.C:
			}
			err := do(s.ended)
			switch {
			case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled):
			case err != nil && !failing:
				failing = true
				s.log.Warn("cannot "+what+"; trying again", "error", err)
			case err == nil && failing:
				failing = false
				s.log.Info("can " + what + " again")
			}
		}
	})
}
