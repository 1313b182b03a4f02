package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The defaults of a pool. The idle timeout is below the five seconds after which common
// servers close an idle connection: a tool call that is sent on a closing connection
// cannot be repeated, so that this must be rare.
const (
	defaultMaxConns    = 8192
	defaultMaxIdle     = 1024
	defaultIdleTimeout = 4 * time.Second
	maxKeepAlive       = 2 * time.Minute
	defaultMaxAge      = 5 * time.Minute
)

// errBusy: no connection became free in time.
var errBusy = fmt.Errorf("%w: all its connections are in use", ErrTimeout)

// pool holds the connections to one target. The most recently used idle connection is
// used first, so that unneeded ones reach the idle timeout.
type pool struct {
	target      *target
	epoch       time.Time // origin of the pool's monotonic clock
	maxConns    int
	maxIdle     int
	idleTimeout time.Duration
	maxAge      time.Duration

	mu      sync.Mutex
	idle    []*conn            // by idleSince, latest last
	conns   map[*conn]struct{} // all established connections, idle or not
	open    int                // conns and those that are being made
	waiting []*waiter          // first come, first served; only when open is at its limit
	reaper  *time.Timer        // runs while idle is not empty
	closed  bool
	drained chan struct{} // closed when closed and open is 0
	dials   uint64
}

// waiter waits for a connection, or for the permission to make one, which is a nil conn.
type waiter struct{ ready chan *conn }

func (p *pool) init(t *target) {
	p.target = t
	p.epoch = time.Now().Add(-time.Nanosecond) // no time on the clock is 0
	p.maxConns = defaultMaxConns
	p.maxIdle = defaultMaxIdle
	p.idleTimeout = defaultIdleTimeout
	p.maxAge = defaultMaxAge
	p.conns = make(map[*conn]struct{})
	p.drained = make(chan struct{})
}

// now is the time on the pool's clock.
func (p *pool) now() time.Duration { return time.Since(p.epoch) }

// get returns an idle connection that is still usable, or makes one; fresh always makes
// one. The wait ends with ctx or, when bound is not zero, that long after start.
func (p *pool) get(ctx context.Context, start, bound time.Duration, fresh bool) (*conn, error) {
	for {
		cn, w, err := p.take(start, fresh)
		switch {
		case err != nil:
			return nil, err
		case cn != nil:
			if start-cn.idleSince < p.idleFor(cn) && cn.probe.idle() {
				return cn, nil
			}
			p.discard(cn)
			continue
		case w != nil:
			cn, err := p.wait(ctx, w, start, bound)
			if err != nil {
				return nil, err
			}
			if cn != nil {
				if !fresh && cn.probe.idle() {
					return cn, nil
				}
				p.replace(cn) // the caller inherits its slot
			}
		}
		return p.dial(ctx, start, bound)
	}
}

// take returns an idle connection, or a waiter, or neither: then the caller may make a
// connection.
func (p *pool) take(now time.Duration, fresh bool) (*conn, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	if !fresh {
		if n := len(p.idle); n > 0 {
			cn := p.idle[n-1]
			p.idle[n-1] = nil
			p.idle = p.idle[:n-1]
			return cn, nil, nil
		}
	}
	if p.open < p.maxConns {
		p.open++
		return nil, nil, nil
	}
	if n := len(p.idle); n > 0 { // fresh at the limit: close the oldest idle connection
		cn := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		delete(p.conns, cn)
		defer cn.close()
		return nil, nil, nil
	}
	w := &waiter{ready: make(chan *conn, 1)}
	p.waiting = append(p.waiting, w)
	return nil, w, nil
}

func (p *pool) wait(ctx context.Context, w *waiter, start, bound time.Duration) (*conn, error) {
	var expired <-chan time.Time
	if bound > 0 {
		t := time.NewTimer(bound - (p.now() - start))
		defer t.Stop()
		expired = t.C
	}
	var err error
	select {
	case cn, ok := <-w.ready:
		if !ok {
			return nil, ErrClosed
		}
		return cn, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-expired:
		err = errBusy
	}
	p.mu.Lock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.mu.Unlock()
		return nil, err
	}
	p.mu.Unlock()
	if cn, ok := <-w.ready; ok { // it was delivered at the same time: pass it on
		if cn != nil {
			p.put(cn)
		} else {
			p.release()
		}
	}
	return nil, err
}

func (p *pool) dial(ctx context.Context, start, bound time.Duration) (*conn, error) {
	if bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, bound-(p.now()-start), ErrTimeout)
		defer cancel()
	}
	nc, raw, secured, err := p.target.dial(ctx)
	if err != nil {
		p.release()
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, ErrTimeout):
			return nil, fmt.Errorf("%w: %w", ErrTimeout, notContext{err})
		case cause != nil:
			return nil, cause
		case errors.Is(err, context.DeadlineExceeded):
			return nil, notContext{err}
		}
		return nil, err
	}
	cn := newConn(nc, raw, p.now())
	cn.secured = secured
	p.mu.Lock()
	p.dials++
	p.conns[cn] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.discard(cn)
		return nil, ErrClosed
	}
	return cn, nil
}

// notContext hides the chain of an error: a timeout of the client must not match the
// caller's context errors.
type notContext struct{ err error }

func (e notContext) Error() string { return e.err.Error() }

// put returns a connection to the pool after a successful exchange.
func (p *pool) put(cn *conn) {
	now := p.now()
	cn.idleSince = now
	p.mu.Lock()
	switch {
	case p.closed || now-cn.made >= p.maxAge:
		p.mu.Unlock()
		p.discard(cn)
		return
	case len(p.waiting) > 0:
		p.next() <- cn
	case len(p.idle) >= p.maxIdle:
		p.mu.Unlock()
		p.discard(cn)
		return
	default:
		p.idle = append(p.idle, cn)
		if p.reaper == nil {
			p.reaper = time.AfterFunc(p.reapEvery(), p.reap)
		}
	}
	p.mu.Unlock()
}

// next removes the first waiter; the caller holds the lock.
func (p *pool) next() chan<- *conn {
	w := p.waiting[0]
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	return w.ready
}

// discard closes a connection and passes its slot to a waiter.
func (p *pool) discard(cn *conn) {
	p.mu.Lock()
	delete(p.conns, cn)
	p.mu.Unlock()
	cn.close()
	p.release()
}

// replace closes a connection and keeps its slot.
func (p *pool) replace(cn *conn) {
	p.mu.Lock()
	delete(p.conns, cn)
	p.mu.Unlock()
	cn.close()
}

// release releases the slot of one open connection.
func (p *pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.next() <- nil
		return
	}
	p.open--
	p.checkDrained()
}

func (p *pool) checkDrained() {
	if p.closed && p.open == 0 {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}

// idleFor returns the longest idle time of a connection: the announced time less a second
// of latency (or half of it if it is short), else the pool's own limit.
func (p *pool) idleFor(cn *conn) time.Duration {
	if k := min(cn.keepAlive, maxKeepAlive); k > 0 {
		return max(k-time.Second, k/2)
	}
	return p.idleTimeout
}

func (p *pool) reapEvery() time.Duration { return max(p.idleTimeout/4, 10*time.Millisecond) }

// reap closes connections that exceed their idle time.
func (p *pool) reap() {
	now := p.now()
	var old []*conn
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(cn *conn) bool {
		if now-cn.idleSince < p.idleFor(cn) {
			return false
		}
		old = append(old, cn)
		delete(p.conns, cn)
		p.open--
		return true
	})
	if len(p.idle) > 0 {
		p.reaper.Reset(p.reapEvery())
	} else {
		p.reaper = nil
	}
	p.checkDrained()
	p.mu.Unlock()
	for _, cn := range old {
		cn.closeIdle()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	for _, cn := range idle {
		delete(p.conns, cn)
	}
	p.open -= len(idle)
	if p.reaper != nil {
		p.reaper.Stop()
		p.reaper = nil
	}
	for len(p.waiting) > 0 {
		close(p.next())
	}
	p.checkDrained()
	p.mu.Unlock()
	for _, cn := range idle {
		cn.closeIdle()
	}
}

func (p *pool) drain(ctx context.Context) error {
	p.close()
	select {
	case <-p.drained:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	for cn := range p.conns {
		cn.raw.Close()
	}
	p.mu.Unlock()
	return ctx.Err()
}

func (p *pool) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Open: p.open, Idle: len(p.idle), Waiting: len(p.waiting), Dials: p.dials}
}
