package postgres

import (
	"context"
	"errors"
	"time"

	"svc/store"
)

// background starts what a handle does by itself. Close waits for it.
func (s *Store) background() {
	if s.role != tool {
		s.every("note that this process has the database open", handleEvery, s.renewHandle)
	}
	if s.role == serving {
		s.work.Go(func() { s.watch(s.opts.watched) })
	}
	if s.role == exporting || s.role == importing {
		return
	}
	s.every("write the uses of keys", s.opts.FlushEvery, s.flushUsed)
	s.every("look for traces of other processes", followEvery, s.poll)
	s.every("say that requests are in flight", renewEvery, s.renewRequests)
	s.every("take away requests that are in flight no more", settleEvery, s.settleRequests)
	s.every("read the clock", time.Minute, s.readClock)
	s.every("make partitions", 10*time.Minute, s.makeDaysAhead)
	s.every("remove old traces", time.Minute, s.sweep)
	if s.opts.MergeEvery > 0 {
		s.every("merge statistics", s.opts.MergeEvery, s.mergeDue)
	}
}

// every does something again and again until the store is closed. A failure is logged
// when it begins and when it ends.
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
