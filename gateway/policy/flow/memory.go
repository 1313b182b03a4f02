package flow

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is whose labels are remembered: the typed principal, or with scope session the session.
type Caller struct {
	// Key is equal for two callers exactly when they are the same (auth.Principal.AppendKey; with scope
	// session the id of the session where there is one).
	Key string
	// Session is set when Key is the id of a session. It is not stored as it is.
	Session bool
	// Address is set for callers who are known by their address only, and by no session of theirs.
	Address netip.Addr
}

// Bounds of a Memory.
const (
	maxCallers   = 65536
	maxAddresses = 16384
)

// Options are what a Memory is opened with.
type Options struct {
	// Names are the declared names, and Window is the time after which a label ends.
	Names  *Names
	Window time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Memory remembers the labels of callers across reloads and, with a file in state_dir, across
// restarts; replicas share them in Redis. It is bounded and safe for concurrent use.
type Memory struct {
	now   func() time.Time
	start time.Time // of the clock, which steps of the wall clock do not affect

	mu        sync.RWMutex // of all below; the times in held are changed with a read lock, too
	names     *Names
	window    int64
	callers   places
	addresses places
}

// places are callers of one kind.
type places struct {
	at  map[string]*held
	max int
	// lost has the labels of callers for whom there was no place. Whoever has no place has them, too.
	lost held
	// sweptAt is the time when no caller could be removed.
	sweptAt int64
}

// held are the times when a caller's labels were set last, in milliseconds of the clock, by the bit of
// the label; 0 is never.
type held struct{ at [MaxNames]atomic.Int64 }

// Open returns a Memory.
func Open(o Options) (*Memory, error) {
	m := &Memory{now: o.Now, names: o.Names, window: o.Window.Milliseconds()}
	if m.now == nil {
		m.now = time.Now
	}
	m.start = m.now()
	m.callers = places{at: map[string]*held{}, max: maxCallers}
	m.addresses = places{at: map[string]*held{}, max: maxAddresses}
	return m, nil
}

// millis returns the time of the clock. It begins with the wall clock's and never steps.
func (m *Memory) millis() int64 {
	now := m.now()
	return m.start.UnixMilli() + now.Sub(m.start).Milliseconds()
}

// Of returns the labels that a caller has now, in bits of names. When they cannot be known (the memory is
// full of labels that have not ended, or Redis is away and the store does not fail open) it returns every
// label.
func (m *Memory) Of(ctx context.Context, c Caller, names *Names) Labels {
	now := m.millis()
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, key := m.place(&c)
	l := Labels(0)
	if h := p.at[key]; h != nil {
		l = h.labels(now, m.window)
	} else if l = p.lost.labels(now, m.window); len(p.at) >= p.max {
		return names.Every()
	}
	return translate(l, m.names, names)
}

// Set adds labels to a caller, or begins their windows anew. It returns after a label that the caller
// did not have is in the file, so that a message that set it may be passed on. An error says that this
// was not possible: the message must be withheld.
func (m *Memory) Set(ctx context.Context, c Caller, l Labels, names *Names) error {
	if l == 0 {
		return nil
	}
	now := m.millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	own := translate(l, names, m.names)
	if own.Len() != l.Len() {
		return errors.New("a label is not declared in the configuration in force")
	}
	p, key := m.place(&c)
	h := p.at[key]
	if h == nil {
		if h = &p.lost; len(p.at) < p.max || p.sweep(now, m.window) {
			h = &held{}
			p.at[key] = h
		}
	}
	for i := range MaxNames {
		if own>>i&1 != 0 {
			h.at[i].Store(now)
		}
	}
	return nil
}

// Reconfigure applies the names and the window of a new configuration. Labels stay, those whose names are
// gone are dropped, and the window counts for labels that were set before.
func (m *Memory) Reconfigure(names *Names, window time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(names.List(), m.names.List()) {
		for _, p := range [...]*places{&m.callers, &m.addresses} {
			p.lost.rename(m.names, names)
			for _, h := range p.at {
				h.rename(m.names, names)
			}
		}
	}
	m.names, m.window = names, window.Milliseconds()
}

// Close ends the Memory.
func (m *Memory) Close() error { return nil }

// place returns where a caller belongs, and its key there.
func (m *Memory) place(c *Caller) (*places, string) {
	if c.Address.IsValid() && !c.Session {
		return &m.addresses, network(c.Address)
	}
	return &m.callers, c.Key
}

// network returns the text of an address, or for IPv6 of its /64.
func network(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	return a.String()
}

// sweep removes callers whose labels have ended, and reports whether there is room.
func (p *places) sweep(now, window int64) bool {
	if now-p.sweptAt < 1000 && p.sweptAt != 0 {
		return false
	}
	for key, h := range p.at {
		if h.labels(now, window) == 0 {
			delete(p.at, key)
		}
	}
	if len(p.at) < p.max {
		return true
	}
	p.sweptAt = now
	return false
}

// labels returns the labels that have not ended.
func (h *held) labels(now, window int64) (l Labels) {
	for i := range h.at {
		if at := h.at[i].Load(); at != 0 && now-at < window {
			l |= 1 << i
		}
	}
	return l
}

// rename moves the times from the bits of some names to those of others.
func (h *held) rename(from, to *Names) {
	var old [MaxNames]int64
	for i := range h.at {
		old[i] = h.at[i].Swap(0)
	}
	for i, name := range to.List() {
		if j, ok := slices.BinarySearch(from.List(), name); ok {
			h.at[i].Store(old[j])
		}
	}
}

// translate returns a set in the bits of other names. Labels without such a name are left out.
func translate(l Labels, from, to *Names) Labels {
	if from == to || l == 0 {
		return l
	}
	return to.Of(from.In(l)...)
}
