package auth

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
)

// Bounds of the verifications in flight (decisions AUD5, AUD6).
const (
	// memoryBudgetKiB bounds the memory of concurrent argon2id computations; one
	// computation may always run.
	memoryBudgetKiB = 20 << 10
	// maxQueued is the number of computations that may wait, and
	// maxQueuedPerOrigin how many of them may come from one origin.
	maxQueued          = 256
	maxQueuedPerOrigin = 64
)

// origin is where a verification comes from: the network of the client, and the id in the
// key. A network is an IPv4 address or an IPv6 /64.
type origin struct {
	network netip.Prefix
	id      string
}

// site is what one party can have many networks of: the IPv4 /24 or the IPv6 /48 of a network.
func (o origin) site() netip.Prefix {
	if !o.network.IsValid() {
		return netip.Prefix{}
	}
	bits := 24
	if o.network.Addr().Is6() {
		bits = 48
	}
	p, _ := o.network.Addr().Prefix(bits) // the length is always valid
	return p
}

// networkOf returns the network of an address; the zero value for a text that is none.
func networkOf(address string) netip.Prefix {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	a = a.WithZone("").Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the length is always valid
	return p
}

// limiter bounds computations: how many processors compute, how much memory they use, and how
// many computations wait. The next one comes from the network, and of this network for the id,
// that was served least recently, so that a flood from one network delays a client of another
// network by one computation. Before the network its site counts, so that a party with many
// networks has one turn too. When the queue is full a newcomer replaces the last computation
// of the site, or of the network, or of the id, that has the most.
type limiter struct {
	cores int64 // processors that may compute at one time
	unit  int64 // KiB of the budget that count as one processor

	mu       sync.Mutex
	used     int64 // of the budget, cores*unit
	turn     uint64
	waiting  []*waiter // in order of arrival
	sites    map[netip.Prefix]*share
	networks map[netip.Prefix]*share
	origins  map[origin]*share
}

// waiter is a computation that waits. Its channel gets true when it may run, and false when it
// lost its place.
type waiter struct {
	origin origin
	weight int64
	shares [3]*share // of the site, the network and the origin
	ready  chan bool
}

// share counts the computations of a site, a network or an origin. It exists while it has any.
type share struct {
	waiting, running int
	served           uint64 // the turn of the last one that began; 0 before
}

// newLimiter returns a limiter for a number of processors: half of them may compute, and
// at least one.
func newLimiter(processors int) *limiter {
	cores := int64(max(1, processors/2))
	return &limiter{
		cores: cores, unit: max(memoryBudgetKiB/cores, 1),
		sites: make(map[netip.Prefix]*share), networks: make(map[netip.Prefix]*share), origins: make(map[origin]*share),
	}
}

// matches checks text against a hash when its turn comes. runs is false when it had no
// place in the queue. The wait is bounded by the computations before it, and does not end with its client:
// others may wait for the same key.
func (g *limiter) matches(o origin, h phc, text string) (matches, runs bool) {
	lanes := min(int64(h.Threads), g.cores)
	w := g.enqueue(o, min(max(lanes*g.unit, int64(h.MemoryKiB)), g.cores*g.unit))
	if w == nil || !<-w.ready {
		return false, false
	}
	defer g.release(w)
	return h.matches(text), true
}

// enqueue adds a computation to the queue; nil when it has no place.
func (g *limiter) enqueue(o origin, weight int64) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if own := g.origins[o]; own != nil && own.waiting >= maxQueuedPerOrigin {
		return nil
	}
	if len(g.waiting) >= maxQueued && !g.evictFor(o) {
		return nil
	}
	w := &waiter{origin: o, weight: weight, ready: make(chan bool, 1),
		shares: [3]*share{shareOf(g.sites, o.site()), shareOf(g.networks, o.network), shareOf(g.origins, o)}}
	for _, s := range w.shares {
		s.waiting++
	}
	g.waiting = append(g.waiting, w)
	g.schedule()
	return w
}

// schedule begins the computations that are next and fit in the budget. One that does not fit
// is not overtaken, because it might wait forever. The caller holds mu.
func (g *limiter) schedule() {
	for len(g.waiting) > 0 {
		next := 0
		for i, w := range g.waiting {
			if w.before(g.waiting[next]) {
				next = i
			}
		}
		w := g.waiting[next]
		if g.used > 0 && g.used+w.weight > g.cores*g.unit {
			return
		}
		g.turn++
		g.used += w.weight
		for _, s := range w.shares {
			s.waiting--
			s.running++
			s.served = g.turn
		}
		g.waiting = slices.Delete(g.waiting, next, next+1)
		w.ready <- true
	}
}

// before reports whether w, which came later, is served before v: the first of their shares that
// differ decides.
func (w *waiter) before(v *waiter) bool {
	for i, s := range w.shares {
		if s != v.shares[i] {
			return s.served < v.shares[i].served
		}
	}
	return false
}

// evictFor makes place for a computation, if a site, or a network of its own site, or an id of
// its own network, has more than it would have. The caller holds mu.
func (g *limiter) evictFor(o origin) bool {
	last := 0
	for i, w := range g.waiting {
		v := g.waiting[last]
		if slices.CompareFunc(w.shares[:], v.shares[:], func(a, b *share) int { return cmp.Compare(a.waiting, b.waiting) }) >= 0 {
			last = i
		}
	}
	v := g.waiting[last]
	mine := [3]*share{g.sites[o.site()], g.networks[o.network], g.origins[o]}
	more := false
	for i, s := range v.shares {
		if n := waitingOf(mine[i]) + 1; n < s.waiting {
			more = true
		}
		if mine[i] != s {
			break // what the newcomer has inside of another share does not count
		}
	}
	if !more {
		return false
	}
	for _, s := range v.shares {
		s.waiting--
	}
	g.waiting = slices.Delete(g.waiting, last, last+1)
	g.forget(v.origin)
	v.ready <- false
	return true
}

// waitingOf returns the number of waiting computations of a share; nil has none.
func waitingOf(s *share) int {
	if s == nil {
		return 0
	}
	return s.waiting
}

// release ends a computation.
func (g *limiter) release(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= w.weight
	for _, s := range w.shares {
		s.running--
	}
	g.schedule()
	g.forget(w.origin)
}

// forget removes the shares of an origin that have no computations. The caller holds mu.
func (g *limiter) forget(o origin) {
	drop(g.sites, o.site())
	drop(g.networks, o.network)
	drop(g.origins, o)
}

// drop removes the share of a key if it has no computations.
func drop[K comparable](shares map[K]*share, key K) {
	if s := shares[key]; s != nil && s.waiting+s.running == 0 {
		delete(shares, key)
	}
}

// shareOf returns the share of a key, a new one if it has none.
func shareOf[K comparable](shares map[K]*share, key K) *share {
	s := shares[key]
	if s == nil {
		s = &share{}
		shares[key] = s
	}
	return s
}
