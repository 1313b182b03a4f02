package gateway

import (
	"context"
	"net/http"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// serveStream answers GET /mcp: the standalone event stream on which a server
// reaches a legacy client between requests, and on which a client resumes a
// stream that broke. It carries no method, so no rule decides on the request
// itself; its frames are judged like all others.
func (ex *exchange) serveStream() *refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	req := upstream.Request{
		Method: http.MethodGet,
		Header: ex.upstreamHeader(ex.upSession),
		// Silent by nature: only the first byte has a time limit.
		Timeouts: &upstream.Timeouts{FirstByte: ex.up.timeout},
	}
	ex.sentUp = ex.g.now()
	resp, err := ex.up.client.Do(ex.ctx, &req)
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if resp.Status == http.StatusMethodNotAllowed {
		return &refuseNoStream
	}
	return ex.relay(resp)
}

// serveEnd answers DELETE /mcp: the client ends its session, everywhere the
// gateway opened one for it.
func (ex *exchange) serveEnd() *refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	ex.sentUp = ex.g.now()
	resp, err := ex.up.client.Do(ex.ctx, &upstream.Request{Method: http.MethodDelete, Header: ex.upstreamHeader(ex.upSession)})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if ex.hasHandle && resp.Status < 300 {
		ex.endPairs()
	}
	if resp.Status == http.StatusMethodNotAllowed {
		refused := refuseNoStream
		refused.allow = "GET, POST"
		return &refused
	}
	return ex.relay(resp)
}

// openControl takes a request without a body as far as its upstream: the
// caller, the session, the default upstream.
func (ex *exchange) openControl() *refusal {
	if refused := ex.authenticate(); refused != nil {
		return refused
	}
	if refused := ex.resolveDialect(); refused != nil {
		refused.nullID = true
		return refused
	}
	if ex.dialect.Modern {
		// The stateless revision knows neither sessions nor standalone streams.
		return &refuseNoStream
	}
	if refused := ex.openSession(); refused != nil {
		return refused
	}
	up, ok := ex.g.targets[ex.g.defaultUpstream]
	if !ok {
		return &refuseNoRoute
	}
	ex.up = up
	if ex.hasHandle {
		ex.upSession = ex.handle.Upstream
	}
	ex.rec.Action = actionAllow
	return nil
}

// endPairs ends the sessions that the gateway opened for the client at other
// upstreams.
func (ex *exchange) endPairs() {
	for name, opened := range ex.g.pairs.End(ex.handle.ID) {
		t, ok := ex.g.targets[name]
		if !ok || opened.ID == "" {
			continue
		}
		header := upstream.Header{{Name: mcp.HeaderSession, Value: opened.ID}}
		if v := ex.dialect.Version; v != "" {
			header.Add(mcp.HeaderProtocolVersion, v)
		}
		ex.g.errands.run(func(ctx context.Context) {
			resp, err := t.client.Do(ctx, &upstream.Request{Method: http.MethodDelete, Header: header})
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// rejectServerRequest answers a request of the server that policy keeps from
// the client: the call that it belongs to would wait for it for ever.
func (ex *exchange) rejectServerRequest(m *mcp.Message) {
	body := mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, "policy_denied", ex.rec.RequestID)
	header := upstream.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Accept", Value: "application/json, text/event-stream"},
	}
	if ex.upSession != "" {
		header.Add(mcp.HeaderSession, ex.upSession)
	}
	if v := ex.forwardedVersion(); v != "" {
		header.Add(mcp.HeaderProtocolVersion, v)
	}
	client, log, id := ex.up.client, ex.g.log, ex.rec.RequestID
	ran := ex.g.errands.run(func(ctx context.Context) {
		resp, err := client.Do(ctx, &upstream.Request{Method: http.MethodPost, Header: header, Body: body})
		if err != nil {
			log.Warn("upstream was not told that its request was denied", "request_id", id, "error", err)
			return
		}
		resp.Body.Close()
	})
	if !ran {
		log.Warn("upstream was not told that its request was denied: too many errands", "request_id", id)
	}
}
