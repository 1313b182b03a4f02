package translate

import (
	"cmp"
	"errors"
	"io"

	"svc/gateway/upstream"
)

// broken returns the replacement of a message that cannot be read. After a question the
// client gets the information that the call may have had effects; before, it is an
// ordinary failure of the upstream.
func (c *turn) broken(err error) ([]byte, error) {
	if out := c.unanswered(); out != nil {
		return out, nil
	}
	if c.number == 0 || c.ctx.Err() != nil || !c.mine() {
		return nil, err
	}
	c.t.opts.Logger.Warn("an upstream failed after a question was answered", "upstream", c.t.opts.Upstream.Name, "request_id", c.requestID, "error", err)
	c.finish(cancelled)
	return c.failed(cmp.Or(inWords(err), "the upstream failed"), isUnknown), nil
}

// inWords describes for a client how an upstream failed; empty for other errors.
func inWords(err error) string {
	var failure *upstream.Error
	switch {
	case errors.As(err, &failure):
		return "the upstream failed: " + failure.Kind.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the upstream ended its answer too early"
	}
	return ""
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
