package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"svc/store"
)

// Bounds on requests that wait for a change of governance. More are answered at once.
const (
	maxWaitingOfKey = 16
	maxWaiting      = 4096
	// lookEvery is how often the row of a tenant is read for all of its requests that
	// wait, and wakeWithin how far their answers are spread: a change reaches gateways
	// within the sum, well below a second.
	lookEvery  = 200 * time.Millisecond
	wakeWithin = 500 * time.Millisecond
	// maxBundles bounds the tenants whose bundles are remembered.
	maxBundles = 1024
)

// bundles remembers the bundles of tenants and the requests that wait for another one.
type bundles struct {
	mu       sync.Mutex
	byTenant map[string]*bundle
	byKey    map[string]int // requests that wait
	all      int
	watches  map[string]*watch
}

// watch looks for a change of one tenant's bundle, for all requests that wait for it.
type watch struct {
	waiting int
	tag     string
	changed chan struct{} // closed when tag is no longer the bundle's
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

// enter counts a request that waits; false where there are too many.
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

// join returns what is closed when the bundle with the tag is no longer the tenant's;
// nil where it is not any more. look runs until the last request has left.
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

// seen wakes the requests of a tenant whose bundle has another tag.
func (bs *bundles) seen(tenant, tag string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if w := bs.watches[tenant]; w != nil && w.tag != tag {
		close(w.changed)
		w.tag, w.changed = tag, make(chan struct{})
	}
}

// awaitBundle waits until the bundle of the caller's tenant is another one than b, and
// returns it; b where nothing changes in time, too many wait, or the server stops.
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
			return b, nil
		case <-s.streams.draining:
			return b, nil
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
	if !s.stillAuthorized(c) {
		return nil, errUnauthorized
	}
	return s.bundleOf(c.Context(), tenant, traces)
}

// watchBundle looks for changes of a tenant's bundle until nobody waits for one. What
// cannot be read is looked at again.
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
