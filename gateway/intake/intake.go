// Package intake takes in the message of a request: it reads the body within bounds of
// size, time and memory, as a whole or, of a request that was refused, as much as shows
// its id; it reads the message once, and finds its protocol revision. What is wrong
// with any of it is a refusal.
//
// Nothing here knows a caller's rights, a route or an upstream.
package intake

import (
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"svc/gateway/bodies"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// DrainTimeout is how long the rest of the body of a refused request is read, for its
// id and by the server: what a caller who is not known sends may never come.
const (
	DrainTimeout        = 5 * time.Second
	unknownDrainTimeout = 500 * time.Millisecond
)

// Source is where a body comes from.
type Source struct {
	Writer  http.ResponseWriter
	Request *http.Request
	// Share counts the bytes in memory. It says whose they are already.
	Share *bodies.Share
}

// Body is the body of a request, as far as it was read. The zero value is one of which
// nothing was.
type Body struct {
	Bytes []byte
	began bool // it was read, or as much of it as ever will be
	ended bool // to its end
}

// Reset makes b the body of another request, with the same buffer.
func (b *Body) Reset() { *b = Body{Bytes: b.Bytes[:0]} }

// Message reads the whole body and the message in it, once: everything after works on
// m. replaced counts the lone surrogates in it. When the body is refused m has the id
// if that was found.
func (b *Body) Message(s Source, m *mcp.Message) (replaced int, refused *refusal.Refusal) {
	if refused := checkHeader(s.Request.Header); refused != nil {
		return 0, refused
	}
	if refused := b.read(s, mcp.MaxBody, m); refused != nil {
		return 0, refused
	}
	replaced, err := mcp.ScanReplacing(b.Bytes, m)
	if err != nil {
		return 0, refusal.OfMessage(err)
	}
	return replaced, nil
}

// Discard reads the body of a request that needs none: while one is unread the server
// does not notice that its client leaves.
func (b *Body) Discard(s Source, m *mcp.Message) *refusal.Refusal {
	if s.Request.ContentLength == 0 {
		return nil
	}
	return b.read(s, bodies.MaxPrefix, m)
}

// Prefix reads enough of the body of a refused request to find its id and kind, for m,
// or what comes of it in time. Where the client waits to be asked for its body nothing
// is read: the answer is that nobody wants it. The error is [bodies.ErrOverloaded].
func (b *Body) Prefix(s Source, m *mcp.Message) error {
	if b.began || len(s.Request.Header["Expect"]) > 0 {
		return nil
	}
	if err := b.readUpTo(s, bodies.MaxPrefix); errors.Is(err, bodies.ErrOverloaded) {
		return err
	}
	if _, err := mcp.ScanReplacing(b.Bytes, m); err != nil && m.ID == nil {
		m.ID = mcp.PeekID(b.Bytes)
	}
	return nil
}

// LimitTime bounds the time in which the rest of the body of a refused request is
// read. The function does so again: the server moves the deadline on with what is read.
func (b *Body) LimitTime(s Source, callerKnown bool) (again func()) {
	if b.ended || s.Request.ContentLength == 0 {
		return func() {}
	}
	until := time.Now().Add(DrainTimeout)
	if !callerKnown {
		until = time.Now().Add(unknownDrainTimeout)
	}
	control := http.NewResponseController(s.Writer)
	_ = control.SetReadDeadline(until)
	return func() {
		if !b.ended {
			_ = control.SetReadDeadline(until)
		}
	}
}

// read reads the whole body, at most limit bytes. After a body that is not read to its
// end the connection is closed: the rest is not worth reading.
func (b *Body) read(s Source, limit int, m *mcp.Message) *refusal.Refusal {
	err := bodies.ErrTooLarge
	if s.Request.ContentLength <= int64(limit) {
		if err = b.readUpTo(s, limit); err == nil {
			return nil
		}
	}
	refusal.CloseAfter(s.Writer)
	refused := &refusal.Unreadable
	switch {
	case errors.Is(err, bodies.ErrTooLarge):
		refused = &refusal.TooLarge
	case errors.Is(err, bodies.ErrOverloaded):
		refused = &refusal.Overloaded
	case errors.Is(err, os.ErrDeadlineExceeded):
		refused = &refusal.SlowBody
	default:
		return refused
	}
	if b.began {
		m.ID = mcp.PeekID(b.Bytes[:min(len(b.Bytes), bodies.MaxPrefix)])
	}
	return refused
}

// readUpTo reads the body. The server that runs the handler bounds the time it takes.
func (b *Body) readUpTo(s Source, limit int) (err error) {
	b.began = true
	b.Bytes, err = bodies.ReadAll(b.Bytes[:0], s.Request.Body, int64(limit), s.Request.ContentLength, s.Share)
	b.ended = err == nil
	return err
}

// checkHeader refuses a body that is announced as something other than JSON.
func checkHeader(h http.Header) *refusal.Refusal {
	if len(h["Content-Encoding"]) > 0 {
		return &refusal.MediaType
	}
	values := h["Content-Type"]
	if len(values) != 1 {
		return &refusal.MediaType
	}
	if values[0] == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil || media != "application/json" {
		return &refusal.MediaType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return &refusal.MediaType
	}
	return nil
}
