package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// openTimeout bounds the opening of a session at an upstream on behalf of a
// client.
const openTimeout = 30 * time.Second

// stateless reports whether the request is of the revision that knows no
// sessions: an inbound session id is ignored and none is ever made.
func (ex *exchange) stateless() bool { return ex.dialect.Modern }

// openSession reads the session handle that the client presents. A handle that
// was not made for this caller is answered like one that never was.
func (ex *exchange) openSession() *refusal {
	text, ok := single(ex.r.Header, mcp.HeaderSession)
	if !ok {
		return &refuseHeader
	}
	if text == "" || ex.stateless() || ex.msg.Method == mcp.MethodInitialize {
		return nil
	}
	handle, err := ex.g.sealer.Open(text, ex.owner())
	if err != nil {
		return &refuseSession
	}
	ex.handle, ex.hasHandle = handle, true
	return nil
}

func (ex *exchange) owner() session.Owner {
	return session.OwnerOf(ex.who.Kind.String(), ex.who.Issuer, ex.who.Value)
}

// clientSession returns the Mcp-Session-Id that the client sees when the
// upstream answered with sid: nothing where there is no session, the handle
// that the client already holds, or a new one for an initialize.
//
// With one upstream a handle is made only when the upstream made a session;
// with several always, because any of the others may want one.
func (ex *exchange) clientSession(sid string) string {
	if ex.stateless() {
		return ""
	}
	if ex.msg.Method != mcp.MethodInitialize {
		if sid != "" && ex.hasHandle {
			return ex.r.Header.Get(mcp.HeaderSession)
		}
		return ""
	}
	if sid == "" && len(ex.g.targets) == 1 {
		return ""
	}
	handle := session.Handle{ID: session.NewID(), Owner: ex.owner(), Upstream: sid}
	text, err := ex.g.sealer.Seal(handle)
	if err != nil {
		ex.g.log.Warn("upstream session id is too long to carry", "upstream", ex.up.name, "error", err)
		return ""
	}
	if len(ex.g.targets) > 1 {
		ex.g.pairs.SetParams(handle.ID, ex.msg.Spans.Params.Of(ex.msg.Body))
	}
	return text
}

// upstreamSession returns the session id to present to the upstream that the
// request is routed to: the one in the handle for the default upstream, a pair
// that is opened when it is first needed for any other.
func (ex *exchange) upstreamSession() (string, *refusal) {
	if !ex.hasHandle {
		return "", nil
	}
	if ex.up.name == ex.g.defaultUpstream {
		return ex.handle.Upstream, nil
	}
	opened, err := ex.g.pairs.Session(ex.ctx, ex.handle.ID, ex.up.name, ex.openPair)
	if err != nil {
		return "", ex.refuseUpstream(err)
	}
	return opened.ID, nil
}

// pairLost drops the pair of this request after its upstream answered 404 to
// it, and reports whether it is worth opening again.
func (ex *exchange) pairLost(sid string) bool {
	if !ex.hasHandle || sid == "" || ex.up.name == ex.g.defaultUpstream {
		return false
	}
	ex.g.pairs.Forget(ex.handle.ID, ex.up.name, session.Opened{ID: sid})
	return true
}

// openPair opens a session at the request's upstream, with the initialize
// parameters of the client while they are known, else with minimal ones.
func (ex *exchange) openPair(ctx context.Context) (session.Opened, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	params := ex.g.pairs.Params(ex.handle.ID)
	if params == nil {
		version := ex.dialect.Version
		if version == "" {
			version = mcp.Revision20250618
		}
		params = fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"svc","version":%q}}`, version, ex.g.version)
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"svc-initialize","method":"initialize","params":%s}`, params)
	header := upstream.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Accept", Value: "application/json, text/event-stream"},
	}
	resp, err := ex.up.client.Do(ctx, &upstream.Request{Method: http.MethodPost, Header: header, Body: body})
	if err != nil {
		return session.Opened{}, err
	}
	version, err := ex.readInitialize(resp)
	if err != nil {
		return session.Opened{}, fmt.Errorf("open a session at upstream %q: %w", ex.up.name, err)
	}
	opened := session.Opened{ID: resp.Header.Get(mcp.HeaderSession)}
	if opened.ID != "" {
		header.Add(mcp.HeaderSession, opened.ID)
	}
	header.Add(mcp.HeaderProtocolVersion, version)
	done, err := ex.up.client.Do(ctx, &upstream.Request{
		Method: http.MethodPost, Header: header,
		Body: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`),
	})
	if err != nil {
		return session.Opened{}, err
	}
	done.Body.Close()
	return opened, nil
}

var errInitialize = errors.New("upstream refused initialize")

// readInitialize reads the answer to an initialize, JSON or event stream, and
// returns the revision that was agreed on.
func (ex *exchange) readInitialize(resp *upstream.Response) (version string, err error) {
	defer resp.Body.Close()
	if resp.Status != http.StatusOK {
		return "", fmt.Errorf("%w: status %d", errInitialize, resp.Status)
	}
	var body []byte
	if mediaType(resp.Header.Get("Content-Type")) == "text/event-stream" {
		events := mcp.NewEventReader(resp.Body, mcp.MaxBody)
		for len(bytes.TrimSpace(body)) == 0 {
			ev, err := events.Next()
			if err != nil {
				return "", fmt.Errorf("%w: %w", errInitialize, err)
			}
			body = bytes.Clone(ev.Data)
		}
	} else if body, err = readAll(nil, resp.Body, ex.up.maxBody); err != nil {
		return "", fmt.Errorf("%w: %w", errInitialize, err)
	}
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil {
		return "", fmt.Errorf("%w: %w", errInitialize, err)
	}
	if m.Kind != mcp.Response || m.IsError || m.InitializeVersion == "" {
		return "", errInitialize
	}
	return m.InitializeVersion, nil
}
