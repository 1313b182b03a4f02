package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"svc/store"
)

// connectionLost reports whether an error is a failure of the connection, not of the
// statement.
func connectionLost(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || code(err) != "" {
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}

// unavailable reports whether the engine cannot serve any statement at present.
func unavailable(err error) bool {
	c := code(err)
	if c == "" {
		return connectionLost(err)
	}
	switch c[:2] {
	case "08", // connections
		"53": // resources: disk, memory, number of connections
		return true
	case "57": // operator: shutdown, crash, startup
		return c != queryCanceled
	}
	return c == readOnly
}

// wrapError converts an error of the engine into one of package store. asked is the
// context of the caller, which the caller may have canceled.
func (s *Store) wrapError(asked context.Context, err error) error {
	var answer *store.Error
	var failed *commitError
	switch {
	case errors.As(err, &answer), errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrTooSlow):
		return err
	case asked.Err() != nil:
		return asked.Err()
	case s.ended.Err() != nil:
		return store.ErrClosed
	case errors.As(err, &failed) && code(err) == "" && (connectionLost(err) || errors.Is(err, context.DeadlineExceeded)):
		return fmt.Errorf("%w: %s: the connection was lost during a commit; the write may have been made: %w", store.ErrUnavailable, s.where, failed.err)
	case errors.Is(err, errNotReplicated):
		return fmt.Errorf("%w: %s: no standby has confirmed a commit: %w", store.ErrUnavailable, s.where, failed.err)
	case code(err) == diskFull:
		return fmt.Errorf("%w: %s: %w", store.ErrDiskFull, s.where, err)
	case unavailable(err):
		return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, s.where, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s: no response within %v", store.ErrUnavailable, s.where, s.opts.Timeout)
	case code(err) == queryCanceled, code(err) == lockNotAvailable:
		return fmt.Errorf("%w: %s: a statement took too long: %w", store.ErrUnavailable, s.where, err)
	case code(err) != "":
		return fmt.Errorf("store %s: %w", s.where, err)
	}
	return err
}
