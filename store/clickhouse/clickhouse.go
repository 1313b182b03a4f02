// Package clickhouse is the store of a control plane's traces on ClickHouse; the records
// are in another engine. Several processes can open it at the same time. It needs no
// locks and no transactions, which the engine does not have.
//
// It contains the schema (migrations), the SQL, and the handling of engine failures. All
// traces of a tenant are on one shard. Batches that arrive at the same time are written
// together. A trace is looked up by its id before it is written. A trace whose response
// was lost and that was sent again can still be stored twice; every reader shows each id
// once. Statistics are the sum of a generation, which is merged from everything that was
// committed up to a position, and of the traces after that position. Any process may
// merge, any number of times: a reader uses a single generation, so that nothing is
// counted twice.
//
// The differences between versions of the engine are in dialect.go.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"svc/store"
)

// Options are the settings of a store.
type Options struct {
	// Agents resolves the agents that the traces of a tenant name. It is required.
	Agents func(tenant string) store.AgentDirectory
	// Now is the clock for the dates of traces; time.Now when nil.
	Now func() time.Time
	// Logger receives errors that are not returned to a caller; nil discards them.
	Logger *slog.Logger
	// Timeout bounds each statement; 0: 15 seconds.
	Timeout time.Duration
	// MergeEvery is the interval at which due merges of statistics are looked for; 0: 10
	// seconds, below 0: never.
	MergeEvery time.Duration

	// Migrate allows a change of an older schema to the newest. Without it Open refuses a
	// shard with an older schema.
	Migrate bool

	settle time.Duration // 0: the constant settle
	fault  func() error  // makes writes fail in tests
}

// settle is the time during which commits may become visible out of order: longer than any
// write takes. A write is given up after defaultTimeout and answerTime, the engine ends one that
// was begun then after another defaultTimeout, and clocks may differ by two seconds. What is newer
// is not merged, so that statistics of a burst are slow for this time.
const settle = 40 * time.Second

const defaultTimeout = 15 * time.Second

// Store is an opened store of traces. Make one with Open.
type Store struct {
	opts   Options
	log    *slog.Logger
	where  string // the URL without secrets
	schema int
	shards []*shard
	ids    store.IDs
	claims claims

	life    sync.RWMutex  // held for reading while calls are running
	closed  chan struct{} // closed when Close starts
	closing sync.Once
	ended   context.Context // cancels running calls
	ending  func()
	work    sync.WaitGroup // the background goroutines

	failure atomic.Pointer[error] // error of the newest write

	feeds store.Feeds[string] // tenants whose traces are streamed

	mu    sync.Mutex
	homes map[string]*shard    // shards of tenants
	fresh map[string]*unmerged // tenants with traces that may not be merged yet
}

var _ store.Traces = (*Store)(nil)

// Open opens the store of a URL, clickhouse://user@host1,host2/database, and creates the
// schema of every shard that has none.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.MergeEvery == 0 {
		opts.MergeEvery = 10 * time.Second
	}
	if opts.settle == 0 {
		opts.settle = settle
	}
	s := &Store{opts: opts, log: opts.Logger, where: Location(url), closed: make(chan struct{}),
		homes: map[string]*shard{}, fresh: map[string]*unmerged{}}
	s.ended, s.ending = context.WithCancel(context.Background())
	err = s.openShards(ctx, &a)
	if err == nil && len(s.shards) > 1 {
		err = s.learnHomes(ctx)
	}
	if err != nil {
		s.ending()
		for _, sh := range s.shards {
			_ = sh.conn.Close()
		}
		return nil, fmt.Errorf("open store of traces: %w", err)
	}
	for _, sh := range s.shards {
		s.work.Go(sh.write)
		s.work.Go(sh.watch)
		s.work.Go(sh.pollFollowed)
	}
	if len(s.shards) > 1 {
		s.work.Go(s.learnNowAndThen)
	}
	if opts.MergeEvery > 0 {
		s.work.Go(s.mergeNowAndThen)
	}
	return s, nil
}

// openShards connects to the shards: each host of the URL is one, or they are the shards
// of the cluster.
func (s *Store) openShards(ctx context.Context, a *address) error {
	groups := make([][]string, 0, len(a.hosts))
	if a.cluster != "" {
		var err error
		if groups, err = s.clusterShards(ctx, a); err != nil {
			return err
		}
	} else {
		for _, host := range a.hosts {
			groups = append(groups, []string{host})
		}
	}
	for _, hosts := range groups {
		sh, err := s.connect(a, hosts)
		if err != nil {
			return err
		}
		s.shards = append(s.shards, sh)
		if err := sh.begin(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// connect makes the pool of connections to a shard; connections are opened on demand.
func (s *Store) connect(a *address, hosts []string) (*shard, error) {
	conn, err := driver.Open(&driver.Options{
		Protocol: a.protocol, Addr: hosts, TLS: a.tls(),
		Auth:         driver.Auth{Database: a.database, Username: a.user, Password: a.password},
		DialTimeout:  max(dialTimeout, s.opts.Timeout/5),
		MaxOpenConns: maxConns, MaxIdleConns: maxConns,
		ConnMaxLifetime:  time.Hour,
		ConnOpenStrategy: driver.ConnOpenInOrder,
		ReadTimeout:      s.opts.Timeout + answerTime,
		Compression:      compression(a.protocol),
		ClientInfo:       driver.ClientInfo{Products: []struct{ Name, Version string }{{Name: "svc"}}},
	})
	if err != nil {
		return nil, withoutSecrets(err)
	}
	return newShard(s, hosts, conn), nil
}

// clusterShards reads the shards of a cluster from a host.
func (s *Store) clusterShards(ctx context.Context, a *address) (groups [][]string, err error) {
	sh, err := s.connect(a, a.hosts)
	if err != nil {
		return nil, err
	}
	defer sh.conn.Close()
	var number, last uint32
	var host string
	var port uint16
	err = sh.rows(ctx, "SELECT shard_num, host_name, port FROM system.clusters WHERE cluster = "+quote(a.cluster)+" ORDER BY shard_num, replica_num",
		[]any{&number, &host, &port}, func() error {
			if len(groups) == 0 || number != last {
				groups = append(groups, nil)
			}
			last = number
			end := &groups[len(groups)-1]
			*end = append(*end, joinPort(host, port, a))
			return nil
		})
	if err == nil && len(groups) == 0 {
		err = fmt.Errorf("%s knows no cluster %q: look at remote_servers of its settings", strings.Join(a.hosts, ","), a.cluster)
	}
	return groups, err
}

// usable rejects calls on a closed store and calls with an ended context.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// run runs a call unless the store is closed; Close waits for it.
func (s *Store) run(ctx context.Context, fn func() error) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return fn()
}

// Ready reports the error of the newest write, or a shard that is unavailable.
func (s *Store) Ready(ctx context.Context) error {
	return s.run(ctx, func() error {
		if failed := s.failure.Load(); failed != nil {
			return *failed
		}
		for _, sh := range s.shards {
			if err := sh.reachable(); err != nil {
				return err
			}
		}
		return nil
	})
}

// wrote records the result of a write.
func (s *Store) wrote(err error) error {
	if err == nil {
		s.failure.Store(nil)
	} else {
		s.failure.Store(&err)
	}
	return err
}

// Info describes the store. Its size is the sum of the sizes that the shards report.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Backend: "clickhouse", Location: s.where, SchemaVersion: s.schema}
	err := s.run(ctx, func() error {
		for _, sh := range s.shards {
			bytes, err := sh.size(ctx)
			if err != nil {
				return err
			}
			info.SizeBytes += bytes
		}
		return nil
	})
	return info, err
}

// Shards reports for each shard, by its name, whether it responds.
func (s *Store) Shards() map[string]bool {
	up := make(map[string]bool, len(s.shards))
	for _, sh := range s.shards {
		up[sh.name] = sh.reachable() == nil
	}
	return up
}

// Close ends streams, waits for running calls and closes the connections.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		close(s.closed)
		timer := time.AfterFunc(closeWait, s.ending)
		s.life.Lock() // no call is running any more
		defer s.life.Unlock()
		for _, sh := range s.shards {
			close(sh.queue)
		}
		s.work.Wait()
		timer.Stop()
		s.ending()
		for _, sh := range s.shards {
			err = errors.Join(err, sh.conn.Close())
		}
	})
	return err
}

// closeWait bounds how long Close waits for running calls before it cancels them.
const closeWait = 10 * time.Second

// tenant is the traces of one tenant.
type tenant struct {
	s  *Store
	id string
}

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return &tenant{s, id} }

// on runs fn with the shard of the tenant.
func (t *tenant) on(ctx context.Context, fn func(sh *shard) error) error {
	return t.s.run(ctx, func() error {
		sh, err := t.s.home(ctx, t.id)
		if err != nil {
			return err
		}
		return fn(sh)
	})
}
