package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"svc/store"
)

// Codes of the engine's errors.
const (
	duplicateColumn = 15
	illegalColumn   = 44 // the error of old versions for a column that exists
	unknownTable    = 60
	unknownDatabase = 81
	timeoutExceeded = 159
)

// passing are errors that may not occur on the next try: the engine is busy, out of memory or
// disk, starting, or disconnected from its keeper.
var passing = map[int32]bool{
	timeoutExceeded: true, 160: true, // timeout
	202: true,                       // too many statements at once
	209: true, 210: true, 279: true, // network
	241: true, 243: true, // memory, disk
	242: true, 252: true, 999: true, 225: true, 319: true, 285: true, // read-only, too many parts, keeper
	236: true, 394: true, // aborted, cancelled
}

// code returns the code of an engine's error, 0 for any other error.
func code(err error) int32 {
	var e *driver.Exception
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// connectionLost reports whether an error is a failure of the connection, not of the statement.
func connectionLost(err error) bool {
	var own *store.Error
	return code(err) == 0 && !errors.As(err, &own) && !errors.Is(err, store.ErrTooSlow)
}

// explain converts an error of the engine into one of package store. asked is the context of
// the caller, which the caller may have canceled.
func (sh *shard) explain(asked context.Context, err error) error {
	var own *store.Error
	switch {
	case errors.As(err, &own), errors.Is(err, store.ErrTooSlow), errors.Is(err, store.ErrUnavailable):
		return err
	case asked.Err() != nil:
		return asked.Err()
	case sh.s.ended.Err() != nil:
		return store.ErrClosed
	case code(err) == unknownDatabase:
		return fmt.Errorf("shard %s: %w: make it with CREATE DATABASE", sh.name, err)
	case passing[code(err)], code(err) == 0:
		return fmt.Errorf("%w: shard %s: %w", store.ErrUnavailable, sh.name, err)
	}
	return fmt.Errorf("shard %s: %w", sh.name, err)
}

// withoutSecrets replaces an error of the driver about its settings, which may contain a
// password.
func withoutSecrets(err error) error {
	if strings.Contains(err.Error(), "://") {
		return errors.New("the URL of the store of traces cannot be parsed")
	}
	return err
}
