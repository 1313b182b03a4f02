package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"svc/store"
)

// Bounds on long polls: requests that wait for a change of the governance bundle. A
// request beyond them is answered at once.
const (
	maxWaitingOfKey = 16
	maxWaiting      = 4096
	// lookEvery is the interval in which the tenant's row is read, once for all
	// requests that wait. wakeWithin is the time over which their responses are
	// spread, so that they do not arrive together. A change reaches gateways within
	// the sum of both.
	lookEvery  = 200 * time.Millisecond
	wakeWithin = 500 * time.Millisecond
	// maxBundles bounds the number of cached bundles, one per tenant.
	maxBundles = 1024
)

// bundles caches the bundles of tenants and counts the requests that wait for a new
// one. It is safe for concurrent use.
type bundles struct {
	mu       sync.Mutex
	byTenant map[string]*bundle
	byKey    map[string]int // waiting requests by id of the key
	all      int
	watches  map[string]*watch
}

// watch polls for a change of one tenant's bundle, for all requests that wait for it.
type watch struct {
	waiting int
	tag     string
	changed chan struct{} // closed when the bundle no longer has the tag
	end     context.CancelFunc
}

func newBundles() *bundles {
	return &bundles{byTenant: map[string]*bundle{}, byKey: map[string]int{}, watches: map[string]*watch{}}
}

func (bs *bundles) get(tenant string) *bundle {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.byTenant[tenant]
}

func (bs *bundles) put(tenant string, b *bundle) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if len(bs.byTenant) >= maxBundles && bs.byTenant[tenant] == nil {
		clear(bs.byTenant)
	}
	bs.byTenant[tenant] = b
}

// enter counts a waiting request; false when there are too many.
func (bs *bundles) enter(key string) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.all >= maxWaiting || bs.byKey[key] >= maxWaitingOfKey {
		return false
	}
	bs.all++
	bs.byKey[key]++
	return true
}

func (bs *bundles) leave(key string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.all--
	if bs.byKey[key]--; bs.byKey[key] == 0 {
		delete(bs.byKey, key)
	}
}

// join adds a waiting request to the watch of a tenant, and starts look when it is the
// first. The channel is closed when the tenant's bundle no longer has the tag; it is
// nil when the bundle already has another tag. look ends when the last request has
// called part.
func (bs *bundles) join(tenant, tag string, look func(context.Context)) (changed <-chan struct{}) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	w := bs.watches[tenant]
	if w == nil {
		ctx, end := context.WithCancel(context.Background())
		w = &watch{tag: tag, changed: make(chan struct{}), end: end}
		bs.watches[tenant] = w
		go look(ctx)
	}
	w.waiting++
	if w.tag != tag {
		return nil
	}
	return w.changed
}

func (bs *bundles) part(tenant string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if w := bs.watches[tenant]; w.waiting > 1 {
		w.waiting--
	} else {
		w.end()
		delete(bs.watches, tenant)
	}
}

// seen wakes the waiting requests of a tenant when its bundle has a new tag.
func (bs *bundles) seen(tenant, tag string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if w := bs.watches[tenant]; w != nil && w.tag != tag {
		close(w.changed)
		w.tag, w.changed = tag, make(chan struct{})
	}
}

// awaitBundle waits until the bundle of the caller's tenant differs from b, and
// returns the new one. It returns b when the time is over, when too many requests
// wait, or when the server drains.
func (s *Server) awaitBundle(c *call, b *bundle, wait time.Duration) (*bundle, error) {
	if !s.bundles.enter(c.key.ID) {
		return b, nil
	}
	defer s.bundles.leave(c.key.ID)
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // a server's read timeout would end the request
	tenant, traces := c.tenant, c.traces
	changed := s.bundles.join(tenant.ID(), b.tag, func(ctx context.Context) { s.watchBundle(ctx, tenant, traces) })
	defer s.bundles.part(tenant.ID())
	if changed != nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-changed:
		case <-timer.C:
			return b, s.stillAuthorized(c)
		case <-s.streams.draining:
			return b, s.stillAuthorized(c)
		case <-c.Context().Done():
			return nil, c.Context().Err()
		}
		spread := time.NewTimer(rand.N(wakeWithin))
		defer spread.Stop()
		select {
		case <-spread.C:
		case <-c.Context().Done():
			return nil, c.Context().Err()
		}
	}
	if err := s.stillAuthorized(c); err != nil {
		return nil, err
	}
	return s.bundleOf(c.Context(), tenant, traces)
}

// watchBundle polls the bundle of a tenant until ctx ends. After an error it tries
// again at the next tick.
func (s *Server) watchBundle(ctx context.Context, tenant store.Tenant, traces store.TenantTraces) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b, err := s.bundleOf(ctx, tenant, traces); err == nil {
			s.bundles.seen(tenant.ID(), b.tag)
		}
	}
}
