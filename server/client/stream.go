package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"svc/store/api"
)

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 1 << 20

// maxSilence is the time without any data after which a stream ends. The control plane
// sends something every 15 s, so after that time the control plane or the network is
// unavailable.
const maxSilence = 45 * time.Second

// TraceEvent is a committed trace. The stream can be resumed after ID.
type TraceEvent struct {
	ID    string
	Trace api.TraceItem
}

// TraceStream is an open GET /api/traces/stream. Its methods must not be called
// concurrently, except Close, which may be called at any time.
type TraceStream struct {
	body    io.ReadCloser
	lines   *bufio.Reader
	lastID  string
	silence time.Duration
	quiet   *time.Timer // closes the body after silence; nil when there is no connection
	silent  atomic.Bool // whether quiet has closed the body
}

// open sends a request and returns the response, whose body is read piece by piece.
func (c *Client) open(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, answerError(resp)
	}
	return resp, nil
}

// StreamTraces calls GET /api/traces/stream: the traces that match the filter, as they
// are committed. With the ID of the last event seen, the stream continues after it
// without a gap. The stream ends with ctx.
func (c *Client) StreamTraces(ctx context.Context, f TraceFilter, lastEventID string) (*TraceStream, error) {
	r, err := c.request(ctx, "GET", path("traces", "stream"), f.add(query{}), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := c.open(r)
	if err != nil {
		return nil, err
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
		resp.Body.Close()
		return nil, fmt.Errorf("the response is %q, not an event stream (is %s the control plane?)", t, c.planes.base())
	}
	s := &TraceStream{body: resp.Body, lines: bufio.NewReaderSize(resp.Body, 16<<10), lastID: lastEventID, silence: c.silence}
	s.quiet = time.AfterFunc(c.silence, func() {
		s.silent.Store(true)
		s.body.Close()
	})
	return s, nil
}

// Next waits for the next trace. It returns io.EOF when the server has ended the
// stream, and an error that wraps context.DeadlineExceeded when no data came for 45 s,
// not even a keep-alive. The caller may open the stream again after LastEventID.
func (s *TraceStream) Next() (TraceEvent, error) {
	for {
		if ev, moved, err := s.Receive(); !moved || err != nil {
			return ev, err
		}
	}
}

// Receive is Next for callers that pass the stream on: it also returns when the control plane has sent a position without
// a trace (moved), which it does at the start and at least every 15 s.
func (s *TraceStream) Receive() (ev TraceEvent, moved bool, err error) {
	data, err := s.event()
	if err != nil && s.silent.Load() {
		return TraceEvent{}, false, fmt.Errorf("the stream received no data: %w", context.DeadlineExceeded)
	}
	if err != nil {
		return TraceEvent{}, false, err
	}
	if s.quiet != nil {
		s.quiet.Reset(s.silence)
	}
	ev.ID = s.lastID
	if len(data) == 0 {
		return ev, true, nil // a comment, or an event that only moves the cursor
	}
	if err := json.Unmarshal(data, &ev.Trace); err != nil {
		return TraceEvent{}, false, fmt.Errorf("event %q is not a trace: %w", s.lastID, err)
	}
	return ev, false, nil
}

// LastEventID is the id of the last event received, with or without a trace.
func (s *TraceStream) LastEventID() string { return s.lastID }

// Close ends the stream; a waiting Next returns an error.
func (s *TraceStream) Close() error {
	if s.quiet != nil {
		s.quiet.Stop()
	}
	return s.body.Close()
}

// event reads the lines of one event and returns its data. The id of an event counts
// only when the event is complete: a truncated event is sent again after a
// reconnection. An event that is too long does not count.
func (s *TraceStream) event() ([]byte, error) {
	var data []byte
	id, size := s.lastID, 0
	for {
		line, err := s.line()
		if errors.Is(err, errLongLine) {
			s.lastID = id
			err = fmt.Errorf("line of event %q: %w", id, err)
		}
		if err != nil {
			return nil, err // an incomplete event is ignored
		}
		if size += len(line); size > maxEvent {
			s.lastID = id
			return nil, fmt.Errorf("event after %q is longer than %d bytes", s.lastID, maxEvent)
		}
		if len(line) == 0 {
			s.lastID = id
			return data, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		}
	}
}

// errLongLine ends a stream with a line that is too long.
var errLongLine = fmt.Errorf("longer than %d bytes", maxEvent)

// line reads up to a line feed, at most maxEvent bytes.
func (s *TraceStream) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxEvent:
			return nil, errLongLine
		}
	}
}
