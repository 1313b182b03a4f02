package clickhouse

import (
	"context"
	"sync"
)

// claims are the ids of traces that are on their way into the engine: a batch with one of
// them waits, and then finds it stored. Of other processes nothing is known; what both
// write at once is there twice, and shown once.
type claims struct {
	mu   sync.Mutex
	held map[claim]chan struct{} // closed when the batch has ended
}

type claim struct{ tenant, id string }

// claim waits until no other batch has one of the ids, and has them from then on. Nobody
// waits who has any.
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

// take takes all of the ids, or returns what is to be waited for.
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
