package translate

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Limits of sessions at one upstream.
const (
	maxBusy     = 4    // concurrent calls of one principal, without held ones
	maxSessions = 256  // of all principals, without held calls and subscriptions
	maxApart    = 2048 // held calls and subscriptions
	maxWaiting  = 1024
	maxIdle     = 10 * time.Minute
)

// poolKey identifies a caller with its credentials, clientInfo and capabilities.
type poolKey [sha256.Size]byte

// conn is a session at the upstream.
type conn struct {
	session mcp.Session
	// opened is the response to initialize.
	opened *mcp.Message
	// level is the last log level that was sent to the session, as written.
	level string
	ids   int // number of requests sent
	// beside is the standalone stream of the session; nil for none.
	beside *standalone

	key       poolKey
	principal poolKey // the caller without clientInfo and capabilities
	idle      time.Time
	place     *list.Element // in the list of idle sessions
}

// pool is the sessions at one upstream. It is safe for concurrent use.
type pool struct {
	now func() time.Time
	// discard ends a session without waiting.
	discard func(*conn)

	mu      sync.Mutex
	idle    map[poolKey][]*conn
	order   *list.List // idle sessions, idle for longest first
	busy    map[poolKey]int
	total   int
	apart   int // sessions of held calls and of subscriptions
	waiting int
	freed   chan struct{} // closed when a session was released
	closed  bool
}

func newPool(now func() time.Time, discard func(*conn)) *pool {
	return &pool{now: now, discard: discard, idle: map[poolKey][]*conn{}, order: list.New(), busy: map[poolKey]int{}, freed: make(chan struct{})}
}

// errClosed is the error of a pool that was closed.
var errClosed = errors.New("the gateway is stopping")

// acquire returns an idle session, or a reservation for a new one: a nil session, which the
// caller opens, and releases in every case. While the principal has the maximum number of
// calls, it waits, at most patience.
func (p *pool) acquire(ctx context.Context, patience time.Duration, key, principal poolKey, reuse bool) (*conn, error) {
	c, wait, err := p.try(key, principal, reuse)
	if wait == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case <-wait:
			err = nil
		case <-ctx.Done():
			err = &upstream.Error{Op: "session", Kind: upstream.ErrBusy, Err: context.Cause(ctx)}
		}
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if c, wait, err = p.try(key, principal, reuse); wait == nil {
			return c, err
		}
	}
}

// try is one attempt of acquire; wait is the event to wait for before the next one.
func (p *pool) try(key, principal poolKey, reuse bool) (c *conn, wait chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, &upstream.Error{Op: "session", Kind: upstream.ErrClosed, Err: errClosed}
	}
	if p.busy[principal] < maxBusy {
		if list := p.idle[key]; reuse && len(list) > 0 {
			c = list[len(list)-1]
			p.remove(c)
			p.busy[principal]++
			return c, nil, nil
		}
		if p.total >= maxSessions && p.order.Len() > 0 {
			oldest := p.order.Front().Value.(*conn)
			p.remove(oldest)
			p.total--
			p.discard(oldest)
		}
		if p.total < maxSessions {
			p.total++
			p.busy[principal]++
			return nil, nil, nil
		}
	}
	if p.waiting >= maxWaiting {
		return nil, nil, &upstream.Error{Op: "session", Kind: upstream.ErrBusy}
	}
	p.waiting++
	return nil, p.freed, nil
}

// remove removes a session from the idle ones. The caller holds p.mu.
func (p *pool) remove(c *conn) {
	p.order.Remove(c.place)
	list := p.idle[c.key]
	for i := range list {
		if list[i] == c {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(p.idle, c.key)
	} else {
		p.idle[c.key] = list
	}
}

// setApart records that a call of a principal is now held, or is a subscription: its
// session is counted separately from those of running calls. If there are too many of
// these, it returns false and changes nothing.
func (p *pool) setApart(principal poolKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apart >= maxApart {
		return false
	}
	p.apart++
	p.total--
	p.leave(principal)
	return true
}

// resume is the opposite of setApart. It does not wait: the call is already running.
func (p *pool) resume(principal poolKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart--
	p.total++
	if p.busy[principal]++; p.busy[principal] == 0 { // the session was released meanwhile
		delete(p.busy, principal)
	}
}

// leave subtracts a call. The caller holds p.mu.
func (p *pool) leave(principal poolKey) {
	if p.busy[principal]--; p.busy[principal] == 0 {
		delete(p.busy, principal)
	}
	p.wake()
}

// wake wakes the waiting callers of acquire. The caller holds p.mu.
func (p *pool) wake() {
	if p.waiting == 0 {
		return
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// put releases a session that can be used again.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.total--
		p.leave(c.principal)
		p.discard(c)
		return
	}
	c.idle = p.now()
	c.place = p.order.PushBack(c)
	p.idle[c.key] = append(p.idle[c.key], c)
	p.leave(c.principal)
}

// drop releases the reservation of a session, which the caller ends. running is false for
// one that is counted separately.
func (p *pool) drop(principal poolKey, running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !running {
		p.apart--
		return
	}
	p.total--
	p.leave(principal)
}

// expire ends sessions that were idle for too long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.order.Len() > 0 {
		c := p.order.Front().Value.(*conn)
		if p.now().Sub(c.idle) < maxIdle {
			return
		}
		p.remove(c)
		p.total--
		p.wake()
		p.discard(c)
	}
}

// close returns the idle sessions, and makes put end every session that is released later.
func (p *pool) close() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var out []*conn
	for e := p.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*conn))
	}
	p.idle, p.order = map[poolKey][]*conn{}, list.New()
	p.total -= len(out)
	p.wake()
	return out
}

// forget ends the idle sessions of a key, because the upstream has lost one of them.
func (p *pool) forget(key poolKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle[key]) > 0 {
		c := p.idle[key][0]
		p.remove(c)
		p.total--
		p.discard(c)
	}
	p.wake()
}
