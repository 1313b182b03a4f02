package stdio

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"svc/gateway/mcp"
)

// changePause is the shortest time between two passes of list_changed to the clients of a process:
// a program can send thousands of them per second, and each goes to every client.
const changePause = 100 * time.Millisecond

// changes passes notifications that a list has changed to the clients of a process. Those that
// arrive in the pause after a pass wait for its end, one of each method, because they say nothing
// but that there is something to read.
type changes struct {
	pass func(body []byte)

	mu      sync.Mutex
	pausing bool
	waiting []waitingChange
}

type waitingChange struct {
	method string
	body   []byte
}

// add passes a notification now, or at the end of the pause.
func (c *changes) add(m *mcp.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.pausing:
		c.pausing = true
		time.AfterFunc(changePause, c.resume)
		c.pass(bytes.Clone(m.Body))
	case !slices.ContainsFunc(c.waiting, func(w waitingChange) bool { return w.method == m.Method }):
		c.waiting = append(c.waiting, waitingChange{m.Method, bytes.Clone(m.Body)})
	}
}

// resume passes what has arrived in the pause.
func (c *changes) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.waiting
	c.waiting, c.pausing = nil, len(waiting) > 0
	if c.pausing {
		time.AfterFunc(changePause, c.resume)
	}
	for _, w := range waiting {
		c.pass(w.body)
	}
}
