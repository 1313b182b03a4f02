package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// followEvery is the interval of polls for commits of other processes.
const followEvery = 200 * time.Millisecond

// poll reads the newest commits of all streamed tenants with one query.
func (s *Store) poll(ctx context.Context) error {
	followed := s.feeds.Followed()
	if len(followed) == 0 {
		return nil
	}
	newest := map[int32]int64{}
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		var tenant int32
		var seq int64
		return rows(ctx, tx, `SELECT tenant, seq FROM trace_state WHERE tenant = ANY($1)`, []any{followed}, []any{&tenant, &seq}, func() error {
			newest[tenant] = seq
			return nil
		})
	})
	for tenant, seq := range newest {
		s.feeds.Committed(tenant, [2]int64{seq})
	}
	return err
}
