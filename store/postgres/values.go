package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// texts encodes strings for the engine.
func texts[S ~string](list []S) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = []byte(list[i])
	}
	return out
}

// nanos encodes a time for the engine, clamped to the range of int64.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < math.MinInt64/int64(time.Second):
		return math.MinInt64
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// timeOf decodes a time; 0 is the zero time.
func timeOf(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// parse decodes a document.
func parse(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("damaged record: %w", err)
	}
	return nil
}

// found reads one row into columns; it returns false when there is none.
func found(row pgx.Row, into ...any) (bool, error) {
	err := row.Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// rows calls each with every row, whose columns have been read into columns.
func rows(ctx context.Context, tx pgx.Tx, sql string, args []any, into []any, each func() error) error {
	list, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(list, into, each)
	return err
}

// listOf returns the values of the only column of a query.
func listOf[T any](ctx context.Context, s *Store, sql string, args ...any) (list []T, err error) {
	err = s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err == nil {
			list, err = pgx.CollectRows(rows, pgx.RowTo[T])
		}
		return err
	})
	return list, err
}

// limitOf returns the limit of a page for the engine, nil for none.
func limitOf(p store.Page) any {
	if p.Limit <= 0 {
		return nil
	}
	return p.Limit
}
