package session

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Limits of Memory.
const (
	// maxParams is the maximum size of stored initialize parameters, in bytes.
	maxParams = 16 << 10
	// maxLevel is the maximum size of stored logging/setLevel parameters, in bytes.
	maxLevel = 1 << 10
	// maxUpstreams bounds the upstream sessions of one session.
	maxUpstreams = 256
)

// Memory is [UpstreamSessions] and [ClientSettings] in this process, bounded by least-recently-used eviction.
type Memory struct {
	max     int
	evicted func(open map[string]UpstreamSession)

	mu       sync.Mutex // guards all fields below
	sessions map[ID]*list.Element
	order    *list.List // of *entry, most recently used first
}

type entry struct {
	id      ID
	params  []byte
	level   []byte
	open    map[string]UpstreamSession
	opening map[string]*opening
	ended   bool
	record  string // used by [Shared]: the record of the store to which the state was written
}

// opening is a running call of open that others wait for.
type opening struct {
	done   chan struct{}
	result UpstreamSession
	err    error
}

// errNotOpened is the error for waiting callers when open did not return.
var errNotOpened = errors.New("session was not opened")

// NewMemory returns an empty store of at most max sessions. evicted is called with the open upstream sessions
// of an evicted session, which the caller must close; it must not block and not call back. It may be nil.
func NewMemory(max int, evicted func(open map[string]UpstreamSession)) *Memory {
	if evicted == nil {
		evicted = func(map[string]UpstreamSession) {}
	}
	return &Memory{max: max, evicted: evicted, sessions: make(map[ID]*list.Element), order: list.New()}
}

var (
	_ UpstreamSessions = (*Memory)(nil)
	_ ClientSettings   = (*Memory)(nil)
)

// entry returns the entry of a session, creating it if it is missing. The caller holds mu.
func (m *Memory) entry(id ID) *entry {
	if el, ok := m.sessions[id]; ok {
		m.order.MoveToFront(el)
		return el.Value.(*entry)
	}
	if m.order.Len() >= m.max {
		oldest := m.order.Remove(m.order.Back()).(*entry)
		delete(m.sessions, oldest.id)
		if len(oldest.open) > 0 {
			m.evicted(oldest.open)
		}
	}
	e := &entry{id: id}
	m.sessions[id] = m.order.PushFront(e)
	return e
}

// Session implements UpstreamSessions.
func (m *Memory) Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error) {
	m.mu.Lock()
	e := m.entry(id)
	if e.ended {
		m.mu.Unlock()
		return UpstreamSession{}, ErrUnknown
	}
	if o, ok := e.open[upstream]; ok {
		m.mu.Unlock()
		return o, nil
	}
	if o, ok := e.opening[upstream]; ok {
		m.mu.Unlock()
		select {
		case <-o.done:
			return o.result, o.err
		case <-ctx.Done():
			return UpstreamSession{}, ctx.Err()
		}
	}
	o := &opening{done: make(chan struct{}), err: errNotOpened}
	if e.opening == nil {
		e.opening = make(map[string]*opening)
	}
	e.opening[upstream] = o
	m.mu.Unlock()

	var opened UpstreamSession
	defer func() { // also when open panics
		m.mu.Lock()
		delete(e.opening, upstream)
		if o.err == nil && !e.ended {
			e := m.entry(id) // e may have been evicted while open ran
			if _, ok := e.open[upstream]; !ok && !e.ended && len(e.open) < maxUpstreams {
				if e.open == nil {
					e.open = make(map[string]UpstreamSession)
				}
				e.open[upstream] = opened
			}
		}
		m.mu.Unlock()
		close(o.done)
	}()
	// The session is opened for all waiting callers, so the end of the first caller's request must not cancel
	// it; open has a timeout of its own.
	opened, err := open(context.WithoutCancel(ctx))
	if err == nil && m.Ended(ctx, id) {
		err = ErrUnknown
	}
	if o.err = err; err == nil {
		o.result = opened
	}
	return opened, err
}

// Known implements UpstreamSessions.
func (m *Memory) Known(id ID, upstream string) (UpstreamSession, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(id)
	if e == nil {
		return UpstreamSession{}, false
	}
	m.order.MoveToFront(m.sessions[id])
	opened, ok := e.open[upstream]
	return opened, ok
}

// Forget implements UpstreamSessions.
func (m *Memory) Forget(_ context.Context, id ID, upstream string, lost UpstreamSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(id); e != nil {
		if e.open[upstream] == lost {
			delete(e.open, upstream)
		}
	}
}

// All implements UpstreamSessions.
func (m *Memory) All(_ context.Context, id ID) map[string]UpstreamSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(id)
	if e == nil || e.ended {
		return nil
	}
	open := e.open
	all := make(map[string]UpstreamSession, len(open))
	for name, o := range open {
		all[name] = o
	}
	return all
}

// SetParams implements ClientSettings. Parameters over 16 KiB are not stored.
func (m *Memory) SetParams(_ context.Context, id ID, params []byte) {
	if len(params) > maxParams {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(id); !e.ended {
		e.params = append([]byte(nil), params...)
	}
}

// Params implements ClientSettings. The result is shared and must not be modified.
func (m *Memory) Params(_ context.Context, id ID) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(id); e != nil {
		return e.params, nil
	}
	return nil, nil
}

// SetLevel implements ClientSettings. Parameters over 1 KiB are not stored.
func (m *Memory) SetLevel(_ context.Context, id ID, params []byte) {
	if len(params) > maxLevel {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(id); !e.ended {
		e.level = append([]byte(nil), params...)
	}
}

// Level implements ClientSettings. The result is shared and must not be modified.
func (m *Memory) Level(_ context.Context, id ID) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(id); e != nil {
		return e.level
	}
	return nil
}

// End implements UpstreamSessions.
func (m *Memory) End(_ context.Context, id ID) map[string]UpstreamSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(id)
	open := e.open
	e.ended, e.open, e.params, e.level = true, nil, nil, nil
	return open
}

// Ended implements UpstreamSessions.
func (m *Memory) Ended(_ context.Context, id ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(id)
	return e != nil && e.ended
}

// find returns the entry of a session, nil when there is none. The caller holds
// mu.
func (m *Memory) find(id ID) *entry {
	if el, ok := m.sessions[id]; ok {
		return el.Value.(*entry)
	}
	return nil
}

// recordReplaced reports whether record differs from the store's record to which this session's state was
// written, and stores record as the current one.
func (m *Memory) recordReplaced(id ID, record string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(id)
	if e == nil || e.record == record && record != "" {
		return false
	}
	e.record = record
	return true
}

// Len returns the number of stored sessions, including ended ones.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions)
}
