package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/store"
	"svc/store/record"
)

// Options are the settings of a store. The zero value is valid.
type Options struct {
	// Now is the clock of the store; nil: the engine's clock.
	Now func() time.Time
	// Logger receives errors that are not returned to a caller; nil discards them.
	Logger *slog.Logger
	// MaxAutoAgents bounds how many agents of a tenant traces may register; 0 means
	// store.DefaultMaxAutoAgents, below 0 none.
	MaxAutoAgents int
	// FlushEvery is the interval at which times of key use are written; 0: 3 seconds.
	FlushEvery time.Duration
	// Timeout bounds each transaction; 0: 30 seconds.
	Timeout time.Duration
	// MergeEvery is the interval at which statistics of new batches are merged; 0: 1
	// second, below 0: never.
	MergeEvery time.Duration
	// Serving registers the handle as a server: operations that need exclusive access to
	// the database are rejected while it is open.
	Serving bool
	// Migrate allows a change of an older schema to the newest. Without it Open refuses a
	// database with an older schema.
	Migrate bool

	mergeFrom int          // number of batches; 0: mergeFrom
	watched   watching     // the zero value: watchedBy
	fault     func() error // makes commits fail in tests
}

// Store is an opened database. Make one with Open.
type Store struct {
	record.Leases

	pool    *pgxpool.Pool
	where   string // the URL without secrets
	schema  int
	opts    Options
	log     *slog.Logger
	ids     store.IDs
	handle  []byte // id of this handle among all handles on the database
	role    role
	maxAuto int

	offset   atomic.Int64 // offset of the engine's clock from this process's clock
	presence *presence    // version of the engine

	life    sync.RWMutex  // held for reading while calls are running
	closed  chan struct{} // closed when Close starts
	closing sync.Once     //
	ending  func()        // cancels running transactions
	ended   context.Context
	work    sync.WaitGroup // the background goroutines

	mu      sync.Mutex
	numbers map[string]int32     // numbers of tenants, by id
	views   map[int32]*agentView // caches of agents for ingest
	days    map[int64]bool       // days that have a partition

	feeds store.Feeds[int32] // tenants whose traces are streamed

	uses  record.Uses  // key uses that are not written yet
	fleet record.Fleet // what gateways have reported

	claims    record.Claims // idempotent requests in flight at this handle
	unsettled atomic.Bool   // whether there may be rows of requests that are no longer in flight

	failure atomic.Pointer[error] // error of the newest commit
	touched atomic.Int64          // time of the last successful write of Ready, nanoseconds
}

var _ store.Engine = (*Store)(nil)

// Open opens the database of a URL, postgres://user@host1,host2/db?sslmode=…, and
// creates the schema in an empty one.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	if opts.Serving {
		return openAs(ctx, url, opts, serving)
	}
	return openAs(ctx, url, opts, tool)
}

func openAs(ctx context.Context, url string, opts Options, r role) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.FlushEvery <= 0 {
		opts.FlushEvery = 3 * time.Second
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.MergeEvery == 0 {
		opts.MergeEvery = time.Second
	}
	if opts.watched == (watching{}) {
		opts.watched = watchedBy
	}
	if opts.mergeFrom == 0 {
		opts.mergeFrom = mergeFrom
	}
	config, err := configOf(url)
	if err != nil {
		return nil, err
	}
	if r == exporting || r == importing {
		for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
			config.ConnConfig.RuntimeParams[name] = strconv.Itoa(int(opts.Timeout.Milliseconds()))
		}
	}
	s := &Store{
		where: Location(url), opts: opts, log: opts.Logger, handle: []byte(rand.Text()),
		presence: newPresence(),
		closed:   make(chan struct{}),
		numbers:  map[string]int32{},
		views:    map[int32]*agentView{},
		days:     map[int64]bool{},
		fleet:    record.Fleet{Shared: true},
	}
	s.Leases = record.LeasesOf(engine{s})
	switch {
	case opts.MaxAutoAgents == 0:
		s.maxAuto = store.DefaultMaxAutoAgents
	case opts.MaxAutoAgents > 0:
		s.maxAuto = opts.MaxAutoAgents
	}
	s.ended, s.ending = context.WithCancel(context.Background())
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err = s.checkEncoding(ctx); err == nil {
		s.schema, err = s.migrate(ctx, schema)
	}
	if err == nil {
		err = s.readClock(ctx)
	}
	if err == nil {
		err = s.enter(ctx, r)
	}
	if err == nil {
		err = s.makeDaysAhead(ctx)
	}
	if err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.background()
	return s, nil
}

// checkEncoding refuses a database whose text is not UTF-8: in others the query of
// Authenticate fails for a key whose name has a character that they lack.
func (s *Store) checkEncoding(ctx context.Context) error {
	late, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	var encoding string
	if err := s.pool.QueryRow(late, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return s.wrapError(late, err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database %s has the encoding %s, and svc needs UTF8: create another one with 'createdb -E UTF8 -T template0 NAME'", s.where, encoding)
	}
	return nil
}

// now returns the current time by the store's clock, estimated from this process's clock.
// Code that needs the exact time uses engineNow.
func (s *Store) now() time.Time {
	if s.opts.Now != nil {
		return s.opts.Now().UTC()
	}
	return time.Now().Add(time.Duration(s.offset.Load())).UTC()
}

// engineNow returns the current time by the clock of the engine.
func (s *Store) engineNow(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	if s.opts.Now != nil {
		return s.opts.Now().UTC(), nil
	}
	var micros int64
	err := tx.QueryRow(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros)
	return time.UnixMicro(micros).UTC(), err
}

// readClock measures the offset of the engine's clock from this process's clock.
func (s *Store) readClock(ctx context.Context) error {
	if s.opts.Now != nil {
		return nil
	}
	return s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		best := time.Hour
		for range 3 {
			before := time.Now()
			at, err := s.engineNow(ctx, tx)
			if err != nil {
				return err
			}
			if took := time.Since(before); took < best {
				best = took
				s.offset.Store(int64(at.Sub(before.Add(took / 2))))
			}
		}
		return nil
	})
}

// readyEvery is how long a successful write of Ready is reused for further calls.
const readyEvery = time.Second

// readyTimeout bounds the write of Ready.
const readyTimeout = 3 * time.Second

// Ready reports why the store cannot take writes now. It makes a test write.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if failed := s.failure.Load(); failed == nil && time.Now().UnixNano()-s.touched.Load() < int64(readyEvery) {
		return nil
	}
	late, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := s.free(late, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE pulse SET n = n + 1`)
		return err
	})
	if err == nil {
		s.touched.Store(time.Now().UnixNano())
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: a write took longer than %v", store.ErrUnavailable, readyTimeout)
	}
	return err
}

// Info describes the database.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Backend: "postgres", Location: s.where, SchemaVersion: s.schema}
	err := s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&info.SizeBytes)
	})
	return info, err
}

// Describe describes the database of a URL without changing it. A database without a
// schema has version 0.
func Describe(ctx context.Context, url string) (store.Info, error) {
	config, err := configOf(url)
	if err != nil {
		return store.Info{}, err
	}
	info := store.Info{Backend: "postgres", Location: Location(url)}
	s := &Store{where: info.Location, ended: context.Background()}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return info, s.wrapError(ctx, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if info.SchemaVersion, _, err = schemaOf(ctx, conn); err == nil {
		err = conn.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&info.SizeBytes)
	}
	if errors.Is(err, errUnreleased) {
		return info, fmt.Errorf("the database %s was %w", s.where, err)
	}
	if err != nil {
		return info, s.wrapError(ctx, err)
	}
	return info, nil
}

// closeWait bounds how long Close waits for running calls before it cancels them.
const closeWait = 10 * time.Second

// Close writes buffered data, ends streams and closes the connections.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		close(s.closed)
		timer := time.AfterFunc(closeWait, s.ending)
		s.work.Wait()
		s.life.Lock() // no call is running any more
		defer s.life.Unlock()
		err = s.flushUsed(context.Background())
		err = errors.Join(err, s.releaseRequests())
		s.leave()
		timer.Stop()
		s.ending()
		s.pool.Close()
	})
	return err
}
