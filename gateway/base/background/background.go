package background

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Calls is a bounded set of short calls that outlive the request that caused them. It is safe for
// concurrent use.
type Calls struct {
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{}
}

const (
	maxCalls = 64
	timeout  = 10 * time.Second
)

// New returns an empty set. A panic of a call is logged.
func New(log *slog.Logger) *Calls {
	c := &Calls{log: log, slots: make(chan struct{}, maxCalls)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Run runs do in the background, and reports false without running it when too many calls are
// running.
func (c *Calls) Run(do func(ctx context.Context)) bool {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	c.wg.Go(func() {
		defer func() { <-c.slots }()
		defer func() {
			if p := recover(); p != nil {
				c.log.Error("panic", "in", "background call", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		defer cancel()
		do(ctx)
	})
	return true
}

// Stop cancels the running calls, and waits for them.
func (c *Calls) Stop() {
	c.cancel()
	c.wg.Wait()
}
