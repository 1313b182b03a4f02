package streams

import "sync"

// Open is the set of the event streams that are open. The zero value is empty, and it is safe for
// concurrent use.
type Open struct {
	mu      sync.Mutex
	streams map[*Client]struct{}
}

// EndInvalid ends the streams whose callers' credentials are no longer accepted, at once: a stream
// without frames would look at them only when its watchdog runs. It is called after a change of
// the configuration.
func (o *Open) EndInvalid() {
	o.mu.Lock() // a stream cannot stop meanwhile, after which its host serves another request
	defer o.mu.Unlock()
	for c := range o.streams {
		c.endInvalid()
	}
}

func (o *Open) add(c *Client) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streams == nil {
		o.streams = make(map[*Client]struct{})
	}
	o.streams[c] = struct{}{}
}

func (o *Open) remove(c *Client) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.streams, c)
}
