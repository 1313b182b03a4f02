package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
)

// Caller is whose labels are remembered: the typed principal, or with scope session the session.
type Caller struct {
	// Key is equal for two callers exactly when they are the same (auth.Principal.AppendKey; with scope
	// session the id of the session where there is one).
	Key string
	// Session is set when Key is the id of a session. Only its digest is stored.
	Session bool
	// Address is set for callers who are known by their address only, and by no session of theirs.
	Address netip.Addr
	// At is the time of the message, so that the clock is not read again; the zero value is now.
	At time.Time
}

// Options are what a Memory is opened with.
type Options struct {
	// StateDir is the folder of the file, which is made with the first label; without a folder, labels
	// are lost at the end of the process.
	StateDir string
	// Names are the declared names, and Window is the time after which a label ends.
	Names  *Names
	Window time.Duration
	// Store shares labels between replicas; nil for a gateway alone. FailOpen says that a caller has the
	// labels of this gateway alone while the store is away, in place of every label.
	Store    Store
	FailOpen bool
	// OnClear is called after an operator has cleared the labels of a caller: for an audit line. Open calls it
	// for requests that no gateway had taken, and Close may.
	OnClear func(Held)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log gets failures; nil discards them.
	Log *slog.Logger
}

// Memory remembers the labels of callers across reloads and, with a file in state_dir, across
// restarts; replicas share them in Redis. It is bounded and safe for concurrent use.
//
// The file has every label that Set returned for, after a kill too, and loses at most the last second
// to a loss of power: it is written before Set returns, and flushed to the disk once a second. After a
// restart a label may last longer, by at most a 64th of the window or two seconds, because renewals are
// not written one by one.
type Memory struct {
	options Options
	start   time.Time // of the clock, which steps of the wall clock do not affect

	window atomic.Int64 // in milliseconds

	mu     sync.RWMutex // of what follows, and of the lists of labels; their times change with a read lock
	names  *Names
	places [2]places // of callers with keys, and of addresses

	dirtyMu sync.Mutex
	dirty   []*held // have times that the file or the store does not have

	file     journal
	answered []entry       // requests to clear that were done in the last minute; of the lock of file
	refused  retry.Repeats // logs callers without a place
	failed   retry.Repeats // logs errors of the file
	unstored atomic.Uint64 // labels that could not be stored
	emptied  atomic.Bool   // labels must be written to the store again
	lost     atomic.Uint64 // of the store, as far as it was noticed
	settled  atomic.Int64  // when other gateways have written again what it lost
	away     retry.Repeats // logs errors of the store

	running bool // of mu
	stop    chan struct{}
	done    chan struct{}
}

// Stats are figures for metrics.
type Stats struct {
	// Callers and Addresses are remembered; with MaxCallers and MaxAddresses of them there is no room.
	Callers, Addresses int
	// NoRoom counts labels that were set for callers without a place since the start, and Unstored those that could
	// not be stored, so that their messages were withheld.
	NoRoom, Unstored uint64
}

// Bounds of a Memory.
const (
	MaxCallers   = 65536
	MaxAddresses = 16384
)

// tickInterval is the time between two writes of renewals.
const tickInterval = time.Second

// Open reads the file, if there is one, and returns a Memory. It must be closed.
func Open(o Options) (*Memory, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Memory{options: o, names: o.Names, stop: make(chan struct{}), done: make(chan struct{})}
	m.window.Store(o.Window.Milliseconds())
	m.start = o.Now()
	m.emptied.Store(o.Store != nil) // other gateways may not know what the file has
	m.places = [2]places{newPlaces(MaxCallers, lostCaller), newPlaces(MaxAddresses, lostAddress)}
	if o.StateDir != "" {
		if err := m.openFile(context.Background(), o.StateDir); err != nil {
			return nil, fmt.Errorf("labels of callers: %w", err)
		}
	}
	m.begin()
	return m, nil
}

// begin starts the writing of renewals when labels are declared first. It needs mu, except in Open.
func (m *Memory) begin() {
	if !m.running && len(m.names.List()) > 0 {
		m.running = true
		go m.run()
	}
}

// millis returns the time of the clock in milliseconds. It begins with the wall clock's and never steps.
func (m *Memory) millis() int64 { return m.at(m.options.Now()) }

func (m *Memory) at(t time.Time) int64 { return m.start.UnixMilli() + t.Sub(m.start).Milliseconds() }

// time returns the time of a caller's message.
func (m *Memory) time(c *Caller) int64 {
	if c.At.IsZero() {
		return m.millis()
	}
	return m.at(c.At)
}

// wall returns the time of the wall clock that belongs to a time of millis.
func (m *Memory) wall(at int64) int64 { return at + m.options.Now().UnixMilli() - m.millis() }

// slack is by how much later than now the file and the store count a label as set, so that they need
// not be written for each renewal.
func (m *Memory) slack() int64 { return m.window.Load() / 64 }

// Of returns the labels that a caller has now, in bits of names. When they cannot be known (the memory is
// full of labels that have not ended, or Redis is away and the store does not fail open) it returns every
// label. It makes at most one call to the store.
func (m *Memory) Of(ctx context.Context, c Caller, names *Names) Labels {
	if len(names.List()) == 0 {
		return 0
	}
	if m.options.Store != nil {
		return m.ofShared(ctx, &c, names)
	}
	return m.Local(c, names)
}

// Local is Of without a call to the store: the labels that this gateway has set.
func (m *Memory) Local(c Caller, names *Names) Labels {
	now := m.time(&c)
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.own(&c, now, names)
}

// own returns the labels of a caller in this process. It needs mu.
func (m *Memory) own(c *Caller, now int64, names *Names) Labels {
	p, h := m.find(c)
	if h == nil {
		if h = p.lost; len(p.at) >= p.max {
			return names.Every()
		}
	}
	return translate(h.now(now, m.window.Load()), m.names, names)
}

// Set adds labels to a caller, or begins their windows anew. It returns after a label that the caller
// did not have is in the file and in the store, so that a message that set it may be passed on. An error
// says that this was not possible: the message must be withheld.
func (m *Memory) Set(ctx context.Context, c Caller, l Labels, names *Names) error {
	if l == 0 {
		return nil
	}
	now := m.time(&c)
	m.mu.RLock()
	own := translate(l, names, m.names)
	_, h := m.find(&c)
	if h != nil && own.Len() == l.Len() {
		if saved, shared := m.renew(h, own, now); saved && shared {
			m.mu.RUnlock()
			return nil
		}
	}
	m.mu.RUnlock()
	m.mu.Lock()
	if own = translate(l, names, m.names); own.Len() != l.Len() {
		m.mu.Unlock()
		return errors.New("a label was set that the configuration in force does not declare: try again")
	}
	h = m.ensure(&c, now)
	saved, _ := m.renew(h, own, now)
	m.mu.Unlock()
	until := now + max(m.slack(), 2*tickInterval.Milliseconds())
	if !saved {
		if m.file.path != "" {
			if err := m.record(ctx, entry{At: m.wall(until), Caller: h.id, Labels: names.In(l)}); err != nil {
				m.unstored.Add(1)
				m.fileFailed(err)
				return fmt.Errorf("the label is not in state_dir: %w", err)
			}
		}
		m.stamp(h, names.In(l), now, func(l *label) { raise(&l.saved, until) })
	}
	if m.options.Store != nil {
		if err := m.share(ctx, &c, h, names.In(l), now); err != nil {
			m.unstored.Add(1)
			return err
		}
	}
	return nil
}

// renew begins windows anew, and reports whether the file and the store have the labels for at least half a
// window: then the renewal may be written later. It needs mu for reading.
func (m *Memory) renew(h *held, l Labels, now int64) (saved, shared bool) {
	h.raise(l, now)
	late := false
	saved, shared = true, m.options.Store == nil || !h.many // the store has the callers of many one by one
	for i := range h.labels {
		if b := &h.labels[i]; l>>i&1 != 0 {
			there := b.saved.Load()
			saved, late = saved && there+m.window.Load()/2 > now, late || there < now
			if m.options.Store != nil {
				there = b.shared.Load()
				shared, late = shared && there+m.window.Load()/2 > now, late || there < now
			}
		}
	}
	if late && saved && shared {
		m.later(h)
	}
	return saved, shared
}

// later marks a caller for the next write of renewals.
func (m *Memory) later(h *held) {
	if h.dirty.CompareAndSwap(false, true) {
		m.dirtyMu.Lock()
		m.dirty = append(m.dirty, h)
		m.dirtyMu.Unlock()
	}
}

// stamp changes some labels of a caller, unless they were cleared since now.
func (m *Memory) stamp(h *held, names []string, now int64, change func(*label)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.names.Of(names...)
	for i := range h.labels {
		if b := &h.labels[i]; l>>i&1 != 0 && b.at.Load() >= now {
			change(b)
		}
	}
}

// Reconfigure applies the names and the window of a new configuration. Labels stay, those whose names are
// gone are dropped, and the window counts for labels that were set before.
func (m *Memory) Reconfigure(names *Names, window time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(names.List(), m.names.List()) {
		for i := range m.places {
			m.places[i].lost.rename(m.names, names)
			for _, h := range m.places[i].at {
				h.rename(m.names, names)
			}
		}
	}
	m.names = names
	m.window.Store(window.Milliseconds())
	m.begin()
}

// Stats returns the current figures.
func (m *Memory) Stats() Stats {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return Stats{Callers: len(m.places[0].at), Addresses: len(m.places[1].at), NoRoom: m.places[0].refused + m.places[1].refused, Unstored: m.unstored.Load()}
}

// run writes renewals, and does what commands ask for.
func (m *Memory) run() {
	defer close(m.done)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
			m.tick()
		}
	}
}

// tick writes what is late, and removes callers whose labels have ended.
func (m *Memory) tick() {
	if m.options.Store != nil {
		if lost, err := m.options.Store.LabelsLost(context.Background()); err == nil {
			m.storeAnswered(lost)
		}
	}
	m.dirtyMu.Lock()
	late := m.dirty
	m.dirty = nil
	m.dirtyMu.Unlock()
	for _, h := range late {
		h.dirty.Store(false)
	}
	m.writeLate(late)
	if m.options.Store != nil {
		m.shareLate(late)
	}
	now := m.millis()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.places {
		if p := &m.places[i]; len(p.at) >= p.max || now-p.swept >= time.Minute.Milliseconds() {
			p.sweep(now, m.window.Load())
		}
	}
}

// Close writes what is late and closes the file.
func (m *Memory) Close() error {
	m.mu.RLock()
	running := m.running
	m.mu.RUnlock()
	if running {
		close(m.stop)
		<-m.done
		m.tick()
	}
	return m.file.close()
}
