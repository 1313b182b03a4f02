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

// maxTries bounds the tries of a transaction that conflicts with others.
const maxTries = 12

// access is the access of a transaction to the engine.
type access struct {
	options pgx.TxOptions
	writes  bool
}

var (
	reading = access{options: pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}}
	writing = access{options: pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, writes: true}
)

// work is the function that runs in a transaction. It may run several times.
type work func(ctx context.Context, tx pgx.Tx) error

// read runs fn on one snapshot.
func (s *Store) read(ctx context.Context, fn work) error { return s.run(ctx, reading, fn) }

// write runs fn in its own transaction, under the lease of ctx if it has one.
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

// free is write without the check of leases.
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

// commitError is the failure of the commit itself, not of the statements before it.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// usable rejects calls on a closed store and calls with an ended context.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// run runs fn in a transaction, within the timeout of the store. It is the only place that
// retries: after a conflict with another transaction and, for reads, after a lost
// connection.
func (s *Store) run(ctx context.Context, how access, fn work) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.tries(ctx, how, fn)
}

// tries is run for background work, which Close waits for separately.
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

// givenUp returns the error of a transaction that was canceled because the engine is
// frozen.
func (s *Store) givenUp(err error) error {
	var failed *commitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %s did not respond during a commit; the write may have been made", store.ErrUnavailable, s.where)
	}
	return fmt.Errorf("%w: %s does not respond", store.ErrUnavailable, s.where)
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
			conn.Conn().Close(ctx) // the host is no longer the primary
			return err
		}
		// The rollback has its own timeout: the pool would discard a connection with an
		// open transaction.
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
	// When the wait of a commit for a synchronous standby is canceled, for example by an
	// operator, the engine returns success with a warning: a failover may lose the commit.
	if text, ok := warned[warning].(string); ok && how.writes {
		return &commitError{fmt.Errorf("%w: %s", errNotReplicated, text)}
	}
	return nil
}

// warning is the key of the newest warning in the data of a connection.
const warning = "svc.warning"

// errNotReplicated is the error of a commit that no standby may have received.
var errNotReplicated = errors.New("the engine committed with a warning")

// keepWarning stores the warnings of the engine in the data of their connection.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = n.Message
	}
}

// again reports whether a transaction should be retried.
type again uint8

const (
	never    again = iota
	conflict       // conflict with another transaction
	lost           // the connection of a read was lost
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

// The SQLSTATE codes that are handled.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	readOnly             = "25006"
	diskFull             = "53100"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	undefinedTable       = "42P01"
	duplicateTable       = "42P07"
	duplicateObject      = "42710"
	duplicateColumn      = "42701"
	duplicateFunction    = "42723"
	checkViolation       = "23514"
)

// code returns the SQLSTATE of the engine's error, empty for other errors.
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
		// Unique values are checked before they are written: the retry finds the row that
		// another transaction has written since, and returns the proper error.
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
