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

// watching is how the engine is watched. One that is frozen answers nothing and refuses
// nothing: calls would wait for the whole timeout of the store.
type watching struct {
	every   time.Duration // between two looks
	answer  time.Duration // in which an engine that is there answers
	connect time.Duration // in which it accepts a connection, for each host
}

// watchedBy finds an engine that is frozen within ten seconds: it is after two looks that
// end without an answer, the second of which connects to every host.
var watchedBy = watching{every: time.Second, answer: 3 * time.Second, connect: 2 * time.Second}

// presence is whether the engine answers, as far as is known.
type presence struct {
	mu     sync.Mutex
	frozen error           // why calls are not begun; nil: they are
	here   context.Context // ends when the engine is found frozen
	leave  func()
}

func newPresence() *presence {
	p := &presence{}
	p.here, p.leave = context.WithCancel(context.Background())
	return p
}

// state returns a context that ends when the engine is found frozen, and why no call is begun while it is.
func (p *presence) state() (here context.Context, frozen error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.here, p.frozen
}

// set notes whether the engine is frozen. It reports whether that is new.
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

// watch looks until the store is closed whether the engine answers, whatever it answers:
// calls find out by themselves, and at once, that it refuses connections or statements.
func (s *Store) watch(w watching) {
	config := s.pool.Config().ConnConfig.Copy()
	config.ConnectTimeout = w.connect
	hosts := time.Duration(1 + len(config.Fallbacks))
	open, end := context.WithCancel(s.ended)
	defer end()
	s.work.Go(func() {
		select {
		case <-s.closed: // closing does not wait for a look
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
			s.log.Info("the database answers again", "database", s.where)
		case unanswered == 2 && s.presence.set(fmt.Errorf("%w: %s does not answer", store.ErrUnavailable, s.where)):
			s.log.Warn("the database does not answer; calls are refused until it does", "database", s.where, "error", err)
		}
	}
}

// timedOut reports whether something was waited for in vain, at one of the hosts at least.
func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
