package translate

import (
	"context"
	"errors"
	"net/http"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// errNotModern is the error of a message of 2026-07-28 for an upstream that no longer
// supports it. The upstream has rejected the message without executing it.
var errNotModern = errors.New("the upstream does not support 2026-07-28 any more")

// guard is the transport of messages of 2026-07-28. It detects that the upstream was
// replaced or rolled back to the other protocol generation.
type guard struct {
	upstream.Transport
	t *Transport
}

// Post implements [upstream.Transport].
func (g *guard) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := g.Transport.Post(ctx, r)
	if err != nil || !mayContradict(r, resp) {
		return resp, err
	}
	if m := failure(resp); contradicts(resp, m) && !g.t.learn(ctx, r, m).Modern {
		resp.Body.Close()
		return nil, errNotModern
	}
	return resp, nil
}

// mayContradict reports whether a response may show that the upstream is of the other
// generation, so that its body must be read.
func mayContradict(r *upstream.Request, resp *upstream.Response) bool {
	switch resp.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return resp.Status == http.StatusOK && r.Header.Get(mcp.HeaderMethod) == mcp.MethodDiscover
}

// contradicts reports whether an upstream of 2026-07-28 would never send this response. m
// is its error message.
func contradicts(resp *upstream.Response, m *mcp.Message) bool {
	switch {
	case resp.Status == http.StatusOK:
		return m.IsError // the response to server/discover
	case !m.IsError:
		return true
	}
	switch m.ErrorCode {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeInvalidParams:
		return false
	case mcp.CodeMethodNotFound:
		return resp.Status != http.StatusNotFound
	}
	return true
}
