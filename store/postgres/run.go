package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/store"
)

// maxTries bounds how often a transaction that the engine refused for the sake of
// another one is tried.
const maxTries = 12

// access is how a transaction uses the engine.
type access struct {
	options pgx.TxOptions
	writes  bool
}

var (
	reading = access{options: pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}}
	writing = access{options: pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, writes: true}
)

// work is what is done in a transaction. It may run several times.
type work func(ctx context.Context, tx pgx.Tx) error

// read runs fn on one snapshot.
func (s *Store) read(ctx context.Context, fn work) error { return s.run(ctx, reading, fn) }

// write runs fn in a transaction of its own, under the lease of ctx where it has one.
func (s *Store) write(ctx context.Context, fn work) error {
	lease, under := store.LeaseOf(ctx)
	return s.free(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if under {
			if err := s.holds(ctx, tx, lease); err != nil {
				return err
			}
		}
		return fn(ctx, tx)
	})
}

// free is write without a look at leases.
func (s *Store) free(ctx context.Context, fn work) error {
	err := s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		if s.opts.fault != nil {
			if err := s.opts.fault(); err != nil {
				return &commitError{err}
			}
		}
		return nil
	})
	var failed *commitError
	switch {
	case err == nil:
		s.failure.Store(nil)
	case errors.Is(err, store.ErrUnavailable):
		s.failure.Store(&err)
	case errors.As(err, &failed):
		s.failure.Store(&failed.err)
		return failed.err
	}
	return err
}

// commitError is the failure of a commit, not of what it would have written.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// usable refuses calls on a closed store and of a context that has ended.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// run runs fn in a transaction, within the timeout of the store. It is the only place
// that tries again: where the engine refused the transaction for the sake of another
// one, and, of reads, where the connection was lost.
func (s *Store) run(ctx context.Context, how access, fn work) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.tries(ctx, how, fn)
}

// tries is run of what Close waits for by itself.
func (s *Store) tries(ctx context.Context, how access, fn work) error {
	here, frozen := s.presence.state()
	if frozen != nil {
		return frozen
	}
	late, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	defer context.AfterFunc(here, cancel)()
	for try := 1; ; try++ {
		err := s.once(late, how, fn)
		if err == nil {
			return nil
		}
		again := tryAgain(err, how.writes)
		if here.Err() != nil && ctx.Err() == nil && s.ended.Err() == nil && errors.Is(err, context.Canceled) {
			return s.givenUp(err)
		}
		if again == never || try >= again.tries() || late.Err() != nil {
			return s.wrapError(ctx, err)
		}
		select {
		case <-time.After(again.pause(try)):
		case <-late.Done():
			return s.wrapError(ctx, err)
		}
	}
}

// givenUp is the error of a transaction that was ended because the engine was found frozen.
func (s *Store) givenUp(err error) error {
	var failed *commitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %s did not answer during a commit, which may have been made", store.ErrUnavailable, s.where)
	}
	return fmt.Errorf("%w: %s does not answer", store.ErrUnavailable, s.where)
}

// once runs fn in one transaction.
func (s *Store) once(ctx context.Context, how access, fn work) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, how.options)
	if err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		if code(err) == readOnly {
			conn.Conn().Close(ctx) // the host is no primary any more
			return err
		}
		// The rollback has time of its own: a connection in an open transaction would
		// be thrown away by the pool.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if rerr := tx.Rollback(back); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) {
			conn.Conn().Close(back)
		}
		return err
	}
	warned := conn.Conn().PgConn().CustomData()
	delete(warned, warning)
	if err := tx.Commit(ctx); err != nil {
		return &commitError{err}
	}
	// The engine answers a commit with success and a warning where its wait for a
	// synchronous standby was canceled, as by an operator: a failover may lose it.
	if text, ok := warned[warning].(string); ok && how.writes {
		return &commitError{fmt.Errorf("%w: %s", errNotReplicated, text)}
	}
	return nil
}

// warning is under what the data of a connection has its newest warning.
const warning = "svc.warning"

// errNotReplicated is the error of a commit that no standby may have.
var errNotReplicated = errors.New("the engine committed with a warning")

// keepWarning keeps the warnings of the engine with their connection.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = n.Message
	}
}

// again says whether a transaction is worth another try.
type again uint8

const (
	never    again = iota
	conflict       // with another transaction
	lost           // the connection, of a read
)

func (a again) tries() int {
	if a == lost {
		return 4
	}
	return maxTries
}

func (a again) pause(try int) time.Duration {
	pause := time.Millisecond << min(try, 7)
	if a == lost {
		pause = 50 * time.Millisecond << min(try, 5)
	}
	return pause/2 + rand.N(pause)
}

// The conditions of the engine that matter here, by their codes.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	readOnly             = "25006"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	undefinedTable       = "42P01"
	duplicateTable       = "42P07"
	duplicateObject      = "42710"
	duplicateColumn      = "42701"
	duplicateFunction    = "42723"
	checkViolation       = "23514"
)

// code is the condition that the engine reported, empty where it did not.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func tryAgain(err error, writes bool) again {
	switch code(err) {
	case serializationFailure, deadlockDetected, uniqueViolation:
		// A unique value is looked for before it is written: the next try finds what
		// another transaction has written since, and refuses with a reason.
		return conflict
	case "":
		if !writes && connectionLost(err) {
			return lost
		}
	default:
		if !writes && unavailable(err) {
			return lost
		}
	}
	return never
}
