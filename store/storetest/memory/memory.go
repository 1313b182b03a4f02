// Package memory is a store of records and traces in memory: the reference model that
// tests compare other backends with, and a store for programs that need no
// persistence. It favors readability over speed: one lock, maps and slices, and every
// query scans all rows. The contract is that of package store.
//
// Several handles on one store act as several processes on one server: see
// [Store.Another].
package memory

import (
	"context"
	"sync"
	"time"

	"svc/store"
	"svc/store/record"
)

// Options are the settings of a store. The zero value is valid.
type Options struct {
	// Now is the store's clock, for all handles; time.Now when nil.
	Now func() time.Time
	// MaxAutoAgents bounds how many agents of a tenant traces may register; 0 means
	// store.DefaultMaxAutoAgents, below 0 none.
	MaxAutoAgents int
	// Agents resolves the agents that the traces of a tenant name, if the records are
	// in another store. nil: this store's own records, in the same step.
	Agents func(tenant string) store.AgentDirectory
	// Fault, when not nil, is called before every write. Its error fails the write,
	// as an error of a disk or a network would, and nothing is changed.
	Fault func() error
}

// engine is the state that all handles share.
type engine struct {
	opts Options
	ids  store.IDs

	mu      sync.Mutex
	tenants table[tenantData]
	shared  rows         // of buckets that all tenants share
	uses    record.Uses  // never written elsewhere
	fleet   record.Fleet // what gateways have reported
	leases  map[string]record.Held
	marks   map[string]time.Time
	claims  record.Claims // idempotent requests in flight, at all handles
	failure error         // error of the newest write
}

// Store is one handle on a store. Open returns the first.
type Store struct {
	record.Leases
	e      *engine
	closed chan struct{}
	once   sync.Once
}

var _ store.Engine = (*Store)(nil)

// Open creates an empty store and returns a handle on it.
func Open(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxAutoAgents == 0 {
		o.MaxAutoAgents = store.DefaultMaxAutoAgents
	}
	return handle(&engine{opts: o, leases: map[string]record.Held{}, marks: map[string]time.Time{}})
}

// Another returns another handle on the same store, as another process would have. It
// is closed separately.
func (s *Store) Another() *Store { return handle(s.e) }

func handle(e *engine) *Store {
	s := &Store{e: e, closed: make(chan struct{})}
	s.Leases = record.LeasesOf(records{s})
	return s
}

// now returns the current time by the clock of the store.
func (e *engine) now() time.Time { return e.opts.Now().UTC() }

// read runs fn with the lock held for reading.
func (s *Store) read(ctx context.Context, fn func(e *engine) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return fn(s.e)
}

// write runs fn, which must check everything before it changes anything: an error of
// fn means that nothing has changed.
func (s *Store) write(ctx context.Context, fn func(e *engine) error) error {
	return s.free(ctx, func(e *engine) error {
		if l, ok := store.LeaseOf(ctx); ok {
			if err := e.leases[l.Name].Check(l, e.now()); err != nil {
				return err
			}
		}
		return fn(e)
	})
}

// free is write without the check of leases.
func (s *Store) free(ctx context.Context, fn func(e *engine) error) error {
	return s.read(ctx, func(e *engine) error {
		if e.opts.Fault != nil {
			if e.failure = e.opts.Fault(); e.failure != nil {
				return e.failure
			}
		}
		return fn(e)
	})
}

func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// Ready reports the failure of the newest write.
func (s *Store) Ready(ctx context.Context) error {
	return s.read(ctx, func(e *engine) error { return e.failure })
}

// Info describes the store.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	return store.Info{Backend: "memory", Location: "memory", SchemaVersion: 1}, s.usable(ctx)
}

// Close closes this handle and ends its streams. Other handles keep the data.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
