package translate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// MaxAnswer bounds a translated response, or an event of one, in bytes.
const MaxAnswer = mcp.MaxEvent

// Media types of responses.
const (
	JSON        = "application/json"
	EventStream = "text/event-stream"
)

// Refuse returns an error response of the gateway. detail is sent to the client and
// logged. status is that of the refusal if it is 0.
func Refuse(why *refusal.Refusal, status int, id []byte, detail, requestID string) *upstream.Response {
	if status == 0 {
		status = why.Status
	}
	return refused(status, mcp.AppendError(nil, id, why.Code, why.Message+": "+detail, why.Reason, requestID), why, detail)
}

// refused returns a response with a message of the gateway that replaces the upstream's.
func refused(status int, body []byte, why *refusal.Refusal, cause string) *upstream.Response {
	resp := upstream.Message(status, body)
	resp.Refused = &upstream.Refused{Kind: why.Kind, Cause: cause}
	return resp
}

// appendResult appends the response with a result, which is a JSON object.
func appendResult(dst, id, result []byte) []byte {
	return append(append(appendStart(dst, id, "result"), result...), '}')
}

// appendStart appends the beginning of a response, up to the value of its member result or error.
func appendStart(dst, id []byte, member string) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(dst, `,"`...), member...), `":`...)
}

// objectOf returns a JSON object of members.
func objectOf(members ...mcp.Member) []byte {
	return mcp.AppendObject(nil, nil, mcp.Span{}, nil, members...)
}

// Messages reads the messages of a response one at a time, for a single message and for
// an event stream. Next must be called by one goroutine; Close may be called by another
// and ends a blocked Next.
type Messages struct {
	resp   *upstream.Response
	events *mcp.EventReader // nil for one message
	read   bool
	// LastID is the id of the last event, for resumption; empty if there was none.
	LastID string
}

// NewMessages returns the messages of a response, which it closes. before is called when
// Next is about to block; it may be nil.
func NewMessages(resp *upstream.Response, before func()) *Messages {
	m := &Messages{resp: resp}
	if before != nil {
		resp.BeforeWait(before)
	}
	if resp.MediaType() == EventStream {
		m.events = mcp.NewEventReader(resp.Body, MaxAnswer)
	}
	return m
}

// Next returns the text of the next message, which the caller may keep; io.EOF at the
// end, and the errors of the body.
func (m *Messages) Next() ([]byte, error) {
	if m.events == nil {
		if m.read {
			return nil, io.EOF
		}
		m.read = true
		body, err := readAll(m.resp)
		if err == nil && len(bytes.TrimSpace(body)) == 0 {
			err = io.EOF
		}
		return body, err
	}
	for {
		ev, err := m.events.Next()
		if err != nil {
			return nil, err
		}
		if ev.HasID && len(ev.ID) > 0 {
			m.LastID = string(ev.ID)
		}
		if ev.IsMessage() {
			return slices.Clone(ev.Data), nil
		}
		if len(ev.Data) > 0 {
			m.resp.Dropped(errEventType)
		}
	}
}

var errEventType = errors.New("the type of the event is not message")

// Message returns the next message, which the caller may keep. Events of a stream that carry
// none and cannot be the response are left out. A text that is no message otherwise is an
// [upstream.ErrInvalidResponse] of the named upstream; the other errors are those of Next.
func (m *Messages) Message(name string) (*mcp.Message, error) {
	for {
		data, err := m.Next()
		if err != nil {
			return nil, err
		}
		out := new(mcp.Message)
		if _, err = mcp.ScanAnswer(data, out); err == nil {
			return out, nil
		}
		if ev := (mcp.Event{Data: data}); m.events == nil || !ev.Droppable() {
			return nil, &upstream.Error{Upstream: name, Op: "read", Kind: upstream.ErrInvalidResponse, Err: err}
		}
		m.resp.Dropped(err)
	}
}

// Close closes the response.
func (m *Messages) Close() error { return m.resp.Body.Close() }

// readAll reads a whole body within MaxAnswer.
func readAll(resp *upstream.Response) ([]byte, error) {
	return resp.ReadAll(nil, &limit{left: MaxAnswer})
}

type limit struct{ left int }

// Count implements [upstream.Counter].
func (l *limit) Count(n int) error {
	if l.left -= n; l.left < 0 {
		return &upstream.Error{Op: "translate", Kind: upstream.ErrTooLarge}
	}
	return nil
}

// translatable reports whether a response of one message is translated. With another status the upstream
// did not execute the request, or the response is not from it.
func translatable(resp *upstream.Response) bool {
	return resp.MediaType() == JSON && resp.Status != http.StatusUnauthorized && resp.Status < 500 && (resp.Status < 300 || resp.Status >= 400)
}

// readAnswer reads a response of one message to the request with an id. If it is none, or cannot be
// read, the result is the response to return: package request reports the error. Otherwise it is nil.
func readAnswer(resp *upstream.Response, id []byte, m *mcp.Message) (instead *upstream.Response, err error) {
	body, err := readAll(resp)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if _, err := mcp.ScanAnswer(body, m); err != nil || m.Kind != mcp.Response || len(m.ID) > 0 && !mcp.SameID(m.ID, id) {
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return resp, nil
	}
	return nil, nil
}

// reply returns a response whose message replaces that of the upstream.
func reply(resp *upstream.Response, status int, text []byte) *upstream.Response {
	out := upstream.Message(status, text)
	if after := resp.Header.Get("Retry-After"); after != "" {
		out.Header.Add("Retry-After", after)
	}
	return out
}

// closing is a body that also closes something else.
type closing struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *closing) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// keepRequest copies the data that is valid only during the client's request: a call with a stream
// outlives it. m is the message of the request.
func keepRequest(r *upstream.Request, m *mcp.Message) error {
	r.Caller, r.Header, r.Body = r.Caller.Clone(), slices.Clone(r.Header), slices.Clone(r.Body)
	if err := mcp.Scan(r.Body, m); err != nil {
		return invalid(err)
	}
	m.Detach()
	return nil
}

// withoutMirrors returns the header without the fields that belong to MCP: each revision has its
// own, which mirror the message.
func withoutMirrors(h mcp.Header) mcp.Header {
	out := make(mcp.Header, 0, len(h)+4)
	for _, f := range h {
		if len(f.Name) < 4 || !strings.EqualFold(f.Name[:4], "mcp-") {
			out = append(out, f)
		}
	}
	return out
}

// unusedRoom returns the capacity of a buffer after its written beginning; nil if the data did
// not fit.
func unusedRoom(room, written []byte) []byte {
	if len(written) > cap(room) {
		return nil
	}
	return room[len(written):len(written)]
}

// Refusing stores the function that is called when the gateway ends a call instead of its
// upstream. The zero value is ready for use, by one goroutine at a time.
type Refusing struct {
	f func(*upstream.Refused)
	// before is the refusal that ended the call before f was set.
	before *upstream.Refused
}

// OnRefused sets the function, and calls it if the call has already ended with a refusal.
func (o *Refusing) OnRefused(f func(*upstream.Refused)) {
	if o.f = f; o.before != nil {
		f(o.before)
	}
}

// Refuse calls the function, now or when it is set.
func (o *Refusing) Refuse(why *refusal.Refusal, cause string) {
	o.before = &upstream.Refused{Kind: why.Kind, Cause: cause}
	if o.f != nil {
		o.f(o.before)
	}
}

// Refused returns the refusal that ended the call; nil if there is none.
func (o *Refusing) Refused() *upstream.Refused { return o.before }
