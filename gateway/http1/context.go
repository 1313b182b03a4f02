package http1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// requestContext is the context of the requests of a connection, one after another. It
// is canceled permanently when the client disconnects. After a request in which Done
// was called it is canceled too, and is not used again.
type requestContext struct {
	server *http.Server
	local  net.Addr

	mu      sync.Mutex
	err     error
	done    chan struct{} // created by the first call of Done
	asked   bool          // Done was called
	waiters map[*waiter]struct{}
	waiter  *waiter // the first waiter, which needs no map
}

var _ context.Context = (*requestContext)(nil)

// waiter is a function that is called at the end.
type waiter struct{ f func() }

// Deadline implements [context.Context]: there is no deadline.
func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements [context.Context].
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements [context.Context], with the keys of net/http.
func (c *requestContext) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return c.server
	case http.LocalAddrContextKey:
		return c.local
	}
	return nil
}

// AfterFunc implements the method that [context.AfterFunc] uses. A direct call costs
// less, and the context can be reused if only AfterFunc was called.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	w := &waiter{f}
	if c.waiter == nil {
		c.waiter = w
	} else {
		if c.waiters == nil {
			c.waiters = make(map[*waiter]struct{})
		}
		c.waiters[w] = struct{}{}
	}
	return func() bool { return c.stop(w) }
}

func (c *requestContext) stop(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiter == w {
		c.waiter = nil
		return true
	}
	_, waits := c.waiters[w]
	delete(c.waiters, w)
	return waits
}

// end cancels the context: the client has disconnected, or its connection failed.
func (c *requestContext) end() { c.endWith(context.Canceled) }

// endWith cancels the context with a cause. context.Cause returns it, also for derived
// contexts.
func (c *requestContext) endWith(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = cause
	if c.done != nil {
		close(c.done)
	}
	if c.waiter != nil {
		go c.waiter.f()
	}
	for w := range c.waiters {
		go w.f()
	}
	c.waiter, c.waiters = nil, nil
}

// leave ends the use of the context by one request, and reports whether the next request
// can use it: this is false if derived contexts may still refer to it.
func (c *requestContext) leave() bool {
	c.mu.Lock()
	again := !c.asked && c.waiter == nil && len(c.waiters) == 0
	c.mu.Unlock()
	if !again {
		c.end()
	}
	return again
}
