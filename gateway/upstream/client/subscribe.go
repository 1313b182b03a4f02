package client

import (
	"context"
	"fmt"
	"net/http"

	"svc/gateway/base/hostname"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Subscribe sends subscriptions/listen of 2026-07-28, and calls take for each notification
// of the response stream until the stream ends. It returns nil when the upstream ends the
// stream, also with a response to the request, and [ErrRejected] when the upstream opens
// no stream. A message is valid during the call of take.
func (c *Client) Subscribe(ctx context.Context, params []byte, timeouts *upstream.Timeouts, take func(*mcp.Message)) error {
	s := mcp.Session{Version: mcp.Revision20260728}
	resp, err := c.Transport.Post(ctx, &upstream.Request{
		Session: s, Caller: c.Caller, Header: c.header(s, mcp.MethodListen), Body: c.request(mcp.MethodListen, params), Timeouts: timeouts,
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.Status != http.StatusOK || resp.MediaType() != "text/event-stream" {
		return fmt.Errorf("%s: %w with status %d%s", mcp.MethodListen, ErrRejected, resp.Status, hostname.Redirects(resp.Status, resp.Header.Get("Location")))
	}
	events := mcp.NewEventReader(resp.Body, 0)
	for {
		ev, err := events.Next()
		if err != nil {
			return nil // the subscription is opened again in any case
		}
		if ev.IsComment || len(ev.Data) == 0 {
			continue
		}
		var m mcp.Message
		err = scan(ev.Data, &m)
		switch {
		case err != nil && ev.Droppable():
			resp.Dropped(err)
		case err != nil:
			return fmt.Errorf("%s: %w", mcp.MethodListen, err)
		case m.Kind == mcp.Notification:
			take(&m)
		case m.Kind == mcp.Response:
			if m.IsError {
				return fmt.Errorf("%s: %w with code %d", mcp.MethodListen, ErrRejected, m.ErrorCode)
			}
			return nil
		}
	}
}
