package streams

import (
	"context"
	"fmt"

	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// keepBuffer is the size above which a buffer is not reused for the next frame.
const keepBuffer = 256 << 10

// Handler decides about the frames of one upstream, one at a time. The message is valid
// until the next call.
type Handler interface {
	// Judge evaluates a message, and records the decision. body is the message for the
	// client, nil when the message is withheld; final is set for the response to the
	// request. An error ends the stream. dialect is the one of the response, see
	// [upstream.Response], and replaced the number of replaced lone surrogates.
	Judge(m *mcp.Message, dialect string, replaced int) (body []byte, final bool, err error)
	// Withhold returns the replacement for a withheld message that is not final, nil
	// for nothing, and rejects a withheld request at its upstream.
	Withhold(m *mcp.Message) (body []byte)
	// Answer records the request before its final message is sent; c includes that
	// message. After an error the message is not sent.
	Answer(c Counts) error
}

// Upstream is one upstream's side of a stream.
type Upstream struct {
	client  *Client
	handler Handler
	resp    *upstream.Response // that is copied
	tags    session.Stream     // selects whether ids are rewritten to name their upstream

	msg mcp.Message
	out []byte
	// resumable is set once an event had an id: a client whose stream ends early can
	// resume it, so the early end is not an error. lastID is that id.
	resumable bool
	lastID    []byte

	bytes   bodies.Share // of the event that is being read
	counted bodies.CountedReader
}

// Init makes the zero value usable. Events are built in buffer.
func (u *Upstream) Init(c *Client, h Handler, tags session.Stream, buffer []byte) {
	u.client, u.handler, u.tags, u.out = c, h, tags, buffer
}

// Resumable reports whether a client can resume the stream at its end.
func (u *Upstream) Resumable() bool { return u.resumable }

// Buffer returns the buffer of Init, which may have grown.
func (u *Upstream) Buffer() []byte { return u.out }

// Copy evaluates and forwards the frames of a response, until the end of the response
// or of ctx. It flushes before it blocks on the upstream, so that no frame stays in the
// buffer.
func (u *Upstream) Copy(ctx context.Context, resp *upstream.Response) error {
	u.bytes.Begin(u.client.opts.Bodies, u.client.opts.Caller)
	defer u.bytes.End()
	u.resp = resp
	u.counted = bodies.CountedReader{Reader: resp.Body, Share: &u.bytes}
	resp.BeforeWait(u.client.FlushPending)
	// Closing the body ends a blocked read.
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer stop()
	events := mcp.NewEventReader(&u.counted, mcp.MaxEvent)
	for {
		u.bytes.Keep(events.Unread())
		ev, err := events.Next()
		if err != nil {
			return err
		}
		if ev.IsComment {
			continue // not a frame: the client's side sends its own keepalive comments
		}
		if err := u.pass(&ev); err != nil {
			return err
		}
		if cap(u.out) > keepBuffer {
			u.out = nil
		}
	}
}

// pass forwards one event, if the caller's credentials are valid.
func (u *Upstream) pass(ev *mcp.Event) error {
	if ev.HasID && len(ev.ID) > 0 {
		u.resumable = true
		u.lastID = append(u.lastID[:0], ev.ID...)
		ev.ID = u.tags.Event(ev.ID)
	}
	if err := u.client.opts.Host.CredentialsValid(); err != nil {
		return err
	}
	if len(ev.Data) == 0 {
		// The event has an id or a retry time, which the client needs to resume, or nothing: some
		// clients read an event with empty data as a message.
		if !ev.HasID && !ev.HasRetry {
			return nil
		}
		u.out = mcp.AppendEvent(u.out[:0], *ev)
		return u.client.send(u.out)
	}
	return u.handleFrame(ev)
}

// handleFrame evaluates one frame and forwards it or its replacement.
func (u *Upstream) handleFrame(ev *mcp.Event) error {
	if !u.client.arrived() {
		return ErrTruncated
	}
	replaced, err := mcp.ScanAnswer(ev.Data, &u.msg)
	switch {
	case err != nil && ev.Droppable():
		u.resp.Dropped(err)
		if !u.client.leftOut() {
			return ErrTruncated
		}
		return u.replaceFrame(ev, nil)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrInvalidFrame, err)
	}
	if replaced > 0 {
		u.client.replaced(replaced)
	}
	body, final, err := u.handler.Judge(&u.msg, u.resp.Dialect, replaced)
	switch {
	case err != nil:
		return err
	case body == nil && final:
		return ErrDenied
	case body == nil:
		return u.replaceFrame(ev, u.handler.Withhold(&u.msg))
	}
	out := *ev
	out.Data = u.tags.Message(&u.msg, body)
	u.out = mcp.AppendEvent(u.out[:0], out)
	if final {
		// The audit line of the request is written before the client can have received
		// the whole response.
		counts := u.client.Counts()
		counts.Sent += len(u.out)
		if err := u.handler.Answer(counts); err != nil {
			return ErrAudit
		}
	}
	return u.client.send(u.out)
}

// replaceFrame sends a replacement of a frame that is not forwarded, nil for none. The
// event id is kept, so that the client resumes after the frame.
func (u *Upstream) replaceFrame(ev *mcp.Event, body []byte) error {
	out := mcp.Event{ID: ev.ID, HasID: ev.HasID, HasData: true, Data: body}
	if !ev.HasID && len(out.Data) == 0 {
		return nil
	}
	u.out = mcp.AppendEvent(u.out[:0], out)
	return u.client.send(u.out)
}
