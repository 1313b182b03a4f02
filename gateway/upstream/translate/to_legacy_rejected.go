package translate

import (
	"errors"
	"fmt"
	"time"

	"svc/gateway/upstream/client"
)

// rejection is the upstream's rejection of the answer to its own question.
type rejection struct {
	status int  // HTTP status; 0 for none
	cut    bool // the gateway has ended the call because of the rejection
}

// respond sends the response to a request of the upstream. A broken connection also breaks
// the call; but an upstream that rejects the response may wait for it forever.
func (c *callToLegacy) respond(body []byte) {
	err := c.t.client(&c.request).Respond(c.ctx, c.conn.session, body)
	if err == nil || c.ctx.Err() != nil {
		return
	}
	c.t.opts.Logger.Warn("an upstream was not sent the answer to its request", "upstream", c.t.opts.Upstream.Name, "request_id", c.requestID, "error", err)
	var rejected *client.RejectedError
	if errors.As(err, &rejected) {
		c.endSoon(rejected.Status)
	}
}

// rejectedGrace is the time for the response to the call after the upstream rejected the
// answer to its question: it may continue without the answer.
const rejectedGrace = 2 * time.Second

// endSoon ends the call after a grace period, because the upstream has rejected the answer
// to its question.
func (c *callToLegacy) endSoon(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != running {
		return
	}
	c.rejected = rejection{status: status}
	turn := c.turns
	time.AfterFunc(rejectedGrace, func() {
		c.mu.Lock()
		answer, stuck := c.answer, c.state == running && c.turns == turn
		c.rejected.cut = stuck
		c.mu.Unlock()
		if !stuck {
			return
		}
		c.cancel() // unblocks the reader
		if answer != nil {
			answer.Close()
		}
	})
}

// hasRejected reports whether the upstream rejected the answer to its question.
func (c *callToLegacy) hasRejected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected.status != 0
}

// unanswered is the response to a call whose upstream has rejected the answer to its
// question; nil for other calls.
func (c *callToLegacy) unanswered() []byte {
	c.mu.Lock()
	rejected, runs := c.rejected, c.state == running
	c.mu.Unlock()
	if rejected.status == 0 || !runs {
		return nil
	}
	became := isUnknown
	if rejected.cut {
		became = wasCancelled
	}
	c.finish(cancelled)
	return c.failed(fmt.Sprintf("the upstream rejected the answer to its question with status %d", rejected.status), became)
}
