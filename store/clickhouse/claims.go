package clickhouse

import (
	"context"
	"sync"
)

// claims are the ids of traces that this process is writing: a batch with one of them
// waits, and then finds the trace stored. Other processes are not covered: traces that
// two processes write concurrently are stored twice, and shown once.
type claims struct {
	mu   sync.Mutex
	held map[claim]chan struct{} // closed when the batch has finished
}

type claim struct{ tenant, id string }

// claim waits until no other batch has one of the ids, and then claims all of them. A
// waiter holds no claims, so that there is no deadlock.
func (c *claims) claim(ctx context.Context, tenant string, ids []string) (release func(), err error) {
	done := make(chan struct{})
	for {
		wait := c.take(tenant, ids, done)
		if wait == nil {
			return func() { c.release(tenant, ids, done) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take claims all of the ids, or returns the channel to wait for.
func (c *claims) take(tenant string, ids []string, done chan struct{}) (wait chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if other := c.held[claim{tenant, id}]; other != nil {
			return other
		}
	}
	if c.held == nil {
		c.held = map[claim]chan struct{}{}
	}
	for _, id := range ids {
		c.held[claim{tenant, id}] = done
	}
	return nil
}

func (c *claims) release(tenant string, ids []string, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.held, claim{tenant, id})
	}
	close(done)
}
