// Package memory is a store in memory, records and traces: the model that tests
// compare other backends with, and a store for programs that keep nothing. It is
// written to be read: one lock, maps and slices, every query answered by looking
// at everything. It owns no rule of its own; what package store promises it does in
// the plainest way, and nothing is ever bounded by speed.
//
// Several handles on one store stand for several processes on one server: see
// [Store.Another].
package memory

import (
	"context"
	"sync"
	"time"

	"svc/store"
)

// Options are the settings of a store. The zero value is good.
type Options struct {
	// Now is the store's clock, whichever handle asks; time.Now when nil.
	Now func() time.Time
	// MaxAutoAgents bounds how many agents of a tenant traces may register; 0 means
	// store.DefaultMaxAutoAgents, below 0 none.
	MaxAutoAgents int
	// Agents is asked which agents the traces of a tenant mean, where the records are
	// another store's. nil: this store's own records, in the same step.
	Agents func(tenant string) store.AgentDirectory
	// Fault, when not nil, is asked before every write. Its error fails the write, as
	// that of a disk or a network would, and nothing is changed.
	Fault func() error
}

// engine is what all handles share.
type engine struct {
	opts Options
	ids  store.IDs

	mu       sync.Mutex
	tenants  table[tenantData]
	digests  map[store.KeyDigest]keyPlace
	leases   map[string]lease
	marks    map[string]time.Time
	inFlight map[flightKey]*inFlight
	failure  error // of the newest write
}

// Store is one handle on a store. Make the first with Open.
type Store struct {
	e      *engine
	closed chan struct{}
	once   sync.Once
}

var _ store.Engine = (*Store)(nil)

// Open makes an empty store and returns a handle on it.
func Open(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxAutoAgents == 0 {
		o.MaxAutoAgents = store.DefaultMaxAutoAgents
	}
	return handle(&engine{opts: o, digests: map[store.KeyDigest]keyPlace{}, leases: map[string]lease{},
		marks: map[string]time.Time{}, inFlight: map[flightKey]*inFlight{}})
}

// Another returns another handle on the same store, as another process would have.
// It is closed for itself.
func (s *Store) Another() *Store { return handle(s.e) }

func handle(e *engine) *Store { return &Store{e: e, closed: make(chan struct{})} }

// now is the present, by the clock of the store.
func (e *engine) now() time.Time { return e.opts.Now().UTC() }

// read runs fn while nothing changes.
func (s *Store) read(ctx context.Context, fn func(e *engine) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return fn(s.e)
}

// write runs fn, which checks everything before it changes anything: an error of fn
// means that nothing has changed.
func (s *Store) write(ctx context.Context, fn func(e *engine) error) error {
	return s.free(ctx, func(e *engine) error {
		if l, ok := store.LeaseOf(ctx); ok && !e.holds(l) {
			return store.ErrLeaseLost
		}
		return fn(e)
	})
}

// free is write without a look at leases.
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

// Close ends this handle and its streams. What is stored stays for the others.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
