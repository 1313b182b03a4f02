package tolegacy

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/translate/wire"
	"svc/gateway/upstream"
)

// lost reports whether a response means that the upstream does not know the session, or no
// longer supports its revision, because it was restarted or replaced. It has not executed
// the message then. The status is 404; servers that respond with 400 use codes of their
// own, and a text that names the session. The body can be read again.
func lost(resp *upstream.Response, at mcp.Session) bool {
	if resp.Status != http.StatusNotFound && resp.Status != http.StatusBadRequest {
		return false
	}
	m := wire.Failure(resp)
	switch {
	case m.ErrorCode == mcp.CodeUnsupportedVersion:
		return true
	case at.ID == "":
		return false
	case resp.Status == http.StatusNotFound:
		return m.ErrorCode != mcp.CodeMethodNotFound
	case m.IsError && m.ErrorCode != codeServer && m.ErrorCode != codeSession && m.ErrorCode != mcp.CodeInvalidRequest:
		return false
	}
	text := strings.ToLower(wire.FailureText(resp, m))
	return strings.Contains(text, "session") || strings.Contains(text, "not initialized")
}

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
	c.t.opts.Logger.Warn("an upstream failed after a question was answered", "upstream", c.t.opts.Upstream, "request_id", c.requestID, "error", err)
	c.finish(cancelled)
	return c.failed(inWords(err), isUnknown), nil
}

// inWords describes for a client how an upstream failed.
func inWords(err error) string {
	var failure *upstream.Error
	switch {
	case errors.As(err, &failure):
		return "the upstream failed: " + failure.Kind.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the upstream ended its answer too early"
	}
	return "the upstream failed"
}

// Codes of servers with sessions for an unknown session, besides that of an invalid
// request.
const (
	codeServer  = -32000
	codeSession = -32001
)

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
