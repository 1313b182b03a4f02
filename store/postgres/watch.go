package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// watching are the intervals of the watch on the engine. A frozen engine neither responds nor rejects
// connections: without the watch, calls would wait for the whole timeout of the store.
type watching struct {
	every   time.Duration // between two probes
	answer  time.Duration // timeout of a probe on an open connection
	connect time.Duration // timeout of a connection attempt, per host
}

// watchedBy detects a frozen engine within ten seconds: after two probes without a response, the second of
// which connects to every host.
var watchedBy = watching{every: time.Second, answer: 3 * time.Second, connect: 2 * time.Second}

// presence is the last known state of the engine.
type presence struct {
	mu     sync.Mutex
	frozen error           // the reason why calls are rejected; nil: they are not
	here   context.Context // canceled when the engine is found frozen
	leave  func()
}

func newPresence() *presence {
	p := &presence{}
	p.here, p.leave = context.WithCancel(context.Background())
	return p
}

// state returns a context that is canceled when the engine is found frozen, and the error for new calls
// while it is.
func (p *presence) state() (here context.Context, frozen error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.here, p.frozen
}

// set records whether the engine is frozen. It reports whether that has changed.
func (p *presence) set(frozen error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.frozen
	p.frozen = frozen
	switch {
	case frozen != nil && was == nil:
		p.leave()
		return true
	case frozen == nil && was != nil:
		p.here, p.leave = context.WithCancel(context.Background())
		return true
	}
	return false
}

// watch probes the engine until the store is closed. Any response, including an error, counts: calls
// notice rejected connections and statements by themselves, at once.
func (s *Store) watch(w watching) {
	config := s.pool.Config().ConnConfig.Copy()
	config.ConnectTimeout = w.connect
	hosts := time.Duration(1 + len(config.Fallbacks))
	open, end := context.WithCancel(s.ended)
	defer end()
	s.work.Go(func() {
		select {
		case <-s.closed: // Close does not wait for a probe
			end()
		case <-open.Done():
		}
	})
	var conn *pgx.Conn
	look := func() error {
		limit := w.answer
		if conn == nil {
			limit = max(limit, w.connect*hosts+time.Second)
		}
		ctx, cancel := context.WithTimeout(open, limit)
		defer cancel()
		var err error
		if conn == nil {
			if conn, err = pgx.ConnectConfig(ctx, config); err != nil {
				conn = nil
				return err
			}
		}
		if _, err = conn.Exec(ctx, `SELECT 1`); err != nil {
			conn.Close(ctx)
			conn = nil
		}
		return err
	}
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	unanswered := 0
	for {
		select {
		case <-s.closed:
			if conn != nil {
				late, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				conn.Close(late)
			}
			return
		case <-tick.C:
		}
		err := look()
		if unanswered++; !timedOut(err) {
			unanswered = 0
		}
		switch {
		case unanswered == 0 && s.presence.set(nil):
			s.log.Info("the database responds again", "database", s.where)
		case unanswered == 2 && s.presence.set(fmt.Errorf("%w: %s does not respond", store.ErrUnavailable, s.where)):
			s.log.Warn("the database does not respond; calls fail until it does", "database", s.where, "error", err)
		}
	}
}

// timedOut reports whether a timeout occurred at one of the hosts at least.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
