package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store/move"
)

// role is the purpose for which a handle opens the database.
type role string

const (
	tool      role = ""        // a command of an operator; it has no row
	serving   role = "server"  // a server, until it is closed
	exporting role = "migrate" // reads everything while no server writes
	importing role = "target"  // fills the database
)

// The row of a handle is renewed every handleEvery and expires after handleTTL.
const (
	handleEvery = 5 * time.Second
	handleTTL   = 30 * time.Second
)

// ErrInUse reports that a database cannot be migrated because servers have it open.
var ErrInUse = errors.New("servers have the database open")

// ErrMigrating reports that a server cannot open a database because it is being copied.
var ErrMigrating = errors.New("the database is the source of a migration now")

// enter registers this handle. It rejects a database that other handles have open in an
// incompatible role, or that an unfinished migration has filled partially.
func (s *Store) enter(ctx context.Context, r role) error {
	s.role = r
	return s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		// The lock orders handles that start concurrently: each sees the earlier ones.
		if err := lockAll(ctx, tx); err != nil {
			return err
		}
		marker, err := markerOf(ctx, tx)
		if err == nil && marker != nil && r != importing {
			err = fmt.Errorf("the database %s is %w: %s", s.where, move.ErrUnfinished, move.AdviceUnfinished)
		}
		if err != nil || r == tool {
			return err
		}
		now := s.now()
		var others int64
		var latest int64
		other, refused := exporting, ErrMigrating
		if r != serving {
			other, refused = serving, ErrInUse
		}
		err = tx.QueryRow(ctx, `SELECT count(*), coalesce(max(until), 0) FROM handles WHERE kind = $1 AND until > $2`, []byte(other), now.UnixNano()).Scan(&others, &latest)
		if err == nil && others > 0 {
			err = fmt.Errorf("%w: stop them first (the entry of a killed process expires in %v)", refused, timeOf(latest).Sub(now).Round(time.Second))
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM handles WHERE until <= $1`, now.UnixNano()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO handles (handle, kind, until) VALUES ($1, $2, $3)`, s.handle, []byte(r), now.Add(handleTTL).UnixNano())
		return err
	})
}

// renewHandle renews the row of this handle.
func (s *Store) renewHandle(ctx context.Context) error {
	return s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO handles (handle, kind, until) VALUES ($1, $2, $3) ON CONFLICT (handle) DO UPDATE SET until = excluded.until`,
			s.handle, []byte(s.role), s.now().Add(handleTTL).UnixNano())
		return err
	})
}

// leaveTimeout bounds the removal of the row of a handle. When the engine is unavailable
// the row expires by itself.
const leaveTimeout = 3 * time.Second

// leave removes the row of this handle.
func (s *Store) leave() {
	if s.role == tool {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	err := s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM handles WHERE handle = $1`, s.handle)
		return err
	})
	if err != nil {
		s.log.Warn("cannot remove the entry of this process in the table handles; it expires by itself", "for", handleTTL, "error", err)
	}
}

// markerOf reads the marker of an unfinished migration.
func markerOf(ctx context.Context, tx pgx.Tx) (marker []byte, err error) {
	_, err = found(tx.QueryRow(ctx, `SELECT doc FROM migration`), &marker)
	return marker, err
}
